//! What a node says of its shards' loads: a part with each heartbeat, so that heartbeats stay short.

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::ops::Bound;

use crate::coordinator::Allocator;
use crate::id::{Kind, NodeKey, ShardId, ShardKey, Term};
use crate::wire::KindLoads;

/// Shards in one part: some 30 KB at most.
const PART: usize = 4_096;

/// The loads of this node's own shards, and how far they have been said.
#[derive(Default)]
pub(super) struct OwnLoads {
    /// As its lanes last reported them.
    known: BTreeMap<ShardKey, u32>,
    /// Where the next part begins; `None`: all has been said.
    next: Option<Bound<ShardKey>>,
    /// There is news behind where the next part begins.
    again: bool,
    /// Whose reign has been told.
    told: Option<Term>,
}

impl OwnLoads {
    /// A lane reports.
    pub(super) fn measured(&mut self, kind: Kind, loads: Vec<(ShardId, u32)>) {
        self.known.extend(loads.into_iter().map(|(shard, load)| (ShardKey { kind, shard }, load)));
        match self.next {
            None => self.next = Some(Bound::Unbounded),
            Some(_) => self.again = true,
        }
    }

    /// The next part, for a heartbeat to the reign `term`; from the first shard on if that is a new one. Shards that are not owned any
    /// more are forgotten on the way.
    pub(super) fn part(&mut self, term: Term, owns: impl Fn(ShardKey) -> bool) -> Vec<KindLoads> {
        if self.told.replace(term) != Some(term) && !self.known.is_empty() {
            (self.next, self.again) = (Some(Bound::Unbounded), false);
        }
        let Some(from) = self.next else { return Vec::new() };
        let (mut part, mut gone, mut last) = (Vec::<KindLoads>::new(), Vec::new(), None);
        for (at, (&key, &load)) in self.known.range((from, Bound::Unbounded)).enumerate() {
            if at == PART {
                break;
            }
            last = Some(key);
            if !owns(key) {
                gone.push(key);
                continue;
            }
            match part.last_mut() {
                Some(of) if of.kind == key.kind => of.shards.push((key.shard, load)),
                _ => part.push(KindLoads { kind: key.kind, shards: alloc::vec![(key.shard, load)] }),
            }
        }
        let over = self.known.last_key_value().is_none_or(|(greatest, _)| last.is_none_or(|last| last >= *greatest));
        self.next = match last {
            Some(last) if !over => Some(Bound::Excluded(last)),
            _ if core::mem::take(&mut self.again) => Some(Bound::Unbounded),
            _ => None,
        };
        gone.iter().for_each(|key| {
            self.known.remove(key);
        });
        part
    }
}

/// What nodes said of their shards' loads, as this reign knows it.
#[derive(Default)]
pub(super) struct HeardLoads(BTreeMap<Kind, Vec<Option<u32>>>);

impl HeardLoads {
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }

    /// A node speaks. Only what it says of shards that are its own counts.
    pub(super) fn heard(&mut self, from: NodeKey, said: Vec<KindLoads>, allocator: &Allocator) {
        for KindLoads { kind, shards } in said {
            let Some(count) = allocator.shards(kind) else { continue };
            let known = self.0.entry(kind).or_default();
            known.resize(count as usize, None);
            for (shard, load) in shards {
                let its_own = allocator.place(ShardKey { kind, shard }).is_some_and(|place| place.owner == from);
                if let (true, Some(known)) = (its_own, known.get_mut(shard.0 as usize)) {
                    *known = Some(load);
                }
            }
        }
    }

    /// What the owner of a shard said.
    pub(super) fn get(&self, key: ShardKey) -> Option<u32> {
        self.0.get(&key.kind)?.get(key.shard.0 as usize).copied().flatten()
    }

    /// The load of each shard of a type, in their order; of those not known yet, the mean of the others. Nothing if none is
    /// known.
    pub(super) fn of(&self, kind: Kind) -> impl Iterator<Item = u32> {
        let loads = self.0.get(&kind).map_or(&[][..], Vec::as_slice);
        let (sum, count) =
            loads.iter().flatten().fold((0_u64, 0_u64), |(sum, count), load| (sum + u64::from(*load), count + 1));
        let mean = sum.checked_div(count).map(|mean| mean as u32);
        loads.iter().map_while(move |load| load.or(mean))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::{Incarnation, NodeId};

    const NODE: NodeKey = NodeKey { id: NodeId(1), incarnation: Incarnation(1) };
    const TERM: Term = Term { counter: 1, node: NODE };
    const NEXT: Term = Term { counter: 2, node: NODE };

    fn key(shard: u32) -> ShardKey {
        ShardKey { kind: Kind(1), shard: ShardId(shard) }
    }

    fn loads(shards: core::ops::Range<u32>, load: u32) -> Vec<(ShardId, u32)> {
        shards.map(|shard| (ShardId(shard), load)).collect()
    }

    #[test]
    fn all_is_said_in_parts_and_again_when_there_is_news() {
        let (mut own, all) = (OwnLoads::default(), 2 * PART as u32 + 10);
        own.measured(Kind(1), loads(0..all, 7));
        let mut said = Vec::new();
        for expected in [PART, PART, 10, 0] {
            let part: Vec<_> = own.part(TERM, |_| true).into_iter().flat_map(|of| of.shards).collect();
            assert_eq!(part.len(), expected);
            said.extend(part);
        }
        assert_eq!(said, loads(0..all, 7));

        // News while a pass is under way starts another one after it.
        own.measured(Kind(1), loads(0..all, 8));
        own.part(TERM, |_| true);
        own.measured(Kind(1), loads(0..1, 9));
        let rest: Vec<_> = (0..8).flat_map(|_| own.part(TERM, |_| true)).flat_map(|of| of.shards).collect();
        assert_eq!(rest.len() as u32, all - PART as u32 + all);
        assert!(rest.contains(&(ShardId(0), 9)));
    }

    #[test]
    fn what_is_not_owned_is_forgotten_and_a_new_coordinator_hears_all() {
        let mut own = OwnLoads::default();
        own.measured(Kind(1), loads(0..4, 7));
        own.measured(Kind(2), loads(0..1, 5));
        let part = own.part(TERM, |of| of != key(2));
        assert_eq!(part.len(), 2);
        assert_eq!(part[0].shards, [(ShardId(0), 7), (ShardId(1), 7), (ShardId(3), 7)]);
        own.part(TERM, |_| true); // the news that came before anything had been said
        assert!(own.part(TERM, |_| true).is_empty());
        assert_eq!(own.part(NEXT, |_| true)[0].shards.len(), 3);
    }
}
