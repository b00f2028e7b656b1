//! Operations in words.

use std::fmt::Write;

use crate::history::Operation;
use crate::outcome::{Answer, Holder, Outcome, Refusal};
use crate::request::Request;
use crate::share::Share;

/// What was asked.
pub(crate) fn request(operation: &Operation) -> String {
    match &operation.request {
        Request::Acquire { attempt, ttl_ms, wait_ms, .. } => {
            let mut text = format!("acquire {attempt} for {ttl_ms} ms");
            if *wait_ms > 0 {
                text += &format!(", waiting {wait_ms} ms");
            }
            text + &wish(&operation.request)
        }
        Request::Renew { attempt, ttl_ms: Some(ttl_ms), .. } => format!("renew {attempt} for {ttl_ms} ms"),
        Request::Renew { attempt, ttl_ms: None, .. } => format!("renew {attempt}"),
        Request::Release { attempt, .. } => format!("release {attempt}"),
        Request::Read { .. } => "read".into(),
        Request::Limit { limit, .. } => format!("set the limit to {limit}"),
        Request::Force { fence, .. } => format!("end fence {fence} by force"),
    }
}

fn wish(acquire: &Request) -> String {
    match (acquire.share(), acquire.limit_named()) {
        (Some(Share::Permits(taken)), Some(limit)) => format!(", {taken} of {limit} permits"),
        (Some(Share::Shared), _) => ", shared".into(),
        _ => String::new(),
    }
}

/// What came of it.
pub(crate) fn outcome(operation: &Operation) -> String {
    match &operation.outcome {
        Outcome::Ok(Answer::Granted { fence, ttl_ms, .. }) => format!("granted, fence {fence}, {ttl_ms} ms"),
        Outcome::Ok(Answer::Released { fence: Some(fence) }) => format!("released, fence {fence}"),
        Outcome::Ok(Answer::Released { fence: None }) => "left the queue".into(),
        Outcome::Ok(Answer::Seen { holders, queue }) => seen(holders, queue.len()),
        Outcome::Ok(Answer::Limited { limit }) => format!("the limit is {limit}"),
        Outcome::Ok(Answer::Forced { fence }) => format!("ended, fence {fence}"),
        Outcome::Refused(Refusal { code, holder: Some(holder), .. }) => {
            format!("refused, {} by {}, fence {}", code.as_str(), holder.owner, holder.fence)
        }
        Outcome::Refused(Refusal { code, limit: Some(limit), .. }) => {
            format!("refused, {}: it is {limit}", code.as_str())
        }
        Outcome::Refused(refusal) => format!("refused, {}", refusal.code.as_str()),
        Outcome::Unknown { why } if why.is_empty() => "unknown".into(),
        Outcome::Unknown { why } => format!("unknown ({why})"),
    }
}

fn seen(holders: &[Holder], waiting: usize) -> String {
    let mut text = String::new();
    match holders {
        [] => text += "free",
        holders => {
            for holder in holders {
                let share = match holder.share() {
                    Share::All => String::new(),
                    Share::Shared => ", shared".into(),
                    Share::Permits(taken) => format!(", {taken} permits"),
                };
                let _ = write!(text, "held by {}, fence {}{share}; ", holder.owner, holder.fence); // A string takes everything.
            }
            text.truncate(text.len() - 2);
        }
    }
    match waiting {
        0 => text,
        waiting => format!("{text}, {waiting} waiting"),
    }
}
