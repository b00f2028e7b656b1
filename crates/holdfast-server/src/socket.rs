//! A client's connection under hyper, with two things that hyper does not do.
//!
//! Hyper refuses what is no HTTP with an answer that has no body; here it becomes a problem like every other error. And
//! hyper closes a connection whose client is still sending a body that was refused, which makes the operating system
//! throw away the answer at the client's end; here the stream is kept for a moment and read to its end.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use holdfast_api::{ErrorCode, Problem};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use crate::http::PROBLEM_JSON;

/// How long a client that is still sending gets to read its answer.
const LINGER: Duration = Duration::from_secs(2);
/// How much of what it is still sending is read at a time, in bytes.
const LINGER_CHUNK: usize = 64 * 1024;

/// What a connection, its requests and its keeper share.
#[derive(Debug, Default)]
pub(crate) struct ConnectionState {
    /// Beginnings and ends of requests.
    activity: AtomicU64,
    /// Requests that are not answered yet.
    in_flight: AtomicU64,
    /// The last request was answered before its body was read.
    is_still_sending: AtomicBool,
    stream: Mutex<Option<TcpStream>>,
}

impl ConnectionState {
    /// A request has begun; it counts as in flight until the value is dropped.
    pub(crate) fn begin(self: &Arc<Self>) -> InFlight {
        self.activity.fetch_add(1, Ordering::Relaxed);
        self.in_flight.fetch_add(1, Ordering::Relaxed);
        InFlight(self.clone())
    }

    /// A number that grows whenever a request begins or ends.
    pub(crate) fn activity(&self) -> u64 {
        self.activity.load(Ordering::Relaxed)
    }

    /// Whether some request is not answered yet.
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight.load(Ordering::Relaxed) > 0
    }

    /// Notes whether the request that is answered now still has a body on its way.
    pub(crate) fn note_unread_body(&self, is_unread: bool) {
        self.is_still_sending.store(is_unread, Ordering::Relaxed);
    }

    /// Reads what the client is still sending, so that it gets its answer. Call it once hyper is done.
    pub(crate) async fn linger(&self) {
        let stream = self.stream.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(mut stream) = stream else { return };
        let mut chunk = vec![0; LINGER_CHUNK];
        let read_on = async { while stream.read(&mut chunk).await.is_ok_and(|len| len > 0) {} };
        // Whoever sends for longer than that has had the time to read.
        let _ = tokio::time::timeout(LINGER, read_on).await;
    }
}

/// A request that is not answered to its end yet.
#[derive(Debug)]
pub(crate) struct InFlight(Arc<ConnectionState>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.activity.fetch_add(1, Ordering::Relaxed);
        self.0.in_flight.fetch_sub(1, Ordering::Relaxed);
    }
}

/// The connection, as hyper gets it.
#[derive(Debug)]
pub(crate) struct Socket {
    /// There until the socket is dropped.
    stream: Option<TcpStream>,
    state: Arc<ConnectionState>,
    /// What is sent instead of hyper's answer, and how much of it has been sent.
    substitute: Option<(Vec<u8>, usize)>,
}

impl Socket {
    pub(crate) fn new(stream: TcpStream, state: Arc<ConnectionState>) -> Self {
        Self { stream: Some(stream), state, substitute: None }
    }

    fn stream(&mut self) -> Pin<&mut TcpStream> {
        Pin::new(self.stream.as_mut().expect("the stream is taken out only on drop"))
    }

    /// Sends the substitute; then hyper believes that its own `len` bytes were sent.
    fn poll_substitute(&mut self, cx: &mut Context<'_>, len: usize) -> Poll<io::Result<usize>> {
        while let Some((bytes, mut sent)) = self.substitute.take() {
            let result = self.stream().poll_write(cx, &bytes[sent..]);
            if let Poll::Ready(Ok(more)) = result {
                sent += more;
            }
            if sent < bytes.len() {
                self.substitute = Some((bytes, sent));
                ready!(result)?;
            }
        }
        Poll::Ready(Ok(len))
    }

    /// Whether this is a refusal of hyper's own, or one is being sent.
    fn takes_over(&mut self, bytes: &[u8]) -> bool {
        if self.substitute.is_none() {
            self.substitute = substitute_for(bytes).map(|bytes| (bytes, 0));
        }
        self.substitute.is_some()
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if self.state.is_still_sending.load(Ordering::Relaxed) {
            let mut slot = self.state.stream.lock().unwrap_or_else(PoisonError::into_inner);
            *slot = self.stream.take();
        }
    }
}

/// Answers of this service always have a body or carry a request id; hyper's refusals have neither.
fn substitute_for(bytes: &[u8]) -> Option<Vec<u8>> {
    let status = bytes.strip_prefix(b"HTTP/1.1 4")?.get(..2)?;
    let head = str::from_utf8(bytes).ok()?;
    if !head.contains("\r\ncontent-length: 0\r\n") || head.contains("\r\nx-request-id: ") {
        return None;
    }
    let (reason, problem) = match status {
        b"14" | b"31" => {
            ("Content Too Large", Problem::new(ErrorCode::TooLarge, "The request's head is too large."))
        }
        _ => ("Bad Request", Problem::new(ErrorCode::InvalidArgument, "The request is not valid HTTP.")),
    };
    let body = serde_json::to_string(&problem).expect("a problem has text keys only");
    let (status, len) = (problem.status, body.len());
    Some(
        format!(
            "HTTP/1.1 {status} {reason}\r\nconnection: close\r\ncontent-type: {PROBLEM_JSON}\r\n\
             content-length: {len}\r\n\r\n{body}"
        )
        .into_bytes(),
    )
}

impl AsyncRead for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, buf)
    }
}

impl AsyncWrite for Socket {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.takes_over(buf) {
            return self.poll_substitute(cx, buf.len());
        }
        self.stream().poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(first) = bufs.first()
            && self.takes_over(first)
        {
            return self.poll_substitute(cx, first.len());
        }
        self.stream().poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn substitute(head: &str) -> Option<String> {
        substitute_for(head.as_bytes()).map(|bytes| String::from_utf8(bytes).unwrap())
    }

    #[test]
    fn a_refusal_without_a_body_becomes_a_problem() {
        let refused =
            substitute("HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n");
        let refused = refused.unwrap();
        let (head, body) = refused.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 400 Bad Request\r\n"));
        assert!(head.ends_with(&format!("content-length: {}", body.len())));
        let problem: Problem = serde_json::from_str(body).unwrap();
        assert_eq!(problem.code, ErrorCode::InvalidArgument);
    }

    #[test]
    fn a_head_that_is_too_large_is_told_so() {
        for status in ["414 URI Too Long", "431 Request Header Fields Too Large"] {
            let refused = substitute(&format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\n\r\n")).unwrap();
            assert!(refused.starts_with("HTTP/1.1 413 ") && refused.contains("\"too_large\""), "{refused}");
        }
    }

    #[test]
    fn answers_of_the_service_itself_are_left_alone() {
        for head in [
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 405 Method Not Allowed\r\nx-request-id: 1\r\ncontent-length: 0\r\n\r\n",
            "HTTP/1.1 404 Not Found\r\ncontent-length: 7\r\n\r\n",
            "HTTP/1.1 4",
            "",
        ] {
            assert_eq!(substitute(head), None, "{head}");
        }
    }
}
