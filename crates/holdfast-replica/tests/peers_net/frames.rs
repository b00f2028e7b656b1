//! The codec of frames and greetings.

use bytes::{Bytes, BytesMut};
use futures_util::FutureExt;
use holdfast_replica::peers::Hello;
use holdfast_replica::peers::frame::{self, Frame, FrameRole, HEADER_LEN};
use holdfast_replica::peers::handshake::{Opening, Reply, common_version, read_greeting};
use proptest::prelude::*;

const BODY_LEN_MAX: usize = 100_000;

fn frames() -> impl Strategy<Value = Frame> {
    let role = prop_oneof![Just(FrameRole::Request), Just(FrameRole::Answer), Just(FrameRole::Failure)];
    let body = prop_oneof![
        9 => proptest::collection::vec(any::<u8>(), 0..200),
        1 => proptest::collection::vec(any::<u8>(), 0..BODY_LEN_MAX),
    ];
    (any::<u64>(), any::<u8>(), role, body.prop_map(Bytes::from)).prop_map(|(id, kind, role, body)| Frame {
        id,
        kind,
        role,
        body,
    })
}

fn hellos() -> impl Strategy<Value = Hello> {
    (any::<Option<u128>>(), any::<u64>(), any::<u128>(), any::<u64>(), "[ -~]{0,64}")
        .prop_map(|(cluster, node, storage, boot, software)| Hello { cluster, node, storage, boot, software })
}

fn openings() -> impl Strategy<Value = Opening> {
    (any::<(u16, u16)>(), any::<u8>(), any::<u64>(), any::<u64>(), hellos()).prop_map(
        |((min, max), lane, to, connection, hello)| Opening {
            versions: min..=max,
            lane,
            to,
            connection,
            hello,
        },
    )
}

fn replies() -> impl Strategy<Value = Reply> {
    prop_oneof![
        (any::<u16>(), hellos()).prop_map(|(version, hello)| Reply::Accepted { version, hello }),
        (1..=u8::MAX, "[ -~]{0,512}").prop_map(|(code, text)| Reply::Refused { code, text }),
    ]
}

/// The greeting's body; the bytes are all there, so the reading never waits.
fn body_of(mut message: &[u8]) -> Option<Vec<u8>> {
    let body = read_greeting(&mut message).now_or_never().expect("a slice is always ready").ok();
    body.filter(|_| message.is_empty())
}

proptest! {
    #[test]
    fn frames_survive_the_wire_in_whatever_pieces_they_arrive(
        sent in proptest::collection::vec(frames(), 1..8),
        piece in 1_usize..5_000,
    ) {
        let mut wire = BytesMut::new();
        sent.iter().for_each(|frame| frame::encode(frame, &mut wire));
        let (mut buf, mut received) = (BytesMut::new(), Vec::new());
        for piece in wire.chunks(piece) {
            buf.extend_from_slice(piece);
            while let Some(frame) = frame::decode(&mut buf, BODY_LEN_MAX).unwrap() {
                received.push(frame);
            }
        }
        prop_assert_eq!(received, sent);
        prop_assert!(buf.is_empty());
    }

    #[test]
    fn a_frame_with_any_changed_byte_is_an_error(
        frame in frames(),
        at in any::<prop::sample::Index>(),
        change in 1..=u8::MAX,
    ) {
        let mut wire = BytesMut::new();
        frame::encode(&frame, &mut wire);
        let at = at.index(wire.len());
        wire[at] ^= change;
        prop_assert!(frame::decode(&mut wire, BODY_LEN_MAX).is_err());
    }

    #[test]
    fn arbitrary_bytes_neither_panic_nor_make_a_frame(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        let mut buf = BytesMut::from(&bytes[..]);
        prop_assert!(!matches!(frame::decode(&mut buf, BODY_LEN_MAX), Ok(Some(_))));
    }

    #[test]
    fn an_announced_length_takes_no_memory(len in 0..=u32::MAX, rest in proptest::collection::vec(any::<u8>(), 0..HEADER_LEN)) {
        let mut buf = BytesMut::new();
        buf.extend_from_slice(&len.to_le_bytes());
        buf.extend_from_slice(&rest);
        let before = buf.capacity();
        let _ = frame::decode(&mut buf, u32::MAX as usize);
        prop_assert_eq!(buf.capacity(), before);
    }

    #[test]
    fn greetings_survive_the_wire(opening in openings(), reply in replies()) {
        prop_assert_eq!(Opening::decode(&body_of(&opening.encode()).unwrap()), Ok(opening));
        prop_assert_eq!(Reply::decode(&body_of(&reply.encode()).unwrap()), Ok(reply));
    }

    #[test]
    fn a_greeting_with_any_changed_byte_is_an_error(
        opening in openings(),
        at in any::<prop::sample::Index>(),
        change in 1..=u8::MAX,
    ) {
        let mut wire = opening.encode().to_vec();
        let at = at.index(wire.len());
        wire[at] ^= change;
        prop_assert_eq!(body_of(&wire), None);
    }

    #[test]
    fn arbitrary_bytes_are_no_greeting(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
        prop_assert!(body_of(&bytes).is_none());
        // A valid checksum around nonsense must not matter either.
        let _ = (Opening::decode(&bytes), Reply::decode(&bytes));
    }

    #[test]
    fn the_lower_maximum_is_the_common_version_if_both_speak_it(
        (a, b) in (0_u16..20, 0_u16..20), (c, d) in (0_u16..20, 0_u16..20),
    ) {
        let (ours, theirs) = (a..=b, c..=d);
        let highest_common = ours.clone().filter(|version| theirs.contains(version)).max();
        prop_assert_eq!(common_version(ours, theirs), highest_common);
    }
}
