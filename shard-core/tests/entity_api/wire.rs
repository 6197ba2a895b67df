//! The cart: its messages between two nodes, as bytes.

use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use shard_core::entity::{AskFailure, DecodeError, Protocol, ReplyPath, Wire, host::run_now};
use shard_core::prelude::*;
use shard_core::testing::Solo;

use crate::references::post;

#[derive(Serialize, Deserialize)]
pub struct Add {
    pub sku: String,
}
#[derive(Serialize, Deserialize)]
pub struct View;
#[derive(Serialize, Deserialize)]
pub struct Checkout;
#[derive(Serialize, Deserialize, Debug, PartialEq)]
pub struct Receipt {
    pub items: usize,
}
#[derive(Serialize, Deserialize, Debug, PartialEq)]
pub enum CheckoutError {
    Empty,
}

messages! {
    /// What a cart understands. Tags are for ever; a new message takes a new one.
    pub enum CartMessage as "cart" {
        1 => Add -> usize,
        2 => View -> Vec<String>,
        /// Not the next number: tags need not be dense.
        7 => Checkout -> Result<Receipt, CheckoutError>,
    }
}

#[derive(Default)]
pub struct Cart {
    items: Vec<String>,
}

impl Entity for Cart {
    type Message = CartMessage;
}
impl Handle<Add> for Cart {
    async fn handle(&mut self, Add { sku }: Add, _: &mut Context<'_, Self>) -> usize {
        self.items.push(sku);
        self.items.len()
    }
}
impl Handle<View> for Cart {
    async fn handle(&mut self, _: View, _: &mut Context<'_, Self>) -> Vec<String> {
        self.items.clone()
    }
}
impl Handle<Checkout> for Cart {
    async fn handle(&mut self, _: Checkout, ctx: &mut Context<'_, Self>) -> Result<Receipt, CheckoutError> {
        if self.items.is_empty() {
            return Err(CheckoutError::Empty);
        }
        ctx.passivate();
        Ok(Receipt { items: self.items.len() })
    }
}

#[test]
fn a_cart_is_filled_and_checked_out() {
    let mut cart = Solo::new("user-42", |_| Cart::default());
    assert_eq!(cart.ask(Checkout), Err(CheckoutError::Empty));
    assert_eq!(cart.ask(Add { sku: "book-1".into() }), 1);
    assert_eq!(cart.ask(View), ["book-1"]);
    assert_eq!(cart.ask(Checkout), Ok(Receipt { items: 1 }));
    assert!(!cart.is_awake());
    assert!(cart.ask(View).is_empty());
}

#[test]
fn a_question_crosses_and_its_answer_comes_back() {
    let (carts, here) = post::<CartMessage>(9);
    let asked = carts.ask("user-42", Add { sku: "pen".into() });
    let kept = here.take();

    let mut frame = vec![0xEE];
    let tag = kept.encode(&mut frame);
    let mut again = Vec::new();
    assert_eq!((tag, kept.encode(&mut again)), (1, 1));
    assert_eq!(frame[1..], again, "appended, and the same for a resend");
    assert!(kept.is_ask());

    let path = Path::default();
    let arrived = CartMessage::decode(tag, &again, Some(Box::new(path.clone()))).unwrap();
    assert!(arrived.is_ask());
    let (Add { sku }, reply) = shard_core::entity::Accepts::unwrap(arrived).unwrap();
    assert_eq!(sku, "pen");
    reply.send(300);
    let Some(Ok(bytes)) = path.take() else { panic!("no answer") };

    kept.complete(Ok(&bytes));
    assert!(matches!(run_now(asked), Some(Ok(300))));
}

#[test]
fn a_tell_crosses_without_a_way_back() {
    let (carts, here) = post::<CartMessage>(9);
    carts.tell("user-42", View).unwrap();
    let kept = here.take();
    let mut body = Vec::new();
    assert_eq!(kept.encode(&mut body), 2);
    assert!(!kept.is_ask());
    assert!(!CartMessage::decode(2, &body, None).unwrap().is_ask());
    kept.complete(Err(NoReply::Disconnected));
}

#[test]
fn a_lost_owner_leaves_the_question_in_doubt() {
    let (carts, here) = post::<CartMessage>(9);
    let asked = carts.ask("user-42", View);
    here.take().complete(Err(NoReply::Disconnected));
    let error = run_now(asked).unwrap().unwrap_err();
    assert_eq!(error.to_string(), "no reply: the entity's node was lost (it may have run)");
    assert!(error.may_have_run());
}

