//! Frames: what an accepted connection carries, in both directions.
//!
//! The header has a checksum of its own, so that a damaged length is noticed at once instead of after as many bytes
//! as it announces.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// Length of the header in bytes.
pub const HEADER_LEN: usize = 22;

/// Length of the part of the header that its checksum covers.
const CHECKED_LEN: usize = 14;

/// Bodies up to this length are copied out of the read buffer, so that a small one does not keep all of it alive.
const COPY_LEN_MAX: usize = 16 * 1024;

const FLAG_ANSWER: u8 = 1;
const FLAG_FAILURE: u8 = 2;

/// What a frame is to its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameRole {
    /// Asks.
    Request,
    /// Answers the request of the same id.
    Answer,
    /// Says that the request of the same id was not handed to the service, or its answer could not be sent.
    Failure,
}

impl FrameRole {
    fn flags(self) -> u8 {
        match self {
            Self::Request => 0,
            Self::Answer => FLAG_ANSWER,
            Self::Failure => FLAG_ANSWER | FLAG_FAILURE,
        }
    }

    fn from_flags(flags: u8) -> Option<Self> {
        [Self::Request, Self::Answer, Self::Failure].into_iter().find(|role| role.flags() == flags)
    }
}

/// One request or answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    /// Chosen by the asking side, unique on the connection.
    pub id: u64,
    /// A [`CallKind`](crate::world::CallKind) as a number; an answer repeats that of its request.
    pub kind: u8,
    /// Request or answer.
    pub role: FrameRole,
    /// Opaque here.
    pub body: Bytes,
}

/// Why a connection cannot go on. After any of these, where the next frame starts is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// The announced body is longer than the lane allows.
    #[error("a frame announces a body of {len} bytes, over the limit of {max}")]
    TooLong {
        /// Announced length.
        len: usize,
        /// The lane's limit.
        max: usize,
    },
    /// The header's checksum does not fit.
    #[error("the checksum of a frame's header does not fit")]
    Header,
    /// The body's checksum does not fit.
    #[error("the checksum of a frame's body does not fit")]
    Body,
    /// Flags that no version so far has given a meaning.
    #[error("a frame has the unknown flags {0:#04x}")]
    Flags(u8),
    /// A request where only answers belong, or the reverse.
    #[error("a frame of the wrong direction")]
    Direction,
}

/// Appends the frame's bytes to `out`.
///
/// The caller has checked the body against the lane's limit.
pub fn encode(frame: &Frame, out: &mut BytesMut) {
    let len = u32::try_from(frame.body.len()).expect("bodies are checked against limits far below 4 GiB");
    out.reserve(HEADER_LEN + frame.body.len());
    let start = out.len();
    out.put_u32_le(len);
    out.put_u64_le(frame.id);
    out.put_u8(frame.kind);
    out.put_u8(frame.role.flags());
    let header_crc = crc32c::crc32c(&out[start..]);
    out.put_u32_le(header_crc);
    out.put_u32_le(crc32c::crc32c_append(header_crc, &frame.body));
    out.put_slice(&frame.body);
}

/// Takes the first frame out of `buf`, or nothing if it is not complete yet.
///
/// Never reserves memory: an announced length costs nothing until the bytes are there.
pub fn decode(buf: &mut BytesMut, body_len_max: usize) -> Result<Option<Frame>, FrameError> {
    let Some((len_bytes, _)) = buf.split_first_chunk::<4>() else { return Ok(None) };
    let len = u32::from_le_bytes(*len_bytes) as usize;
    if len > body_len_max {
        return Err(FrameError::TooLong { len, max: body_len_max });
    }
    if buf.len() < HEADER_LEN {
        return Ok(None);
    }
    let mut header = &buf[..HEADER_LEN];
    let computed = crc32c::crc32c(&header[..CHECKED_LEN]);
    header.advance(4);
    let (id, kind, flags) = (header.get_u64_le(), header.get_u8(), header.get_u8());
    let (header_crc, body_crc) = (header.get_u32_le(), header.get_u32_le());
    if computed != header_crc {
        return Err(FrameError::Header);
    }
    let role = FrameRole::from_flags(flags).ok_or(FrameError::Flags(flags))?;
    if buf.len() < HEADER_LEN + len {
        return Ok(None);
    }
    if crc32c::crc32c_append(header_crc, &buf[HEADER_LEN..HEADER_LEN + len]) != body_crc {
        return Err(FrameError::Body);
    }
    buf.advance(HEADER_LEN);
    Ok(Some(Frame { id, kind, role, body: take_body(buf, len) }))
}

fn take_body(buf: &mut BytesMut, len: usize) -> Bytes {
    if len > COPY_LEN_MAX {
        return buf.split_to(len).freeze();
    }
    let body = Bytes::copy_from_slice(&buf[..len]);
    buf.advance(len);
    body
}
