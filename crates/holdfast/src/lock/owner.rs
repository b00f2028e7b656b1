//! The label of a holder that names none.

use super::system::host_name;

/// `HOST:PID`: enough for whoever finds the lock taken to find the process.
pub(crate) fn default_owner() -> String {
    let pid = std::process::id();
    match host_name() {
        Some(host) => format!("{host}:{pid}"),
        None => format!("pid:{pid}"),
    }
}
