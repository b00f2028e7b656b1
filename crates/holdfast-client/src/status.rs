//! A plain look at a URL, for health checks.

use std::time::Duration;

use crate::transport::{Outgoing, Transport};

/// The HTTP status that a `GET` of an `http://` URL is answered with.
///
/// # Errors
/// A text that says why there is none.
pub async fn status_of(url: &str, within: Duration) -> Result<u16, String> {
    let uri: hyper::Uri = url.parse().map_err(|error| format!("{url} is no URL: {error}"))?;
    if uri.scheme_str() != Some("http") || uri.host().is_none() {
        return Err(format!("{url} is no URL of the form http://HOST:PORT/PATH"));
    }
    let answer = Transport::new().exchange(uri, &Outgoing::get(String::new()), within).await;
    answer.map(|incoming| incoming.status).map_err(|none| none.why)
}
