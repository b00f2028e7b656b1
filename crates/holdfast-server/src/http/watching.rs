//! Watching: what happens, what has happened, and what is in the way.

use std::time::{Duration, UNIX_EPOCH};

use bytes::Bytes;
use holdfast_api::{EventReset, InvalidArgument, Mode, PastHold, PastHolds};
use holdfast_core::{Event, Fence, Happening, LockName, LockView, Share};
use holdfast_replica::events::Watched;
use holdfast_replica::node::NodeEventStream;
use serde::Serialize;
use serde_json::value::RawValue;
use tokio::sync::mpsc;

use super::answer::Reply;
use super::failure::Failure;
use super::handlers::{Handled, query};
use super::json;
use super::service::{Call, Service};

const EVENT_STREAM: &str = "text/event-stream";
/// A stream on which nothing happens says so this often.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// The last millisecond of the year 9999.
const WALL_CLOCK_MAX_MS: u64 = 253_402_300_799_999;
/// Pieces that may wait for a slow client; what comes after them stays in the history, for as long as that is kept.
const PIECES_MAX: usize = 4;

/// `data` of an event: the shape is that of `holdfast_api::LockEvent`.
#[derive(Serialize)]
struct EventBody<'a> {
    seq: u64,
    name: &'a str,
    owner: &'a str,
    fence: Option<u64>,
    cause: Option<&'static str>,
    mode: Mode,
    #[serde(skip_serializing_if = "Option::is_none")]
    permits: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waited_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    held_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    by: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
}

fn event_body(event: &Event) -> EventBody<'_> {
    let (ttl_ms, held_ms, metadata) = match &event.what {
        Happening::Acquired { ttl, metadata, .. } => (Some(ttl.ms()), None, Some(metadata)),
        Happening::Ended { held_ms, .. } => (None, Some(*held_ms), None),
        Happening::Changed { metadata, .. } => (None, None, Some(metadata)),
        Happening::Queued | Happening::Left(_) => (None, None, None),
    };
    EventBody {
        seq: event.seq,
        name: event.lock.as_str(),
        owner: event.owner.as_str(),
        fence: event.fence().map(|fence| fence.0),
        cause: event.cause().map(|cause| cause.as_str()),
        mode: mode_of(event.share),
        permits: permits_of(event.share),
        ttl_ms,
        waited_ms: event.waited_ms(),
        held_ms,
        metadata: metadata.map(json::raw),
        by: event.by.as_ref().map(|by| by.by.as_str()),
        reason: event.by.as_ref().map(|by| by.reason.as_str()),
    }
}

fn mode_of(share: Share) -> Mode {
    if share == Share::Shared { Mode::Shared } else { Mode::Exclusive }
}

fn permits_of(share: Share) -> Option<u32> {
    share.limit().map(|_| share.permits())
}

pub(super) async fn events(service: &Service, call: &Call<'_>) -> Handled {
    let query = query(call, &["prefix", "since"])?;
    let prefix = query.name("prefix")?.unwrap_or_default();
    // A client that connects again says itself how far it is, whatever stood in the path at first.
    let since = match last_event_id(call)? {
        Some(seq) => Some(seq),
        None => query.seq("since")?,
    };
    let stream = service.replica.watch(prefix, since).await?;
    let (sender, pieces) = mpsc::channel(PIECES_MAX);
    // From here on the client knows where to go on, even if nothing happens.
    let first = format!("id: {}\n\n", stream.seq());
    tokio::spawn(tell(stream, sender));
    Ok(Reply::stream(EVENT_STREAM, first, pieces))
}

fn last_event_id(call: &Call<'_>) -> Result<Option<u64>, InvalidArgument> {
    let Some(value) = call.head.headers.get("last-event-id") else { return Ok(None) };
    let text = value.to_str().unwrap_or_default();
    let seq = text.parse().map_err(|_| {
        InvalidArgument::new("Last-Event-ID", "must be the number of an event, as `id` gives it")
    })?;
    Ok(Some(seq))
}

/// Tells all that happens until the client hangs up, or this node cannot follow the cluster any more.
async fn tell(mut stream: NodeEventStream, sender: mpsc::Sender<Bytes>) {
    loop {
        let piece = tokio::select! {
            () = sender.closed() => return,
            told = tokio::time::timeout(HEARTBEAT, stream.next()) => match told {
                Ok(Ok(told)) => written(&told),
                Ok(Err(_)) => return, // The client goes on at another node.
                Err(_) if stream.check().await.is_err() => return,
                Err(_) => Bytes::from_static(b":\n\n"),
            },
        };
        if sender.send(piece).await.is_err() {
            return;
        }
    }
}

fn written(told: &Watched) -> Bytes {
    let mut text = Vec::new();
    match told {
        Watched::Events { events, .. } => {
            for event in events {
                write_event(&mut text, event.kind(), event.seq, &event_body(event));
            }
        }
        Watched::Reset { seq, reason } => {
            write_event(&mut text, "reset", *seq, &EventReset { seq: *seq, reason: (*reason).into() });
        }
    }
    text.into()
}

