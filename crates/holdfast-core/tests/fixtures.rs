//! What was written once has to be readable for ever: a log, and a snapshot of the table that it leads to.
//!
//! `fixtures/format-1.log` is a sequence of groups, each behind its length (u32, little endian).
//! `fixtures/format-1.snapshot` is the stream of a snapshot. `fixtures/format-1.txt` tells what both mean.

#![allow(clippy::unwrap_used, reason = "what a test cannot go on without has to be there")]

use std::fmt::Write;

use holdfast_core::{
    Acquire, AcquireMany, AcquireOnTerms, AttemptKey, ClusterId, ClusterTime, EncodedOp, Fence, Group,
    GroupEncoder, Home, Intervention, Item, LockName, LockTable, Metadata, NodeId, Op, Owner, Place, Reason,
    SessionId, SessionKey, SessionRef, Several, Share, SnapshotReader, Standing, StorageId, Terms, Ttl, Wait,
};

const LOG: &[u8] = include_bytes!("fixtures/format-1.log");
const SNAPSHOT: &[u8] = include_bytes!("fixtures/format-1.snapshot");
const MEANING: &str = include_str!("fixtures/format-1.txt");
/// Over the snapshot in format 1.
const DIGEST: u64 = 0x5b07_d542_c0f6_a2b2;

