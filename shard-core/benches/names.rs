//! What an id costs: its hash, its name, its shard, its text. The budget is 15 ns for hash and name of 12 bytes.

use core::{fmt, hint::black_box, num::NonZeroU32, time::Duration};

use criterion::{Criterion, criterion_group, criterion_main};
use shard_core::{
    collections::EntityId,
    hash::{self, ShardHash},
    name::Name,
};

/// Somewhere to write a name to that costs nothing but the writing.
struct Buffer {
    bytes: [u8; 64],
    len: usize,
}

impl fmt::Write for Buffer {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let room = self.bytes.get_mut(self.len..self.len + text.len()).ok_or(fmt::Error)?;
        room.copy_from_slice(text.as_bytes());
        self.len += text.len();
        Ok(())
    }
}

fn names(c: &mut Criterion) {
    let (plain, odd) = ("user-1234567", "user/1234567");
    let shards = NonZeroU32::new(black_box(64)).expect("not zero");
    let mut buffer = Buffer { bytes: [0; 64], len: 0 };
    let mut name = |id: &str| {
        buffer.len = 0;
        Name::of(id).write_to(&mut buffer).expect("the name fits");
        black_box(&buffer).len
    };

    c.bench_function("hash of 12 bytes", |b| b.iter(|| hash::entity(black_box(plain))));
    c.bench_function("hash and name of 12 bytes", |b| {
        b.iter(|| (hash::entity(black_box(plain)), name(black_box(plain))));
    });
    c.bench_function("name with one escape", |b| b.iter(|| name(black_box(odd))));
    c.bench_function("shard, xxh3", |b| b.iter(|| ShardHash::Xxh3.shard(black_box(plain), shards)));
    c.bench_function("shard, seed system", |b| b.iter(|| ShardHash::Fnv1aUtf16.shard(black_box(plain), shards)));

    let (id, long) = (EntityId::new(plain), EntityId::new("user-1234567-abcdefghi"));
    c.bench_function("id in place from text", |b| b.iter(|| EntityId::new(black_box(plain))));
    c.bench_function("id in place compared", |b| b.iter(|| *black_box(&id) == *black_box(plain)));
    c.bench_function("id in place as text, 12 bytes", |b| b.iter(|| black_box(&id).as_str().len()));
    c.bench_function("id in place as text, 22 bytes", |b| b.iter(|| black_box(&long).as_str().len()));
}

criterion_group! {
    name = benches;
    config = Criterion::default()
        .warm_up_time(Duration::from_millis(200))
        .measurement_time(Duration::from_millis(800));
    targets = names
}
criterion_main!(benches);
