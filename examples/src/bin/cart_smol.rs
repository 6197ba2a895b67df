//! The same cart on smol: `cargo run -p examples --bin cart_smol`.

use adapter_smol::Node;
use examples::cart::Cart;
use examples::shop::shop;
use shard_core::prelude::Failure;

fn main() -> Result<(), Failure> {
    smol::block_on(async {
        let node = Node::builder("shop").start().await?; // A cluster of this one node.
        let carts = node.sharding::<Cart>().shards(128).start().await?;
        shop(&carts).await?;
        node.leave().await;
        Ok(())
    })
}
