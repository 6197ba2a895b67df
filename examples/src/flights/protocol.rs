//! What parent and nodes say to each other over a node's stdin and stdout: one line of JSON per order or word.

use std::io;
use std::path::PathBuf;

use serde::{Deserialize, Serialize, de::DeserializeOwned};
use shard_core::id::Token;
use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

use super::Strategy;
use super::accounts::AircraftReport;
use super::entity::{Row, Settled};

/// The longest line either side reads, in bytes.
const LINE_MAX: u64 = 1024 * 1024;

/// What the parent orders.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Order {
    /// Start a node of the cluster. The first order, once.
    Start(Start),
    /// Ask the aircraft `tail` to take a row; answered by `Settled` or `Unsettled`.
    Row {
        /// The row's place in the file, by which the answer names it.
        seq: usize,
        /// The aircraft.
        tail: String,
        /// The row.
        row: Row,
    },
    /// Ask the aircraft `tail` for its report; answered by `Report`.
    Report {
        /// The aircraft's place among all, by which the answer names it.
        aircraft: usize,
        /// Its tail number.
        tail: String,
    },
    /// Leave the cluster in good order; answered by `Left`, after which the process ends.
    Leave,
}

/// How a node starts.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Start {
    /// Its id.
    pub(crate) id: u64,
    /// The voters' ids and addresses.
    pub(crate) voters: Vec<(u64, String)>,
    /// How many shards aircraft have.
    pub(crate) shards: u32,
    /// How shards are placed.
    pub(crate) strategy: Strategy,
    /// Where aircraft are saved at planned stops.
    pub(crate) shelf: PathBuf,
}

/// What a node says.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Word {
    /// It will be reached here. The first word, before any order.
    Listening {
        /// Host and port.
        address: String,
    },
    /// It has a session and the cluster took its entity type.
    Joined,
    /// A row was handled.
    Settled {
        /// Which.
        seq: usize,
        /// By whom.
        settled: Settled,
    },
    /// A row was not handled, or nobody knows.
    Unsettled {
        /// Which.
        seq: usize,
        /// Whether a handler may have taken it all the same.
        may_have_run: bool,
        /// Why, in words.
        why: String,
    },
    /// An aircraft's report, or why there is none.
    Report {
        /// Which aircraft.
        aircraft: usize,
        /// What it says.
        report: Result<AircraftReport, String>,
    },
    /// The node gained a shard.
    Gained {
        /// Which.
        shard: u32,
        /// Under which grant.
        token: Token,
    },
    /// Its session lapsed: whatever its aircraft had in memory is gone.
    Lapsed,
    /// It dropped connections because of what came over them.
    Refused {
        /// Why.
        why: String,
        /// How many, since the last such word.
        times: u64,
    },
    /// Something else went wrong.
    Trouble {
        /// What.
        what: String,
        /// How often, since the last such word.
        times: u64,
    },
    /// How it is doing; several times a second.
    Status(NodeStatus),
    /// It has left the cluster; the last word.
    Left {
        /// Whether every shard was handed over in time.
        clean: bool,
    },
    /// It cannot go on; the last word.
    Failed(String),
}

/// How a node is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(crate) struct NodeStatus {
    /// Whether its session lives.
    pub(crate) live: bool,
    /// Whether it is the coordinator.
    pub(crate) reigning: bool,
    /// Whom it takes for the coordinator.
    pub(crate) coordinator: Option<u64>,
    /// How many shards it owns.
    pub(crate) owned: usize,
    /// How often its session lapsed. Each lapse is told by a word of its own as well, at once if nothing floods the events.
    pub(crate) lapses: u64,
}

/// The line that says `message`.
pub(crate) fn line(message: &impl Serialize) -> Vec<u8> {
    let mut line = serde_json::to_vec(message).expect("these types have only text keys and no failing impl");
    line.push(b'\n');
    line
}

