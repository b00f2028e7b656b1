//! The HTTP API.

mod answer;
mod failure;
mod handlers;
mod json;
mod percent;
mod query;
mod request_body;
mod request_id;
mod route;
mod service;

pub(crate) use self::route::Route;
pub(crate) use self::service::Service;