/// A short history with something of everything: all operations, and all kinds of state.
fn history() -> Vec<Group> {
    let name = |text: &str| LockName::new(text).unwrap();
    let key = |n: u8| AttemptKey([n; 16]);
    let home = |node: u64, call: u32| Home { node: NodeId(node), boot: 1, call };
    let acquire = |lock: &str, n: u8, owner: &str, ttl_ms: u64, wait_ms: u64, json: &str| {
        Op::Acquire(Acquire {
            lock: name(lock),
            key: key(n),
            owner: Owner::new(owner).unwrap(),
            ttl: Ttl::from_ms(ttl_ms).unwrap(),
            wait: Wait::from_ms(wait_ms).unwrap(),
            metadata: Metadata::new(json).unwrap(),
            home: home(u64::from(n % 3) + 1, n.into()),
        })
    };
    let places = |locks: [&str; 2], n: u8| -> Vec<_> {
        locks.iter().zip(n..).map(|(lock, n)| Place { lock: name(lock), key: key(n) }).collect()
    };
    let acquire_many = |locks: [&str; 2], n: u8, owner: &str, wait_ms: u64| {
        let items = places(locks, n).into_iter().map(|place| Item { place, share: Share::Shared });
        Op::AcquireMany(AcquireMany {
            key: key(n - 1),
            items: Several::new(items.collect()).unwrap(),
            owner: Owner::new(owner).unwrap(),
            ttl: Ttl::from_ms(80_000_000).unwrap(),
            wait: Wait::from_ms(wait_ms).unwrap(),
            home: home(u64::from(n % 3) + 1, n.into()),
        })
    };
    let named = Some(Several::new(places(["many b", "many a"], 31)).unwrap());
    let session = |id: u64, n: u8| SessionRef { id: SessionId(id), key: SessionKey([n; 16]) };
    let open = |n: u8, owner: &str, ttl_ms: u64| Op::OpenSession {
        key: SessionKey([n; 16]),
        owner: Owner::new(owner).unwrap(),
        ttl: Ttl::from_ms(ttl_ms).unwrap(),
    };
    let in_session = |session: SessionRef, acquire: Op| match acquire {
        Op::Acquire(acquire) => Op::AcquireInSession(acquire, Share::Exclusive, session),
        other => panic!("no acquire: {other:?}"),
    };
    let by =
        |reason: &str| Intervention { by: Owner::new("uma").unwrap(), reason: Reason::new(reason).unwrap() };
    let on_terms = |spans: (u64, u64, Option<u64>, Option<u64>), acquire: Op| match acquire {
        Op::Acquire(acquire) => {
            let terms = Terms::try_from(spans).unwrap();
            Op::AcquireOnTerms(Box::new(AcquireOnTerms {
                acquire,
                share: Share::Exclusive,
                session: None,
                terms,
            }))
        }
        other => panic!("no acquire: {other:?}"),
    };
    let at = |now: u64, ops: Vec<Op>| Group { now: ClusterTime(now), ops };
    vec![
        at(0, vec![Op::Found { cluster: ClusterId(0x0123_4567_89ab_cdef) }]),
        at(
            1,
            (1..=3)
                .map(|n| Op::Register { node: NodeId(n), storage: StorageId(u128::from(n) << 90) })
                .collect(),
        ),
        at(
            1_000,
            vec![
                acquire("invoices/2024/ä", 1, "alice", 60_000, 0, "{\"job\":\"nightly\"}"),
                acquire("invoices/2024/ä", 2, "bob", 30_000, 600_000, "{}"),
                acquire("invoices/2024/ä", 3, "carol", 30_000, 5_000, "{\"n\":[1,2]}"),
                acquire("warehouse", 4, "dave", 100, 0, "{}"),
                acquire("warehouse", 5, "erin", 86_400_000, 70_000, "{}"),
                acquire("warehouse", 10, "mallory", 200, 400_000, "{\"why\":\"☂\"}"),
                acquire("empty again", 6, "frank", 30_000, 0, "{}"),
                acquire("abandoned", 7, "grace", 30_000, 0, "{}"),
                acquire("stalled", 8, "heidi", 30_000, 0, "{}"),
                acquire("stalled", 11, "ivan", 30_000, 300_000, "{}"),
                acquire("taken back", 12, "judy", 30_000, 0, "{}"),
                acquire("taken back", 14, "kim", 30_000, 300_000, "{}"),
                acquire("taken back", 15, "leo", 30_000, 300_000, "{}"),
            ],
        ),
        at(1_100, Vec::new()),
        at(
            1_200,
            vec![
                Op::Renew {
                    lock: name("invoices/2024/ä"),
                    key: key(1),
                    ttl: Some(Ttl::from_ms(90_000).unwrap()),
                },
                Op::Release { lock: name("empty again"), key: key(6) },
                Op::Abandon { lock: name("abandoned"), key: key(7), home: home(2, 7) },
                Op::Release { lock: name("taken back"), key: key(12) },
                Op::Release { lock: name("invoices/2024/ä"), key: key(3) },
            ],
        ),
        at(1_300, vec![Op::Unclaim { lock: name("taken back"), fence: Fence(8) }]),
        at(
            4_000,
            vec![Op::Vouch { node: NodeId(1), boot: 2 }, Op::Release { lock: name("stalled"), key: key(8) }],
        ),
        at(
            4_500,
            vec![
                Op::Vouch { node: NodeId(2), boot: 1 },
                acquire_many(["many a", "many b"], 21, "mia", 0),
                acquire_many(["many b", "warehouse"], 31, "noah", 90_000),
                acquire_many(["many a", "many c"], 41, "olga", 0),
                Op::RenewMany { key: key(20), named: None, ttl: Some(Ttl::from_ms(86_400_000).unwrap()) },
                Op::RenewMany { key: key(30), named, ttl: None },
                Op::ReleaseMany {
                    key: key(40),
                    named: Some(Several::new(places(["many a", "many c"], 41)).unwrap()),
                },
            ],
        ),
        at(
            4_600,
            vec![
                acquire("led", 16, "mike", 30_000, 0, "null"),
                acquire("led", 19, "nina", 50_000, 300_000, "\"http://nina/\""),
                Op::HandOver { lock: name("led"), key: key(16), to: Owner::new("nina").unwrap() },
                Op::Proclaim {
                    lock: name("led"),
                    key: key(19),
                    metadata: Metadata::new("[\"http://nina/\",2]").unwrap(),
                },
            ],
        ),
        at(4_700, vec![open(1, "paul", 20_000), open(2, "quinn", 30_000)]),
        at(
            4_800,
            vec![
                in_session(session(22, 1), acquire("of a session", 51, "paul", 30_000, 0, "{}")),
                in_session(session(22, 1), acquire("taken back", 52, "paul", 30_000, 300_000, "{}")),
                in_session(session(23, 2), acquire("of an ended session", 53, "quinn", 30_000, 0, "{}")),
                Op::RenewSession(session(22, 1)),
                Op::EndSession(session(23, 2)),
            ],
        ),
        at(
            4_900,
            vec![
                Op::TellWallClock { unix_ms: 1_800_000_000_000 },
                acquire("forced", 54, "rita", 30_000, 0, "{}"),
                acquire("forced", 55, "sam", 30_000, 300_000, "{}"),
                acquire("forced", 56, "tom", 30_000, 300_000, "{}"),
                Op::ForceLeave { lock: name("forced"), owner: Owner::new("sam").unwrap(), by: by("no need") },
                Op::ForceRelease { lock: name("forced"), fence: Fence(18), by: by("it hangs") },
            ],
        ),
        at(
            4_900,
            vec![
                on_terms((300_000, 0, None, None), acquire("delayed", 61, "rose", 100, 0, "{}")),
                acquire("delayed", 62, "sam", 30_000, 400_000, "{}"),
                on_terms(
                    (0, 60_000, Some(90_000), None),
                    acquire("bounded", 63, "tess", 80_000_000, 0, "{}"),
                ),
                on_terms((0, 0, None, Some(86_000_000)), acquire("once", 64, "uma", 30_000, 0, "{}")),
                on_terms((0, 0, None, Some(86_000_000)), acquire("led", 65, "uma", 30_000, 300_000, "{}")),
                Op::ReleaseDone { lock: name("once"), key: key(64) },
                Op::Release { lock: name("bounded"), key: key(63) },
            ],
        ),
        at(5_000, Vec::new()),
    ]
}

