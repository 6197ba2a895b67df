//! What the `messages!` macro implements. Users read these traits in bounds and errors and never write them.

use alloc::{boxed::Box, vec::Vec};

use super::{Context, Entity, NoReply, Reason, ReplyPath, ReplyTo};

/// The messages of one entity type, as one enum: what a lane queues and a reference is generic over.
pub trait Protocol: Sized + Send + 'static {
    /// The entity type's name, on which all nodes of a cluster agree.
    const TYPE_NAME: &'static str;
    /// Tag and name of each message, as listed. Without wire tags they count from 1.
    const MESSAGES: &'static [(u16, &'static str)];

    /// Its tag, as in [`MESSAGES`](Self::MESSAGES).
    fn tag(&self) -> u16;

    /// Whether it is a question, so that an answer is owed.
    fn is_ask(&self) -> bool;

    /// Ends it without having run: its asker, if any, learns the reason.
    fn refuse(self, reason: Reason);

    /// Drops it without a word to its asker: whoever sent it here holds it still and sends it elsewhere.
    fn withdraw(self);
}

/// Listing `Q` in the `messages!` block makes this; it fixes the type of the answer.
///
/// The answer hangs on the pair, not on the message: one struct may stand in several protocols with different answers.
#[diagnostic::on_unimplemented(
    message = "`{Self}` has no message `{Q}`",
    label = "`{Q}` is not listed",
    note = "list it in the `messages!` block of `{Self}`: `{Q} -> ReplyType`, or `TAG => {Q} -> ReplyType`"
)]
pub trait Accepts<Q>: Protocol {
    /// What the answer is.
    type Reply: Send + 'static;

    /// Puts a message and its way back into the enum.
    #[doc(hidden)]
    fn wrap(message: Q, reply: ReplyTo<Self::Reply>) -> Self;

    /// Takes them out again, after a refusal; `None` if it holds another message.
    #[doc(hidden)]
    fn unwrap(self) -> Option<(Q, ReplyTo<Self::Reply>)>;
}

/// Finds the handler of `E` for each message. Implemented for every entity that handles them all.
pub trait Dispatch<E: Entity>: Protocol {
    /// Runs the handler.
    fn dispatch(self, entity: &mut E, ctx: &mut Context<'_, E>) -> impl Future<Output = ()> + Send;
}

/// Messages that can travel to another node: those of a block with wire tags.
///
/// The body is postcard, which goes by position: a released message never changes. A changed one is a new struct under a
/// new tag, and an enum inside a message grows at its end only.
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't leave this process: its messages have no wire tags",
    note = "write the list with tags, `1 => Add -> usize, …`, and keep each tag for ever"
)]
pub trait Wire: Protocol {
    /// Appends the body to `out` and returns the tag. May be called again for a resend; the bytes are the same.
    ///
    /// If the message's own `Serialize` fails, nothing is appended and the owner refuses it as [`Reason::Garbled`].
    fn encode(&self, out: &mut Vec<u8>) -> u16;

    /// Ends a message that was sent away with what came back: the answer's bytes, or why none will come. For a tell
    /// there is nothing to do.
    fn complete(self, body: Result<&[u8], NoReply>);

    /// Reads what [`encode`](Self::encode) wrote; `reply` is the way back if it is a question. Trailing bytes are
    /// refused. On error `reply` is dropped unused: the caller says [`DecodeError::reason`] to the sender.
    fn decode(tag: u16, body: &[u8], reply: Option<Box<dyn ReplyPath>>) -> Result<Self, DecodeError>;
}

/// Why a body did not become a message.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DecodeError {
    /// This build does not list the tag.
    UnknownMessage,
    /// The bytes are not that message.
    Garbled,
}

impl DecodeError {
    /// What the sender is told.
    #[must_use]
    pub const fn reason(self, tag: u16) -> Reason {
        match self {
            Self::UnknownMessage => Reason::UnknownMessage { tag },
            Self::Garbled => Reason::Garbled { tag },
        }
    }
}

/// What can be a message or an answer between nodes: owned, and serde in both directions.
#[cfg(feature = "wire")]
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't travel to another node",
    label = "needs `#[derive(Serialize, Deserialize)]` and no borrowed fields"
)]
pub trait Travels: serde::Serialize + serde::de::DeserializeOwned {}

#[cfg(feature = "wire")]
#[diagnostic::do_not_recommend]
impl<T: serde::Serialize + serde::de::DeserializeOwned> Travels for T {}
