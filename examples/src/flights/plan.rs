//! Who enters where, who joins, leaves and dies, and when. Pure: the parent asks and obeys.

use shard_core::allocation::{Layout, Ledger, Limits, NodeView};
use shard_core::id::{Incarnation, NodeId, NodeKey, ShardId};
use shard_core::time::Instant;

use super::Strategy;
use super::protocol::NodeStatus;

/// How many rows of an aircraft enter at one node before its entry moves on.
const ROWS_PER_STAY: u32 = 8;

/// How many of the first `nodes` nodes vote: an odd number, 3 at most.
pub(crate) fn voters(nodes: usize) -> usize {
    if nodes >= 3 { 3 } else { 1 }
}

/// Where in the stream the cluster changes, in rows sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Milestones {
    /// One more node joins.
    pub(crate) join: usize,
    /// One node is killed, if that was asked for.
    pub(crate) kill: usize,
    /// One node leaves.
    pub(crate) leave: usize,
}

impl Milestones {
    /// A third, a half and two thirds into `rows` rows.
    pub(crate) fn of(rows: usize) -> Self {
        Self { join: rows / 3, kill: rows / 2, leave: rows - rows / 3 }
    }
}

/// What the parent knows of a node when it chooses one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Candidate {
    /// Its place among the nodes.
    pub(crate) node: usize,
    /// Whether it votes.
    pub(crate) votes: bool,
    /// Whether it joined in mid-stream.
    pub(crate) joiner: bool,
    /// Whether it or another node says that it reigns.
    pub(crate) reigns: bool,
}

impl Candidate {
    /// The nodes that serve, as candidates. A node counts as reigning if it says so or if any node takes it for the
    /// coordinator.
    pub(crate) fn list(serving: &[(usize, NodeStatus)], nodes: usize) -> Vec<Self> {
        let reigns = |node: usize| {
            let named = |status: &NodeStatus| status.coordinator == Some(node as u64 + 1);
            serving.iter().any(|(at, status)| (*at == node && status.reigning) || named(status))
        };
        let candidate = |node| Self { node, votes: node < voters(nodes), joiner: node >= nodes, reigns: reigns(node) };
        serving.iter().map(|(node, _)| candidate(*node)).collect()
    }
}

/// Whether a node could leave if only another one reigned.
pub(crate) fn could_leave(candidates: &[Candidate]) -> bool {
    candidates.iter().any(|candidate| !candidate.votes)
}

/// Who leaves: a node that neither votes nor reigns, the joiner only if there is no other.
pub(crate) fn leaver(candidates: &[Candidate]) -> Option<usize> {
    let fit = candidates.iter().filter(|candidate| !candidate.votes && !candidate.reigns);
    fit.min_by_key(|candidate| (candidate.joiner, candidate.node)).map(|candidate| candidate.node)
}

/// Whether a node could be killed if only another one reigned.
pub(crate) fn could_be_killed(candidates: &[Candidate], nodes: usize) -> bool {
    candidates.iter().any(|candidate| !candidate.votes || can_spare_a_voter(candidates, nodes))
}

fn can_spare_a_voter(candidates: &[Candidate], nodes: usize) -> bool {
    candidates.iter().filter(|candidate| candidate.votes).count() > voters(nodes) / 2 + 1
}

/// Who is killed: a node that does not reign and is not the one that is to leave; a voter if the voters can spare one,
/// since losing one is harder. If the only fit node is the one that was to leave, it dies.
pub(crate) fn victim(candidates: &[Candidate], nodes: usize) -> Option<usize> {
    let spare = can_spare_a_voter(candidates, nodes);
    let leaver = leaver(candidates);
    let fit = candidates.iter().filter(|candidate| !candidate.reigns && (!candidate.votes || spare));
    fit.min_by_key(|candidate| (Some(candidate.node) == leaver, !candidate.votes, candidate.node))
        .map(|candidate| candidate.node)
}

/// Whether `strategy` leaves `shards` shards where they are: at `homes`, among `nodes` with their addresses. A shard whose
/// home is none of these has none.
pub(crate) fn is_at_rest(
    strategy: Strategy,
    shards: u32,
    nodes: &[(u64, &str)],
    homes: impl Iterator<Item = (u32, u64)>,
) -> bool {
    let key = |id| NodeKey { id: NodeId(id), incarnation: Incarnation(1) };
    let mut layout = Layout::new(shards);
    layout.set_nodes(nodes.iter().map(|(id, address)| NodeView::new(key(*id), *address)).collect());
    for (shard, home) in homes {
        if let Some(home) = layout.find(key(home)) {
            layout.settle(Instant::ZERO, ShardId(shard), home);
        }
    }
    let (mut ledger, view) = (Ledger::new(), layout.view(Instant::ZERO, 0));
    ledger.round(strategy.rule().as_mut(), &view, Limits::default());
    ledger.moves().is_empty()
}

