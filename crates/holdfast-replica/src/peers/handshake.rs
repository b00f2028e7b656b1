//! The greeting: one message each way before the first frame.
//!
//! Its layout is the same in all versions of the protocol, so that any two versions can tell each other that they do
//! not fit. What later versions add goes into the extensions, which are skipped when unknown.

use std::ops::RangeInclusive;

use bytes::{Buf, BufMut, Bytes, BytesMut, TryGetError};
use tokio::io::{AsyncRead, AsyncReadExt};

use super::identity::Hello;
use super::limits::{GREETING_LEN_MAX, REFUSAL_TEXT_LEN_MAX, SOFTWARE_LEN_MAX};
use crate::world::NodeId;

/// The protocol versions that this software speaks.
pub const VERSIONS: RangeInclusive<u16> = 1..=1;

/// The first bytes on a connection, both ways. The line end shows up a translation of line ends on the way.
pub const MAGIC: [u8; 8] = *b"HFPEER\r\n";

const TYPE_OPENING: u8 = 1;
const TYPE_REPLY: u8 = 2;
const CODE_ACCEPTED: u8 = 0;
const CHECKSUM_LEN: usize = 4;

/// The highest version that both sides speak: the lower of the two maxima, unless it is under one of the minima.
pub fn common_version(ours: RangeInclusive<u16>, theirs: RangeInclusive<u16>) -> Option<u16> {
    let chosen = *ours.end().min(theirs.end());
    (ours.contains(&chosen) && theirs.contains(&chosen)).then_some(chosen)
}

/// Why bytes are no greeting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum GreetingError {
    /// Something else than this protocol.
    #[error("not the peer protocol: it begins with \"{}\"", .0.escape_ascii())]
    Magic([u8; 8]),
    /// The announced length is over the limit.
    #[error("a greeting of {0} bytes")]
    TooLong(usize),
    /// The checksum does not fit.
    #[error("the checksum of the greeting does not fit")]
    Checksum,
    /// The content ends early, goes on too long, or has an impossible field.
    #[error("a malformed greeting")]
    Malformed,
    /// The connection ended first.
    #[error("the connection ended within the greeting: {0}")]
    Ended(String),
    /// The connection was closed without a byte.
    #[error("closed without a greeting")]
    Empty,
}

impl From<TryGetError> for GreetingError {
    fn from(_: TryGetError) -> Self {
        Self::Malformed
    }
}

/// What the connecting side sends first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opening {
    /// The versions it speaks.
    pub versions: RangeInclusive<u16>,
    /// Number of the lane that the connection is for.
    pub lane: u8,
    /// The node that it means to reach.
    pub to: NodeId,
    /// Rises with each connection that the sender has opened since its boot.
    pub connection: u64,
    /// Who it is.
    pub hello: Hello,
}

impl Opening {
    /// The bytes on the wire.
    pub fn encode(&self) -> Bytes {
        envelope(|body| {
            body.put_u8(TYPE_OPENING);
            body.put_u16_le(*self.versions.start());
            body.put_u16_le(*self.versions.end());
            body.put_u8(self.lane);
            body.put_u64_le(self.to);
            body.put_u64_le(self.connection);
            put_hello(body, &self.hello);
            body.put_u16_le(0); // No extensions.
        })
    }

    /// Reads the body of a greeting.
    pub fn decode(mut body: &[u8]) -> Result<Self, GreetingError> {
        expect_type(&mut body, TYPE_OPENING)?;
        let versions = body.try_get_u16_le()?..=body.try_get_u16_le()?;
        let lane = body.try_get_u8()?;
        let to = body.try_get_u64_le()?;
        let connection = body.try_get_u64_le()?;
        let hello = take_hello(&mut body)?;
        skip_extensions(body)?;
        Ok(Self { versions, lane, to, connection, hello })
    }
}

/// What the listening side answers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// Frames may follow.
    Accepted {
        /// The version that both speak from here on.
        version: u16,
        /// Who the listener is.
        hello: Hello,
    },
    /// The connection is closed after this.
    Refused {
        /// A [`RefusalReason`](super::RefusalReason) as a number, possibly one of a later version.
        code: u8,
        /// For people.
        text: String,
    },
}

impl Reply {
    /// The bytes on the wire. A text over [`REFUSAL_TEXT_LEN_MAX`] bytes is cut.
    pub fn encode(&self) -> Bytes {
        envelope(|body| {
            body.put_u8(TYPE_REPLY);
            match self {
                Self::Accepted { version, hello } => {
                    body.put_u8(CODE_ACCEPTED);
                    body.put_u16_le(*version);
                    put_hello(body, hello);
                }
                Self::Refused { code, text } => {
                    let text = &text[..text.floor_char_boundary(REFUSAL_TEXT_LEN_MAX)];
                    body.put_u8(*code);
                    body.put_u16_le(u16::try_from(text.len()).expect("the text was just cut"));
                    body.put_slice(text.as_bytes());
                }
            }
            body.put_u16_le(0); // No extensions.
        })
    }

