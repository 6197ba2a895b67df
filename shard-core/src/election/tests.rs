//! Facts about elections. `bench` drives three voters by hand; `world` drives them at random.

mod bench;
mod change;
mod facts;
mod lists;
mod liveness;
mod mutants;
mod world;
