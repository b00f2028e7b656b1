//! Operations in words.

use std::fmt::Write;

use crate::history::Operation;
use crate::outcome::{Answer, Holder, Outcome};
use crate::request::Request;

/// What was asked.
pub(crate) fn request(operation: &Operation) -> String {
    match &operation.request {
        Request::Acquire { attempt, ttl_ms, wait_ms: 0, .. } => format!("acquire {attempt} for {ttl_ms} ms"),
        Request::Acquire { attempt, ttl_ms, wait_ms, .. } => {
            format!("acquire {attempt} for {ttl_ms} ms, waiting {wait_ms} ms")
        }
        Request::Renew { attempt, ttl_ms: Some(ttl_ms), .. } => format!("renew {attempt} for {ttl_ms} ms"),
        Request::Renew { attempt, ttl_ms: None, .. } => format!("renew {attempt}"),
        Request::Release { attempt, .. } => format!("release {attempt}"),
        Request::Read { .. } => "read".into(),
    }
}

/// What came of it.
pub(crate) fn outcome(operation: &Operation) -> String {
    match &operation.outcome {
        Outcome::Ok(Answer::Granted { fence, ttl_ms, .. }) => format!("granted, fence {fence}, {ttl_ms} ms"),
        Outcome::Ok(Answer::Released { fence: Some(fence) }) => format!("released, fence {fence}"),
        Outcome::Ok(Answer::Released { fence: None }) => "left the queue".into(),
        Outcome::Ok(Answer::Seen { holders, queue }) => seen(holders, queue.len()),
        Outcome::Refused(refusal) => match &refusal.holder {
            Some(holder) => {
                format!("refused, {} by {}, fence {}", refusal.code.as_str(), holder.owner, holder.fence)
            }
            None => format!("refused, {}", refusal.code.as_str()),
        },
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
                let _ = write!(text, "held by {}, fence {}; ", holder.owner, holder.fence); // A string takes everything.
            }
            text.truncate(text.len() - 2);
        }
    }
    match waiting {
        0 => text,
        waiting => format!("{text}, {waiting} waiting"),
    }
}
