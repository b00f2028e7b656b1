//! How many clients the process has descriptors for.

/// Descriptors that clients must leave to the node itself: its log, its snapshots, its peers.
const RESERVED: usize = 128;
/// Whatever the operating system allows.
const CLIENTS_MIN: usize = 16;

/// Connections that may be open at a time. Further clients wait in the listener's backlog.
pub(super) fn for_clients() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid for the whole call.
    let result = unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let allowed = if result == 0 { usize::try_from(limit.rlim_cur).unwrap_or(usize::MAX) } else { 1024 };
    allowed.saturating_sub(RESERVED).max(CLIENTS_MIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_leave_descriptors_to_the_node() {
        assert!(for_clients() >= CLIENTS_MIN);
        assert!(for_clients() <= usize::MAX - RESERVED);
    }
}
