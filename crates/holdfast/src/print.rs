//! Answers for people.

use holdfast_client::api::{
    Cluster, Election, Fenced, Grant, GrantMany, HandedOver, Holder, Leader, Leadership, LimitSet, Lock,
    LockList, LockState, Member, MemberRemoved, Mode, Released, ReleasedLock, ReleasedMany, Session,
    SessionEnded, SessionInfo, SessionList, Transferred, Waiter,
};
use serde_json::{Map, Value};

use crate::duration::text;

pub(crate) fn grant(grant: &Grant) -> String {
    pairs(&[
        ("lock", grant.name.clone()),
        ("owner", grant.owner.clone()),
        ("fence", grant.fence.to_string()),
        ("token", grant.token.expose().into()),
        ("ttl", text(grant.ttl_ms)),
        ("expires in", text(grant.expires_in_ms)),
        ("at most", max_left(grant)),
    ])
}

/// What is left of the longest hold; nothing where there is none.
fn max_left(grant: &Grant) -> String {
    grant.max_left_ms.map(text).unwrap_or_default()
}

/// The token is known to whoever renews: it is not shown again.
pub(crate) fn renewed(grant: &Grant) -> String {
    pairs(&[
        ("lock", grant.name.clone()),
        ("fence", grant.fence.to_string()),
        ("ttl", text(grant.ttl_ms)),
        ("expires in", text(grant.expires_in_ms)),
        ("at most", max_left(grant)),
    ])
}

pub(crate) fn released(released: &Released) -> String {
    let Some(fence) = released.fence else { return format!("left the queue of {}", released.name) };
    let when = match released.effective_in_ms {
        Some(ms) => format!("; others can have it in {}, when its least hold is over", text(ms)),
        None => String::new(),
    };
    format!("released {} (fence {fence}){when}", released.name)
}

/// The same for a holder who says that it is done.
pub(crate) fn released_done(outcome: &Released) -> String {
    let done = match outcome.done {
        true => "it is done for this period",
        false => "it counts for no period: it was acquired without --once, or the period is over",
    };
    format!("{}; {done}", released(outcome))
}

pub(crate) fn election(election: &Election) -> String {
    let stale = if election.stale { " (stale)" } else { "" };
    let leader = election.leader.as_ref().map_or_else(|| "nobody".into(), leader_line);
    let mut rows = vec![
        vec!["election".into(), election.name.clone()],
        vec!["leader".into(), format!("{leader}{stale}")],
    ];
    if election.candidate_count > 0 {
        rows.push(vec!["candidates".into(), election.candidate_count.to_string()]);
    }
    rows.extend(waiter_rows(&election.candidates));
    table(&rows)
}

fn leader_line(leader: &Leader) -> String {
    let Leader { owner, fence, value, expires_in_ms } = leader;
    format!("{owner}, fence {fence}, {} left{}", text(*expires_in_ms), metadata_text(value))
}

pub(crate) fn proclaimed(lead: &Leadership) -> String {
    format!("{} says {} (fence {})", lead.name, lead.value, lead.fence)
}

pub(crate) fn resigned(released: &Released) -> String {
    match released.fence {
        Some(fence) => format!("resigned from {} (fence {fence})", released.name),
        None => format!("left the queue of {}", released.name),
    }
}

pub(crate) fn handed_over(handed: &HandedOver) -> String {
    format!("handed {} over to {} (fence {} has ended)", handed.name, handed.to, handed.fence)
}

pub(crate) fn grant_many(grant: &GrantMany) -> String {
    let mut rows = vec![("token", grant.token.expose().to_owned())];
    rows.extend(grants(grant));
    pairs(&rows)
}

pub(crate) fn renewed_many(grant: &GrantMany) -> String {
    pairs(&grants(grant))
}

fn grants(grant: &GrantMany) -> Vec<(&'static str, String)> {
    let mut rows = vec![("ttl", text(grant.ttl_ms)), ("expires in", text(grant.expires_in_ms))];
    let lock = |Fenced { name, fence }: &Fenced| ("lock", format!("{name}, fence {fence}"));
    rows.extend(grant.grants.iter().map(lock));
    rows
}

pub(crate) fn released_many(released: &ReleasedMany) -> String {
    if released.locks.is_empty() {
        return "nothing was left to release".into();
    }
    let line = |lock: &ReleasedLock| match lock.fence {
        Some(fence) => format!("released {} (fence {fence})", lock.name),
        None => format!("left the queue of {}", lock.name),
    };
    released.locks.iter().map(line).collect::<Vec<_>>().join("\n")
}

