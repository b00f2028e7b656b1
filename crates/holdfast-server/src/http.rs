//! The HTTP API.

mod answer;
mod elections;
mod failure;
mod handlers;
mod json;
mod many;
mod membership;
mod percent;
mod query;
mod request_body;
mod request_id;
mod route;
mod service;
mod session_handlers;
mod steering;
mod watching;

pub(crate) use self::answer::Answer;
pub(crate) use self::failure::{PROBLEM_JSON, RETRY_AFTER_MAX_S};
pub(crate) use self::request_id::REQUEST_ID_LEN_MAX;
pub(crate) use self::route::Route;
pub(crate) use self::service::Service;