fn written(groups: &[Group]) -> Vec<u8> {
    let mut log = Vec::new();
    for group in groups {
        let mut encoder = GroupEncoder::new(group.now);
        group.ops.iter().for_each(|op| encoder.push(&EncodedOp::new(op)));
        let bytes = encoder.finish();
        log.extend((bytes.len() as u32).to_le_bytes());
        log.extend(bytes);
    }
    log
}

fn read(mut log: &[u8]) -> Vec<Group> {
    let mut groups = Vec::new();
    while let Some((len, rest)) = log.split_first_chunk::<4>() {
        let (bytes, tail) = rest.split_at(u32::from_le_bytes(*len) as usize);
        groups.push(Group::decode(bytes).unwrap());
        log = tail;
    }
    groups
}

fn table_of(groups: &[Group]) -> LockTable {
    let mut table = LockTable::default();
    groups.iter().for_each(|group| drop(table.apply(group)));
    table
}

fn snapshot_of(table: &LockTable) -> Vec<u8> {
    let mut view = table.snapshot();
    std::iter::from_fn(|| view.next_piece()).flatten().collect()
}

fn restored() -> LockTable {
    let mut reader = SnapshotReader::default();
    reader.push(SNAPSHOT).unwrap();
    reader.finish().unwrap()
}

