//! What votes, log ids, entries and snapshot headings look like on disk: ours, whatever openraft does with its own.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use bytes::{BufMut, Bytes, BytesMut};
use openraft::impls::{BasicNode, leader_id_std};
use openraft::vote::RaftLeaderId;
use openraft::{EntryPayload, Membership, alias};
use serde::{Deserialize, Serialize};

use crate::consensus::types::{Entry, GroupBytes, LogId, SnapshotMeta, StoredMembership, Types, VoteOf};
use crate::log::{LogPoint, LogRecord};
use crate::world::{NodeId, Runtime};

const VOTE_FORMAT: u8 = 1;
const SNAPSHOT_META_FORMAT: u8 = 1;
const BLANK: u8 = 0;
const GROUP: u8 = 1;
const MEMBERSHIP: u8 = 2;

#[derive(Serialize, Deserialize)]
struct VoteRecord {
    format: u8,
    term: u64,
    node: NodeId,
    committed: bool,
}

/// Members as they lie on disk: the voters of one configuration, or of two while one replaces the other.
#[derive(Serialize, Deserialize)]
struct MembershipRecord {
    configs: Vec<BTreeSet<NodeId>>,
    /// `HOST:PORT` for peers, of voters and learners.
    nodes: BTreeMap<NodeId, String>,
}

#[derive(Serialize, Deserialize)]
struct SnapshotMetaRecord {
    format: u8,
    /// Term and index.
    last: Option<(u64, u64)>,
    membership_at: Option<(u64, u64)>,
    membership: MembershipRecord,
}

fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the {what} is not what this program writes"))
}

fn encode<T: Serialize>(value: &T) -> Bytes {
    postcard::to_stdvec(value).expect("the records contain nothing that postcard cannot encode").into()
}

pub(crate) fn encode_vote<R: Runtime>(vote: &VoteOf<R>) -> Bytes {
    let leader = vote.leader_id();
    encode(&VoteRecord {
        format: VOTE_FORMAT,
        term: leader.term,
        node: leader.voted_for,
        committed: vote.is_committed(),
    })
}

pub(crate) fn decode_vote<R: Runtime>(bytes: &[u8]) -> io::Result<VoteOf<R>> {
    let vote: VoteRecord = postcard::from_bytes(bytes).map_err(|_| malformed("vote"))?;
    if vote.format != VOTE_FORMAT {
        return Err(malformed("vote"));
    }
    let made = if vote.committed { VoteOf::<R>::new_committed } else { VoteOf::<R>::new };
    Ok(made(vote.term, vote.node))
}

/// What names the leader of a term: there is at most one, so its node does not matter.
pub(crate) fn led_in<R: Runtime>(term: u64) -> alias::CommittedLeaderIdOf<Types<R>> {
    leader_id_std::LeaderId::new(term, 0).to_committed()
}

pub(crate) fn new_log_id<R: Runtime>(term: u64, index: u64) -> LogId<R> {
    LogId::<R>::new(led_in::<R>(term), index)
}

/// The term of a log id: what tells two entries at the same index apart.
pub(crate) fn encode_term<R: Runtime>(log_id: &LogId<R>) -> Bytes {
    Bytes::copy_from_slice(&term_of::<R>(log_id).to_le_bytes())
}

pub(crate) fn term_of<R: Runtime>(log_id: &LogId<R>) -> u64 {
    **log_id.committed_leader_id()
}

pub(crate) fn decode_point<R: Runtime>(point: &LogPoint) -> io::Result<LogId<R>> {
    decode_log_id::<R>(point.index, &point.id)
}

fn decode_log_id<R: Runtime>(index: u64, id: &[u8]) -> io::Result<LogId<R>> {
    let term = id.try_into().map_err(|_| malformed("log id"))?;
    Ok(new_log_id::<R>(u64::from_le_bytes(term), index))
}

/// Index and term, 16 bytes.
pub(crate) fn encode_committed<R: Runtime>(log_id: &LogId<R>) -> Bytes {
    let mut bytes = BytesMut::with_capacity(16);
    bytes.put_u64_le(log_id.index);
    bytes.put_u64_le(term_of::<R>(log_id));
    bytes.freeze()
}

