//! What can be measured: a system that locks, and its clients.

use std::time::Duration;

/// Why a request to the system under test came to nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    /// There was no connection to send it over.
    #[error("cannot connect to {address}: {why}")]
    Unreachable {
        /// Where to.
        address: String,
        /// What the operating system or the protocol said.
        why: String,
    },
    /// The connection broke before the answer was there.
    #[error("no answer: {0}")]
    Broken(String),
    /// An answer came, and it was not the one that the workload needs.
    #[error("refused: {0}")]
    Refused(String),
}

/// Which nodes the clients talk to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Placement {
    /// They are spread over all endpoints in turn.
    All,
    /// They all talk to the node that leads when the target is opened.
    Leader,
}

/// What a client is told when it connects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// From 0; decides which endpoint it talks to.
    pub number: usize,
    /// Its public label.
    pub owner: String,
    /// Of everything that it acquires.
    pub ttl: Duration,
}

/// A system under test.
pub trait Target: Send + Sync + 'static {
    /// One client of it.
    type Client: LockClient;

    /// What reports call it.
    fn name(&self) -> &str;

    /// Connects one client, ready to acquire.
    ///
    /// # Errors
    /// The endpoint cannot be reached, or refuses the client.
    fn connect(&self, settings: Settings) -> impl Future<Output = Result<Self::Client, TargetError>> + Send;
}

/// One client. It holds at most one lock that it can name: the last one it acquired.
///
/// Dropping it closes its connection. What it waits for ends then; what it holds ends with its TTL at the latest.
pub trait LockClient: Send + 'static {
    /// Acquires a lock, as a new attempt. Waits for at most `wait` if it is busy.
    ///
    /// # Errors
    /// The lock is not held, or nobody knows.
    fn acquire(&mut self, name: &str, wait: Duration)
    -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Extends the lease of the lock that was acquired last.
    ///
    /// # Errors
    /// The lease was not extended, or nobody knows.
    fn renew(&mut self) -> impl Future<Output = Result<(), TargetError>> + Send;

    /// Gives the lock back that was acquired last.
    ///
    /// # Errors
    /// The lock was not given back, or nobody knows.
    fn release(&mut self) -> impl Future<Output = Result<(), TargetError>> + Send;
}
