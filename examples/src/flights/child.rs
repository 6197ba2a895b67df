//! One node process: a node of the cluster, driven over stdin and stdout. It ends when its stdin does.

use std::net::TcpListener;
use std::process::ExitCode;
use std::time::Duration;

use adapter_tokio::{Event, EventStream, Node};
use shard_core::id::NodeId;
use shard_core::machine::Timing;
use shard_core::node::ConfigError;
use shard_core::prelude::*;
use tokio::io::{AsyncWriteExt, BufReader, stdin, stdout};
use tokio::sync::mpsc;
use tokio::time::{MissedTickBehavior, interval, timeout};

use super::entity::{Aircraft, AircraftMessage, Report, Row};
use super::notes::{Tally, kind};
use super::protocol::{NodeStatus, Order, Start, Word, line, read};
use super::shelf::Shelf;

/// How long the parent may take to say how to start.
const START_LIMIT: Duration = Duration::from_secs(60);
/// How long the cluster may take to accept this node.
const JOIN_LIMIT: Duration = Duration::from_secs(60);
/// How long a row or a report may take: far longer than any recovery, so that it ends only if something is broken.
const ASK_LIMIT: Duration = Duration::from_secs(60);
/// How long a graceful leave may take.
const LEAVE_LIMIT: Duration = Duration::from_secs(30);
/// How long the last words may take to reach the parent.
const FLUSH_LIMIT: Duration = Duration::from_secs(5);
/// How often the node says how it is doing.
const STATUS_EVERY: Duration = Duration::from_millis(200);

/// How often the coordinator looks for a better balance: more often than by default, so that a joining node has its fair
/// share within seconds.
const REBALANCE_EVERY: Duration = Duration::from_millis(250);

type Words = mpsc::UnboundedSender<Word>;

/// Runs one node until it has left or its parent is gone.
pub(crate) fn run() -> ExitCode {
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let code = runtime.block_on(live());
    // The thread that reads stdin cannot be stopped; ending the process is the only way not to wait for it.
    std::process::exit(code)
}

async fn live() -> i32 {
    let (words, queue) = mpsc::unbounded_channel();
    let writer = tokio::spawn(write_words(queue));
    let (last, code) = match serve(&words).await {
        Ok(clean) => (Word::Left { clean }, 0),
        Err(why) => (Word::Failed(why), 1),
    };
    say(&words, last);
    // The writer ends after the last word. If the parent does not read it, it is gone, and nothing is lost.
    let _ = timeout(FLUSH_LIMIT, writer).await;
    code
}

/// Starts the node, obeys orders until `Leave`, and leaves. Whether everything was handed over.
async fn serve(words: &Words) -> Result<bool, String> {
    let listener = TcpListener::bind(("127.0.0.1", 0)).map_err(|error| format!("no port: {error}"))?;
    let address = listener.local_addr().map_err(|error| format!("no address: {error}"))?;
    say(words, Word::Listening { address: address.to_string() });
    let mut orders = orders();
    let start = match timeout(START_LIMIT, orders.recv()).await {
        Ok(Some(Ok(Order::Start(start)))) => start,
        Ok(Some(Ok(order))) => return Err(format!("told {order:?} before the start")),
        Ok(Some(Err(why))) => return Err(why),
        Ok(None) | Err(_) => return Err("never told to start".to_owned()),
    };
    let node = Node::builder("flights")
        .id(NodeId(start.id))
        .listener(listener)
        .voters(start.voters.iter().map(|(id, address)| (NodeId(*id), address.clone())))
        .timing(patient())
        .rebalance_interval(REBALANCE_EVERY)
        .start()
        .await
        .map_err(|error| error.to_string())?;
    tokio::spawn(tell_events(node.events(), words.clone()));
    let aircraft = register(&node, &start).await.map_err(|error| error.to_string())?.within(ASK_LIMIT);
    match timeout(JOIN_LIMIT, node.joined()).await {
        Ok(joined) => joined.map_err(|error| error.to_string())?,
        Err(_) => return Err(format!("not in the cluster after {JOIN_LIMIT:?}: {:?}", node.status())),
    }
    say(words, Word::Joined);

    let mut status = interval(STATUS_EVERY);
    status.set_missed_tick_behavior(MissedTickBehavior::Skip);
    loop {
        tokio::select! {
            order = orders.recv() => match order {
                Some(Ok(Order::Row { seq, tail, row })) => take_row(&aircraft, seq, &tail, row, words),
                Some(Ok(Order::Report { aircraft: at, tail })) => take_report(&aircraft, at, &tail, words),
                Some(Ok(Order::Leave)) => break,
                Some(Ok(Order::Start(_))) => return Err("told to start twice".to_owned()),
                Some(Err(why)) => return Err(why),
                None => return Err("nobody reads orders any more".to_owned()),
            },
            _ = status.tick() => say(words, Word::Status(look(&node))),
        }
    }
    Ok(node.leave_within(LEAVE_LIMIT).await.clean)
}

async fn register(node: &Node, start: &Start) -> Result<Entities<AircraftMessage>, ConfigError> {
    let (shelf, id) = (Shelf::new(&start.shelf), start.id);
    let sharding = node.sharding::<Aircraft>().shards(start.shards).allocation(start.strategy.rule());
    sharding.start_with(move |_: &Identity| Aircraft::new(shelf.clone(), id)).await
}

