//! The changes in mid-stream: one node joins, one is killed if that was asked for, one leaves. One after the other; the
//! stream runs on, more slowly, while one is under way, and does not pass the next before this one is done.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use shard_core::id::Token;

use super::cluster::{Cluster, Phase, id};
use super::plan::{self, Milestones};
use super::progress::Progress;

/// Rows per second while the cluster changes: slow enough that the stream lasts longer than the change.
pub(crate) const TRICKLE: u32 = 500;
/// How long no shard may move before a change counts as done.
const QUIET: Duration = Duration::from_millis(1_000);
/// How long a joined node may wait for its first shard.
const SHARD_LIMIT: Duration = Duration::from_secs(20);
/// How long the shards of a killed node may be without an owner.
const RECOVERY_LIMIT: Duration = Duration::from_secs(30);
/// How long joining or leaving may take.
const CHANGE_LIMIT: Duration = Duration::from_secs(90);
/// How long a choice may wait for a node that does not reign.
const CHOICE_LIMIT: Duration = Duration::from_secs(10);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Join,
    Kill,
    Leave,
}

/// A change under way.
enum Step {
    /// Nobody fit to be killed or to leave has been found yet.
    Choosing(Kind),
    /// A process was started and is to become a node.
    Joining(usize),
    /// A node joined at this time and is to get shards.
    Filling(usize, Instant),
    /// A node was killed; these were its shards.
    Recovering(usize, Vec<(u32, Token)>),
    /// A node takes no more rows; those under way are being settled.
    Closing(usize),
    /// A node was told to leave.
    Leaving(usize),
}

/// The changes still to come, and the one under way.
pub(crate) struct Changes {
    rows: usize,
    ahead: VecDeque<(usize, Kind)>,
    current: Option<(Step, Instant)>,
}

impl Changes {
    /// The changes of a stream of `rows` rows.
    pub(crate) fn of(rows: usize, kill: bool) -> Self {
        let at = Milestones::of(rows);
        let kill = kill.then_some((at.kill, Kind::Kill));
        let ahead = [Some((at.join, Kind::Join)), kill, Some((at.leave, Kind::Leave))];
        Self { rows, ahead: ahead.into_iter().flatten().collect(), current: None }
    }

    /// How many rows may have been sent before the next change begins.
    pub(crate) fn limit(&self) -> usize {
        self.ahead.front().map_or(self.rows, |(at, _)| *at)
    }

    /// Whether a change is under way.
    pub(crate) fn under_way(&self) -> bool {
        self.current.is_some()
    }

    /// Whether a node was killed and its shards do not live again yet.
    pub(crate) fn recovering(&self) -> bool {
        matches!(self.current, Some((Step::Recovering(..), _)))
    }

    /// Whether all changes are done.
    pub(crate) fn done(&self) -> bool {
        self.current.is_none() && self.ahead.is_empty()
    }

    /// Takes every step that is due after `sent` rows.
    pub(crate) fn step(&mut self, sent: usize, cluster: &mut Cluster, progress: &mut Progress) {
        loop {
            let (step, since) = match self.current.take() {
                Some(current) => current,
                None => {
                    let Some((at, kind)) = self.ahead.front().copied() else { return };
                    if at > sent {
                        return;
                    }
                    self.ahead.pop_front();
                    (Step::Choosing(kind), Instant::now())
                }
            };
            let idle = sent == self.limit() && cluster.is_quiet();
            match advance(step, since, idle, cluster, progress) {
                Next::Wait(step) => {
                    self.current = Some((step, since));
                    return;
                }
                Next::Go(step) => self.current = Some((step, Instant::now())),
                Next::Done => {}
            }
        }
    }
}

enum Next {
    Wait(Step),
    Go(Step),
    Done,
}