    /// Reads the body of a greeting.
    pub fn decode(mut body: &[u8]) -> Result<Self, GreetingError> {
        expect_type(&mut body, TYPE_REPLY)?;
        let reply = match body.try_get_u8()? {
            CODE_ACCEPTED => {
                Self::Accepted { version: body.try_get_u16_le()?, hello: take_hello(&mut body)? }
            }
            code => {
                let len = usize::from(body.try_get_u16_le()?);
                Self::Refused { code, text: take_text(&mut body, len, REFUSAL_TEXT_LEN_MAX)? }
            }
        };
        skip_extensions(body)?;
        Ok(reply)
    }
}

/// Reads one greeting and returns its body. Reads no byte beyond it, and nothing at all behind a wrong start.
pub async fn read_greeting(stream: &mut (impl AsyncRead + Unpin)) -> Result<Vec<u8>, GreetingError> {
    let mut magic = [0; MAGIC.len()];
    let first = stream.read(&mut magic).await.map_err(ended)?;
    if first == 0 {
        return Err(GreetingError::Empty);
    }
    stream.read_exact(&mut magic[first..]).await.map_err(ended)?;
    if magic != MAGIC {
        return Err(GreetingError::Magic(magic));
    }
    let len = stream.read_u16_le().await.map_err(ended)?;
    if usize::from(len) > GREETING_LEN_MAX {
        return Err(GreetingError::TooLong(usize::from(len)));
    }
    let mut body = vec![0; usize::from(len)];
    stream.read_exact(&mut body).await.map_err(ended)?;
    let checksum = stream.read_u32_le().await.map_err(ended)?;
    if checksum != greeting_checksum(len, &body) {
        return Err(GreetingError::Checksum);
    }
    Ok(body)
}

fn ended(error: std::io::Error) -> GreetingError {
    GreetingError::Ended(error.to_string())
}

fn envelope(fill: impl FnOnce(&mut BytesMut)) -> Bytes {
    let mut body = BytesMut::new();
    fill(&mut body);
    let len = u16::try_from(body.len()).expect("texts are cut, everything else has a fixed length");
    let mut message = BytesMut::with_capacity(MAGIC.len() + 2 + body.len() + CHECKSUM_LEN);
    message.put_slice(&MAGIC);
    message.put_u16_le(len);
    message.put_slice(&body);
    message.put_u32_le(greeting_checksum(len, &body));
    message.freeze()
}

fn greeting_checksum(len: u16, body: &[u8]) -> u32 {
    let of_magic = crc32c::crc32c(&MAGIC);
    crc32c::crc32c_append(crc32c::crc32c_append(of_magic, &len.to_le_bytes()), body)
}

fn expect_type(body: &mut &[u8], expected: u8) -> Result<(), GreetingError> {
    if body.try_get_u8()? == expected { Ok(()) } else { Err(GreetingError::Malformed) }
}

fn put_hello(body: &mut BytesMut, hello: &Hello) {
    body.put_u8(u8::from(hello.cluster.is_some()));
    body.put_u128_le(hello.cluster.unwrap_or(0));
    body.put_u64_le(hello.node);
    body.put_u128_le(hello.storage);
    body.put_u64_le(hello.boot);
    let software = &hello.software[..hello.software.floor_char_boundary(SOFTWARE_LEN_MAX)];
    body.put_u8(u8::try_from(software.len()).expect("the version was just cut"));
    body.put_slice(software.as_bytes());
}

fn take_hello(body: &mut &[u8]) -> Result<Hello, GreetingError> {
    let has_cluster = body.try_get_u8()?;
    let cluster = body.try_get_u128_le()?;
    let cluster = match has_cluster {
        0 => None,
        1 => Some(cluster),
        _ => return Err(GreetingError::Malformed),
    };
    let node = body.try_get_u64_le()?;
    let storage = body.try_get_u128_le()?;
    let boot = body.try_get_u64_le()?;
    let len = usize::from(body.try_get_u8()?);
    let software = take_text(body, len, SOFTWARE_LEN_MAX)?;
    Ok(Hello { cluster, node, storage, boot, software })
}

fn take_text(body: &mut &[u8], len: usize, len_max: usize) -> Result<String, GreetingError> {
    if len > len_max {
        return Err(GreetingError::Malformed);
    }
    let bytes = body.split_off(..len).ok_or(GreetingError::Malformed)?;
    String::from_utf8(bytes.to_vec()).map_err(|_| GreetingError::Malformed)
}

/// The extensions are the end of every greeting. This version knows none, and does not look into them.
fn skip_extensions(mut body: &[u8]) -> Result<(), GreetingError> {
    let len = usize::from(body.try_get_u16_le()?);
    if body.len() == len { Ok(()) } else { Err(GreetingError::Malformed) }
}
