//! `watch`, `attempt`, `check-fence`, `force-release`, `force-leave`, `history`, `why`.

use holdfast_client::api::{
    AttemptState, AttemptStatus, FenceCheck, ForceLeft, ForceReleased, LockEvent, PastHold, PastHolds, Why,
};
use holdfast_client::{Watch, Watched};

use crate::api::{answer, client, required_token};
use crate::args::{
    AttemptArgs, CheckFenceArgs, ForceLeaveArgs, ForceReleaseArgs, HistoryArgs, InterventionArgs, WatchArgs,
    WhyArgs,
};
use crate::duration;
use crate::exit::{Failure, LOST};
use crate::lock::host_name;
use crate::{output, print, runtime};

/// Prints what happens, one line each, until it is ended.
pub(crate) fn watch(args: WatchArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    let watch = client.watch(args.prefix, args.since);
    runtime::single_threaded()?.block_on(follow(watch, args.output.json))
}

async fn follow(mut watch: Watch, is_json: bool) -> Result<(), Failure> {
    loop {
        let watched = watch.next().await.map_err(|error| Failure::of_call(&error))?;
        let line = match (&watched, is_json) {
            (Watched::Event { kind, json, .. }, true) => with_kind(kind, json),
            (Watched::Reset(reset), true) => {
                with_kind("reset", &serde_json::to_vec(reset).expect("a reset has text keys only"))
            }
            (Watched::Event { kind, event, .. }, false) => event_line(kind, event),
            (Watched::Reset(reset), false) => {
                format!("{}  reset: {}. Read again what you know", reset.seq, reset.reason)
            }
        };
        if !output::line_unless_closed(&line)? {
            return Ok(());
        }
    }
}

/// An object with its kind as its first field.
fn with_kind(kind: &str, json: &[u8]) -> String {
    let rest = String::from_utf8_lossy(json);
    format!("{{\"event\":\"{kind}\",{}", rest.trim_start_matches('{'))
}

fn event_line(kind: &str, event: &LockEvent) -> String {
    let LockEvent { seq, name, owner, fence, cause, held_ms, by, reason, .. } = event;
    let fence = fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    let held = held_ms.map(|ms| format!(", held for {}", duration::text(ms))).unwrap_or_default();
    let cause = cause.as_deref().filter(|cause| *cause != kind);
    let cause = cause.map(|cause| format!(", {cause}")).unwrap_or_default();
    format!("{seq}  {kind}  {name}  {owner}{fence}{held}{cause}{}", by_whom(by.as_deref(), reason.as_deref()))
}

fn by_whom(by: Option<&str>, reason: Option<&str>) -> String {
    match (by, reason) {
        (Some(by), Some(reason)) => format!(", by {by}: {reason}"),
        _ => String::new(),
    }
}

pub(crate) fn attempt(args: AttemptArgs) -> Result<(), Failure> {
    let (client, token) = (client(&args.client)?, required_token(args.token)?);
    answer(client.look_up(&args.name, &token), &args.output, attempt_text)
}

fn attempt_text(status: &AttemptStatus) -> String {
    let AttemptStatus { name, state, place, fence, expires_in_ms, ending, ended_ms_ago } = status;
    let fence = fence.map(|fence| format!(", fence {fence}")).unwrap_or_default();
    let span = |ms: &Option<u64>| duration::text(ms.unwrap_or_default());
    match state {
        AttemptState::Queued => format!("waits for {name}, place {}", place.unwrap_or_default()),
        AttemptState::Held => format!("holds {name}{fence}, {} left", span(expires_in_ms)),
        AttemptState::Ended => {
            let how = ending.as_deref().unwrap_or("for reasons unknown");
            format!("has ended at {name}: {how}{fence}, {} ago", span(ended_ms_ago))
        }
        AttemptState::Unknown => {
            format!("is not known at {name}: it has not come there, or is so long ago that it is forgotten")
        }
    }
}

/// Succeeds only with the current fence.
pub(crate) fn check_fence(args: CheckFenceArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    let mut is_current = false;
    let check = async {
        let answer = client.check_fence(&args.name, args.fence).await?;
        is_current = answer.current;
        Ok(answer)
    };
    answer(check, &args.output, fence_text)?;
    if is_current { Ok(()) } else { Err(Failure::new(LOST, "no hold in force has this fence")) }
}

fn fence_text(check: &FenceCheck) -> String {
    let FenceCheck { name, fence, current, highest } = check;
    let is = if *current { "is" } else { "is not" };
    let highest = match highest {
        0 => String::new(),
        highest => format!("; the highest one known is {highest}"),
    };
    format!("fence {fence} {is} current for {name}{highest}")
}

impl InterventionArgs {
    fn by(&self) -> String {
        self.by.clone().unwrap_or_else(|| {
            let user = std::env::var("USER").ok().filter(|user| !user.is_empty());
            match (user, host_name()) {
                (Some(user), Some(host)) => format!("{user}@{host}"),
                (one, other) => one.or(other).unwrap_or_else(|| "unknown".into()),
            }
        })
    }
}

pub(crate) fn force_release(args: ForceReleaseArgs) -> Result<(), Failure> {
    let (client, by) = (client(&args.client)?, args.intervention.by());
    let call = client.force_release(&args.name, args.fence, Some(&by), &args.intervention.reason);
    answer(call, &args.output, |forced: &ForceReleased| {
        format!(
            "ended the hold of {} with fence {}; its holder is told when it renews",
            forced.name, forced.fence
        )
    })
}

pub(crate) fn force_leave(args: ForceLeaveArgs) -> Result<(), Failure> {
    let (client, by) = (client(&args.client)?, args.intervention.by());
    let call = client.force_leave(&args.name, &args.owner, Some(&by), &args.intervention.reason);
    answer(call, &args.output, |left: &ForceLeft| match left.left {
        0 => format!("nobody of {} waits for {} any more", left.owner, left.name),
        1 => format!("1 attempt of {} has left the queue of {}", left.owner, left.name),
        many => format!("{many} attempts of {} have left the queue of {}", left.owner, left.name),
    })
}

pub(crate) fn history(args: HistoryArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    answer(client.history(&args.name, args.limit, args.before), &args.output, history_text)
}

fn history_text(page: &PastHolds) -> String {
    if page.endings.is_empty() {
        return format!("no hold of {} is remembered", page.name);
    }
    let mut rows = vec![print::row(["FENCE", "OWNER", "HELD FOR", "ENDED", "AT (FOR PEOPLE)"])];
    rows.extend(page.endings.iter().map(|hold: &PastHold| {
        let ended = format!("{}{}", hold.ended, by_whom(hold.by.as_deref(), hold.reason.as_deref()));
        let (fence, held) = (hold.fence.to_string(), duration::text(hold.held_ms));
        print::row([&fence, &hold.owner, &held, &ended, hold.at.as_deref().unwrap_or("-")])
    }));
    let more = page.next.map(|next| format!("\nmore with --before {next}")).unwrap_or_default();
    print::table(&rows) + &more
}

pub(crate) fn why(args: WhyArgs) -> Result<(), Failure> {
    let client = client(&args.client)?;
    answer(client.why(&args.name), &args.output, |why: &Why| why.why.clone())
}
