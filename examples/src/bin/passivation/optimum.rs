//! The best that anybody could have done.

use std::collections::BinaryHeap;

use super::run::Figures;
use super::trace::Trace;

/// Whoever is used last of all goes, be it the newcomer: Belady, *A study of replacement algorithms for a virtual-storage
/// computer*, 1966, for entities that may go as soon as their message is handled. It knows the future. O(n log n).
pub(crate) fn optimum(trace: &Trace, limit: u32) -> Figures {
    const NEVER: usize = usize::MAX;
    let mut next = vec![NEVER; trace.messages.len()];
    let mut seen = vec![NEVER; trace.entities as usize];
    for (at, entity) in trace.messages.iter().enumerate().rev() {
        next[at] = std::mem::replace(&mut seen[*entity as usize], at);
    }
    let mut figures = Figures::new(trace);
    // By entity: when it is used next, if it is awake. The heap keeps outdated entries until they come up.
    let mut awake: Vec<Option<usize>> = vec![None; trace.entities as usize];
    let (mut heap, mut count) = (BinaryHeap::new(), 0);
    for (entity, next) in trace.messages.iter().zip(next) {
        let hit = awake[*entity as usize].is_some();
        figures.message(*entity, hit);
        awake[*entity as usize] = Some(next);
        heap.push((next, *entity));
        count += u32::from(!hit);
        while count > limit {
            let Some((next, entity)) = heap.pop() else { break };
            if awake[entity as usize] == Some(next) {
                awake[entity as usize] = None;
                count -= 1;
            }
        }
    }
    figures
}