/// The table in words that do not depend on any encoding.
fn meaning(table: &LockTable) -> String {
    let mut text = String::new();
    let cluster = table.cluster().unwrap();
    writeln!(
        text,
        "cluster {cluster}, time {}, last fence {}, last event {}",
        table.now().0,
        table.last_fence(),
        table.seq()
    )
    .unwrap();
    for node in (1..=3).map(NodeId) {
        writeln!(text, "node {node} uses folder {}", table.storage_of(node).unwrap()).unwrap();
    }
    for lock in table.list("", None, 100, table.now()).locks {
        writeln!(text, "lock {}", lock.name).unwrap();
        if let Some(delay_ms) = lock.delay_ms {
            writeln!(text, "  granted to nobody for {delay_ms} ms").unwrap();
        }
        for holder in lock.holders {
            let (owner, fence, ttl, json) =
                (holder.owner, holder.fence, holder.ttl.ms(), holder.metadata.as_json());
            let (held, left) = (holder.held_ms, holder.expires_in_ms);
            writeln!(
                text,
                "  held by {owner} {json}: fence {fence}, since {held} ms, {left} of {ttl} ms left"
            )
            .unwrap();
            if let Some(left) = holder.max_left_ms {
                let releasing = if holder.is_releasing { ", and is given back" } else { "" };
                writeln!(text, "    {left} ms left at most{releasing}").unwrap();
            }
        }
        for waiter in lock.queue {
            writeln!(text, "  {} waits since {} ms", waiter.owner, waiter.waiting_ms).unwrap();
        }
    }
    for event in table.event_history().after(0).unwrap() {
        let by = event.by.as_ref().map(|by| format!(", by {}: {}", by.by, by.reason.as_str()));
        let (seq, at, lock, owner, what) = (event.seq, event.at.0, &event.lock, &event.owner, &event.what);
        writeln!(text, "event {seq} at {at} ms, {lock}: {owner} {what:?}{}", by.unwrap_or_default()).unwrap();
    }
    writeln!(text, "the wall clock shows {:?}", table.wall_clock(table.now())).unwrap();
    for session in table.list_sessions(None, 100, table.now()).sessions {
        let (owner, left, ttl) = (session.owner, session.expires_in_ms, session.ttl.ms());
        let (id, held, waiting) = (session.id, session.held, session.waiting);
        writeln!(text, "session {id} of {owner}: holds {held}, waits for {waiting}, {left} of {ttl} ms left")
            .unwrap();
    }
    let attempts = |op| match op {
        Op::Acquire(attempt) | Op::AcquireInSession(attempt, ..) => {
            vec![(attempt.lock, attempt.key, attempt.owner)]
        }
        Op::AcquireOnTerms(attempt) => {
            vec![(attempt.acquire.lock, attempt.acquire.key, attempt.acquire.owner)]
        }
        Op::AcquireMany(attempt) => {
            let place = |item: &Item| (item.place.lock.clone(), item.place.key, attempt.owner.clone());
            attempt.items.iter().map(place).collect()
        }
        _ => vec![],
    };
    let attempts = history().into_iter().flat_map(|group| group.ops).flat_map(attempts);
    for (lock, key, owner) in attempts {
        let standing = match table.standing(&lock, &key) {
            Standing::Held(grant) => format!("holds it with fence {}", grant.fence),
            Standing::Queued => "waits".to_owned(),
            Standing::Ended(cause) => format!("has ended: {cause:?}"),
            Standing::Unknown => "is unknown".to_owned(),
        };
        writeln!(text, "the attempt of {owner} at {lock} {standing}").unwrap();
        if let Some(done) = table.already_done(&lock) {
            writeln!(text, "  {done}").unwrap();
        }
    }
    text
}

#[test]
fn a_log_of_the_first_format_means_what_it_always_meant() {
    let table = table_of(&read(LOG));
    assert_eq!(meaning(&table), MEANING);
    assert_eq!(table.digest(), DIGEST);
}

#[test]
fn a_snapshot_of_the_first_format_means_what_it_always_meant() {
    let table = restored();
    assert_eq!(meaning(&table), MEANING);
    assert_eq!(table.digest(), DIGEST);
}

/// What comes after the snapshot, too: everything that is not seen in a listing shows up in time.
#[test]
fn the_future_of_the_snapshot_is_the_future_of_the_log() {
    let (mut replayed, mut restored) = (table_of(&read(LOG)), restored());
    // Every wait, and the last lease of a day.
    for now in (5_500..700_000).step_by(500).chain([86_500_000]) {
        let ops = vec![Op::Vouch { node: NodeId(3), boot: 1 }];
        let group = Group { now: ClusterTime(now), ops };
        assert_eq!(restored.apply(&group).events, replayed.apply(&group).events);
    }
    assert_eq!(restored.digest(), replayed.digest());
    assert!(!restored.is_busy());
}

/// As long as this program writes the first format: a change of what it writes needs a new number.
#[test]
fn the_first_format_is_written_as_it_always_was() {
    assert_eq!(written(&history()), LOG);
    assert_eq!(snapshot_of(&table_of(&history())), SNAPSHOT);
}