pub(crate) fn limit(set: &LimitSet) -> String {
    format!("{} has {} permits", set.name, set.limit)
}

pub(crate) fn lock(lock: &Lock) -> String {
    let state = match lock.state {
        LockState::Held => "held",
        LockState::Free => "free",
    };
    let stale = if lock.stale { " (stale)" } else { "" };
    let mut rows =
        vec![vec!["lock".into(), lock.name.clone()], vec!["state".into(), format!("{state}{stale}")]];
    if let (Some(limit), Some(out)) = (lock.limit, lock.permits_out) {
        rows.push(vec!["permits".into(), format!("{out} of {limit} are out")]);
    }
    if let Some(delay_ms) = lock.delay_ms {
        rows.push(vec!["delay".into(), format!("granted to nobody for {}", text(delay_ms))]);
    }
    rows.extend(lock.holders.iter().map(|holder| vec!["holder".into(), holder_line(holder)]));
    if lock.queue_length > 0 {
        rows.push(vec!["waiting".into(), lock.queue_length.to_string()]);
    }
    rows.extend(waiter_rows(&lock.queue));
    table(&rows)
}

fn holder_line(holder: &Holder) -> String {
    let Holder { owner, fence, ttl_ms, expires_in_ms, held_ms, mode, permits, session, metadata, .. } =
        holder;
    let share = match (mode, permits) {
        (Mode::Shared, _) => ", shared".to_owned(),
        (Mode::Exclusive, Some(1)) => ", 1 permit".to_owned(),
        (Mode::Exclusive, Some(permits)) => format!(", {permits} permits"),
        (Mode::Exclusive, None) => String::new(),
    };
    let session = session.as_ref().map(|id| format!(", in session {id}")).unwrap_or_default();
    let (left, ttl, held) = (text(*expires_in_ms), text(*ttl_ms), text(*held_ms));
    let metadata = metadata_text(metadata);
    let at_most = holder.max_left_ms.map(|ms| format!(", {} at most", text(ms))).unwrap_or_default();
    let releasing = if holder.releasing { ", released" } else { "" };
    format!(
        "{owner}, fence {fence}{share}{session}, held for {held}, {left} of {ttl} left{at_most}{releasing}{metadata}"
    )
}

/// Nothing is said with `{}`, and in an election with null.
fn metadata_text(metadata: &Value) -> String {
    let is_nothing = metadata.is_null() || metadata.as_object().is_some_and(Map::is_empty);
    if is_nothing { String::new() } else { format!(", {metadata}") }
}

fn waiter_rows(queue: &[Waiter]) -> impl Iterator<Item = Vec<String>> {
    (1..).zip(queue).map(|(place, waiter)| vec![format!("  {place}"), waiter_line(waiter)])
}

fn waiter_line(waiter: &Waiter) -> String {
    format!("{}, waiting for {}", waiter.owner, text(waiter.waiting_ms))
}

pub(crate) fn list(list: &LockList) -> String {
    let mut rows = vec![row(["NAME", "STATE", "OWNER", "FENCE", "LEFT", "WAITING"])];
    rows.extend(list.locks.iter().map(list_row));
    let more = list.next.as_ref().map(|next| format!("\nmore behind --after {next:?}")).unwrap_or_default();
    table(&rows) + &more
}

fn list_row(lock: &Lock) -> Vec<String> {
    let waiting = lock.queue_length.to_string();
    match lock.holders.as_slice() {
        [] => row([&lock.name, "free", "-", "-", "-", &waiting]),
        [holder, ..] => {
            let (fence, left) = (holder.fence.to_string(), text(holder.expires_in_ms));
            row([&lock.name, "held", &holder.owner, &fence, &left, &waiting])
        }
    }
}

pub(crate) fn session(session: &Session) -> String {
    pairs(&[
        ("session", session.id.clone()),
        ("owner", session.owner.clone()),
        ("token", session.token.expose().into()),
        ("ttl", text(session.ttl_ms)),
        ("expires in", text(session.expires_in_ms)),
    ])
}

