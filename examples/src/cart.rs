//! A shopping cart: the entity that the README shows, the same on every runtime.

use serde::{Deserialize, Serialize};
use shard_core::prelude::*;

/// Puts an item in; answers with how many there are.
#[derive(Serialize, Deserialize)]
pub struct Add {
    /// What to put in.
    pub sku: String,
}
/// Asks what is in it.
#[derive(Serialize, Deserialize)]
pub struct View;
/// Buys all that is in it; answers with how many items that were.
#[derive(Serialize, Deserialize)]
pub struct Checkout;
/// Why nothing was bought.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
pub struct Empty;

messages! {
    /// What a cart understands. A tag is for ever; a new message takes a new one.
    pub enum CartMessage as "cart" {
        1 => Add -> usize,
        2 => View -> Vec<String>,
        3 => Checkout -> Result<usize, Empty>,
    }
}

/// One user's cart.
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
    async fn handle(&mut self, _: Checkout, ctx: &mut Context<'_, Self>) -> Result<usize, Empty> {
        ctx.passivate(); // Done either way: the next message starts a fresh cart.
        if self.items.is_empty() { Err(Empty) } else { Ok(self.items.len()) }
    }
}

#[cfg(test)]
mod tests {
    use shard_core::testing::Solo;

    use super::*;

    #[test]
    fn a_cart_is_tested_without_a_cluster() {
        let mut cart = Solo::new("user-42", |_| Cart::default());
        assert_eq!(cart.ask(Checkout), Err(Empty));
        cart.tell(Add { sku: "book-1".into() });
        assert_eq!(cart.ask(View), ["book-1"]);
        assert_eq!(cart.ask(Checkout), Ok(1));
        assert_eq!(cart.ask(Checkout), Err(Empty), "a fresh cart");
    }

    #[test]
    fn it_is_about_sixty_lines() {
        let entity = include_str!("cart.rs").split("\n#[cfg(test)]").next().map_or(0, |text| text.lines().count());
        assert!(entity <= 64, "{entity} lines");
    }
}
