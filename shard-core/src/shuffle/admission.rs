//! Admission: fair queues that hold what waits in them.

use alloc::collections::BTreeMap;

use super::fair::{FairConfig, FairInput, FairOutput, FairQueues, FairRequest, Permit};
use crate::machine::{Machine, Outbox};
use crate::time::Instant;

/// What an [`Admission`] hears.
#[derive(PartialEq, Eq, Debug)]
pub enum AdmissionInput<T> {
    /// Something wants to be done.
    Arrived {
        /// The hash of its flow or tenant.
        flow: u64,
        /// How many seats it takes.
        seats: u32,
        /// What it is: a message with its address, say.
        work: T,
    },
    /// It is done, however it ended.
    Finished(Permit),
    /// From now on, another configuration.
    Configured(FairConfig),
}

/// What an [`Admission`] orders.
#[derive(PartialEq, Eq, Debug)]
pub enum AdmissionOutput<T> {
    /// Do it, and give the permit back.
    Admit(Permit, T),
    /// Not now: its tenant has as much waiting as it may. It comes back whole, and has not run.
    Refuse(T),
}

/// Guards whatever stands behind it (an entity type, a region, a store) so that no tenant can take all of it: at most so
/// many at a time, and those that wait take turns by tenant. For the entities of a node there is a [`Guard`](super::Guard),
/// which keeps each entity's messages in order; this is for whatever else a host wants to guard, and keeps no order between
/// the requests of a flow:
///
/// ```
/// use shard_core::machine::Machine;
/// use shard_core::shuffle::{Admission, AdmissionInput, AdmissionOutput, FairConfig, FlowKey};
/// use shard_core::time::Instant;
///
/// # fn main() -> Result<(), shard_core::shuffle::FairConfigError> {
/// let (mut guard, key) = (Admission::new(FairConfig::new(64, 6, 50, 100)?), FlowKey::new(42));
/// let flow = key.hash("carts", "tenant-7"); // The tenant is part of the entity's id, say.
/// let mut out = Vec::new();
/// guard.handle(Instant::ZERO, AdmissionInput::Arrived { flow, seats: 1, work: ("cart-9", "add") }, &mut out);
/// let Some(AdmissionOutput::Admit(permit, (entity, message))) = out.pop() else { panic!("seats are free") };
/// // tell(entity, message), and when its handler has returned or failed:
/// guard.handle(Instant::ZERO, AdmissionInput::Finished(permit), &mut out);
/// # assert_eq!((entity, message), ("cart-9", "add")); Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct Admission<T> {
    queues: FairQueues,
    /// What waits, by the number it was given. The queues bound it.
    held: BTreeMap<u64, T>,
    arrived: u64,
}

impl<T> Admission<T> {
    /// One through which nothing has gone yet.
    #[must_use]
    pub fn new(config: FairConfig) -> Self {
        Self { queues: FairQueues::new(config), held: BTreeMap::new(), arrived: 0 }
    }

    /// The queues, for inspection.
    #[must_use]
    pub const fn queues(&self) -> &FairQueues {
        &self.queues
    }

    fn pass(&mut self, now: Instant, input: FairInput, out: &mut (impl Outbox<AdmissionOutput<T>> + ?Sized)) {
        let Self { queues, held, .. } = self;
        queues.handle(now, input, &mut |output| hand_over(held, output, out));
    }
}

/// Puts the work to the order that concerns it.
fn hand_over<T>(held: &mut BTreeMap<u64, T>, output: FairOutput, out: &mut (impl Outbox<AdmissionOutput<T>> + ?Sized)) {
    let mut take = |id| held.remove(&id).expect("what waits is held");
    out.emit(match output {
        FairOutput::Execute(permit) => {
            let work = take(permit.id());
            AdmissionOutput::Admit(permit, work)
        }
        FairOutput::Reject(id) => AdmissionOutput::Refuse(take(id)),
    });
}

impl<T> Machine for Admission<T> {
    type Input = AdmissionInput<T>;
    type Output = AdmissionOutput<T>;

    /// As [`FairQueues`].
    fn handle(&mut self, now: Instant, input: AdmissionInput<T>, out: &mut (impl Outbox<AdmissionOutput<T>> + ?Sized)) {
        match input {
            AdmissionInput::Arrived { flow, seats, work } => {
                self.arrived += 1;
                self.held.insert(self.arrived, work);
                let request = FairRequest { seats, ..FairRequest::new(self.arrived, flow) };
                self.pass(now, FairInput::Arrived(request), out);
            }
            AdmissionInput::Finished(permit) => self.pass(now, FairInput::Finished(permit), out),
            AdmissionInput::Configured(config) => self.pass(now, FairInput::Configured(config), out),
        }
    }

    fn expire(&mut self, now: Instant, out: &mut (impl Outbox<AdmissionOutput<T>> + ?Sized)) {
        let Self { queues, held, .. } = self;
        queues.expire(now, &mut |output| hand_over(held, output, out));
    }

    fn deadline(&self) -> Option<Instant> {
        self.queues.deadline()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn work_comes_out_admitted_or_refused_and_never_both() {
        let mut guard = Admission::new(FairConfig::new(4, 1, 3, 1).expect("legal"));
        let mut out = Vec::new();
        for work in 0..6 {
            guard.handle(Instant::ZERO, AdmissionInput::Arrived { flow: 9, seats: 1, work }, &mut out);
        }
        let (mut done, mut refused) = (Vec::new(), Vec::new());
        while let Some(output) = out.pop() {
            match output {
                AdmissionOutput::Refuse(work) => refused.push(work),
                AdmissionOutput::Admit(permit, work) => {
                    done.push(work);
                    guard.handle(Instant::ZERO, AdmissionInput::Finished(permit), &mut out);
                }
            }
        }
        // One runs, three wait, two are turned away; those that waited keep their order.
        refused.sort_unstable();
        assert_eq!((&done[..], &refused[..]), (&[0, 1, 2, 3][..], &[4, 5][..]));
        assert!(guard.held.is_empty() && guard.queues().seats_in_use() == 0);
    }
}
