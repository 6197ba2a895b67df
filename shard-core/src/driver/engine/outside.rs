//! What the loop around an engine supplies.

use alloc::string::String;

use super::super::Event;
use crate::entity::{EntityId, Fate, Reason};
use crate::id::NodeKey;
use crate::node::Peer;
use crate::region::lane::{DataHead, Receipt};
use crate::wire::Control;

/// The world around an engine: peers, callers, operators. The engine does all that concerns its entities. The methods mean
/// what those of [`Host`](crate::driver::Host) mean.
pub trait Outside<M> {
    /// How many bytes the message will be on the wire.
    ///
    /// # Errors
    /// [`Reason::TooLarge`].
    fn weigh(&mut self, message: &M) -> Result<u32, Reason>;
    /// Send a control frame; it may be lost.
    fn control(&mut self, to: Peer, message: Control);
    /// Send one message over the reliable link.
    fn transmit(&mut self, to: NodeKey, head: DataHead, id: &EntityId, body: &M);
    /// Send one receipt over the same link.
    fn receipt(&mut self, to: NodeKey, receipt: Receipt<'_>);
    /// That process listens there.
    fn reach(&mut self, node: NodeKey, address: String);
    /// That process is gone for good.
    fn gone(&mut self, node: NodeKey);
    /// The wall clock: milliseconds since 1970.
    fn wall(&mut self) -> u64;

    /// A tell met its fate, or an ask is in doubt. (An ask that did not run was refused by the engine already; one that is
    /// in doubt says [`NoReply::Ended`](crate::entity::NoReply::Ended) when dropped.)
    fn undelivered(&mut self, id: &EntityId, message: M, fate: Fate) {
        let _ = (id, message, fate);
    }
    /// An entity panicked, failed to start or asked for a restart; it starts again after a pause.
    fn failed(&mut self, id: &EntityId, why: &str) {
        let _ = (id, why);
    }
    /// Something happened; nothing is owed.
    fn event(&mut self, event: Event) {
        let _ = event;
    }
}

/// No peers: the outside of a node that is [alone](crate::node::NodeConfig::alone).
#[derive(Clone, Copy, Debug, Default)]
pub struct Alone {
    /// The wall clock when the process started, in milliseconds since 1970: tokens grow from one life of the node to the
    /// next by it. 0 if nothing that outlives the process compares them.
    pub wall: u64,
}

impl<M> Outside<M> for Alone {
    fn weigh(&mut self, _: &M) -> Result<u32, Reason> {
        Ok(0)
    }
    fn control(&mut self, _: Peer, _: Control) {}
    fn transmit(&mut self, _: NodeKey, _: DataHead, _: &EntityId, _: &M) {}
    fn receipt(&mut self, _: NodeKey, _: Receipt<'_>) {}
    fn reach(&mut self, _: NodeKey, _: String) {}
    fn gone(&mut self, _: NodeKey) {}
    fn wall(&mut self) -> u64 {
        self.wall
    }
}
