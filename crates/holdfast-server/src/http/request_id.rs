//! Every request has an id: the client's own, or one that this node makes.

use std::sync::atomic::{AtomicU64, Ordering};

use hyper::HeaderMap;
use hyper::header::{HeaderName, HeaderValue};

/// The header that carries the id, both ways.
pub(crate) const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");
/// Longest id that is taken from a client, in characters.
pub(crate) const REQUEST_ID_LEN_MAX: usize = 128;

/// Makes ids: a random part for each start of the node, and a count.
#[derive(Debug)]
pub(crate) struct RequestIds {
    prefix: u32,
    next: AtomicU64,
}

impl RequestIds {
    pub(crate) fn new(prefix: u32) -> Self {
        Self { prefix, next: AtomicU64::new(1) }
    }

    /// The client's id, if it is printable ASCII and not too long; else a new one.
    pub(crate) fn of(&self, headers: &HeaderMap) -> HeaderValue {
        match headers.get(X_REQUEST_ID) {
            Some(id) if is_acceptable(id) => id.clone(),
            _ => self.make(),
        }
    }

    fn make(&self) -> HeaderValue {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        HeaderValue::try_from(format!("{:08x}-{count:x}", self.prefix))
            .expect("hexadecimal digits are fit for a header")
    }
}

fn is_acceptable(id: &HeaderValue) -> bool {
    let bytes = id.as_bytes();
    !bytes.is_empty()
        && bytes.len() <= REQUEST_ID_LEN_MAX
        && bytes.iter().all(|byte| (b' '..=b'~').contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(id: &[u8]) -> HeaderMap {
        HeaderMap::from_iter([(X_REQUEST_ID, HeaderValue::from_bytes(id).unwrap())])
    }

    #[test]
    fn a_printable_id_of_the_client_is_kept() {
        let ids = RequestIds::new(7);
        assert_eq!(ids.of(&with(b"job 17/a")), "job 17/a");
        assert_eq!(ids.of(&with(&[b'x'; 128])).as_bytes(), [b'x'; 128]);
    }

    #[test]
    fn an_id_that_is_no_use_in_a_log_is_replaced() {
        let ids = RequestIds::new(7);
        for id in [&b""[..], &[b'x'; 129], b"a\tb", "é".as_bytes()] {
            assert_ne!(ids.of(&with(id)).as_bytes(), id);
        }
        assert_ne!(ids.of(&HeaderMap::new()), ids.of(&HeaderMap::new()));
    }
}