#[test]
fn an_answer_that_reads_as_something_else_is_said_so() {
    let (carts, here) = post::<CartMessage>(9);
    let asked = carts.ask("user-42", View);
    here.take().complete(Ok(&[9]));
    assert!(matches!(run_now(asked), Some(Err(AskError::NoReply(NoReply::Undecodable)))));
}

#[test]
fn unknown_tags_and_foreign_bytes_are_told_apart() {
    let path = Path::default();
    let decode = |tag, body: &[u8]| CartMessage::decode(tag, body, Some(Box::new(path.clone()))).unwrap_err();
    assert_eq!(decode(3, &[]), DecodeError::UnknownMessage);
    assert_eq!(decode(1, &[4, b'b']), DecodeError::Garbled, "too short");
    assert_eq!(decode(1, &[1, b'b', 0]), DecodeError::Garbled, "bytes left over");
    assert_eq!(decode(1, &[1, 0xFF]), DecodeError::Garbled, "not UTF-8");
    assert_eq!(decode(3, &[]).reason(3), Reason::UnknownMessage { tag: 3 });
    assert_eq!(decode(1, &[]).reason(1), Reason::Garbled { tag: 1 });
    assert_eq!(path.take(), None, "the one who decodes tells the sender");
}

#[test]
fn every_question_from_afar_ends() {
    let ask = |path: &Path| CartMessage::decode(2, &[], Some(Box::new(path.clone()))).unwrap();
    let path = Path::default();
    drop(ask(&path));
    assert_eq!(path.take(), Some(Err(AskFailure::NoReply(NoReply::Ended))));
    ask(&path).refuse(Reason::Stopping);
    assert_eq!(path.take(), Some(Err(AskFailure::Undelivered(Reason::Stopping))));
    ask(&path).complete(Ok(&[1, 2]));
    assert_eq!(path.take(), Some(Ok(vec![1, 2])), "an answer passed on is not read on the way");
    ask(&path).complete(Err(NoReply::Disconnected));
    assert_eq!(path.take(), Some(Err(AskFailure::NoReply(NoReply::Disconnected))));
}

#[test]
fn tags_and_names_are_as_listed() {
    assert_eq!(CartMessage::MESSAGES, [(1, "Add"), (2, "View"), (7, "Checkout")]);
    let checkout = CartMessage::decode(7, &[], None).unwrap();
    assert_eq!((checkout.tag(), format!("{checkout:?}")), (7, "CartMessage::Checkout".into()));
}

#[test]
fn the_bytes_of_a_message_are_pinned() {
    let (carts, here) = post::<CartMessage>(9);
    carts.tell("u", Add { sku: "ab".into() }).unwrap();
    let mut body = Vec::new();
    here.take().encode(&mut body);
    assert_eq!(body, [2, b'a', b'b']);
}

/// A message whose `Serialize` gives up half way.
struct Shy;
impl Serialize for Shy {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::{Error, SerializeTuple};
        serializer.serialize_tuple(2)?.serialize_element(&7_u8)?;
        Err(S::Error::custom("no"))
    }
}
impl<'de> Deserialize<'de> for Shy {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        <(u8, u8)>::deserialize(deserializer).map(|_| Self)
    }
}

#[test]
fn what_cannot_be_written_leaves_no_half_body() {
    // In a module of its own, as the message is private.
    mod shy {
        use super::*;
        messages! { pub(super) enum ShyMessage as "shy" { 1 => Shy -> Shy } }
    }
    use shy::ShyMessage;
    let (shys, here) = post::<ShyMessage>(9);
    shys.tell("s", Shy).unwrap();
    let mut frame = vec![1, 2, 3];
    here.take().encode(&mut frame);
    assert_eq!(frame, [1, 2, 3]);

    let path = Path::default();
    let asked = ShyMessage::decode(1, &[0, 0], Some(Box::new(path.clone()))).unwrap();
    shard_core::entity::Accepts::unwrap(asked).unwrap().1.send(Shy);
    assert_eq!(path.take(), Some(Err(AskFailure::NoReply(NoReply::Undecodable))));
}

/// The way back to the asking node: keeps what it was given.
#[derive(Clone, Default)]
struct Path(Arc<Mutex<Option<Answer>>>);

type Answer = Result<Vec<u8>, AskFailure>;

impl Path {
    fn take(&self) -> Option<Answer> {
        self.0.lock().unwrap().take()
    }
}

impl ReplyPath for Path {
    fn answer(self: Box<Self>, body: Answer) {
        assert!(self.0.lock().unwrap().replace(body).is_none(), "answered twice");
    }
}