/// Takes the next step of the change under way, if it is due. `idle`: no row is under way, and none will come before the
/// next change.
fn advance(step: Step, since: Instant, idle: bool, cluster: &mut Cluster, progress: &mut Progress) -> Next {
    match step {
        Step::Choosing(Kind::Join) => match cluster.add() {
            Ok(node) => {
                progress.say(&format!("node {} is joining", id(node)));
                Next::Go(Step::Joining(node))
            }
            Err(problem) => {
                cluster.problems.push(problem);
                Next::Done
            }
        },
        Step::Choosing(kind) => choose(kind, since, cluster, progress),
        Step::Joining(node) => match cluster.members[node].phase {
            Phase::Serving => Next::Go(Step::Filling(node, Instant::now())),
            Phase::Starting => overdue(step, since, node, "join", cluster),
            _ => Next::Done,
        },
        Step::Filling(node, joined) => {
            let gained = cluster.grants.newest_of(id(node)).len();
            if gained > 0 && cluster.last_gain.elapsed() > QUIET {
                tell(cluster, progress, format!("node {} joined, and {gained} shards moved to it", id(node)));
                Next::Done
            } else if gained == 0 && idle && joined.elapsed() > QUIET && cluster.is_at_rest() {
                tell(cluster, progress, format!("node {} joined, and there was no shard to move to it", id(node)));
                Next::Done
            } else if gained == 0 && joined.elapsed() > SHARD_LIMIT {
                tell(cluster, progress, format!("node {} joined, but no shard moved to it", id(node)));
                Next::Done
            } else if since.elapsed() > CHANGE_LIMIT {
                tell(cluster, progress, format!("node {} joined, and shards still move", id(node)));
                Next::Done
            } else {
                Next::Wait(step)
            }
        }
        Step::Recovering(node, ref shards) => {
            let regained = shards.iter().filter(|(shard, token)| cluster.grants.newer(*shard, *token)).count();
            if regained < shards.len() && since.elapsed() < RECOVERY_LIMIT {
                return Next::Wait(step);
            }
            let (all, after) = (shards.len(), since.elapsed().as_secs_f64());
            tell(
                cluster,
                progress,
                format!("{regained} of node {}'s {all} shards live again after {after:.1} s", id(node)),
            );
            Next::Done
        }
        Step::Closing(node) => match cluster.members[node].phase {
            Phase::Closing if cluster.members[node].under_way() == 0 => {
                cluster.leave(node);
                Next::Go(Step::Leaving(node))
            }
            Phase::Closing => overdue(step, since, node, "settle its rows", cluster),
            _ => Next::Done,
        },
        Step::Leaving(node) => match cluster.members[node].phase {
            Phase::Leaving => overdue(step, since, node, "leave", cluster),
            Phase::Left => {
                tell(cluster, progress, format!("node {} left", id(node)));
                Next::Done
            }
            _ => Next::Done,
        },
    }
}

/// Picks who is killed or leaves; waits a while if the only fit node reigns just now.
fn choose(kind: Kind, since: Instant, cluster: &mut Cluster, progress: &mut Progress) -> Next {
    let candidates = cluster.candidates();
    let (choice, hope) = match kind {
        Kind::Kill => {
            let nodes = cluster.nodes();
            (plan::victim(&candidates, nodes), plan::could_be_killed(&candidates, nodes))
        }
        Kind::Leave | Kind::Join => (plan::leaver(&candidates), plan::could_leave(&candidates)),
    };
    match (choice, kind) {
        (Some(node), Kind::Kill) => {
            let shards = cluster.grants.newest_of(id(node));
            cluster.kill(node);
            tell(cluster, progress, format!("node {} was killed; it owned {} shards", id(node), shards.len()));
            Next::Go(Step::Recovering(node, shards))
        }
        (Some(node), _) => {
            let shards = cluster.grants.newest_of(id(node)).len();
            cluster.close(node);
            tell(cluster, progress, format!("node {} is leaving; it owns {shards} shards", id(node)));
            Next::Go(Step::Closing(node))
        }
        (None, _) if hope && since.elapsed() < CHOICE_LIMIT => Next::Wait(Step::Choosing(kind)),
        (None, _) => {
            let what = if kind == Kind::Kill { "be killed" } else { "leave" };
            tell(cluster, progress, format!("no node could {what}: those left vote or reign"));
            Next::Done
        }
    }
}

fn overdue(step: Step, since: Instant, node: usize, what: &str, cluster: &mut Cluster) -> Next {
    if since.elapsed() < CHANGE_LIMIT {
        return Next::Wait(step);
    }
    cluster.problems.push(format!("node {} did not {what} within {CHANGE_LIMIT:?}", id(node)));
    Next::Done
}

fn tell(cluster: &mut Cluster, progress: &mut Progress, text: String) {
    progress.say(&text);
    cluster.notes.changes.push(text);
}
