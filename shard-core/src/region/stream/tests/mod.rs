//! Streams: rule by rule, and in a mini-world where everything goes wrong.

mod incoming;
mod net;
mod node;
mod outgoing;
mod swarm;
mod world;

use crate::id::{Incarnation, NodeId, NodeKey, Token};
use crate::machine::{Fixed, Rules};

use super::StreamConfig;

fn key(id: u64, incarnation: u64) -> NodeKey {
    NodeKey { id: NodeId(id), incarnation: Incarnation(incarnation) }
}

fn token(number: u32) -> Token {
    Token { counter: 1, node: NodeId(9), number }
}

fn config(rules: Rules) -> Fixed<StreamConfig> {
    Fixed::new(StreamConfig { rules, ..StreamConfig::default() })
}
