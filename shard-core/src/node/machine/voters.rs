//! The voters change while the cluster runs (V1-V6). What is safe about it stands in `election/change.rs`.

use alloc::string::String;
use alloc::vec::Vec;

use super::{Node, Peer};
use crate::coordinator;
use crate::election::VoterChangeError;
use crate::id::{NodeId, NodeKey, Term};
use crate::machine::Outbox;
use crate::node::Output;
use crate::time::Instant;
use crate::wire::Control;

impl Node {
    /// Goes on to the next set of voters, `version`, which differs from the one that runs here by one voter. Every node is
    /// told by its operator, in any order and at any time; the ones that are voters before or after should be told first.
    /// The set that runs already changes nothing. [`Output::VotersInForce`] says when the version after may be loaded.
    ///
    /// # Errors
    /// The step is too large, or comes too early; nothing has changed then.
    pub fn load_voters(
        &mut self,
        now: Instant,
        version: u32,
        voters: Vec<(NodeId, String)>,
        out: &mut (impl Outbox<Output> + ?Sized),
    ) -> Result<(), VoterChangeError> {
        let mut said = Vec::new();
        self.election.load(now, version, voters.iter().map(|(id, _)| *id).collect(), &mut said)?;
        for (id, address) in &voters {
            self.learn_address(*id, address);
        }
        (self.config.version, self.config.voters) = (version, voters);
        self.election_says(now, said, out);
        self.settle(now, out);
        Ok(())
    }

    /// Which set of voters runs here.
    #[must_use]
    pub fn voters_version(&self) -> u32 {
        self.config.version
    }

    /// Somebody that knows only voters of old asks one of them who reigns. It votes no more, but says whom it is registered
    /// with: a hint, like a voter's.
    pub(super) fn point_on(&mut self, from: NodeKey, out: &mut (impl Outbox<Output> + ?Sized)) {
        let other = |term: &Term| term.node.id != self.config.me.id && term.node.id != from.id;
        if !self.election.config().votes()
            && self.session.is_open()
            && let Some(term) = self.session.term().filter(other)
        {
            let address = self.addresses.get(&term.node.id).cloned().unwrap_or_default();
            self.send(Peer::Key(from), Control::Reign { term, address }, out);
        }
    }

    /// A version of the voters is in force: the allocator tells everybody else.
    pub(super) fn in_force(&mut self, now: Instant, version: u32, out: &mut (impl Outbox<Output> + ?Sized)) {
        self.tell_allocator(now, coordinator::Input::Committed { version }, out);
        out.emit(Output::VotersInForce { version });
    }
}
