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
/// Buys all that is in it.
#[derive(Serialize, Deserialize)]
pub struct Checkout;
/// What was bought.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
pub struct Receipt {
    /// How many items.
    pub items: usize,
}
/// Why nothing was bought.
#[derive(Serialize, Deserialize, Debug, PartialEq)]
pub enum CheckoutError {
    /// There is nothing in it.
    Empty,
}

messages! {
    /// What a cart understands. A tag is for ever; a new message takes a new one.
    pub enum CartMessage as "cart" {
        1 => Add -> usize,
        2 => View -> Vec<String>,
        3 => Checkout -> Result<Receipt, CheckoutError>,
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
    async fn handle(&mut self, _: Checkout, ctx: &mut Context<'_, Self>) -> Result<Receipt, CheckoutError> {
        if self.items.is_empty() {
            return Err(CheckoutError::Empty);
        }
        ctx.passivate(); // Done: the next message starts a fresh cart.
        Ok(Receipt { items: self.items.len() })
    }
}

/// What the two programs do with their carts, whatever runs them.
///
/// # Errors
/// A message did not reach its cart.
pub async fn shop(carts: &Entities<CartMessage>) -> Result<(), Failure> {
    carts.tell("user-42", Add { sku: "book-1".into() })?; // Returns at once.
    let count = carts.ask("user-42", Add { sku: "pen-7".into() }).await?; // Waits for the answer, in order.
    println!("user-42 has {count} items: {:?}", carts.ask("user-42", View).await?);

    let cart = carts.entity("user-42"); // One entity, to be asked again.
    println!("checking out: {:?}", cart.ask(Checkout).await?);
    println!("and once more: {:?}", cart.ask(Checkout).await?); // A fresh cart by now.
    println!("user-7 has {:?}", carts.ask("user-7", View).await?);
    Ok(())
}

#[cfg(test)]
mod tests {
    use shard_core::testing::Solo;

    use super::*;

    #[test]
    fn a_cart_is_tested_without_a_cluster() {
        let mut cart = Solo::new("user-42", |_| Cart::default());
        assert_eq!(cart.ask(Checkout), Err(CheckoutError::Empty));
        cart.tell(Add { sku: "book-1".into() });
        assert_eq!(cart.ask(View), ["book-1"]);
        assert_eq!(cart.ask(Checkout), Ok(Receipt { items: 1 }));
    }
}
