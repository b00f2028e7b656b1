//! The nodes that a client knows, and which of them it talks to.

use std::fmt;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use hyper::Uri;

use crate::clock::Moment;

/// Why a text is no endpoint, or a list of them is of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// A client without a node.
    #[error("at least one endpoint is needed, such as http://127.0.0.1:7101")]
    None,
    /// Not of the form `http://HOST:PORT`.
    #[error("`{given}` is no endpoint: {why}; it should look like http://127.0.0.1:7101")]
    Malformed {
        /// As it was given.
        given: String,
        /// What is wrong with it.
        why: String,
    },
}

/// The base URL of one node, or of a proxy in front of some.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Without a slash at the end.
    base: String,
}

impl Endpoint {
    pub(crate) fn parse(text: &str) -> Result<Self, EndpointError> {
        let malformed = |why: &str| EndpointError::Malformed { given: text.into(), why: why.into() };
        let uri: Uri = text.parse().map_err(|_| malformed("it is no URL"))?;
        if uri.scheme_str() != Some("http") {
            return Err(malformed("only http:// is spoken"));
        }
        if uri.host().is_none_or(str::is_empty) {
            return Err(malformed("it names no host"));
        }
        if uri.query().is_some() {
            return Err(malformed("it must have no query"));
        }
        Ok(Self { base: text.trim_end_matches('/').into() })
    }

    /// The URL of a path that begins with a slash and is already percent-encoded.
    pub(crate) fn url(&self, path: &str) -> Uri {
        format!("{}{path}", self.base).parse().expect("an encoded path after a checked base is a URL")
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

/// All endpoints of a client. It stays with the one that works and leaves it when it fails.
#[derive(Debug)]
pub(crate) struct Endpoints {
    all: Vec<Endpoint>,
    current: AtomicUsize,
    /// When each of them last answered anything.
    heard: Mutex<Vec<Option<Moment>>>,
}

impl Endpoints {
    pub(crate) fn parse<S: AsRef<str>>(texts: impl IntoIterator<Item = S>) -> Result<Self, EndpointError> {
        let all = texts
            .into_iter()
            .map(|text| Endpoint::parse(text.as_ref().trim()))
            .collect::<Result<Vec<_>, _>>()?;
        if all.is_empty() {
            return Err(EndpointError::None);
        }
        let heard = Mutex::new(vec![None; all.len()]);
        Ok(Self { all, current: AtomicUsize::new(0), heard })
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// The place in the list of the endpoint to use.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed)
    }

    pub(crate) fn get(&self, at: usize) -> &Endpoint {
        &self.all[at]
    }

    /// Goes on to the next endpoint, unless another call has left this one already.
    pub(crate) fn leave(&self, at: usize) {
        let next = (at + 1) % self.all.len();
        let _ = self.current.compare_exchange(at, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Notes that an endpoint has answered.
    pub(crate) fn note_answer(&self, at: usize, now: Moment) {
        self.heard.lock().expect("nothing panics while it holds this")[at] = Some(now);
    }

    /// Whether an endpoint has answered anything within this span.
    pub(crate) fn answered_within(&self, at: usize, span: Duration, now: Moment) -> bool {
        let heard = self.heard.lock().expect("nothing panics while it holds this")[at];
        heard.is_some_and(|heard| now.since(heard) < span)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_http_url_is_refused_with_an_example() {
        for text in ["", "127.0.0.1:7101", "https://a:1", "ftp://a", "http://", "http://a/?x=1", "nonsense"] {
            let error = Endpoint::parse(text).unwrap_err();
            assert!(error.to_string().contains("http://127.0.0.1:7101"), "{text}: {error}");
        }
    }

    #[test]
    fn a_path_before_the_api_is_kept() {
        let endpoint = Endpoint::parse("http://proxy:80/locks/").unwrap();
        assert_eq!(endpoint.url("/v1/cluster"), "http://proxy:80/locks/v1/cluster");
    }

    #[test]
    fn two_calls_that_fail_at_one_endpoint_leave_it_once() {
        let endpoints = Endpoints::parse(["http://a", "http://b", "http://c"]).unwrap();
        endpoints.leave(0);
        endpoints.leave(0);
        assert_eq!(endpoints.current(), 1);
    }

    #[test]
    fn a_client_needs_an_endpoint() {
        assert_eq!(Endpoints::parse(Vec::<String>::new()).unwrap_err(), EndpointError::None);
    }
}
