//! Signals to processes of our own.

use std::process::Child;

/// What can be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "named as the system names them")]
pub enum Signal {
    Term,
    Int,
    Kill,
    Stop,
    Continue,
}

/// Sends a signal to a child that has not been waited for, so that its id is still its own.
pub(crate) fn send(child: &Child, signal: Signal) {
    let number = match signal {
        Signal::Term => libc::SIGTERM,
        Signal::Int => libc::SIGINT,
        Signal::Kill => libc::SIGKILL,
        Signal::Stop => libc::SIGSTOP,
        Signal::Continue => libc::SIGCONT,
    };
    let pid = i32::try_from(child.id()).expect("process ids are small");
    // SAFETY: the call takes two numbers and touches no memory.
    let result = unsafe { libc::kill(pid, number) };
    assert_eq!(result, 0, "cannot signal process {pid}: {}", std::io::Error::last_os_error());
}