/// Reads the next message; none at the end of the stream. `buffer` is only lent. Not safe to cancel: half a line would be
/// lost.
///
/// # Errors
/// Those of `input`; `InvalidData` for a line that is too long, cut short or no message.
pub(crate) async fn read<T: DeserializeOwned>(
    input: &mut (impl AsyncBufRead + Unpin),
    buffer: &mut Vec<u8>,
) -> io::Result<Option<T>> {
    buffer.clear();
    if input.take(LINE_MAX).read_until(b'\n', buffer).await? == 0 {
        return Ok(None);
    }
    let Some(line) = buffer.strip_suffix(b"\n") else {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a line is cut short or too long"));
    };
    Ok(Some(serde_json::from_slice(line)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flights::fold::sample;
    use crate::flights::logbook::Logbook;
    use crate::flights::numbers::Arrival;
    use crate::flights::shelf::life;

    async fn all<T: DeserializeOwned>(mut input: &[u8]) -> io::Result<Vec<T>> {
        let (mut messages, mut buffer) = (vec![], vec![]);
        while let Some(message) = read(&mut input, &mut buffer).await? {
            messages.push(message);
        }
        Ok(messages)
    }

    #[tokio::test]
    async fn orders_arrive_as_given() {
        let start = Start {
            id: 4,
            voters: vec![(1, "127.0.0.1:4000".into())],
            shards: 64,
            strategy: Strategy::Hash,
            shelf: "a \"quoted\"\nplace".into(),
        };
        let row = Row { number: 3, flight: sample(1) };
        let orders = [
            Order::Start(start),
            Order::Row { seq: 7, tail: "N\u{1f6e9}1".into(), row },
            Order::Report { aircraft: 1, tail: "N1".into() },
            Order::Leave,
        ];
        let bytes = orders.iter().flat_map(line).collect::<Vec<_>>();
        assert_eq!(bytes.iter().filter(|byte| **byte == b'\n').count(), orders.len(), "one line each");
        assert_eq!(all::<Order>(&bytes).await.expect("whole"), orders);
    }

    #[tokio::test]
    async fn words_arrive_as_given() {
        let fence = life(u32::MAX, u64::MAX);
        let report = AircraftReport { logbook: Logbook::default(), node: 2 };
        let words = [
            Word::Listening { address: "127.0.0.1:1".into() },
            Word::Joined,
            Word::Settled { seq: 1, settled: Settled { node: 1, fence, arrival: Arrival::Next } },
            Word::Unsettled { seq: 2, may_have_run: true, why: "no answer".into() },
            Word::Report { aircraft: 0, report: Ok(report) },
            Word::Report { aircraft: 0, report: Err("no home".into()) },
            Word::Gained { shard: 3, token: fence.token },
            Word::Lapsed,
            Word::Refused { why: "a line\nbreak".into(), times: 7 },
            Word::Trouble { what: "events were missed".into(), times: 1 },
            Word::Status(NodeStatus { live: true, reigning: true, coordinator: Some(1), owned: 9, lapses: 1 }),
            Word::Left { clean: true },
            Word::Failed("port taken".into()),
        ];
        let bytes = words.iter().flat_map(line).collect::<Vec<_>>();
        assert_eq!(all::<Word>(&bytes).await.expect("whole"), words);
    }

    #[tokio::test]
    async fn half_a_line_before_the_end_is_an_error() {
        let bytes = line(&Order::Leave);
        assert!(all::<Order>(&bytes[..bytes.len() - 1]).await.is_err());
    }

    #[tokio::test]
    async fn a_line_without_end_is_an_error_and_not_kept() {
        let long = vec![b' '; LINE_MAX as usize * 2];
        let mut buffer = vec![];
        assert!(read::<Order>(&mut &long[..], &mut buffer).await.is_err());
        assert!(buffer.len() as u64 <= LINE_MAX);
    }

    #[tokio::test]
    async fn what_is_no_message_is_an_error() {
        assert!(all::<Order>(b"Depart\n").await.is_err());
    }
}