/// The token is known to whoever renews: it is not shown again.
pub(crate) fn renewed_session(session: &Session) -> String {
    pairs(&[
        ("session", session.id.clone()),
        ("ttl", text(session.ttl_ms)),
        ("expires in", text(session.expires_in_ms)),
    ])
}

pub(crate) fn ended_session(ended: &SessionEnded) -> String {
    let locks = if ended.released == 1 { "lock" } else { "locks" };
    format!("ended session {}, which held {} {locks}", ended.id, ended.released)
}

pub(crate) fn session_info(info: &SessionInfo) -> String {
    let stale = if info.stale { " (stale)" } else { "" };
    let mut rows = vec![
        row(["session", &format!("{}{stale}", info.id)]),
        row(["owner", &info.owner]),
        row(["left", &format!("{} of {}", text(info.expires_in_ms), text(info.ttl_ms))]),
    ];
    rows.extend(info.holds.iter().map(|name| row(["holds", name])));
    rows.extend(info.waits.iter().map(|name| row(["waits", name])));
    table(&rows)
}

pub(crate) fn sessions(list: &SessionList) -> String {
    let mut rows = vec![row(["ID", "OWNER", "LEFT", "HELD", "WAITING"])];
    rows.extend(list.sessions.iter().map(|session| {
        let (left, held) = (text(session.expires_in_ms), session.held.to_string());
        row([&session.id, &session.owner, &left, &held, &session.waiting.to_string()])
    }));
    let more = list.next.as_ref().map(|next| format!("\nmore behind --after {next}")).unwrap_or_default();
    table(&rows) + &more
}

pub(crate) fn cluster(cluster: &Cluster) -> String {
    let none = || "none".to_owned();
    let head = pairs(&[
        ("cluster", cluster.cluster_id.clone().unwrap_or_else(none)),
        ("leader", cluster.leader_id.map_or_else(none, |id| id.to_string())),
        ("term", cluster.term.to_string()),
        ("answered by", cluster.node_id.to_string()),
        (
            "health",
            std::iter::once(&cluster.health.status)
                .chain(&cluster.health.reasons)
                .cloned()
                .collect::<Vec<_>>()
                .join("; "),
        ),
    ]);
    let mut rows =
        vec![row(["ID", "ROLE", "VOTER", "PEERS", "CLIENTS", "VERSION", "APPLIED", "LAG", "LAST SEEN"])];
    rows.extend(cluster.members.iter().map(member_row));
    format!("{head}\n\n{}", table(&rows))
}

fn member_row(member: &Member) -> Vec<String> {
    let unknown = || "-".to_owned();
    vec![
        member.id.to_string(),
        member.role.clone(),
        if member.voter { "yes" } else { "no" }.into(),
        member.peer_addr.clone(),
        member.client_url.clone().unwrap_or_else(unknown),
        member.version.clone().unwrap_or_else(unknown),
        member.applied_index.map_or_else(unknown, |index| index.to_string()),
        member.lag.map_or_else(unknown, |lag| lag.to_string()),
        member.last_seen_ms.map_or_else(unknown, |ms| format!("{} ago", text(ms))),
    ]
}

pub(crate) fn member_removed(removed: &MemberRemoved) -> String {
    format!("removed node {}", removed.id)
}

pub(crate) fn transferred(transferred: &Transferred) -> String {
    format!("node {} leads", transferred.leader_id)
}

pub(crate) fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(String::from).to_vec()
}

/// A row each; what is empty is left out.
fn pairs(pairs: &[(&str, String)]) -> String {
    let there = pairs.iter().filter(|(_, value)| !value.is_empty());
    table(&there.map(|(key, value)| vec![(*key).to_owned(), value.clone()]).collect::<Vec<_>>())
}

/// Columns as wide as their widest cell, two spaces apart; the last one is not filled up.
pub(crate) fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |at: usize| {
        rows.iter().filter_map(|row| row.get(at)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        cells.join("  ").trim_end().to_owned()
    };
    rows.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_lines_have_no_spaces_at_their_end() {
        let rows = [row(["NAME", "OWNER"]), row(["größe", "a"]), row(["b", ""])];
        assert_eq!(table(&rows), "NAME   OWNER\ngröße  a\nb");
    }

    #[test]
    fn a_released_place_in_the_queue_is_no_released_hold() {
        let queued =
            Released { name: "db".into(), fence: None, released: true, effective_in_ms: None, done: false };
        assert_eq!(released(&queued), "left the queue of db");
    }
}
