//! Starting the command.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::process::Command;

use holdfast_client::{Clock, Guard, Moment};

use super::system::{self, BeforeExec, MAY_NOT_RUN, Pid, SignalMask};
use super::terminal::Terminal;
use crate::exit::Failure;

/// There is no such command, as shells say it.
const NOT_FOUND: u8 = 127;
/// The command cannot be run, as shells say it.
const NOT_RUNNABLE: u8 = 126;

/// Why the command was not started.
pub(crate) enum NotStarted {
    /// The lease ran out on the last metres.
    TooLate,
    /// It cannot be run.
    Failed(Failure),
}

/// Starts the command as the leader of a group of its own, and returns its process id, which is the group's too.
///
/// The last thing before the command itself, in the new process, is a look at the clock: whatever held it up, it
/// does not begin after `start_by`.
pub(crate) fn start(
    command: &[OsString],
    guard: &Guard,
    start_by: Moment,
    clock: &Clock,
    terminal: Option<&Terminal>,
    mask: SignalMask,
) -> Result<Pid, NotStarted> {
    let (program, arguments) = command.split_first().expect("the command line requires a command");
    let mut prepared = Command::new(program);
    prepared
        .args(arguments)
        .env("HOLDFAST_LOCK", guard.name())
        .env("HOLDFAST_FENCE", guard.fence().to_string())
        .env("HOLDFAST_TOKEN", guard.token().expose())
        .env("HOLDFAST_OWNER", guard.owner());
    for (number, grant) in (2..).zip(&guard.grants()[1..]) {
        prepared.env(format!("HOLDFAST_LOCK_{number}"), &grant.name);
        prepared.env(format!("HOLDFAST_FENCE_{number}"), grant.fence.to_string());
    }
    let clock = clock.clone();
    let may_run = move || clock.now() < start_by;
    let terminal = terminal.and_then(Terminal::for_command);
    system::prepare(&mut prepared, BeforeExec { terminal, mask, may_run });
    match prepared.spawn() {
        Ok(child) => Ok(Pid::try_from(child.id()).expect("a process id comes from the system's own type")),
        Err(error) if error.raw_os_error() == Some(MAY_NOT_RUN) => Err(NotStarted::TooLate),
        Err(error) => {
            let status = if error.kind() == ErrorKind::NotFound { NOT_FOUND } else { NOT_RUNNABLE };
            let message = format!("cannot run {}: {error}", program.display());
            Err(NotStarted::Failed(Failure::new(status, message)))
        }
    }
}
