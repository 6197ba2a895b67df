//! Memory in one piece, given out once.

use core::alloc::{GlobalAlloc, Layout};
use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

const SIZE: usize = 16 << 20;

#[repr(align(4096))]
struct Pool(UnsafeCell<[u8; SIZE]>);

// SAFETY: the bytes are reached only through the allocator, which gives out each of them once.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(UnsafeCell::new([0; SIZE]));
static USED: AtomicUsize = AtomicUsize::new(0);

struct Bump;

#[global_allocator]
static HEAP: Bump = Bump;

// SAFETY: every allocation is a part of the pool of its own, aligned as asked; none is given out again.
unsafe impl GlobalAlloc for Bump {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let base = POOL.0.get() as usize;
        let mut start = 0;
        let taken = USED.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |used| {
            start = (base + used).next_multiple_of(layout.align()) - base;
            start.checked_add(layout.size()).filter(|end| *end <= SIZE)
        });
        if taken.is_ok() { POOL.0.get().cast::<u8>().wrapping_add(start) } else { ptr::null_mut() }
    }

    unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}
}

/// Bytes given out since the start.
pub fn used() -> usize {
    USED.load(Ordering::Relaxed)
}
