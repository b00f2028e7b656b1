//! Numbers of lanes and call kinds on the wire.

use crate::world::{CallKind, PeerLane};

/// The lane's number in a greeting.
pub(super) fn lane_number(lane: PeerLane) -> u8 {
    match lane {
        PeerLane::Consensus => 1,
        PeerLane::Forward => 2,
        PeerLane::Bulk => 3,
    }
}

/// The lane with this number, if this version knows one.
pub(super) fn lane_from_number(number: u8) -> Option<PeerLane> {
    [PeerLane::Consensus, PeerLane::Forward, PeerLane::Bulk]
        .into_iter()
        .find(|lane| lane_number(*lane) == number)
}

/// The call kind with this number, if this version knows one.
pub(super) fn kind_from_number(number: u8) -> Option<CallKind> {
    const KINDS: [CallKind; 10] = [
        CallKind::Append,
        CallKind::Vote,
        CallKind::PreVote,
        CallKind::TransferLeader,
        CallKind::SnapshotChunk,
        CallKind::Propose,
        CallKind::ReadIndex,
        CallKind::Claim,
        CallKind::Status,
        CallKind::Operate,
    ];
    KINDS.into_iter().find(|kind| *kind as u8 == number)
}