/// What the next row of an aircraft must do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Entry {
    /// Enter at this node.
    At(usize),
    /// Wait until the aircraft's earlier rows are settled.
    Wait,
}

/// Where each aircraft's rows enter. All rows of one aircraft enter at one node at a time; the entry moves after a few
/// rows, and away from a node that closed, but only when its earlier rows are settled.
pub(crate) struct Entrances {
    aircraft: Vec<Stay>,
}

#[derive(Clone, Copy)]
struct Stay {
    node: usize,
    rows: u32,
    open: u32,
    /// Rows of it entered at a node that died with them: what it had passed on may still be under way to the owner.
    held: bool,
}

impl Entrances {
    /// Entrances of `aircraft` aircraft, spread over `nodes` nodes.
    pub(crate) fn new(aircraft: usize, nodes: usize) -> Self {
        let stay = |at| Stay { node: at % nodes, rows: 0, open: 0, held: false };
        Self { aircraft: (0..aircraft).map(stay).collect() }
    }

    /// Where the next row of `aircraft` enters, if only the nodes that are `open` take rows.
    pub(crate) fn next(&self, aircraft: usize, open: &[bool]) -> Entry {
        let stay = self.aircraft[aircraft];
        if stay.held {
            return Entry::Wait;
        }
        let here = open.get(stay.node).copied().unwrap_or(false);
        if stay.open > 0 {
            return if here { Entry::At(stay.node) } else { Entry::Wait };
        }
        if here && stay.rows < ROWS_PER_STAY {
            return Entry::At(stay.node);
        }
        let onward = (1..=open.len()).map(|step| (stay.node + step) % open.len()).find(|node| open[*node]);
        onward.map_or(Entry::Wait, Entry::At)
    }

    /// A row of `aircraft` entered at `node`, which [`next`](Self::next) named.
    pub(crate) fn entered(&mut self, aircraft: usize, node: usize) {
        let stay = &mut self.aircraft[aircraft];
        if stay.node != node || stay.rows >= ROWS_PER_STAY && stay.open == 0 {
            debug_assert_eq!(stay.open, 0, "an entry moves only when its rows are settled");
            *stay = Stay { node, rows: 0, open: 0, held: false };
        }
        stay.rows += 1;
        stay.open += 1;
    }

    /// Where the rows of `aircraft` enter.
    pub(crate) fn node(&self, aircraft: usize) -> usize {
        self.aircraft[aircraft].node
    }

    /// The node where rows of `aircraft` entered died with them. Order is promised per sending node: what it had passed on
    /// and what would now enter elsewhere could meet at the owner in any order, so nothing enters until
    /// [`release`](Self::release).
    pub(crate) fn hold(&mut self, aircraft: usize) {
        self.aircraft[aircraft].held = true;
    }

    /// The cluster has buried the node that died: nothing of it is under way any more.
    pub(crate) fn release(&mut self) {
        self.aircraft.iter_mut().for_each(|stay| stay.held = false);
    }

