//! What the rules cost: one operation on a table of 100,000 locks, and the snapshot of all of it.

#![allow(clippy::disallowed_types, reason = "divan keeps its list of benchmarks in a static")]

use divan::Bencher;
use divan::counter::ItemsCount;
use holdfast_core::{
    Acquire, AttemptKey, ClusterTime, EncodedOp, Group, GroupEncoder, Home, LockName, LockTable, Metadata,
    NodeId, Op, Owner, SnapshotReader, Ttl, Wait,
};

const LOCKS: u64 = 100_000;
const GROUP_LEN: u64 = 128;

fn main() {
    divan::main();
}

fn key(number: u64) -> AttemptKey {
    // Spread as a hash is: the order of the keys has nothing to do with the order of the attempts.
    let spread = u128::from(number.wrapping_mul(0x9e37_79b9_7f4a_7c15)) << 64 | u128::from(number);
    AttemptKey(spread.to_be_bytes())
}

fn name(number: u64) -> LockName {
    LockName::new(&format!("warehouse/{:09}", number.wrapping_mul(7_919) % 1_000_003)).expect("it is short")
}

fn attempt(lock: LockName, number: u64, wait_ms: u64) -> Op {
    Op::Acquire(Acquire {
        lock,
        key: key(number),
        owner: Owner::new("worker-17.rack-4.example").expect("it is short"),
        ttl: Ttl::default(),
        wait: Wait::from_ms(wait_ms).expect("in range"),
        metadata: Metadata::default(),
        home: Home { node: NodeId(number % 3 + 1), boot: 1, call: 7 },
    })
}

fn release(lock: LockName, number: u64) -> Op {
    Op::Release { lock, key: key(number) }
}

fn group(now: u64, ops: Vec<Op>) -> Group {
    Group { now: ClusterTime(now), ops }
}

/// A table with [`LOCKS`] held locks, whose attempts have the numbers below [`LOCKS`].
fn full_table() -> LockTable {
    let mut table = LockTable::default();
    for first in (0..LOCKS).step_by(500) {
        let ops = (first..first + 500).map(|n| attempt(name(n), n, 0)).collect();
        table.apply(&group(0, ops));
    }
    table
}

/// Acquire and release of a lock of one's own, in groups of 128 operations. One item is one pair.
#[divan::bench]
fn own_lock_pair(bencher: Bencher) {
    let mut table = full_table();
    let mut next = LOCKS;
    let mut now = 0;
    bencher
        .counter(ItemsCount::new(GROUP_LEN / 2))
        .with_inputs(|| {
            let numbers = next..next + GROUP_LEN / 2;
            next = numbers.end;
            now += 1;
            let taken: Vec<_> = numbers.clone().map(|n| attempt(name(n), n, 0)).collect();
            let given: Vec<_> = numbers.map(|n| release(name(n), n)).collect();
            (group(now, taken), group(now, given))
        })
        .bench_local_values(|(taken, given)| (table.apply(&taken), table.apply(&given)));
}

/// Renewal of a held lock, in groups of 128.
#[divan::bench]
fn renewal(bencher: Bencher) {
    let mut table = full_table();
    let mut next = 0;
    let mut now = 0;
    bencher
        .counter(ItemsCount::new(GROUP_LEN))
        .with_inputs(|| {
            next += GROUP_LEN;
            now += 1;
            let ops = (next..next + GROUP_LEN)
                .map(|n| Op::Renew { lock: name(n % LOCKS), key: key(n % LOCKS), ttl: None })
                .collect();
            group(now, ops)
        })
        .bench_local_refs(|group| table.apply(group));
}

/// One lock that many wait for: its holder releases it, and queues again at the end. One item is one hand-over.
#[divan::bench(args = [10, 1_000, 10_000])]
fn hand_over(bencher: Bencher, waiters: u64) {
    let hot = LockName::new("hot").expect("it is short");
    let mut table = full_table();
    for n in 0..=waiters {
        table.apply(&group(0, vec![attempt(hot.clone(), LOCKS + n, 600_000)]));
    }
    let mut first = LOCKS;
    bencher
        .with_inputs(|| {
            let last = first + waiters + 1;
            let ops = vec![release(hot.clone(), first), attempt(hot.clone(), last, 600_000)];
            first += 1;
            group(1, ops)
        })
        .bench_local_refs(|group| table.apply(group));
}

