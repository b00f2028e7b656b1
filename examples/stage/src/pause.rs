//! The pause that no program sees coming.

/// Stops this whole process, as `kill -STOP` does, until somebody sends it SIGCONT.
///
/// It stands for everything that halts a program between two of its steps: a machine that is suspended or migrated,
/// swapping, a debugger, a long garbage collection. From the inside no time has passed when it is over.
pub fn stop_here() {
    // SAFETY: a plain number; no handler can be installed for this signal.
    let status = unsafe { libc::raise(libc::SIGSTOP) };
    assert_eq!(status, 0, "every process may stop itself");
}
