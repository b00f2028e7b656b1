//! The table written out and read back.

use holdfast_core::{
    ClusterId, ENDING_KEPT_MS, LockTable, NodeId, Op, Rejection, SnapshotError, SnapshotReader, StorageId,
};

use crate::deed::{
    ALICE, BOB, CAROL, DAVE, acquire, end_session, open_session, release, renew, renew_session,
};
use crate::story::Story;

fn pieces(table: &LockTable) -> Vec<Vec<u8>> {
    let mut view = table.snapshot();
    std::iter::from_fn(|| view.next_piece()).collect()
}

fn read<'a>(pieces: impl IntoIterator<Item = &'a [u8]>) -> Result<LockTable, SnapshotError> {
    let mut reader = SnapshotReader::default();
    for piece in pieces {
        reader.push(piece)?;
    }
    reader.finish()
}

/// A story with something of everything in its table.
fn rich() -> Story {
    let mut story = Story::default();
    story.leader_does(0, Op::Found { cluster: ClusterId(0xfeed) }).unwrap();
    story.leader_does(0, Op::Register { node: NodeId(2), storage: StorageId(0xbeef) }).unwrap();
    story.grants(0, acquire(ALICE, "db").ttl_ms(60_000).metadata(r#"{"job":7}"#));
    story.queues(0, acquire(BOB, "db").wait_ms(20_000));
    story.queues(0, acquire(CAROL, "db").wait_ms(30_000));
    story.grants(0, acquire(ALICE, "short").ttl_ms(100));
    story.grants(0, acquire(CAROL, "given back"));
    story.releases(200, release(CAROL, "given back"));
    // A free lock whose only waiter is away, and a grant that nobody has claimed yet.
    story.grants(200, acquire(ALICE, "away"));
    story.queues(200, acquire(BOB, "away").wait_ms(50_000));
    story.kill(2);
    story.tick(3_000);
    story.releases(3_000, release(ALICE, "away"));
    story.grants(3_000, acquire(ALICE, "unclaimed"));
    story.queues(3_000, acquire(CAROL, "unclaimed").wait_ms(50_000));
    story.releases(3_100, release(ALICE, "unclaimed"));
    let ended = story.keeps(3_100, open_session(BOB, 60_000)).id;
    story.leader_does(3_100, end_session(BOB, ended)).unwrap();
    let session = story.keeps(3_100, open_session(DAVE, 20_000)).id;
    story.grants(3_100, acquire(DAVE, "in a session").session(session));
    story.queues(3_100, acquire(DAVE, "db").session(session).wait_ms(50_000));
    // A delay, a run that was completed, a hold that was given back early, and one in a session that has an end.
    story.grants(3_100, acquire(ALICE, "delayed").ttl_ms(100).delay_ms(9_000));
    story.queues(3_100, acquire(CAROL, "delayed").wait_ms(50_000));
    story.grants(3_100, acquire(ALICE, "done").once_ms(60_000));
    story.does(3_100, &release(ALICE, "done").done()).unwrap();
    story.grants(3_100, acquire(ALICE, "given back early").min_hold_ms(9_000));
    story.does(3_100, &release(ALICE, "given back early")).unwrap();
    story.grants(3_100, acquire(DAVE, "bounded").session(session).max_hold_ms(5_000));
    story.tick(3_200);
    story
}

#[test]
fn a_table_reads_back_as_it_was_written() {
    let story = rich();
    let whole = pieces(&story.table);
    let restored = read(whole.iter().map(Vec::as_slice)).unwrap();
    assert_eq!(restored.digest(), story.table.digest());
    assert_eq!(restored.cluster(), Some(ClusterId(0xfeed)));
    assert_eq!(restored.storage_of(NodeId(2)), Some(StorageId(0xbeef)));
    assert_eq!(restored.next_due(), story.table.next_due());
    assert_eq!(restored.counts(), story.table.counts());
    assert_eq!((restored.now(), restored.seq()), (story.table.now(), story.table.seq()));
    assert_eq!(restored.last_fence(), story.table.last_fence());
}

#[test]
fn life_goes_on_after_a_restore_as_it_would_have_without() {
    let mut story = rich();
    let whole = pieces(&story.table);
    let mut twin = rich();
    twin.table = read(whole.iter().map(Vec::as_slice)).unwrap();
    for story in [&mut story, &mut twin] {
        assert_eq!(story.refuses(3_200, renew(ALICE, "short")), Rejection::LeaseExpired);
        let session = story.table.list_sessions(None, 2, story.table.now()).sessions[0].clone();
        assert_eq!((session.held, session.waiting), (2, 1));
        assert_eq!(story.keeps(3_200, renew_session(DAVE, session.id)).expires_in_ms, 20_000);
        let reopened = story.leader_does(3_200, open_session(BOB, 60_000));
        assert_eq!(reopened, Err(Rejection::SessionExpired));
        assert_eq!(story.releases(3_200, release(CAROL, "given back")).map(|fence| fence.0), Some(3));
        story.reconnect(2);
        story.tick(4_000);
        assert_eq!(story.holder("away").as_deref(), Some("bob"));
        story.tick(100_000);
    }
    assert_eq!(twin.so_far().0, story.so_far().0);
    assert_eq!(twin.table.digest(), story.table.digest());
}

#[test]
fn the_stream_can_be_cut_into_pieces_anywhere() {
    let story = rich();
    let whole = pieces(&story.table).concat();
    for len in [1, 2, 3, 5, 64, whole.len()] {
        assert_eq!(read(whole.chunks(len)).unwrap().digest(), story.table.digest());
    }
}

#[test]
fn a_stream_that_lacks_its_end_is_found_out_wherever_it_was_cut() {
    let whole = pieces(&rich().table).concat();
    for len in 0..whole.len() {
        assert_eq!(read([&whole[..len]]).unwrap_err(), SnapshotError::Incomplete, "cut after {len} bytes");
    }
}

#[test]
fn a_stream_with_something_behind_its_end_is_refused() {
    let whole = pieces(&rich().table).concat();
    assert_eq!(read([&whole[..], &[0]]).unwrap_err(), SnapshotError::Incomplete);
    assert_eq!(read([&whole[..], &whole[..]]).unwrap_err(), SnapshotError::Malformed);
}

#[test]
fn a_stream_of_a_later_format_is_refused_as_such_whatever_its_header_looks_like() {
    let later = [4_u8, 0, 0, 0, 0, 2, 0xff, 0xff];
    assert_eq!(read([&later[..]]).unwrap_err(), SnapshotError::Format(2));
}

#[test]
fn a_stream_that_does_not_begin_with_its_header_is_refused() {
    let whole = pieces(&rich().table).concat();
    let header_len = u32::from_le_bytes(whole[..4].try_into().unwrap()) as usize + 4;
    assert_eq!(read([&whole[header_len..]]).unwrap_err(), SnapshotError::Malformed);
}

#[test]
fn an_empty_table_has_a_snapshot_too() {
    let empty = LockTable::default();
    let whole = pieces(&empty);
    assert_eq!(whole.len(), 1);
    assert_eq!(read(whole.iter().map(Vec::as_slice)).unwrap().digest(), empty.digest());
}

#[test]
fn endings_that_are_forgotten_take_no_room() {
    let mut story = Story::default();
    for n in 0..3_000 {
        let token = format!("attempt {n}");
        story.do_together(n, &[acquire(ALICE, "db").token(&token), release(ALICE, "db").token(&token)]);
    }
    let full = pieces(&story.table).concat().len();
    // A few entries later: one entry does not drop them all.
    for _ in 0..3 {
        story.leap(3_000 + ENDING_KEPT_MS);
    }
    assert!(pieces(&story.table).concat().len() < full - 3_000 * 16);
}

/// The table goes on while a snapshot of it is being written: what is written is the moment when it was taken.
#[test]
fn a_snapshot_is_one_moment_however_long_it_takes_to_write() {
    let mut story = Story::default();
    for n in 0..6_000 {
        story.grants(
            0,
            acquire(ALICE, &format!("lock {n:06}")).metadata(r#"{"about":"the length of this text"}"#),
        );
    }
    let digest = story.table.digest();
    let mut view = story.table.snapshot();
    let mut written = vec![view.next_piece().unwrap()];
    for n in 0..6_000 {
        story.releases(1, release(ALICE, &format!("lock {n:06}")));
        story.grants(2, acquire(BOB, &format!("another {n:06}")));
    }
    written.extend(std::iter::from_fn(|| view.next_piece()));
    assert!(written.len() > 2, "long enough to be written in several pieces");
    assert!(written.iter().all(|piece| piece.len() < 300_000));
    assert_eq!(read(written.iter().map(Vec::as_slice)).unwrap().digest(), digest);
}

#[test]
fn a_digest_tells_tables_apart_that_differ_in_one_thing() {
    let mut digests = vec![LockTable::default().digest()];
    let mut story = Story::default();
    story.leader_does(1, Op::Vouch { node: NodeId(1), boot: 1 }).unwrap();
    digests.push(story.table.digest());
    story.grants(1, acquire(ALICE, "db"));
    digests.push(story.table.digest());
    story.renews(2, renew(ALICE, "db"));
    digests.push(story.table.digest());
    story.releases(2, release(ALICE, "db"));
    digests.push(story.table.digest());
    digests.sort_unstable();
    digests.dedup();
    assert_eq!(digests.len(), 5);
}