/// Times for a machine that is busy with something else: a process may stand still for seconds before it loses its session.
/// The price is a longer wait after a kill.
fn patient() -> Timing {
    let mut timing = Timing {
        session: Duration::from_millis(6_000),
        margin: Duration::from_millis(500),
        reign: Duration::from_millis(2_500),
        renew: Duration::from_millis(400),
        candidacy: Duration::from_millis(300),
        drain: Duration::from_millis(10_000),
        ..Timing::lan()
    };
    timing.wait = timing.drifted(timing.session);
    timing.lease = timing.drifted(timing.reign);
    timing.silence = timing.lease;
    timing
}

/// The order in which rows are asked is the order in which they arrive: asking sends at once, only the answer is awaited
/// elsewhere. The parent bounds how many are under way.
fn take_row(aircraft: &Entities<AircraftMessage>, seq: usize, tail: &str, row: Row, words: &Words) {
    let answer = aircraft.ask(tail, row);
    let words = words.clone();
    tokio::spawn(async move {
        let word = match answer.await {
            Ok(settled) => Word::Settled { seq, settled },
            Err(error) => Word::Unsettled { seq, may_have_run: error.may_have_run(), why: error.to_string() },
        };
        say(&words, word);
    });
}

fn take_report(aircraft: &Entities<AircraftMessage>, at: usize, tail: &str, words: &Words) {
    let answer = aircraft.ask(tail, Report);
    let words = words.clone();
    tokio::spawn(async move {
        let report = answer.await.map_err(|error| error.to_string());
        say(&words, Word::Report { aircraft: at, report });
    });
}

fn look(node: &Node) -> NodeStatus {
    let status = node.status();
    NodeStatus {
        live: status.live,
        reigning: status.reigning,
        coordinator: status.coordinator.map(|key| key.id.0),
        owned: status.shards.iter().map(|(_, owned)| *owned).sum(),
        lapses: status.counters.sessions_lost,
    }
}

/// Tells of grants and lapses at once. What strangers or a broken aircraft can cause as often as they like is counted, and
/// told now and then.
async fn tell_events(mut events: EventStream, words: Words) {
    let (mut refusals, mut troubles) = (Tally::default(), Tally::default());
    let mut now_and_then = interval(STATUS_EVERY);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            _ = now_and_then.tick() => {
                tell_counts(&mut refusals, &mut troubles, &words);
                continue;
            }
        };
        match event {
            Some(Event::ShardGained { shard, token, .. }) => say(&words, Word::Gained { shard: shard.0, token }),
            Some(Event::SessionLost) => say(&words, Word::Lapsed),
            Some(Event::PeerRefused { why, .. }) => refusals.add(&kind(&why), 1),
            Some(Event::Missed(count)) => troubles.add("events were missed", count),
            Some(event @ Event::EntityFailed { .. }) => troubles.add(&event.to_string(), 1),
            // For the log: not what the report is about.
            Some(event) => eprintln!("{event:?}"),
            None => return tell_counts(&mut refusals, &mut troubles, &words),
        }
    }
}

fn tell_counts(refusals: &mut Tally, troubles: &mut Tally, words: &Words) {
    for (why, times) in std::mem::take(refusals).list() {
        say(words, Word::Refused { why: why.to_owned(), times });
    }
    for (what, times) in std::mem::take(troubles).list() {
        say(words, Word::Trouble { what: what.to_owned(), times });
    }
}

fn say(words: &Words, word: Word) {
    // Fails only when the writer ended: the parent is gone, and the end of stdin ends this process.
    let _ = words.send(word);
}

/// Writes words as they come, what has queued up in one piece, until the last one.
async fn write_words(mut queue: mpsc::UnboundedReceiver<Word>) {
    let mut output = stdout();
    while let Some(word) = queue.recv().await {
        let mut last = is_last(&word);
        let mut bytes = line(&word);
        while !last && let Ok(word) = queue.try_recv() {
            last = is_last(&word);
            bytes.extend_from_slice(&line(&word));
        }
        if output.write_all(&bytes).await.is_err() || output.flush().await.is_err() || last {
            return;
        }
    }
}

fn is_last(word: &Word) -> bool {
    matches!(word, Word::Left { .. } | Word::Failed(_))
}

/// Reads orders. At the end of stdin nobody is left to work for, whatever this process is doing: it ends at once.
fn orders() -> mpsc::UnboundedReceiver<Result<Order, String>> {
    let (orders, queue) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (mut input, mut buffer) = (BufReader::with_capacity(64 * 1024, stdin()), Vec::new());
        loop {
            let order = match read::<Order>(&mut input, &mut buffer).await {
                Ok(Some(order)) => Ok(order),
                Ok(None) => std::process::exit(0),
                Err(error) => Err(format!("an order cannot be read: {error}")),
            };
            let over = order.is_err();
            if orders.send(order).is_err() || over {
                return;
            }
        }
    });
    queue
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patient_times_are_safe_and_lively() {
        let timing = patient();
        assert_eq!(timing.check(), Ok(()));
        assert_eq!(timing.warnings(Duration::from_millis(100), Duration::from_millis(100)).count(), 0);
    }
}