    /// The fate of a row of `aircraft` is known.
    pub(crate) fn settled(&mut self, aircraft: usize) {
        self.aircraft[aircraft].open -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidates(nodes: usize, serving: &[usize], coordinator: u64) -> Vec<Candidate> {
        let status = NodeStatus { coordinator: Some(coordinator), ..NodeStatus::default() };
        Candidate::list(&serving.iter().map(|node| (*node, status)).collect::<Vec<_>>(), nodes)
    }

    #[test]
    fn voters_are_odd_and_three_at_most() {
        assert_eq!([1, 2, 3, 4, 5, 9].map(voters), [1, 1, 3, 3, 3, 3]);
    }

    #[test]
    fn changes_come_in_order_and_inside_the_stream() {
        for rows in [0, 1, 2, 3, 10, 27_004] {
            let Milestones { join, kill, leave } = Milestones::of(rows);
            assert!(join <= kill && kill <= leave && leave <= rows, "{rows}");
        }
    }

    #[test]
    fn the_leaver_is_a_plain_member_if_there_is_one_or_else_the_joiner() {
        assert_eq!(leaver(&candidates(5, &[0, 1, 2, 3, 4, 5], 1)), Some(3));
        assert_eq!(leaver(&candidates(3, &[0, 1, 2, 3], 1)), Some(3));
        assert_eq!(leaver(&candidates(2, &[0, 1, 2], 1)), Some(1));
        assert_eq!(leaver(&candidates(1, &[0, 1], 1)), Some(1));
    }

    #[test]
    fn neither_a_voter_nor_the_coordinator_leaves() {
        assert_eq!(leaver(&candidates(3, &[0, 1, 2], 1)), None);
        assert_eq!(leaver(&candidates(5, &[0, 1, 2, 3, 4, 5], 4)), Some(4));
    }

    #[test]
    fn the_victim_is_a_voter_that_can_be_spared_and_does_not_reign() {
        assert_eq!(victim(&candidates(3, &[0, 1, 2, 3], 1), 3), Some(1));
        assert_eq!(victim(&candidates(3, &[0, 1, 2, 3], 2), 3), Some(0));
    }

    #[test]
    fn a_voter_that_the_quorum_needs_is_not_killed() {
        assert_eq!(victim(&candidates(5, &[0, 1, 3, 4, 5], 1), 5), Some(4));
        assert_eq!(victim(&candidates(2, &[0, 1, 2], 1), 2), Some(2));
    }

    #[test]
    fn the_leaver_is_killed_only_if_there_is_nobody_else() {
        assert_eq!(victim(&candidates(1, &[0, 1], 1), 1), Some(1));
        assert_eq!(victim(&candidates(1, &[0], 1), 1), None);
    }

    #[test]
    fn a_choice_is_hopeless_if_all_that_are_left_must_vote() {
        let alone = candidates(1, &[0], 1);
        assert!(!could_leave(&alone) && !could_be_killed(&alone, 1));
        let pair = candidates(3, &[0, 1], 1);
        assert!(!could_leave(&pair) && !could_be_killed(&pair, 3));
        let reigning = candidates(3, &[0, 1, 3], 4);
        assert!(leaver(&reigning).is_none() && could_leave(&reigning), "it may cease to reign");
        assert!(could_be_killed(&candidates(3, &[0, 1, 2], 1), 3));
    }

    #[test]
    fn a_node_that_says_it_reigns_is_the_coordinator_even_if_nobody_heard() {
        let status = NodeStatus { reigning: true, ..NodeStatus::default() };
        let list = Candidate::list(&[(0, NodeStatus::default()), (1, status)], 3);
        assert_eq!(list.iter().map(|candidate| candidate.reigns).collect::<Vec<_>>(), [false, true]);
    }

    #[test]
    fn nothing_enters_elsewhere_while_a_dead_nodes_rows_may_be_under_way() {
        let mut entrances = Entrances::new(1, 3);
        entrances.entered(0, 0);
        entrances.settled(0);
        entrances.hold(0);
        assert_eq!(entrances.next(0, &[false, true, true]), Entry::Wait);
        entrances.release();
        assert_eq!(entrances.next(0, &[false, true, true]), Entry::At(1));
    }

    #[test]
    fn one_shard_stays_and_one_of_many_goes_to_a_node_without() {
        let nodes = [(1, "a"), (2, "b"), (3, "c"), (4, "d")];
        let at_rest = |homes: &[u64]| is_at_rest(Strategy::LeastShard, 8, &nodes, (0..).zip(homes.iter().copied()));
        assert!(at_rest(&[]) && at_rest(&[1]) && at_rest(&[1, 2, 3]));
        assert!(!at_rest(&[1, 1, 2, 3]), "the fourth gets one");
        assert!(at_rest(&[1, 2, 3, 4, 1]) && at_rest(&[7]), "what belongs to nobody does not move");
    }

    #[test]
    fn by_hash_a_shard_rests_where_the_hash_says() {
        let at_rest = |home| is_at_rest(Strategy::Hash, 8, &[(1, "a"), (2, "b")], [(3, home)].into_iter());
        assert!(at_rest(2) && !at_rest(1));
    }

    #[test]
    fn entries_are_spread_over_the_nodes() {
        let entrances = Entrances::new(4, 3);
        let entries: Vec<_> = (0..4).map(|at| entrances.next(at, &[true; 3])).collect();
        assert_eq!(entries, [Entry::At(0), Entry::At(1), Entry::At(2), Entry::At(0)]);
    }

    #[test]
    fn an_entry_moves_on_after_a_few_rows_once_they_are_settled() {
        let mut entrances = Entrances::new(1, 3);
        for _ in 0..ROWS_PER_STAY {
            assert_eq!(entrances.next(0, &[true; 3]), Entry::At(0));
            entrances.entered(0, 0);
        }
        assert_eq!(entrances.next(0, &[true; 3]), Entry::At(0), "rows are under way");
        (0..ROWS_PER_STAY).for_each(|_| entrances.settled(0));
        assert_eq!(entrances.next(0, &[true; 3]), Entry::At(1));
        entrances.entered(0, 1);
        assert_eq!(entrances.next(0, &[true; 3]), Entry::At(1));
    }

    #[test]
    fn an_entry_waits_before_it_leaves_a_closed_node() {
        let mut entrances = Entrances::new(1, 2);
        entrances.entered(0, 0);
        assert_eq!(entrances.next(0, &[false, true]), Entry::Wait);
        entrances.settled(0);
        assert_eq!(entrances.next(0, &[false, true]), Entry::At(1));
        assert_eq!(entrances.next(0, &[false, false]), Entry::Wait, "nobody takes rows");
    }

    #[test]
    fn an_entry_with_nowhere_else_to_go_stays() {
        let mut entrances = Entrances::new(1, 1);
        for _ in 0..3 * ROWS_PER_STAY {
            assert_eq!(entrances.next(0, &[true]), Entry::At(0));
            entrances.entered(0, 0);
            entrances.settled(0);
        }
    }
}
