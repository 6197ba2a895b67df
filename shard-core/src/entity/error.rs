//! Why a message did not run, or why no answer came. Every error says whether the handler may have run.

use alloc::boxed::Box;
use core::{error::Error, fmt};

use crate::time::Duration;

/// What an entity gives as the cause of a restart: any error, so that `?` takes it, strings included.
pub type Failure = Box<dyn Error + Send + Sync>;

/// Why a message was not handled. Whoever gets a `Reason` may send again: the handler did not run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Reason {
    /// A bounded queue had no room. [`Entities::send`](super::Entities::send) waits for room instead.
    Full(Bound),
    /// No node hosts the entity's shard.
    NoHome,
    /// The node that was to take it is leaving.
    Stopping,
    /// The entity's node was not reached in time, or the entity could not be started.
    Unavailable,
    /// The deadline passed before a handler took the message.
    Expired,
    /// The entity is on another node, and the encoded message is longer than may travel there: 1 MiB on the nodes of the
    /// adapters, the entity's id included. While the entity is on the same node, nothing is encoded, and any size goes.
    TooLarge {
        /// Its length; 0 when it was another node that refused.
        bytes: u32,
        /// The limit; 0 when it was another node that refused.
        limit: u32,
    },
    /// No node of the cluster registered this entity type.
    NoSuchType,
    /// The owner runs a build whose `messages!` block does not list this tag.
    UnknownMessage {
        /// The wire tag.
        tag: u16,
    },
    /// The owner's build reads the bytes under this tag as something else.
    Garbled {
        /// The wire tag.
        tag: u16,
    },
}

/// Which queue was full.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum Bound {
    /// The entity's own mailbox.
    Entity,
    /// What waits for the shard to find its home or to finish its move.
    Shard,
    /// The inbox of the lane that the shard belongs to.
    Lane,
    /// What waits to go out to the owner's node.
    Link,
    /// Questions that wait for their answer.
    Asks,
    /// What may wait for the entity's tenant, on a node that guards the type by tenant.
    Tenant,
    /// The entities of the type that are being put to sleep on the node: as many as may be awake, and the entity would have to
    /// be woken.
    Stopping,
    /// What may wait for the workers of a pool ([`workers`](crate::workers)) together.
    Workers,
}

impl Reason {
    /// The reason in a frame: its number, and a detail (the tag or the bound) where it has one. Sizes do not travel.
    #[must_use]
    pub const fn to_wire(self) -> (u8, u16) {
        match self {
            Self::Full(bound) => (1, bound as u16),
            Self::NoHome => (2, 0),
            Self::Stopping => (3, 0),
            Self::Unavailable => (4, 0),
            Self::Expired => (5, 0),
            Self::TooLarge { .. } => (6, 0),
            Self::NoSuchType => (7, 0),
            Self::UnknownMessage { tag } => (8, tag),
            Self::Garbled { tag } => (9, tag),
        }
    }

    /// Reads what [`to_wire`](Self::to_wire) wrote. A number from a later build reads as [`Reason::Unavailable`].
    #[must_use]
    pub const fn from_wire(number: u8, detail: u16) -> Self {
        match number {
            1 => Self::Full(match detail {
                0 => Bound::Entity,
                1 => Bound::Shard,
                3 => Bound::Link,
                4 => Bound::Asks,
                5 => Bound::Tenant,
                6 => Bound::Stopping,
                7 => Bound::Workers,
                _ => Bound::Lane,
            }),
            2 => Self::NoHome,
            3 => Self::Stopping,
            5 => Self::Expired,
            6 => Self::TooLarge { bytes: 0, limit: 0 },
            7 => Self::NoSuchType,
            8 => Self::UnknownMessage { tag: detail },
            9 => Self::Garbled { tag: detail },
            _ => Self::Unavailable,
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(bound) => write!(f, "{bound}"),
            Self::NoHome => f.write_str("no node hosts the entity's shard"),
            Self::Stopping => f.write_str("this node is leaving"),
            Self::Unavailable => f.write_str("the entity could not be reached"),
            Self::Expired => f.write_str("its deadline passed before a handler took it"),
            Self::TooLarge { limit: 0, .. } => f.write_str("it is longer than the limit"),
            Self::TooLarge { bytes, limit } => write!(f, "its {bytes} bytes are more than the limit of {limit}"),
            Self::NoSuchType => {
                f.write_str("no node in the cluster registered this type, or with another number of shards")
            }
            Self::UnknownMessage { tag } => write!(f, "the owner's build does not know message {tag}"),
            Self::Garbled { tag } => write!(f, "the owner's build could not read message {tag}"),
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Entity => "the entity's queue is full",
            Self::Shard => "the shard's queue is full",
            Self::Lane => "the lane's queue is full",
            Self::Link => "the link to the owner is full",
            Self::Asks => "too many questions wait for an answer",
            Self::Tenant => "the entity's tenant has as much waiting as it may",
            Self::Stopping => "too many entities of the type are still being put to sleep",
            Self::Workers => "as many messages wait for the pool's workers as may",
        })
    }
}

impl Error for Reason {}

/// A message that was refused at once and comes back. It did not run, and nothing else holds it.
///
/// Debug, Display and Error ask nothing of `Q`, so `?` works for every message.
#[must_use = "the message was not sent; it is in here"]
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Refused<Q> {
    /// The message.
    pub message: Q,
    /// Why.
    pub reason: Reason,
}

impl<Q> From<Refused<Q>> for Reason {
    fn from(refused: Refused<Q>) -> Self {
        refused.reason
    }
}

