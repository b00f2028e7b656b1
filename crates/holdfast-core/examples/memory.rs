//! Measures what a lock costs in memory: run it with `--release`.
//!
//! Prints the bytes of heap per held lock, per waiter and per remembered ending, counted by the allocator.

#![allow(clippy::print_stdout, reason = "a report for whoever runs it")]
#![allow(clippy::disallowed_types, reason = "an allocator counts across threads")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use holdfast_core::{
    Acquire, AttemptKey, ClusterTime, Group, Home, LockName, LockTable, Metadata, NodeId, Op, Owner, Ttl,
    Wait,
};

const LOCKS: usize = 100_000;

/// The system's allocator, with a count of the bytes that are out.
struct Counting;

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// What malloc takes for a request: a header of 8 bytes, in steps of 16, at least 32.
fn taken(layout: Layout) -> usize {
    (layout.size() + 8).next_multiple_of(16).max(32)
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(taken(layout), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        LIVE.fetch_sub(taken(layout), Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn key(number: usize, salt: u8) -> AttemptKey {
    // Spread as a hash is: the order of the keys has nothing to do with the order of the attempts.
    let spread = (number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes();
    let mut bytes = [salt; 16];
    bytes[..8].copy_from_slice(&spread);
    AttemptKey(bytes)
}

fn padded(number: usize, len: usize) -> String {
    format!("{number:0len$}")
}

fn acquire(lock: &str, number: usize, salt: u8, owner_len: usize, wait_ms: u64) -> Op {
    Op::Acquire(Acquire {
        lock: LockName::new(lock).expect("digits are a name"),
        key: key(number, salt),
        owner: Owner::new(&padded(number, owner_len)).expect("digits are a label"),
        ttl: Ttl::default(),
        wait: Wait::from_ms(wait_ms).expect("in range"),
        metadata: Metadata::default(),
        home: Home { node: NodeId(1), boot: 1, call: 1 },
    })
}

fn apply(table: &mut LockTable, now: u64, op: Op) {
    let applied = table.apply(&Group { now: ClusterTime(now), ops: vec![op] });
    assert!(applied.outcomes[0].is_ok());
}

/// Bytes per item that `fill` adds to the heap.
fn per_item(fill: impl FnOnce()) -> usize {
    let before = LIVE.load(Relaxed);
    fill();
    (LIVE.load(Relaxed) - before) / LOCKS
}

fn report(name_len: usize, owner_len: usize) {
    let mut table = LockTable::default();
    let names: Vec<_> = (0..LOCKS).map(|n| padded(n.wrapping_mul(7_919) % LOCKS, name_len)).collect();
    let held = per_item(|| {
        for (n, name) in names.iter().enumerate() {
            apply(&mut table, 0, acquire(name, n, 1, owner_len, 0));
        }
    });
    let mut queued = LockTable::default();
    apply(&mut queued, 0, acquire("busy", LOCKS, 2, owner_len, 0));
    let waiter = per_item(|| {
        for n in 0..LOCKS {
            apply(&mut queued, 0, acquire("busy", n, 2, owner_len, 60_000));
        }
    });
    let before = LIVE.load(Relaxed);
    for (n, name) in names.iter().enumerate() {
        let lock = LockName::new(name).expect("digits are a name");
        apply(&mut table, 1, Op::Release { lock, key: key(n, 1) });
    }
    let ending = held - (before - LIVE.load(Relaxed)) / LOCKS;
    println!(
        "names of {name_len} bytes, owners of {owner_len}: a held lock {held} B, a waiter {waiter} B, an ending {ending} B"
    );
}

fn main() {
    report(20, 9);
    report(64, 32);
}
