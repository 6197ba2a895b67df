//! The contract between a lane and whoever decides which of its entities go when there are too many.

use core::fmt::Debug;

/// Who is put to sleep when more are awake than a limit allows.
///
/// One instance serves one lane. It knows entities by their place in the lane's slab and is told what happens to them; it
/// answers by handing those who must go to `pick`, each once. Whoever was picked is *stopping*: it takes no part in the
/// order any more, no call picks it again, and it is counted apart until [`removed`](Self::removed) says that its state is
/// gone. So what is awake by choice never exceeds the limit, and what is awake at all is `awake + stopping`, exactly.
///
/// Weights are what the limit is counted in: 1 for every entity, or the bytes each reports. Whoever would not fit if it were
/// alone with the pinned is picked itself, at its creation as well, and nobody for its sake. So the limit holds exactly as
/// long as there is anybody to pick; a limit of nothing leaves nobody awake.
///
/// Promises of every policy here: calls are O(1), amortised where they pick or change a limit; only
/// [`created`](Self::created), [`unpinned`](Self::unpinned) and [`limit_changed`](Self::limit_changed) allocate, and those
/// amortised; no clock is read, and what is drawn at random comes from a seed that was given.
pub trait PassivationPolicy: Debug + Send {
    /// The entity at `index` begins to live, with `weight`; `hash` is that of its id. Room is made for it.
    ///
    /// For one that is in the order already, this is a touch; for one that is pinned or stopping, nothing.
    fn created(&mut self, index: u32, hash: u64, weight: u32, pick: &mut dyn FnMut(u32));

    /// The entity at `index` was used. Nothing happens for one that is pinned, stopping or unknown. Nobody is picked.
    fn touched(&mut self, index: u32);

    /// The entity at `index` is being stopped though it was not picked: it was idle, it asked, its shard leaves. From now on it
    /// is stopping like one that was picked. Nothing happens for one that is stopping already or unknown. Nobody is picked.
    fn stopping(&mut self, index: u32);

    /// The entity at `index` is gone, whoever decided so. Its place may have another tenant from now on.
    fn removed(&mut self, index: u32);

    /// The entity at `index` weighs something else now; those who no longer fit are picked, this one perhaps.
    fn weighed(&mut self, index: u32, weight: u32, pick: &mut dyn FnMut(u32));

    /// The entity at `index` is not to be picked until it is [`unpinned`](Self::unpinned). It still counts. Nothing
    /// happens for one that is stopping or unknown.
    fn pinned(&mut self, index: u32);

    /// The entity at `index`, whose id has `hash`, may be picked again; it takes the place of one just created.
    fn unpinned(&mut self, index: u32, hash: u64, pick: &mut dyn FnMut(u32));

    /// The limit is another one; what was learned is kept. Those who no longer fit are picked.
    fn limit_changed(&mut self, limit: u64, pick: &mut dyn FnMut(u32));

    /// Who is awake, pinned and stopping; O(1).
    fn census(&self) -> Census;

    /// The bytes this instance has allocated; O(1).
    fn bytes(&self) -> usize;
}

/// How many entities a policy knows, and their weight.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Census {
    /// Those in the order, who may be picked.
    pub awake: Tally,
    /// Those who count but may not be picked.
    pub pinned: Tally,
    /// Those who were picked, or are being stopped for another reason, and are not gone yet.
    pub stopping: Tally,
}

impl Census {
    /// What the limit is compared with: the weight of all who are awake and not stopping.
    #[must_use]
    pub const fn held(&self) -> u64 {
        self.awake.weight + self.pinned.weight
    }
}

/// A number of entities and what they weigh together.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// How many.
    pub count: u32,
    /// Their weight.
    pub weight: u64,
}

impl Tally {
    pub(super) const fn add(&mut self, weight: u32) {
        self.count += 1;
        self.weight += weight as u64;
    }

    pub(super) const fn subtract(&mut self, weight: u32) {
        self.count -= 1;
        self.weight -= weight as u64;
    }
}
