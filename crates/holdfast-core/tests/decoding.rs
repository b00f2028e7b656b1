//! Bytes from a peer or a file can be anything: decoding them ends with an answer, and takes no absurd amount of memory.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without has to be there")]
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_types,
    reason = "an allocator counts outside the rules"
)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use holdfast_core::{
    Acquire, AcquireMany, AcquireOnTerms, AttemptKey, ClusterId, ClusterTime, DecodeError, EncodedOp, Fence,
    Group, GroupEncoder, Home, Item, LockName, LockTable, Metadata, NodeId, Op, Owner, Place, SessionId,
    SessionKey, SessionRef, Several, Share, SnapshotError, SnapshotReader, StorageId, Terms, Ttl, Wait,
};
use proptest::prelude::*;

/// The system's allocator, with the bytes that this thread has out and the most it ever had.
struct Counting;

thread_local! {
    static LIVE: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

// SAFETY: every call is passed on to the system's allocator as it is.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live = LIVE.get().wrapping_add(layout.size());
        LIVE.set(live);
        PEAK.set(PEAK.get().max(live));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // What another thread took makes this one's count too small, never too large.
        LIVE.set(LIVE.get().saturating_sub(layout.size()));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Most memory per byte of input, and what may be taken in advance on the word of a length.
const PER_BYTE: usize = 200;
const IN_ADVANCE: usize = 3 << 20;

/// Runs it and checks what it took beyond what was out before.
fn within_reason<T>(input_len: usize, decode: impl FnOnce() -> T) -> T {
    let before = LIVE.get();
    PEAK.set(before);
    let decoded = decode();
    let taken = PEAK.get().saturating_sub(before);
    assert!(taken <= IN_ADVANCE + input_len * PER_BYTE, "{taken} bytes taken for an input of {input_len}");
    decoded
}

/// An operation in any encoding, as a peer could send it.
fn encoded(bytes: &[u8]) -> EncodedOp {
    postcard::from_bytes(&postcard::to_stdvec(bytes).unwrap()).unwrap()
}

fn home() -> Home {
    Home { node: NodeId(3), boot: 2, call: 77 }
}

fn attempt(name: &str, number: u8, wait_ms: u64) -> Op {
    Op::Acquire(Acquire {
        lock: LockName::new(name).unwrap(),
        key: AttemptKey([number; 16]),
        owner: Owner::new("worker").unwrap(),
        ttl: Ttl::default(),
        wait: Wait::from_ms(wait_ms).unwrap(),
        metadata: Metadata::new("{\"a\":1}").unwrap(),
        home: home(),
    })
}

fn places(names: &[&str], number: u8) -> Vec<Place> {
    let place = |(name, n): (&&str, u8)| Place {
        lock: LockName::new(name).unwrap(),
        key: AttemptKey([number + n; 16]),
    };
    names.iter().zip(0..).map(place).collect()
}

fn many(names: &[&str], number: u8, wait_ms: u64) -> Op {
    let items = places(names, number).into_iter().map(|place| Item { place, share: Share::Exclusive });
    Op::AcquireMany(AcquireMany {
        key: AttemptKey([number - 1; 16]),
        items: Several::new(items.collect()).unwrap(),
        owner: Owner::new("worker").unwrap(),
        ttl: Ttl::default(),
        wait: Wait::from_ms(wait_ms).unwrap(),
        home: home(),
    })
}

fn one_of_each() -> Vec<Op> {
    let named = Several::new(places(&["first", "second"], 21)).unwrap();
    let (lock, key) = (LockName::new("db").unwrap(), AttemptKey([1; 16]));
    let session = SessionRef { id: SessionId(1), key: SessionKey([4; 16]) };
    let ended = SessionRef { id: SessionId(2), key: SessionKey([5; 16]) };
    let open = |session: SessionRef| Op::OpenSession {
        key: session.key,
        owner: Owner::new("worker").unwrap(),
        ttl: Ttl::default(),
    };
    let in_session = |name: &str, number| match attempt(name, number, 60_000) {
        Op::Acquire(acquire) => Op::AcquireInSession(acquire, Share::Exclusive, session),
        _ => unreachable!("an attempt is an acquire"),
    };
    let on_terms = |name: &str, number, session| match attempt(name, number, 60_000) {
        Op::Acquire(acquire) => {
            let terms = Terms::new(200_000, 60_000, Some(70_000), Some(80_000)).unwrap();
            let share = Share::Shared;
            Op::AcquireOnTerms(Box::new(AcquireOnTerms { acquire, share, session, terms }))
        }
        _ => unreachable!("an attempt is an acquire"),
    };
    vec![
        open(session),
        open(ended),
        Op::RenewSession(session),
        Op::EndSession(ended),
        in_session("cache", 4),
        attempt("db", 1, 0),
        attempt("db", 2, 60_000),
        attempt("web", 3, 0),
        in_session("db", 5),
        Op::Renew { lock: lock.clone(), key, ttl: Some(Ttl::from_ms(86_400_000).unwrap()) },
        Op::Abandon { lock: lock.clone(), key: AttemptKey([9; 16]), home: home() },
        Op::Unclaim { lock: LockName::new("web").unwrap(), fence: Fence::MAX },
        Op::Vouch { node: NodeId(u64::MAX), boot: u32::MAX },
        Op::Register { node: NodeId(3), storage: StorageId(u128::MAX) },
        Op::Found { cluster: ClusterId(u128::MAX) },
        Op::Release { lock: LockName::new("web").unwrap(), key: AttemptKey([3; 16]) },
        Op::Proclaim { lock: lock.clone(), key, metadata: Metadata::new("[1]").unwrap() },
        Op::HandOver { lock: lock.clone(), key, to: Owner::new("ß").unwrap() },
        many(&["first", "second"], 21, 0),
        many(&["second", "db"], 31, 60_000),
        Op::RenewMany { key: AttemptKey([20; 16]), named: Some(named.clone()), ttl: None },
        Op::ReleaseMany { key: AttemptKey([40; 16]), named: Some(named) },
        on_terms("run", 51, None),
        Op::ReleaseDone { lock: LockName::new("run").unwrap(), key: AttemptKey([51; 16]) },
        on_terms("run", 52, Some(session)),
        on_terms("db", 53, None),
    ]
}

fn group_bytes() -> Vec<u8> {
    let mut encoder = GroupEncoder::new(ClusterTime(u64::MAX - 1));
    one_of_each().iter().for_each(|op| encoder.push(&EncodedOp::new(op)));
    encoder.finish()
}

fn snapshot_bytes() -> Vec<u8> {
    let mut table = LockTable::default();
    table.apply(&Group { now: ClusterTime(5), ops: one_of_each() });
    let mut view = table.snapshot();
    std::iter::from_fn(|| view.next_piece()).flatten().collect()
}

fn read_snapshot(bytes: &[u8], piece_len: usize) -> Result<LockTable, SnapshotError> {
    let mut reader = SnapshotReader::default();
    bytes.chunks(piece_len).try_for_each(|piece| reader.push(piece))?;
    reader.finish()
}

/// Something that begins well: bytes are overwritten, put in, taken out, or lost at the end.
fn damaged(whole: Vec<u8>) -> impl Strategy<Value = Vec<u8>> {
    let damage = (any::<prop::sample::Index>(), any::<u8>(), 0..4_u8);
    prop::collection::vec(damage, 1..4).prop_map(move |damages| {
        let mut bytes = whole.clone();
        for (at, byte, kind) in damages {
            let at = at.index(bytes.len().max(1)).min(bytes.len().saturating_sub(1));
            match kind {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 if !bytes.is_empty() => drop(bytes.remove(at)),
                2 => bytes.insert(at, byte),
                _ => bytes.truncate(at),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 5_000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_a_group_or_none(mut bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        drop(within_reason(bytes.len(), || Group::decode(&bytes)));
        if let Some(format) = bytes.first_mut() {
            *format = Group::FORMAT;
        }
        drop(within_reason(bytes.len(), || Group::decode(&bytes)));
    }

    #[test]
    fn a_damaged_group_is_refused_or_means_something_that_can_be_written_again(bytes in damaged(group_bytes())) {
        if let Ok(group) = within_reason(bytes.len(), || Group::decode(&bytes)) {
            let mut encoder = GroupEncoder::new(group.now);
            group.ops.iter().for_each(|op| encoder.push(&EncodedOp::new(op)));
            prop_assert_eq!(Group::decode(&encoder.finish()), Ok(group));
        }
    }

    #[test]
    fn any_bytes_are_an_operation_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        drop(within_reason(bytes.len(), || encoded(&bytes).decode()));
    }

    /// What was checked as an operation stays that one operation in the log.
    #[test]
    fn an_operation_that_decodes_is_one_operation_of_a_group(
        op in prop::sample::select(one_of_each()),
        tail in prop::collection::vec(any::<u8>(), 0..4),
    ) {
        let mut bytes = postcard::to_stdvec(&op).unwrap();
        bytes.extend(&tail);
        let sent = encoded(&bytes);
        let mut encoder = GroupEncoder::new(ClusterTime(1));
        encoder.push(&sent);
        match sent.decode() {
            Ok(decoded) => prop_assert_eq!(Group::decode(&encoder.finish()).unwrap().ops, [decoded]),
            Err(_) => prop_assert!(!tail.is_empty()),
        }
    }

    #[test]
    fn any_bytes_are_a_snapshot_or_none(
        bytes in prop::collection::vec(any::<u8>(), 0..400),
        piece_len in 1..100_usize,
    ) {
        drop(within_reason(bytes.len(), || read_snapshot(&bytes, piece_len)));
    }

    #[test]
    fn a_damaged_snapshot_is_refused_or_means_something(bytes in damaged(snapshot_bytes()), piece_len in 1..100_usize) {
        if let Ok(mut table) = within_reason(bytes.len(), || read_snapshot(&bytes, piece_len)) {
            for now in [10, 1_000, 100_000, u64::MAX] {
                table.apply(&Group { now: ClusterTime(now), ops: one_of_each() });
            }
            table.digest();
        }
    }

    /// A record that begins well and lies about the lengths inside it.
    #[test]
    fn any_record_behind_a_header_is_read_or_refused(body in prop::collection::vec(any::<u8>(), 1..300)) {
        let whole = snapshot_bytes();
        let header_len = u32::from_le_bytes(whole[..4].try_into().unwrap()) as usize + 4;
        let mut bytes = whole[..header_len].to_vec();
        bytes.extend((body.len() as u32).to_le_bytes());
        bytes.extend(&body);
        drop(within_reason(bytes.len(), || read_snapshot(&bytes, bytes.len())));
    }
}

/// The bytes of an acquire with these fields, whatever their limits.
fn acquire_bytes(lock: &str, owner: &str, ttl: u32, wait: u32, metadata: Option<&str>) -> Vec<u8> {
    postcard::to_stdvec(&(0_u8, lock, [7_u8; 16], owner, ttl, wait, metadata, (1_u64, 1_u32, 1_u32))).unwrap()
}

#[test]
fn nothing_outside_its_limits_gets_in_as_an_operation() {
    let (name, label) = ("x".repeat(513), "x".repeat(257));
    let json = format!("{{\"a\":\"{}\"}}", "x".repeat(1_100));
    assert!(encoded(&acquire_bytes("db", "me", 1_000, 0, None)).decode().is_ok());
    let outside = [
        acquire_bytes("", "me", 1_000, 0, None),
        acquire_bytes(&name, "me", 1_000, 0, None),
        acquire_bytes("d\nb", "me", 1_000, 0, None),
        acquire_bytes("db", "", 1_000, 0, None),
        acquire_bytes("db", &label, 1_000, 0, None),
        acquire_bytes("db", "m\u{7f}e", 1_000, 0, None),
        acquire_bytes("db", "me", 99, 0, None),
        acquire_bytes("db", "me", 86_400_001, 0, None),
        acquire_bytes("db", "me", 1_000, 600_001, None),
        acquire_bytes("db", "me", 1_000, 0, Some(&json)),
    ];
    for bytes in outside {
        assert_eq!(encoded(&bytes).decode(), Err(DecodeError::Malformed));
    }
}

#[test]
fn an_empty_object_decodes_as_no_metadata() {
    let with = encoded(&acquire_bytes("db", "me", 1_000, 0, Some("{}"))).decode();
    let without = encoded(&acquire_bytes("db", "me", 1_000, 0, None)).decode();
    assert_eq!(with, without);
}

#[test]
fn text_that_is_no_utf8_is_refused() {
    let mut bytes = acquire_bytes("db", "me", 1_000, 0, None);
    bytes[2] = 0xff; // The first byte of the name.
    assert_eq!(encoded(&bytes).decode(), Err(DecodeError::Malformed));
}

/// A length of four gigabytes is not believed.
#[test]
fn a_record_of_an_impossible_length_is_refused_at_once() {
    let mut reader = SnapshotReader::default();
    assert_eq!(reader.push(&[0xff, 0xff, 0xff, 0xff]), Err(SnapshotError::Malformed));
}
