//! The signals that reach the program while it runs a command.

use std::ffi::c_int;
use std::future::poll_fn;
use std::task::Poll;

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::system::is_ignored;
use crate::exit::Failure;

/// Passed on to the command, and by their default action the end of a process. Those of a fault of this program itself
/// (SIGSEGV and its like) are not among them, nor is SIGPIPE, which is ignored.
const ENDING: [c_int; 15] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGHUP,
    libc::SIGQUIT,
    libc::SIGUSR1,
    libc::SIGUSR2,
    libc::SIGALRM,
    libc::SIGVTALRM,
    libc::SIGPROF,
    libc::SIGIO,
    libc::SIGXCPU,
    libc::SIGXFSZ,
    libc::SIGABRT,
    libc::SIGTRAP,
    libc::SIGSYS,
];
/// Passed on to the command, and otherwise without a meaning.
const HARMLESS: [c_int; 5] = [libc::SIGWINCH, libc::SIGCONT, libc::SIGTSTP, libc::SIGTTIN, libc::SIGURG];

/// The end of a process too: what a system has beyond the signals of old.
#[cfg(target_os = "linux")]
fn more_ending() -> impl Iterator<Item = c_int> {
    [libc::SIGPWR, libc::SIGSTKFLT].into_iter().chain(libc::SIGRTMIN()..=libc::SIGRTMAX())
}

#[cfg(not(target_os = "linux"))]
fn more_ending() -> impl Iterator<Item = c_int> {
    std::iter::empty()
}

/// Whether a signal asks a program to come to its end.
pub(crate) fn asks_to_end(number: c_int) -> bool {
    [libc::SIGTERM, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT].contains(&number)
}

/// All signals that are passed on, from the moment of its making.
pub(crate) struct Signals {
    streams: Vec<(c_int, Signal)>,
    children: Signal,
}

impl Signals {
    /// Takes the signals over. Within a runtime only. SIGHUP stays ignored under `nohup`.
    pub(crate) fn new() -> Result<Self, Failure> {
        let wanted = ENDING.into_iter().chain(more_ending()).chain(HARMLESS);
        let wanted = wanted.filter(|number| *number != libc::SIGHUP || !is_ignored(libc::SIGHUP));
        let streams = wanted.map(|number| Ok((number, take(number)?))).collect::<Result<_, Failure>>()?;
        Ok(Self { streams, children: take(libc::SIGCHLD)? })
    }

    /// The next signal that is passed on.
    pub(crate) async fn next(&mut self) -> c_int {
        next_of(&mut self.streams).await
    }

    /// The next signal that would end a process.
    pub(crate) async fn next_ending(&mut self) -> c_int {
        loop {
            let number = self.next().await;
            if !HARMLESS.contains(&number) {
                return number;
            }
        }
    }

    /// The next signal that is passed on; none if there is news of a child first.
    pub(crate) async fn next_or_child(&mut self) -> Option<c_int> {
        tokio::select! {
            _ = self.children.recv() => None,
            number = next_of(&mut self.streams) => Some(number),
        }
    }
}

fn take(number: c_int) -> Result<Signal, Failure> {
    signal(SignalKind::from_raw(number))
        .map_err(|error| Failure::other(format!("cannot take signal {number}: {error}")))
}

async fn next_of(streams: &mut [(c_int, Signal)]) -> c_int {
    poll_fn(|context| {
        let ready = streams
            .iter_mut()
            .find_map(|(number, stream)| stream.poll_recv(context).is_ready().then_some(*number));
        ready.map_or(Poll::Pending, Poll::Ready)
    })
    .await
}
