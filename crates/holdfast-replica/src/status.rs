//! What a node knows about itself and its cluster.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::join_all;
use openraft::rt::WatchReceiver;
use openraft_rt::Instant as _;

use crate::groups::LockGroups;
use crate::handle::{ClusterHealth, ClusterStatus, HealthStatus, Member, NodeStatus, Role};
use crate::leadership::Leader;
use crate::lock_counters::GroupNumbers;
use crate::replica::{Inner, Replica};
use crate::wire::{self, NodeReport};
use crate::world::{CallKind, NodeId, PeerAddress, PeerLane, Runtime};

/// A member that does not answer within this time is shown without what only it knows.
const REPORT_TIMEOUT: Duration = Duration::from_millis(500);
/// A member that is further behind the leader is said to be, in log entries.
const LAG_NOTED: u64 = 10_000;

impl<R: Runtime> Inner<R> {
    /// What this node says of itself.
    pub(crate) fn report(&self) -> NodeReport {
        NodeReport {
            client_url: self.about.client_url.clone(),
            version: self.about.version.clone(),
            applied_index: self.effects.progress.get().position.index,
            leads: self.raft.is_leader(),
            is_draining: self.is_draining.get(),
            storage: self.about.storage,
            heard_ms: self.heard_ms(),
        }
    }

    /// How long ago this node has heard from each of the others, if it leads.
    fn heard_ms(&self) -> Vec<(NodeId, Option<u64>)> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        let now = R::Instant::now();
        let ago =
            |at: R::Instant| u64::try_from(now.saturating_duration_since(at).as_millis()).unwrap_or(u64::MAX);
        let others = metrics.heartbeat.iter().flatten().filter(|(node, _)| **node != self.node_id);
        others.map(|(node, at)| (*node, at.as_ref().map(|at| ago(**at)))).collect()
    }

    /// What another node says of itself; none if it does not answer.
    pub(crate) async fn report_of(&self, peer: &PeerAddress) -> Option<NodeReport> {
        if peer.node == self.node_id {
            return Some(self.report());
        }
        let (lane, kind) = (PeerLane::Forward, CallKind::Status);
        let answer = self.transport.call(peer, lane, kind, Bytes::new(), REPORT_TIMEOUT).await;
        wire::decode(&answer.ok()?)
    }

    /// Why this node cannot serve.
    fn obstacle(&self) -> Option<String> {
        if self.is_draining.get() {
            return Some("the node is shutting down".into());
        }
        if let Some(why) = self.removed.get() {
            return Some(why);
        }
        if self.space.is_short() {
            return Some("the node is short of disk space".into());
        }
        if let Leader::Nobody(why) = self.leadership.leader() {
            return Some(why.into());
        }
        // What it has to settle comes after its recovery.
        let has_settled = self.has_settled.load(Ordering::Relaxed);
        (!has_settled).then(|| "the node is still catching up after its start".into())
    }
}

impl<R: Runtime> Replica<R> {
    /// The cluster as this node sees it; asks the members what they say of themselves, for half a second at most.
    pub async fn cluster(&self) -> ClusterStatus {
        let inner = &self.0;
        // Not whom openraft remembers: a leader that has lost its majority leads nobody.
        let leader_id = match inner.leadership.leader() {
            Leader::Me(_) => Some(inner.node_id),
            Leader::Other(leader) => Some(leader.node),
            Leader::Nobody(_) => None,
        };
        let (term, is_changing, peers) = {
            let metrics = inner.raft.metrics();
            let metrics = metrics.borrow_watched();
            let membership = metrics.membership_config.membership();
            let voters: Vec<NodeId> = membership.voter_ids().collect();
            let peers: Vec<_> = membership
                .nodes()
                .map(|(id, node)| {
                    let address = PeerAddress { node: *id, addr: node.addr.clone() };
                    (address, voters.contains(id))
                })
                .collect();
            (metrics.current_term, membership.get_joint_config().len() > 1, peers)
        };
        let reports = join_all(peers.iter().map(|(peer, _)| inner.report_of(peer))).await;
        let of_leader = peers.iter().zip(&reports).find(|((peer, _), _)| Some(peer.node) == leader_id);
        let of_leader = of_leader.and_then(|(_, report)| report.clone());
        let members: Vec<_> = peers
            .into_iter()
            .zip(&reports)
            .map(|((peer, voter), report)| {
                member(peer, voter, report.as_ref(), of_leader.as_ref(), leader_id)
            })
            .collect();
        let health = health(inner.obstacle(), leader_id, is_changing, &members, &reports);
        let cluster = inner.effects.progress.get().cluster;
        ClusterStatus {
            cluster_id: cluster.map(|id| id.to_string()),
            node_id: inner.node_id,
            leader_id,
            term,
            members,
            health,
        }
    }

    /// What has happened to locks, by group. On every node it counts the whole cluster.
    pub fn lock_numbers(&self) -> Vec<GroupNumbers> {
        self.0.effects.counters.read()
    }

    /// What locks are counted by.
    pub fn lock_groups(&self) -> &Arc<LockGroups> {
        self.0.effects.counters.groups()
    }

