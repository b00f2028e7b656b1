//! The operating system's calls that the standard library does not offer. All unsafe code of the program is here.

use std::ffi::c_int;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus};

/// A process, or the group that it leads.
pub(crate) type Pid = libc::pid_t;

/// What has become of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// It is over.
    Ended(ExitStatus),
    /// A signal has stopped it; it may go on.
    Stopped(c_int),
}

/// What a child does between fork and exec.
pub(crate) struct BeforeExec<F> {
    /// The terminal whose foreground group the child's group becomes.
    pub(crate) terminal: Option<c_int>,
    /// The signal mask to go back to.
    pub(crate) mask: SignalMask,
    /// The last thing that is asked: whether to go on at all. It must neither allocate nor take a lock.
    pub(crate) may_run: F,
}

/// What the child fails with if it may not run. No exec fails with this.
pub(crate) const MAY_NOT_RUN: c_int = libc::ETIME;

/// Has a command run in a process group of its own that dies with this thread.
pub(crate) fn prepare<F>(command: &mut Command, before: BeforeExec<F>)
where
    F: Fn() -> bool + Send + Sync + 'static,
{
    // SAFETY: getpid has no preconditions.
    let parent = unsafe { libc::getpid() };
    let steps = move || {
        die_with(parent)?;
        if let Some(terminal) = before.terminal {
            // SAFETY: getpid and tcsetpgrp are async-signal-safe; SIGTTOU is blocked. If it does not work the
            // command starts in the background, as it would without a terminal.
            let _ = unsafe { libc::tcsetpgrp(terminal, libc::getpid()) };
        }
        before.mask.restore();
        if (before.may_run)() { Ok(()) } else { Err(io::Error::from_raw_os_error(MAY_NOT_RUN)) }
    };
    command.process_group(0);
    // SAFETY: the steps make system calls that are async-signal-safe, and nothing else.
    unsafe { command.pre_exec(steps) };
}

/// Has the kernel kill this process as soon as the thread that forked it is gone.
#[cfg(target_os = "linux")]
fn die_with(parent: Pid) -> io::Result<()> {
    // SAFETY: prctl with this option takes one number.
    checked(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) })?;
    // SAFETY: getppid has no preconditions.
    if unsafe { libc::getppid() } != parent {
        // The parent died before the kernel knew what to do about it.
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn die_with(_parent: Pid) -> io::Result<()> {
    Ok(())
}

/// Makes this process the parent of its descendants whose own parent dies, so that it can wait for them.
#[cfg(target_os = "linux")]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    // SAFETY: prctl with this option takes one number.
    checked(unsafe { libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) }).map(|_| ())
}

#[cfg(not(target_os = "linux"))]
pub(crate) fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// The next child of which there is news, if there is any.
pub(crate) fn next_change() -> Option<(Pid, Change)> {
    let mut status: c_int = 0;
    // SAFETY: the pointer is to an integer of our own.
    let pid = unsafe { libc::waitpid(-1, &raw mut status, libc::WNOHANG | libc::WUNTRACED) };
    if pid <= 0 {
        return None;
    }
    let change = match libc::WIFSTOPPED(status) {
        true => Change::Stopped(libc::WSTOPSIG(status)),
        false => Change::Ended(ExitStatus::from_raw(status)),
    };
    Some((pid, change))
}

/// Sends a signal to every process of a group. A group that is gone is no error.
pub(crate) fn signal_group(group: Pid, signal: c_int) {
    // SAFETY: kill takes two numbers.
    let _ = unsafe { libc::kill(-group, signal) };
}

/// Whether no process is left in a group.
pub(crate) fn is_group_gone(group: Pid) -> bool {
    // SAFETY: kill takes two numbers; signal 0 only asks.
    let status = unsafe { libc::kill(-group, 0) };
    status == -1 && io::Error::last_os_error().raw_os_error() == Some(libc::ESRCH)
}

/// Whether a signal was set to be ignored by whoever started this process, as `nohup` does.
pub(crate) fn is_ignored(signal: c_int) -> bool {
    // SAFETY: an all-zero sigaction is a valid value of this plain structure.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: the new action is null, so nothing is changed; the old one is written to a structure of our own.
    let status = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    status == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// The signals that a thread does not take.
#[derive(Clone, Copy)]
pub(crate) struct SignalMask(libc::sigset_t);

impl SignalMask {
    /// Blocks one signal in this thread, and returns the mask from before.
    pub(crate) fn block(signal: c_int) -> Self {
        // SAFETY: all-zero signal sets are valid values of this plain structure.
        let (mut set, mut before): (libc::sigset_t, libc::sigset_t) = unsafe { std::mem::zeroed() };
        // SAFETY: the pointers are to signal sets of our own, and the signal exists.
        unsafe {
            libc::sigemptyset(&raw mut set);
            libc::sigaddset(&raw mut set, signal);
            libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, &raw mut before);
        }
        Self(before)
    }

    /// Makes this the thread's mask.
    fn restore(&self) {
        // SAFETY: the pointer is to a signal set that pthread_sigmask itself has filled.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.0, std::ptr::null_mut()) };
    }
}

/// Stops this process until somebody sends SIGCONT.
pub(crate) fn stop_self() {
    // SAFETY: raise takes a number.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// The group that this process belongs to.
pub(crate) fn own_group() -> Pid {
    // SAFETY: getpgrp has no preconditions.
    unsafe { libc::getpgrp() }
}

/// The foreground group of a terminal, if it is this session's.
pub(crate) fn foreground_group(terminal: BorrowedFd<'_>) -> Option<Pid> {
    // SAFETY: the descriptor is open.
    let group = unsafe { libc::tcgetpgrp(terminal.as_raw_fd()) };
    (group > 0).then_some(group)
}

/// Makes a group the foreground group of a terminal. SIGTTOU must be blocked.
pub(crate) fn set_foreground_group(terminal: BorrowedFd<'_>, group: Pid) {
    // SAFETY: the descriptor is open.
    let _ = unsafe { libc::tcsetpgrp(terminal.as_raw_fd(), group) };
}

/// The name of this machine.
pub(crate) fn host_name() -> Option<String> {
    let mut name = [0_u8; 256];
    // SAFETY: the buffer is ours, and its length is given.
    let status = unsafe { libc::gethostname(name.as_mut_ptr().cast(), name.len()) };
    let length = name.iter().position(|byte| *byte == 0)?;
    let text = String::from_utf8(name[..length].to_vec()).ok()?;
    (status == 0 && !text.is_empty()).then_some(text)
}

fn checked(status: c_int) -> io::Result<c_int> {
    if status == -1 { Err(io::Error::last_os_error()) } else { Ok(status) }
}
