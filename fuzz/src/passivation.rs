//! Passivation: every policy picks whom its naive twin picks, and counts who is awake, pinned and stopping as it does.

use shard_core::passivation::PolicyChoice;
use shard_core::passivation::twins::Twin;

/// The bytes are a policy, a limit, a seed, a way to weigh (1 each), and then calls of two bytes: an index and an act.
pub fn passivation(bytes: &[u8]) {
    let Some(([policy, limit, seed, weighing], rest)) = bytes.split_first_chunk::<4>() else { return };
    let choice = PolicyChoice::ALL[usize::from(*policy) % PolicyChoice::ALL.len()];
    let (limit, seed) = (u64::from(limit % 64), u64::from(*seed));
    let (mut policy, mut twin) = (choice.build(limit, seed), Twin::new(choice, limit, seed));
    for [index, act] in rest.as_chunks::<2>().0.iter().take(2_000) {
        let (index, amount) = (u32::from(index % 64), act >> 4);
        // Fingerprints that leave every ghost its slot.
        let (hash, weight) = (u64::from(index) << 32, if weighing % 2 == 0 { 1 } else { 1 + u32::from(amount) });
        let mut picked = Vec::new();
        let mut pick = |index| picked.push(index);
        let expected = match act % 16 {
            0..8 => {
                policy.created(index, hash, weight, &mut pick);
                twin.created(index, hash, weight)
            }
            8 | 9 => {
                policy.touched(index);
                twin.touched(index);
                Vec::new()
            }
            10 => {
                policy.stopping(index);
                twin.stopping(index);
                Vec::new()
            }
            11 => {
                policy.removed(index);
                twin.removed(index);
                Vec::new()
            }
            12 => {
                policy.pinned(index);
                twin.pinned(index);
                Vec::new()
            }
            13 => {
                policy.unpinned(index, hash, &mut pick);
                twin.unpinned(index)
            }
            14 => {
                policy.weighed(index, weight, &mut pick);
                twin.weighed(index, weight)
            }
            _ => {
                let limit = u64::from(amount) * 4;
                policy.limit_changed(limit, &mut pick);
                twin.limit_changed(limit)
            }
        };
        assert_eq!(picked, expected, "{} was asked for act {act} on {index}", choice.name());
        let census = policy.census();
        let over = census.held() > twin.limit() && census.awake.count > 0;
        assert!(!over, "{} holds {census:?} of {}", choice.name(), twin.limit());
        let weights = [census.awake, census.pinned, census.stopping].map(|tally| tally.weight);
        assert_eq!(weights, twin.weights(), "{} counts after act {act} on {index}", choice.name());
        // Some linger while they stop, and mail comes for them meanwhile.
        if amount % 4 != 0 {
            picked.iter().for_each(|index| {
                policy.removed(*index);
                twin.removed(*index);
            });
        }
    }
}
