//! The nodes as the parent knows them: in which phase each is, what it was asked and has not answered, what it owns.
//!
//! ```text
//!   Starting ──Joined──▶ Serving ──close──▶ Closing ──leave──▶ Leaving ──Left──▶ Left
//!       └────────────────────┴─── its stdout ended ───┴────────────┴──────▶ Dead
//! ```

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use super::accounts::{AircraftReport, Fate};
use super::entity::Row;
use super::fleet::{Fleet, Heard};
use super::grants::Grants;
use super::notes::Notes;
use super::plan::{self, Candidate, voters};
use super::protocol::{NodeStatus, Order, Start, Word};
use super::{Options, Strategy};

/// How long a node may take from its start until the cluster has taken it.
const START_LIMIT: Duration = Duration::from_secs(90);
/// How many questions may be under way at one node.
pub(crate) const WINDOW: usize = 512;

/// Where a node is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Phase {
    /// Its process runs; the cluster has not taken it yet.
    Starting,
    /// It takes rows.
    Serving,
    /// It takes no more rows; those under way are being settled.
    Closing,
    /// It was told to leave.
    Leaving,
    /// It left in good order.
    Left,
    /// Its process ended otherwise.
    Dead,
}

/// One node.
pub(crate) struct Member {
    /// Where it is.
    pub(crate) phase: Phase,
    /// What it last said of itself.
    pub(crate) status: NodeStatus,
    address: Option<String>,
    started: bool,
    killed: bool,
    lapses: u64,
    rows: BTreeSet<usize>,
    reports: BTreeSet<usize>,
}

impl Member {
    /// Whether its process is part of the cluster.
    pub(crate) fn is_live(&self) -> bool {
        matches!(self.phase, Phase::Serving | Phase::Closing | Phase::Leaving)
    }

    /// How many questions are under way at it.
    pub(crate) fn under_way(&self) -> usize {
        self.rows.len() + self.reports.len()
    }
}

/// An answer to something that was asked.
pub(crate) enum Answer {
    /// The fate of a row.
    Fate(usize, Fate),
    /// An aircraft's report, or why there is none.
    Report(usize, Result<AircraftReport, String>),
}

/// The whole cluster.
pub(crate) struct Cluster {
    fleet: Fleet,
    nodes: usize,
    shards: u32,
    strategy: Strategy,
    shelf: PathBuf,
    /// Every node there ever was.
    pub(crate) members: Vec<Member>,
    /// Who owned which shard.
    pub(crate) grants: Grants,
    /// When a node last gained a shard.
    pub(crate) last_gain: Instant,
    /// Nodes that lost their memory.
    pub(crate) bereft: BTreeSet<u64>,
    /// What happened, for the report.
    pub(crate) notes: Notes,
    /// What must not happen.
    pub(crate) problems: Vec<String>,
}

impl Cluster {
    /// Starts the nodes that `options` asks for, with logs and shelf under `directory`, and waits until all serve.
    ///
    /// # Errors
    /// Why one of them does not serve, with the end of its log.
    pub(crate) async fn start(options: &Options, directory: &Path) -> Result<Self, String> {
        let mut cluster = Self {
            fleet: Fleet::new(directory.to_owned()),
            nodes: usize::from(options.nodes),
            shards: options.shards,
            strategy: options.strategy,
            shelf: directory.join("shelf"),
            members: Vec::new(),
            grants: Grants::default(),
            last_gain: Instant::now(),
            bereft: BTreeSet::new(),
            notes: Notes::default(),
            problems: Vec::new(),
        };
        std::fs::create_dir(&cluster.shelf).map_err(|error| format!("{}: {error}", cluster.shelf.display()))?;
        for _ in 0..cluster.nodes {
            cluster.add()?;
        }
        let limit = Instant::now() + START_LIMIT;
        while !cluster.members.iter().all(|member| member.phase == Phase::Serving) {
            cluster.hear(Duration::from_millis(100)).await;
            if !cluster.problems.is_empty() {
                return Err(cluster.problems.join("\n"));
            }
            if Instant::now() > limit {
                return Err(cluster.unready());
            }
        }
        Ok(cluster)
    }