    /// Numbers about this node. Cheap.
    pub fn status(&self) -> NodeStatus {
        let inner = &self.0;
        let not_ready = inner.obstacle();
        let (locks_held, waiters, sessions, last_fence) = inner.machine.look(|state| {
            let (held, waiting) = state.table.counts();
            (held, waiting, state.table.sessions_len(), state.table.last_fence())
        });
        // While these are borrowed nothing may borrow them again or wait: see `Leadership::leader`.
        let metrics = inner.raft.metrics();
        let metrics = metrics.borrow_watched();
        let index = |log_id: &Option<crate::consensus::types::LogId<R>>| {
            log_id.as_ref().map_or(0, |log_id| log_id.index)
        };
        let last_log_index = metrics.last_log_index.unwrap_or(0);
        let (snapshot_index, snapshot_bytes) = inner.snapshots.newest();
        let stats = &inner.proposals.stats;
        NodeStatus {
            not_ready,
            is_leader: inner.leadership.leading().is_some(),
            leader_id: metrics.current_leader,
            term: metrics.current_term,
            leader_changes: inner.leadership.changes(),
            last_log_index,
            committed_index: index(&metrics.local_committed),
            applied_index: index(&metrics.last_applied),
            snapshot_index,
            snapshot_bytes,
            log_bytes: inner.log.disk_bytes(),
            free_bytes: inner.disk.free_bytes().unwrap_or(0),
            locks_held,
            waiters,
            sessions,
            local_waiters: inner.effects.waiters.len() as u64,
            last_fence,
            commands_proposed: stats.commands.load(Ordering::Relaxed),
            commands_forwarded: stats.forwarded.load(Ordering::Relaxed),
            groups_proposed: stats.groups.load(Ordering::Relaxed),
            proposal_queue: stats.waiting.load(Ordering::Relaxed),
            endings: inner.effects.counters.endings(),
            grants: inner.effects.counters.grants(),
            follower_lag: follower_lag(inner.node_id, last_log_index, metrics.replication.as_ref()),
            syncs: inner.log_disk_stats.syncs(),
            sync_seconds: inner.log_disk_stats.sync_summary().micros_total as f64 / 1e6,
            node_stores_set_aside: inner.node_store.health().set_aside,
        }
    }
}

fn member(
    peer: PeerAddress,
    voter: bool,
    report: Option<&NodeReport>,
    of_leader: Option<&NodeReport>,
    leader_id: Option<NodeId>,
) -> Member {
    let leads = leader_id == Some(peer.node);
    let role = match report {
        None => None,
        Some(report) if report.leads && leads => Some(Role::Leader),
        Some(_) if voter => Some(Role::Follower),
        Some(_) => Some(Role::Learner),
    };
    let heard = of_leader.and_then(|leader| leader.heard_ms.iter().find(|(node, _)| *node == peer.node));
    let applied = |report: &NodeReport| report.applied_index;
    Member {
        id: peer.node,
        role,
        voter,
        peer_addr: peer.addr,
        client_url: report.map(|report| report.client_url.clone()),
        version: report.map(|report| report.version.clone()),
        applied_index: report.map(applied),
        lag: report.map(applied).zip(of_leader.map(applied)).map(|(own, leads)| leads.saturating_sub(own)),
        last_seen_ms: if leads { report.map(|_| 0) } else { heard.and_then(|(_, ms)| *ms) },
    }
}

/// What keeps the cluster from being as well as it could be.
fn health(
    obstacle: Option<String>,
    leader_id: Option<NodeId>,
    is_changing: bool,
    members: &[Member],
    reports: &[Option<NodeReport>],
) -> ClusterHealth {
    let mut reasons = Vec::new();
    if leader_id.is_none() {
        reasons.push(obstacle.unwrap_or_else(|| "no leader with a majority is known".into()));
    }
    if is_changing {
        reasons.push("a change of the members is under way".into());
    }
    for (member, report) in members.iter().zip(reports) {
        let (id, what) = (member.id, if member.voter { "node" } else { "learner" });
        match report {
            None => {
                let since = member.last_seen_ms.map(|ms| format!(", last heard of {} s ago", ms / 1000));
                reasons.push(format!("{what} {id} does not answer{}", since.unwrap_or_default()));
            }
            Some(report) if report.is_draining => reasons.push(format!("{what} {id} is shutting down")),
            Some(_) => {}
        }
        if let Some(lag) = member.lag.filter(|lag| *lag > LAG_NOTED) {
            reasons.push(format!("{what} {id} is {lag} log entries behind the leader"));
        }
    }
    let voters = || members.iter().filter(|member| member.voter);
    let answering = voters().filter(|member| member.role.is_some()).count();
    if answering < voters().count() && answering == voters().count() / 2 + 1 {
        reasons.push("if one more voter fails, the cluster stops".into());
    }
    let status = match (leader_id, reasons.is_empty()) {
        (None, _) => HealthStatus::Down,
        (Some(_), false) => HealthStatus::Degraded,
        (Some(_), true) => HealthStatus::Ok,
    };
    ClusterHealth { status, reasons }
}

fn follower_lag<L: HasIndex>(
    node_id: NodeId,
    last_log_index: u64,
    replication: Option<&BTreeMap<NodeId, Option<L>>>,
) -> BTreeMap<NodeId, u64> {
    let followers = replication.into_iter().flatten().filter(|(id, _)| **id != node_id);
    followers
        .map(|(id, matching)| {
            let index = matching.as_ref().map_or(0, HasIndex::index_of);
            (*id, last_log_index.saturating_sub(index))
        })
        .collect()
}

/// A log id, whatever its leader's type.
trait HasIndex {
    fn index_of(&self) -> u64;
}

impl<T: openraft::vote::RaftCommittedLeaderId> HasIndex for openraft::LogId<T> {
    fn index_of(&self) -> u64 {
        self.index
    }
}
