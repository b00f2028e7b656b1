//! A worker process on the stage.

use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use tokio::process::{Child, ChildStderr, ChildStdout};

use crate::trouble::Trouble;

/// How often a process is looked at while it is waited for to stop: the system tells only who asks.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A worker process. It is killed when this is dropped, also while it is stopped.
#[derive(Debug)]
pub struct Actor {
    pub(crate) id: usize,
    name: String,
    child: Child,
}

/// All that can be heard of a worker.
pub(crate) struct Voice {
    pub(crate) stdout: ChildStdout,
    pub(crate) stderr: ChildStderr,
}

impl Actor {
    pub(crate) fn start(id: usize, name: &str, command: Command) -> Result<(Self, Voice), Trouble> {
        let program = command.get_program().to_owned();
        let mut command = tokio::process::Command::from(command);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().map_err(|source| Trouble::NotStarted { program, source })?;
        let stdout = child.stdout.take().expect("it was asked for");
        let stderr = child.stderr.take().expect("it was asked for");
        Ok((Self { id, name: name.into(), child }, Voice { stdout, stderr }))
    }

    /// What the story calls it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Ends it on the spot (SIGKILL): nothing is released, nothing is said.
    ///
    /// # Errors
    /// It has ended before.
    pub fn kill(&self) -> Result<(), Trouble> {
        self.signal(libc::SIGKILL)
    }

    /// Asks it to end (SIGTERM).
    ///
    /// # Errors
    /// It has ended before.
    pub fn terminate(&self) -> Result<(), Trouble> {
        self.signal(libc::SIGTERM)
    }

    /// Lets it go on where it was stopped (SIGCONT).
    ///
    /// # Errors
    /// It has ended before.
    pub fn resume(&self) -> Result<(), Trouble> {
        self.signal(libc::SIGCONT)
    }

    fn signal(&self, signal: libc::c_int) -> Result<(), Trouble> {
        // SAFETY: plain numbers. The id is that of our own child, which has not been waited for.
        let status = unsafe { libc::kill(self.pid()?, signal) };
        if status == 0 { Ok(()) } else { Err(Trouble::Io(io::Error::last_os_error())) }
    }

    /// Its process id; an error once it has ended and the number may be somebody else's.
    fn pid(&self) -> Result<libc::pid_t, Trouble> {
        let pid = self.child.id().ok_or_else(|| Trouble::Ended { name: self.name.clone(), what: "run" })?;
        Ok(libc::pid_t::try_from(pid).expect("a process id came from this type"))
    }

    /// Returns once the system says that the process is stopped: not one of its threads runs.
    ///
    /// # Errors
    /// It does not stop within `patience`, or has ended.
    pub async fn stopped(&self, patience: Duration) -> Result<(), Trouble> {
        let deadline = Instant::now() + patience;
        while !is_stopped(self.pid()?)? {
            if Instant::now() >= deadline {
                return Err(Trouble::Late { name: self.name.clone(), what: "stop".into(), patience });
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        Ok(())
    }

    /// How it ended.
    pub(crate) async fn ended(&mut self, patience: Duration) -> Result<ExitStatus, Trouble> {
        match tokio::time::timeout(patience, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => Err(Trouble::Late { name: self.name.clone(), what: "end".into(), patience }),
        }
    }
}

fn is_stopped(pid: libc::pid_t) -> Result<bool, Trouble> {
    let id = libc::id_t::try_from(pid).expect("process ids are positive");
    // Neither takes the news away from whoever waits for the end of the process, nor waits itself.
    let options = libc::WSTOPPED | libc::WNOHANG | libc::WNOWAIT;
    // SAFETY: all zeroes is a valid value of this plain C struct.
    let mut info: libc::siginfo_t = unsafe { std::mem::zeroed() };
    // SAFETY: the pointer is to a struct of our own, which the call fills.
    let status = unsafe { libc::waitid(libc::P_PID, id, &raw mut info, options) };
    if status != 0 {
        return Err(Trouble::Io(io::Error::last_os_error()));
    }
    // SAFETY: `waitid` has filled the fields of a child's change, or left them zero.
    Ok(unsafe { info.si_pid() } == pid)
}
