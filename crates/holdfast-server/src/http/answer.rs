//! What goes back to the client: a body that is there already, and whoever wants to know that it was taken; or a stream
//! whose pieces are still to come.

use std::convert::Infallible;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use holdfast_replica::replica::Delivery;
use http_body::{Body, Frame, SizeHint};
use hyper::Response;
use hyper::header::{CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use tokio::sync::mpsc;

use crate::socket::InFlight;

/// A response of this service.
pub(crate) type Answer = Response<AnswerBody>;

/// The body of a response.
///
/// A grant in it counts as delivered once the connection has taken the bytes. Dropped before (the client has hung up),
/// it gives the grant up.
#[derive(Debug, Default)]
pub(crate) struct AnswerBody {
    data: Option<Bytes>,
    delivery: Option<Delivery>,
    /// What comes after the data, if anything does.
    rest: Option<Box<Rest>>,
}

/// The pieces of a stream.
#[derive(Debug)]
struct Rest {
    pieces: mpsc::Receiver<Bytes>,
    /// The request is in flight as long as the stream is.
    in_flight: Option<InFlight>,
}

impl AnswerBody {
    /// Keeps the request in flight until a stream has come to its end.
    pub(crate) fn note_in_flight(&mut self, in_flight: InFlight) {
        if let Some(rest) = &mut self.rest {
            rest.in_flight = Some(in_flight);
        }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let Some(data) = self.data.take() else {
            let Some(rest) = &mut self.rest else { return Poll::Ready(None) };
            return rest.pieces.poll_recv(cx).map(|piece| piece.map(|piece| Ok(Frame::data(piece))));
        };
        if let Some(delivery) = self.delivery.take() {
            delivery.delivered();
        }
        Poll::Ready(Some(Ok(Frame::data(data))))
    }

    fn is_end_stream(&self) -> bool {
        self.data.is_none() && self.rest.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        if self.rest.is_some() {
            return SizeHint::default();
        }
        SizeHint::with_exact(self.data.as_ref().map_or(0, Bytes::len) as u64)
    }
}

/// A success, before it becomes a response.
#[derive(Debug)]
pub(crate) struct Reply {
    content_type: &'static str,
    body: Bytes,
    delivery: Option<Delivery>,
    pieces: Option<mpsc::Receiver<Bytes>>,
}

impl Reply {
    /// JSON.
    pub(crate) fn json(body: impl Into<Bytes>) -> Self {
        Self::new("application/json", body)
    }

    /// Anything else.
    pub(crate) fn new(content_type: &'static str, body: impl Into<Bytes>) -> Self {
        Self { content_type, body: body.into(), delivery: None, pieces: None }
    }

    /// A stream that begins with `body` and goes on with the pieces until their sender is dropped.
    pub(crate) fn stream(
        content_type: &'static str,
        body: impl Into<Bytes>,
        pieces: mpsc::Receiver<Bytes>,
    ) -> Self {
        Self { pieces: Some(pieces), ..Self::new(content_type, body) }
    }

    /// Tells of it when the answer has been taken.
    pub(crate) fn telling(mut self, delivery: Delivery) -> Self {
        self.delivery = Some(delivery);
        self
    }

    pub(crate) fn into_answer(self) -> Answer {
        let rest = self.pieces.map(|pieces| Box::new(Rest { pieces, in_flight: None }));
        let mut answer = Response::new(AnswerBody { data: Some(self.body), delivery: self.delivery, rest });
        let headers = answer.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(self.content_type));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        answer
    }
}

/// The same answer without its body, as HEAD wants it.
pub(crate) fn without_body(answer: Answer) -> Answer {
    let (mut head, body) = answer.into_parts();
    if let Some(len) = body.size_hint().exact() {
        head.headers.insert(CONTENT_LENGTH, HeaderValue::from(len));
    }
    Response::from_parts(head, AnswerBody::default())
}

/// A body of a problem.
pub(crate) fn body_of(data: Vec<u8>) -> AnswerBody {
    AnswerBody { data: Some(data.into()), ..AnswerBody::default() }
}
