//! Taking connections, also when the operating system has none to give for a while.

use std::io;
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};

/// First and longest pause after the operating system refused to give us a connection.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(10), Duration::from_secs(1));

/// A listener that does not give up.
pub(super) struct Acceptor {
    listener: TcpListener,
    /// How long to pause after the next refusal, if the last one was refused.
    pause: Option<Duration>,
}

impl Acceptor {
    pub(super) fn new(listener: TcpListener) -> Self {
        Self { listener, pause: None }
    }

    /// The next client. Nothing is lost if the future is dropped.
    pub(super) async fn next(&mut self) -> TcpStream {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    self.pause = None;
                    return stream;
                }
                Err(error) if is_about_one_connection(&error) => {}
                Err(error) => self.wait_after(&error).await,
            }
        }
    }

    async fn wait_after(&mut self, error: &io::Error) {
        if self.pause.is_none() {
            tracing::warn!(%error, "no new connections can be taken for now");
        }
        let pause = self.pause.unwrap_or(BACKOFF.0);
        self.pause = Some((pause * 2).min(BACKOFF.1));
        tokio::time::sleep(pause).await;
    }
}

/// The client has gone before it was accepted; that says nothing about the next one.
fn is_about_one_connection(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsRawFd;

    use super::*;

    fn limit() -> libc::rlimit {
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: the pointer is valid for the whole call.
        assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
        limit
    }

    fn set_limit(limit: libc::rlimit) {
        // SAFETY: the pointer is valid for the whole call.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_accepted_once_there_are_descriptors_again() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let _client = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let mut acceptor = Acceptor::new(listener);
        let full = limit();
        // The lowest descriptor that is free: all below are in use.
        let free = File::open("/dev/null").unwrap().as_raw_fd();
        set_limit(libc::rlimit { rlim_cur: free.try_into().unwrap(), ..full });
        let refused = tokio::time::timeout(Duration::from_secs(60), acceptor.next()).await;
        set_limit(full);
        assert!(refused.is_err(), "no descriptor was left");
        assert_eq!(acceptor.pause, Some(BACKOFF.1));
        acceptor.next().await;
        assert_eq!(acceptor.pause, None);
    }
}
