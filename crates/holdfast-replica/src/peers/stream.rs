//! A connection's socket: its options, and the reading of frames.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::net::tcp::OwnedReadHalf;

use super::frame::{self, Frame, FrameError};
use super::limits::{READ_STEP, body_len_max, unacknowledged_max};
use super::stats::PeerStats;
use crate::world::PeerLane;

/// Idle connections are probed, so that one whose peer has vanished does not stay for ever.
const KEEPALIVE: TcpKeepalive = TcpKeepalive::new()
    .with_time(Duration::from_secs(5))
    .with_interval(Duration::from_secs(1))
    .with_retries(5);

/// Sets the socket options of a connection of this lane.
pub(super) fn set_options(stream: &TcpStream, lane: PeerLane) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_keepalive(&KEEPALIVE)?;
    #[cfg(target_os = "linux")]
    socket.set_tcp_user_timeout(Some(unacknowledged_max(lane)))?;
    Ok(())
}

/// Why no more frames can be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    #[error("the peer closed the connection")]
    Closed,
    #[error("{0}")]
    Io(io::Error),
    #[error("{0}")]
    Frame(FrameError),
}

/// Reads frames. Its buffer grows only as bytes arrive.
pub(super) struct FrameReader {
    half: OwnedReadHalf,
    buf: BytesMut,
    lane: PeerLane,
    stats: Arc<PeerStats>,
}

impl FrameReader {
    pub(super) fn new(half: OwnedReadHalf, lane: PeerLane, stats: Arc<PeerStats>) -> Self {
        Self { half, buf: BytesMut::new(), lane, stats }
    }

    /// The next frame. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> Result<Frame, ReadError> {
        let stats = self.stats.lane(self.lane);
        loop {
            if let Some(frame) =
                frame::decode(&mut self.buf, body_len_max(self.lane)).map_err(ReadError::Frame)?
            {
                stats.frames_in.add(1);
                return Ok(frame);
            }
            if self.buf.capacity() - self.buf.len() < READ_STEP / 4 {
                self.buf.reserve(READ_STEP);
            }
            match self.half.read_buf(&mut self.buf).await.map_err(ReadError::Io)? {
                0 => return Err(ReadError::Closed),
                len => stats.bytes_in.add(len),
            }
        }
    }
}