    /// Starts one more process; it becomes a node once it is heard. Gives its place.
    ///
    /// # Errors
    /// The process cannot be started.
    pub(crate) fn add(&mut self) -> Result<usize, String> {
        let node = self.fleet.spawn().map_err(|error| format!("a node process cannot be started: {error}"))?;
        self.members.push(Member {
            phase: Phase::Starting,
            status: NodeStatus::default(),
            address: None,
            started: false,
            killed: false,
            lapses: 0,
            rows: BTreeSet::new(),
            reports: BTreeSet::new(),
        });
        Ok(node)
    }

    /// The nodes that serve, for a choice among them.
    pub(crate) fn candidates(&self) -> Vec<Candidate> {
        let serving = self.members.iter().enumerate().filter(|(_, member)| member.phase == Phase::Serving);
        Candidate::list(&serving.map(|(node, member)| (node, member.status)).collect::<Vec<_>>(), self.nodes)
    }

    /// How many nodes there were at the start.
    pub(crate) fn nodes(&self) -> usize {
        self.nodes
    }

    /// Whether the strategy leaves every shard where it is: none will move before another is granted or a node comes or
    /// goes.
    pub(crate) fn is_at_rest(&self) -> bool {
        let serving = self.members.iter().enumerate().filter(|(_, member)| member.phase == Phase::Serving);
        let nodes: Vec<_> = serving.map(|(node, member)| (id(node), member.address.as_deref().unwrap_or(""))).collect();
        plan::is_at_rest(self.strategy, self.shards, &nodes, self.grants.newest())
    }

    /// Whether no row is under way at any node.
    pub(crate) fn is_quiet(&self) -> bool {
        self.members.iter().all(|member| member.rows.is_empty())
    }

    /// Whether `node` takes one more question.
    pub(crate) fn has_room(&self, node: usize) -> bool {
        let member = &self.members[node];
        member.phase == Phase::Serving && member.under_way() < WINDOW
    }

    /// Hands row `seq` to `node`.
    pub(crate) fn send_row(&mut self, node: usize, seq: usize, tail: &str, row: Row) {
        self.members[node].rows.insert(seq);
        self.fleet.order(node, Order::Row { seq, tail: tail.to_owned(), row });
    }

    /// Asks an aircraft for its report, through `node`.
    pub(crate) fn ask_report(&mut self, node: usize, aircraft: usize, tail: &str) {
        self.members[node].reports.insert(aircraft);
        self.fleet.order(node, Order::Report { aircraft, tail: tail.to_owned() });
    }

    /// `node` takes no more rows from now on.
    pub(crate) fn close(&mut self, node: usize) {
        self.members[node].phase = Phase::Closing;
    }

    /// Tells `node` to leave.
    pub(crate) fn leave(&mut self, node: usize) {
        self.members[node].phase = Phase::Leaving;
        self.fleet.order(node, Order::Leave);
    }

    /// Kills `node`'s process. Its end will be heard after the last of its words.
    pub(crate) fn kill(&mut self, node: usize) {
        let member = &mut self.members[node];
        member.killed = true;
        // Nothing more enters here; what it answered before it died still counts.
        member.phase = Phase::Closing;
        self.bereft.insert(id(node));
        if let Err(error) = self.fleet.kill(node) {
            self.problems.push(format!("node {} could not be killed: {error}", id(node)));
        }
    }

    /// Waits at most `limit` for something to happen, takes in all that has, and returns the answers among it.
    pub(crate) async fn hear(&mut self, limit: Duration) -> Vec<Answer> {
        let mut answers = Vec::new();
        let mut next = self.fleet.hear(limit).await;
        while let Some((node, heard)) = next {
            match heard {
                Heard::Word(word) => answers.extend(self.take_word(node, *word)),
                Heard::Gone(why) => answers.extend(self.gone(node, &why).await),
            }
            next = self.fleet.heard();
        }
        answers
    }

    /// Ends every process.
    pub(crate) async fn end(self) {
        self.fleet.end().await;
    }