fn write_event(text: &mut Vec<u8>, kind: &str, seq: u64, data: &impl Serialize) {
    text.extend_from_slice(format!("event: {kind}\nid: {seq}\ndata: ").as_bytes());
    serde_json::to_writer(&mut *text, data).expect("events have text keys only, and memory takes all bytes");
    text.extend_from_slice(b"\n\n");
}

pub(super) async fn history(service: &Service, call: &Call<'_>, lock: LockName) -> Handled {
    let query = query(call, &["limit", "before"])?;
    let (limit, before) = (query.limit()?, query.seq("before")?.map(Fence));
    let past = service.replica.past(lock.clone()).await?;
    // What is older lies on the disk.
    let read = tokio::task::spawn_blocking(move || past.page(before, limit + 1));
    let mut holds = read.await.map_err(|_| Failure::bug())?;
    let has_more = holds.len() > limit;
    holds.truncate(limit);
    let next = holds.last().filter(|_| has_more).map(|last| last.fence.0);
    let endings = holds.into_iter().map(ending).collect();
    Ok(Reply::json(json::bytes(&PastHolds { name: lock.as_str().into(), endings, next })))
}

fn ending(hold: holdfast_replica::past::PastHold) -> PastHold {
    let (by, reason) = hold.by.map(|by| (by.by.to_string(), by.reason.as_str().to_owned())).unzip();
    PastHold {
        fence: hold.fence.0,
        owner: hold.owner.to_string(),
        mode: mode_of(hold.share),
        permits: permits_of(hold.share),
        held_ms: hold.held_ms,
        ended: hold.cause.as_str().into(),
        by,
        reason,
        at: hold.unix_ms.and_then(rfc_3339),
    }
}

pub(super) async fn why(service: &Service, call: &Call<'_>, lock: LockName) -> Handled {
    let consistency = query(call, &["consistency"])?.consistency()?;
    let look =
        move |table: &holdfast_core::LockTable, now| (table.view(&lock, now), table.done_run(&lock, now));
    let (view, done) = service.replica.read(consistency, look).await?;
    let mut why = sentence(&view);
    if let Some(done) = &done {
        let (owner, fence, ago) = (&done.owner, done.fence, seconds(done.done_ms_ago));
        let next = seconds(done.next_in_ms);
        why.push_str(&format!(
            " It is done for this period: by {owner} (fence {fence}), {ago} s ago; the next run may be in {next} s."
        ));
    }
    Ok(Reply::json(json::why(&view, done.as_ref(), &why)))
}

/// What is in the way of whoever asks now, for people.
fn sentence(view: &LockView) -> String {
    if let (Some(delay_ms), []) = (view.delay_ms, &view.holders[..]) {
        let (left, waiting) = (seconds(delay_ms), view.queue_length);
        return format!(
            "Nobody is granted the lock for another {left} s, as its last holder was lost and had asked for a delay; \
             {waiting} wait."
        );
    }
    let waiting = match view.queue_length {
        0 => "nobody waits".to_owned(),
        1 => "1 waits and goes before you".to_owned(),
        many => format!("{many} wait and go before you"),
    };
    let holder = |holder: &holdfast_core::HolderView| {
        let (owner, fence, left) = (&holder.owner, holder.fence, seconds(holder.expires_in_ms));
        format!("{owner} (fence {fence}, {left} s left)")
    };
    let mut holders: Vec<_> = view.holders.iter().take(3).map(holder).collect();
    if view.holders.len() > holders.len() {
        holders.push(format!("{} more", view.holders.len() - holders.len()));
    }
    let holders = holders.join(", ");
    match (view.limit, &view.holders[..]) {
        (_, []) if view.queue_length == 0 => "The lock is free.".to_owned(),
        (_, []) => format!("The lock is free, but {waiting}."),
        (Some(limit), _) => {
            format!("{} of {limit} permits are out, held by {holders}; {waiting}.", view.permits_out())
        }
        (None, [first, ..]) if first.share == Share::Shared => {
            format!("The lock is shared by {holders}; {waiting}.")
        }
        (None, _) => format!("The lock is held by {holders}; {waiting}."),
    }
}

/// In seconds, with one digit behind the point.
fn seconds(ms: u64) -> String {
    format!("{}.{}", ms / 1_000, ms % 1_000 / 100)
}

/// A moment in UTC; none if it is beyond all reason.
fn rfc_3339(unix_ms: u64) -> Option<String> {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(unix_ms.min(WALL_CLOCK_MAX_MS)))?;
    Some(humantime::format_rfc3339_millis(at).to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_written_in_utc_and_none_is_beyond_writing() {
        assert_eq!(rfc_3339(1_700_000_000_123).as_deref(), Some("2023-11-14T22:13:20.123Z"));
        assert!(rfc_3339(u64::MAX).is_some());
    }

    #[test]
    fn an_event_is_three_lines_and_an_empty_one() {
        let reset = Watched::Reset { seq: 7, reason: "too old" };
        let text = "event: reset\nid: 7\ndata: {\"seq\":7,\"reason\":\"too old\"}\n\n";
        assert_eq!(written(&reset), text);
    }
}
