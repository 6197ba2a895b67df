//! The way back of a question.

use alloc::{boxed::Box, vec::Vec};
use core::{fmt, mem};

use futures_channel::oneshot;

use super::{AskFailure, NoReply, Reason};

/// Where the answer to a question goes. A tell has one too: it leads nowhere.
///
/// [`Handle`](super::Handle) answers by itself. [`HandleDeferred`](super::HandleDeferred) gets this instead and may keep
/// it in the entity's state, or move it into a task. Dropping it unanswered tells the asker [`NoReply::Ended`], so a
/// question never just hangs.
#[must_use = "answer it with `send`; dropping it tells the asker that no answer comes"]
pub struct ReplyTo<R>(Way<R>);

/// Two variants rather than three, as a pointer has room for one more meaning and no two: 8 bytes less in every message.
enum Way<R> {
    /// `None`: nobody asked.
    Here(Option<oneshot::Sender<Result<R, AskFailure>>>),
    There(Box<dyn ReplyPath>, Encode<R>),
}

/// Turns an answer into its bytes; `None` if its own `Serialize` fails.
type Encode<R> = fn(&R) -> Option<Vec<u8>>;

/// How the bytes of an answer get back to the node that asked. Hosts implement it: a link and a correlation number.
pub trait ReplyPath: Send {
    /// Sends the answer, or why there is none. Called at most once; a path dropped without it belongs to a message that
    /// could not be decoded, or that was withdrawn.
    fn answer(self: Box<Self>, body: Result<Vec<u8>, AskFailure>);

    /// Whether anybody still waits for the answer, as far as this node knows.
    fn is_wanted(&self) -> bool {
        true
    }
}

impl<R> ReplyTo<R> {
    /// The way back of a tell.
    pub const fn nobody() -> Self {
        Self(Way::Here(None))
    }

    /// The way back of a question from this process, with the end where the answer arrives. Allocates once.
    pub fn here() -> (Self, oneshot::Receiver<Result<R, AskFailure>>) {
        let (sender, receiver) = oneshot::channel();
        (Self(Way::Here(Some(sender))), receiver)
    }

    /// The way back of a question from another node.
    pub fn there(path: Box<dyn ReplyPath>, encode: fn(&R) -> Option<Vec<u8>>) -> Self {
        Self(Way::There(path, encode))
    }

    /// Answers. An answer that nobody waits for any more is dropped.
    pub fn send(mut self, answer: R) {
        match mem::replace(&mut self.0, Way::Here(None)) {
            Way::Here(None) => {}
            Way::Here(Some(sender)) => drop(sender.send(Ok(answer))),
            Way::There(path, encode) => {
                path.answer(encode(&answer).ok_or(AskFailure::NoReply(NoReply::Undecodable)));
            }
        }
    }

    /// Whether anybody still waits: false for a tell, and for an asker who gave up. Skip costly answers by it.
    #[must_use]
    pub fn is_wanted(&self) -> bool {
        match &self.0 {
            Way::Here(None) => false,
            Way::Here(Some(sender)) => !sender.is_canceled(),
            Way::There(path, _) => path.is_wanted(),
        }
    }

    /// Whether this is the way back of a question, wanted or not.
    #[must_use]
    pub const fn is_ask(&self) -> bool {
        !matches!(self.0, Way::Here(None))
    }

    /// Tells the asker that the question did not run.
    pub fn refuse(self, reason: Reason) {
        self.fail(AskFailure::Undelivered(reason));
    }

    /// Ends this copy of the question in silence: its sender on another node holds the question still. A question from
    /// here has no other copy, so its asker learns [`NoReply::Ended`].
    pub fn withdraw(mut self) {
        drop(mem::replace(&mut self.0, Way::Here(None)));
    }

    /// Ends the question with what came back from the node that took it; `decode` reads the answer's bytes.
    pub fn complete(mut self, body: Result<&[u8], NoReply>, decode: fn(&[u8]) -> Option<R>) {
        match (body, &self.0) {
            (Ok(bytes), Way::Here(Some(_))) => match decode(bytes) {
                Some(answer) => self.send(answer),
                None => self.fail(AskFailure::NoReply(NoReply::Undecodable)),
            },
            // The asker sits on yet another node, which reads the bytes itself.
            (Ok(bytes), _) => {
                if let Way::There(path, _) = mem::replace(&mut self.0, Way::Here(None)) {
                    path.answer(Ok(bytes.into()));
                }
            }
            (Err(why), _) => self.fail(AskFailure::NoReply(why)),
        }
    }

    fn fail(mut self, failure: AskFailure) {
        match mem::replace(&mut self.0, Way::Here(None)) {
            Way::Here(None) => {}
            Way::Here(Some(sender)) => drop(sender.send(Err(failure))),
            Way::There(path, _) => path.answer(Err(failure)),
        }
    }
}

impl<R> Drop for ReplyTo<R> {
    fn drop(&mut self) {
        // Here, the dropped sender says it by itself.
        if let Way::There(path, _) = mem::replace(&mut self.0, Way::Here(None)) {
            path.answer(Err(AskFailure::NoReply(NoReply::Ended)));
        }
    }
}

impl<R> fmt::Debug for ReplyTo<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.0 {
            Way::Here(None) => "ReplyTo(nobody)",
            Way::Here(Some(_)) => "ReplyTo(here)",
            Way::There(..) => "ReplyTo(there)",
        })
    }
}