/// One acquire that does not wait, on a lock that many wait for.
#[divan::bench(args = [0, 1_000, 10_000])]
fn busy_try(bencher: Bencher, waiters: u64) {
    let hot = LockName::new("hot").expect("it is short");
    let mut table = LockTable::default();
    for n in 0..=waiters {
        table.apply(&group(0, vec![attempt(hot.clone(), n, 600_000)]));
    }
    let op = group(1, vec![attempt(hot, u64::MAX, 0)]);
    bencher.bench_local(|| table.apply(&op));
}

/// A table with one lock that `waiters` wait for, all of them at nodes that have fallen silent.
fn deserted(waiters: u64) -> LockTable {
    let hot = LockName::new("hot").expect("it is short");
    let mut table = LockTable::default();
    for n in 0..=waiters {
        table.apply(&group(0, vec![attempt(hot.clone(), n, 60_000)]));
    }
    table
}

/// A lock changes hands past many who are absent. One item is one hand-over.
#[divan::bench(args = [1_000, 10_000])]
fn hand_over_past_the_absent(bencher: Bencher, absent: u64) {
    let hot = LockName::new("hot").expect("it is short");
    let mut table = deserted(absent);
    table.apply(&group(2_000, vec![release(hot.clone(), 0)]));
    let mut next = absent + 1;
    bencher
        .with_inputs(|| {
            next += 1;
            group(2_000, vec![attempt(hot.clone(), next, 0), release(hot.clone(), next)])
        })
        .bench_local_refs(|group| table.apply(group));
}

/// The waits of many who are absent are over in one entry, while the lock is free.
#[divan::bench(args = [1_000, 10_000, 100_000], sample_count = 5, sample_size = 1)]
fn waits_over_at_once(bencher: Bencher, absent: u64) {
    let hot = LockName::new("hot").expect("it is short");
    bencher
        .with_inputs(|| {
            let mut table = deserted(absent);
            table.apply(&group(2_000, vec![release(hot.clone(), 0)]));
            table
        })
        .bench_local_values(|mut table| {
            table.apply(&group(60_000, Vec::new()));
            table
        });
}

/// What the apply loop pays for a snapshot of 100,000 locks.
#[divan::bench]
fn snapshot_begin(bencher: Bencher) {
    let table = full_table();
    bencher.bench_local(|| table.snapshot());
}

/// Writing it out, beside the apply loop.
#[divan::bench(sample_count = 20)]
fn snapshot_write(bencher: Bencher) {
    let table = full_table();
    bencher.counter(ItemsCount::new(LOCKS)).bench_local(|| {
        let mut view = table.snapshot();
        let mut len = 0;
        while let Some(piece) = view.next_piece() {
            len += piece.len();
        }
        len
    });
}

/// Building a table from it.
#[divan::bench(sample_count = 20)]
fn snapshot_read(bencher: Bencher) {
    let mut view = full_table().snapshot();
    let pieces: Vec<_> = std::iter::from_fn(|| view.next_piece()).collect();
    bencher.counter(ItemsCount::new(LOCKS)).bench_local(|| {
        let mut reader = SnapshotReader::default();
        for piece in &pieces {
            reader.push(piece).expect("it was written a moment ago");
        }
        reader.finish().expect("it is complete")
    });
}

/// The digest of 100,000 locks.
#[divan::bench(sample_count = 20)]
fn digest(bencher: Bencher) {
    let table = full_table();
    bencher.counter(ItemsCount::new(LOCKS)).bench_local(|| table.digest());
}

/// Decoding a group of 128 acquires.
#[divan::bench]
fn group_decode(bencher: Bencher) {
    let mut encoder = GroupEncoder::new(ClusterTime(1));
    for n in 0..GROUP_LEN {
        encoder.push(&EncodedOp::new(&attempt(name(n), n, 0)));
    }
    let bytes = encoder.finish();
    bencher.counter(ItemsCount::new(GROUP_LEN)).bench_local(|| Group::decode(&bytes));
}

/// The first entry after a pause in which 100,000 endings have become too old.
#[divan::bench(sample_count = 10, sample_size = 1)]
fn first_entry_after_a_pause(bencher: Bencher) {
    bencher
        .with_inputs(|| {
            let mut table = full_table();
            for n in 0..LOCKS {
                table.apply(&group(n / 50, vec![release(name(n), n)]));
            }
            table
        })
        .bench_local_values(|mut table| {
            table.apply(&group(1_000_000, Vec::new()));
            table
        });
}
