//! What the two programs do with their carts, whatever runs them.

use shard_core::prelude::*;

use crate::cart::{Add, CartMessage, Checkout, View};

/// Fills a cart, looks into it, and buys what is in it.
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
