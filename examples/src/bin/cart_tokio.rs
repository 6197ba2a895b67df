//! A cart on one node, on tokio: `cargo run -p examples --bin cart_tokio`.

use adapter_tokio::Node;
use examples::cart::Cart;
use examples::shop::shop;
use shard_core::prelude::Failure;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let node = Node::builder("shop").start().await?; // A cluster of this one node.
    let carts = node.sharding::<Cart>().shards(128).start().await?;
    shop(&carts).await?;
    node.leave().await;
    Ok(())
}