    fn take_word(&mut self, node: usize, word: Word) -> Option<Answer> {
        let member = &mut self.members[node];
        match word {
            Word::Listening { address } => {
                member.address = Some(address);
                self.start_those_ready();
            }
            Word::Joined if member.phase == Phase::Starting => member.phase = Phase::Serving,
            Word::Joined => {}
            Word::Settled { seq, settled } => {
                member.rows.remove(&seq);
                let fate = Fate::Delivered { node: settled.node, fence: settled.fence, arrival: settled.arrival };
                return Some(Answer::Fate(seq, fate));
            }
            Word::Unsettled { seq, may_have_run, why } => {
                member.rows.remove(&seq);
                let fate = if may_have_run { Fate::InDoubt(why) } else { Fate::Unsent(why) };
                return Some(Answer::Fate(seq, fate));
            }
            Word::Report { aircraft, report } => {
                member.reports.remove(&aircraft);
                return Some(Answer::Report(aircraft, report));
            }
            Word::Gained { shard, token } => {
                self.grants.gained(shard, token, id(node));
                self.last_gain = Instant::now();
            }
            Word::Lapsed => {
                member.lapses += 1;
                let lapses = member.lapses;
                self.lapsed(node, lapses);
            }
            Word::Refused { why, times } => self.notes.refusals.add(&format!("node {}: {why}", id(node)), times),
            Word::Trouble { what, times } => self.notes.troubles.add(&format!("node {}: {what}", id(node)), times),
            Word::Status(status) => {
                member.status = status;
                self.lapsed(node, status.lapses);
            }
            Word::Left { clean } => {
                member.phase = Phase::Left;
                if !clean {
                    self.problems.push(format!("node {} did not hand everything over before it left", id(node)));
                }
            }
            Word::Failed(why) => self.problems.push(format!("node {}: {why}", id(node))),
        }
        None
    }

    /// `node` says that its session lapsed `times` times so far.
    fn lapsed(&mut self, node: usize, times: u64) {
        if times > 0 {
            self.bereft.insert(id(node));
            self.notes.lapsed(id(node), times);
        }
    }

    /// The first nodes vote, so nobody can start before their addresses are known.
    fn start_those_ready(&mut self) {
        let voting = self.members.iter().take(voters(self.nodes)).zip(1..);
        let addresses: Option<Vec<_>> = voting.map(|(member, id)| Some((id, member.address.clone()?))).collect();
        let Some(voters) = addresses else { return };
        for (node, member) in self.members.iter_mut().enumerate() {
            if member.started || member.address.is_none() {
                continue;
            }
            member.started = true;
            let start = Start {
                id: id(node),
                voters: voters.clone(),
                shards: self.shards,
                strategy: self.strategy,
                shelf: self.shelf.clone(),
            };
            self.fleet.order(node, Order::Start(start));
        }
    }

    /// `node` says nothing more: what was under way at it may have run.
    async fn gone(&mut self, node: usize, why: &str) -> Vec<Answer> {
        let end = self.fleet.reap(node).await;
        let member = &mut self.members[node];
        let doubt = if member.killed { "the node it entered at was killed" } else { "the node it entered at died" };
        let rows = std::mem::take(&mut member.rows).into_iter();
        let reports = std::mem::take(&mut member.reports).into_iter();
        let rows = rows.map(|seq| Answer::Fate(seq, Fate::InDoubt(doubt.to_owned())));
        let reports = reports.map(|aircraft| Answer::Report(aircraft, Err(doubt.to_owned())));
        let answers = rows.chain(reports).collect();
        if member.phase != Phase::Left {
            member.phase = Phase::Dead;
            if !member.killed {
                self.bereft.insert(id(node));
                let log = self.fleet.last_words(node).join("\n    ");
                self.problems.push(format!("node {} died unexpectedly: {why}; {end}\n    {log}", id(node)));
            }
        }
        answers
    }

    fn unready(&self) -> String {
        let waiting = self.members.iter().enumerate().filter(|(_, member)| member.phase != Phase::Serving);
        let waiting: Vec<_> = waiting
            .map(|(node, _)| format!("node {}\n    {}", id(node), self.fleet.last_words(node).join("\n    ")))
            .collect();
        format!("not in the cluster after {START_LIMIT:?}: {}", waiting.join("\n"))
    }
}

/// The id of the node in a place.
pub(crate) fn id(node: usize) -> u64 {
    node as u64 + 1
}