impl<Q> fmt::Debug for Refused<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Refused").field("reason", &self.reason).finish_non_exhaustive()
    }
}

impl<Q> fmt::Display for Refused<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "message not sent: {}", self.reason)
    }
}

impl<Q> Error for Refused<Q> {}

/// Why an ask has no answer.
#[non_exhaustive]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum AskError<Q> {
    /// Refused at once; the message is inside. It did not run.
    Refused(Refused<Q>),
    /// Accepted, and turned back later. It did not run.
    Undelivered(Reason),
    /// It may have run.
    NoReply(NoReply),
}

impl<Q> AskError<Q> {
    /// Whether the handler may have run: if not, asking again is safe whatever the message does.
    #[must_use]
    pub const fn may_have_run(&self) -> bool {
        matches!(self, Self::NoReply(_))
    }

    /// Why it did not run; `None` if it may have.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        match self {
            Self::Refused(refused) => Some(refused.reason),
            Self::Undelivered(reason) => Some(*reason),
            Self::NoReply(_) => None,
        }
    }
}

impl<Q> From<AskFailure> for AskError<Q> {
    fn from(failure: AskFailure) -> Self {
        match failure {
            AskFailure::Undelivered(reason) => Self::Undelivered(reason),
            AskFailure::NoReply(why) => Self::NoReply(why),
        }
    }
}

impl<Q> fmt::Debug for AskError<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => f.debug_tuple("Refused").field(&refused.reason).finish(),
            Self::Undelivered(reason) => f.debug_tuple("Undelivered").field(reason).finish(),
            Self::NoReply(why) => f.debug_tuple("NoReply").field(why).finish(),
        }
    }
}

impl<Q> fmt::Display for AskError<Q> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => write!(f, "question not sent: {}", refused.reason),
            Self::Undelivered(reason) => write!(f, "question not delivered: {reason}"),
            Self::NoReply(why) => write!(f, "{why}"),
        }
    }
}

impl<Q> Error for AskError<Q> {}

/// Why no answer came to a question that may have run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[non_exhaustive]
pub enum NoReply {
    /// The asker's limit passed.
    Expired {
        /// The limit.
        after: Duration,
    },
    /// The entity ended (stopped, panicked, lost its shard) or dropped its [`ReplyTo`](super::ReplyTo).
    Ended,
    /// The owner's process was lost after the question went out.
    Disconnected,
    /// The answer's bytes read as something else here, or could not be written there.
    Undecodable,
}

impl fmt::Display for NoReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Expired { after } => write!(f, "no reply: no answer within {after:?}")?,
            Self::Ended => f.write_str("no reply: the entity ended or dropped the question without answering")?,
            Self::Disconnected => f.write_str("no reply: the entity's node was lost")?,
            Self::Undecodable => f.write_str("no reply: the answer could not be read")?,
        }
        f.write_str(" (it may have run)")
    }
}

impl Error for NoReply {}

/// Why an ask has no answer, without the message: what travels from the entity's side to the asker's.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum AskFailure {
    /// The handler did not run.
    Undelivered(Reason),
    /// The handler may have run.
    NoReply(NoReply),
}

/// What became of a tell that was accepted and then did not end in a handler, as far as the sender can know.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Fate {
    /// It did not run.
    NotRun(Reason),
    /// It may or may not have run; it is never sent again behind the sender's back.
    InDoubt,
}

impl fmt::Display for Fate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotRun(reason) => write!(f, "not delivered: {reason}"),
            Self::InDoubt => f.write_str("in doubt: it may or may not have run"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_reason_survives_the_wire_but_for_its_sizes() {
        let bounds = [
            Bound::Entity,
            Bound::Shard,
            Bound::Lane,
            Bound::Link,
            Bound::Asks,
            Bound::Tenant,
            Bound::Stopping,
            Bound::Workers,
        ];
        let tagged = [Reason::UnknownMessage { tag: 9 }, Reason::Garbled { tag: 65_535 }];
        let plain = [Reason::NoHome, Reason::Stopping, Reason::Unavailable, Reason::Expired, Reason::NoSuchType];
        for reason in bounds.map(Reason::Full).into_iter().chain(tagged).chain(plain) {
            let (number, detail) = reason.to_wire();
            assert_eq!(Reason::from_wire(number, detail), reason);
        }
        let (number, detail) = Reason::TooLarge { bytes: 9, limit: 8 }.to_wire();
        assert_eq!(Reason::from_wire(number, detail), Reason::TooLarge { bytes: 0, limit: 0 });
        assert_eq!(Reason::from_wire(200, 3), Reason::Unavailable);
    }

    #[test]
    fn errors_read_as_promised_and_ask_nothing_of_the_message() {
        struct Bare;
        let refused = Refused { message: Bare, reason: Reason::Full(Bound::Entity) };
        assert_eq!(refused.to_string(), "message not sent: the entity's queue is full");
        let unknown = AskError::<Bare>::Undelivered(Reason::UnknownMessage { tag: 9 });
        assert_eq!(unknown.to_string(), "question not delivered: the owner's build does not know message 9");
        assert!(!unknown.may_have_run());
        let late = AskError::<Bare>::NoReply(NoReply::Expired { after: Duration::from_millis(5) });
        assert_eq!(late.to_string(), "no reply: no answer within 5ms (it may have run)");
        assert!(late.may_have_run() && late.reason().is_none());
        let boxed: Failure = Box::new(late);
        assert!(boxed.to_string().ends_with("(it may have run)"));
    }
}
