//! Every limit of the peer network.

use std::time::Duration;

use crate::world::PeerLane;

/// How long a connection may take to greet, on both sides.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(2);

/// How long a TCP connect may take, name look-up included.
pub const CONNECT_TIMEOUT: Duration = Duration::from_millis(500);

/// Shortest pause after a failed connect.
pub const BACKOFF_MIN: Duration = Duration::from_millis(20);

/// Longest pause after a failed connect.
pub const BACKOFF_MAX: Duration = Duration::from_millis(500);

/// How long a listener that stops waits for the requests it has taken.
pub const DRAIN_TIMEOUT: Duration = Duration::from_millis(500);

/// Connections that have not greeted yet. One more pushes out the oldest of them.
pub const UNAUTHENTICATED_MAX: usize = 1024;

/// Length of the body of a greeting in bytes.
pub const GREETING_LEN_MAX: usize = 4096;

/// Length of a software version in a greeting, in bytes.
pub const SOFTWARE_LEN_MAX: usize = 64;

/// Length of the text of a refusal, in bytes.
pub const REFUSAL_TEXT_LEN_MAX: usize = 512;

/// Requests of one connection that are being answered. A listener stops reading at this bound.
pub const IN_FLIGHT_MAX: usize = 4096;

/// A request counts as one more in flight for each such piece of its body, so that at most 64 MiB of bodies wait.
pub const IN_FLIGHT_PIECE: usize = 16 * 1024;

/// Requests that wait to be written to one connection.
pub const QUEUE_LEN_MAX: usize = 4096;

/// Bodies of the requests that wait to be written to one connection, in bytes.
pub const QUEUE_BYTES_MAX: usize = 64 * 1024 * 1024;

/// Frames are gathered into one write up to about this many bytes.
pub const BATCH_BYTES: usize = 256 * 1024;

/// A read buffer grows by this many bytes at a time, whatever length a frame announces.
pub const READ_STEP: usize = 64 * 1024;

/// Pairs of (source, reason) whose last log line is remembered.
pub const THROTTLE_LEN_MAX: usize = 1024;

/// How often the same complaint about the same source is logged.
pub const THROTTLE_PAUSE: Duration = Duration::from_secs(60);

/// Notices of broken connections that a slow reader can be behind before it misses the oldest.
pub const DISCONNECTS_MAX: usize = 64;

/// Longest body of a request or an answer, in bytes.
pub fn body_len_max(lane: PeerLane) -> usize {
    match lane {
        PeerLane::Consensus | PeerLane::Forward => 4 * 1024 * 1024,
        PeerLane::Bulk => 2 * 1024 * 1024,
    }
}

/// How long bytes may stay unacknowledged by the peer's kernel before the connection counts as broken.
///
/// Without it, a connection that outlived a network partition would stay silent until TCP's next retransmission,
/// which may be minutes away. It also ends a connection whose peer has stopped reading.
pub fn unacknowledged_max(lane: PeerLane) -> Duration {
    match lane {
        PeerLane::Consensus => Duration::from_secs(1),
        PeerLane::Forward => Duration::from_secs(3),
        PeerLane::Bulk => Duration::from_secs(10),
    }
}