pub(crate) fn decode_committed<R: Runtime>(bytes: &[u8]) -> io::Result<LogId<R>> {
    let (index, term) = bytes.split_first_chunk::<8>().ok_or_else(|| malformed("committed log id"))?;
    decode_log_id::<R>(u64::from_le_bytes(*index), term)
}

pub(crate) fn encode_entry<R: Runtime>(entry: &Entry<R>) -> LogRecord {
    let payload = match &entry.payload {
        EntryPayload::Blank => Bytes::from_static(&[BLANK]),
        EntryPayload::Normal(group) => tagged(GROUP, &group.0),
        EntryPayload::Membership(membership) => tagged(MEMBERSHIP, &encode(&record_of(membership))),
    };
    LogRecord { index: entry.log_id.index, id: encode_term::<R>(&entry.log_id), payload }
}

fn tagged(tag: u8, body: &[u8]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(1 + body.len());
    bytes.put_u8(tag);
    bytes.put_slice(body);
    bytes.freeze()
}

pub(crate) fn decode_entry<R: Runtime>(record: &LogRecord) -> io::Result<Entry<R>> {
    let tag = record.payload.first().ok_or_else(|| malformed("log entry"))?;
    let body = record.payload.slice(1..);
    let payload = match *tag {
        BLANK => EntryPayload::Blank,
        GROUP => EntryPayload::Normal(GroupBytes(body)),
        MEMBERSHIP => {
            let record = postcard::from_bytes(&body).map_err(|_| malformed("membership"))?;
            EntryPayload::Membership(membership_of(record)?)
        }
        _ => return Err(malformed("log entry")),
    };
    Ok(Entry::<R> { log_id: decode_log_id::<R>(record.index, &record.id)?, payload })
}

/// The group of commands in a log record; none in other records.
pub(crate) fn group_of(record: &LogRecord) -> Option<Bytes> {
    (record.payload.first() == Some(&GROUP)).then(|| record.payload.slice(1..))
}

fn record_of(membership: &Membership<NodeId, BasicNode>) -> MembershipRecord {
    MembershipRecord {
        configs: membership.get_joint_config().clone(),
        nodes: membership.nodes().map(|(id, node)| (*id, node.addr.clone())).collect(),
    }
}

fn membership_of(record: MembershipRecord) -> io::Result<Membership<NodeId, BasicNode>> {
    let nodes: BTreeMap<_, _> = record.nodes.into_iter().map(|(id, addr)| (id, BasicNode { addr })).collect();
    Membership::new(record.configs, nodes).map_err(|_| malformed("membership"))
}

fn pair_of<R: Runtime>(log_id: &LogId<R>) -> (u64, u64) {
    (term_of::<R>(log_id), log_id.index)
}

pub(crate) fn encode_meta<R: Runtime>(meta: &SnapshotMeta<R>) -> Bytes {
    encode(&SnapshotMetaRecord {
        format: SNAPSHOT_META_FORMAT,
        last: meta.last_log_id.as_ref().map(pair_of::<R>),
        membership_at: meta.last_membership.log_id().as_ref().map(pair_of::<R>),
        membership: record_of(meta.last_membership.membership()),
    })
}

pub(crate) fn decode_meta<R: Runtime>(bytes: &[u8]) -> io::Result<SnapshotMeta<R>> {
    let record: SnapshotMetaRecord =
        postcard::from_bytes(bytes).map_err(|_| malformed("heading of the snapshot"))?;
    if record.format != SNAPSHOT_META_FORMAT {
        return Err(malformed("heading of the snapshot"));
    }
    let at = |pair: (u64, u64)| new_log_id::<R>(pair.0, pair.1);
    Ok(SnapshotMeta::<R> {
        last_log_id: record.last.map(at),
        last_membership: StoredMembership::<R>::new(
            record.membership_at.map(at),
            membership_of(record.membership)?,
        ),
    })
}
