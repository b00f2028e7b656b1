//! What the servers have in common: their folder, their process, and whose rights it has.

use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// `nobody` and `nogroup`: database servers refuse to run as root.
const NOBODY: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(60);

/// Says that a part of the tests is left out, for want of a program; where everything must be there, it fails.
pub(crate) fn left_out(what: &str, package: &str) {
    assert!(std::env::var("CI").as_deref() != Ok("true"), "{what} is not installed (Debian: {package})");
    eprintln!(
        "*** SKIPPED: {what} is not installed (Debian: {package}). What it promises is NOT tested by this run. ***"
    );
}

/// A folder for a server: short, since the path of a socket must fit into 107 bytes.
pub(crate) fn folder(prefix: &str) -> TempDir {
    let folder = tempfile::Builder::new().prefix(prefix).tempdir().unwrap();
    if is_root() {
        chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    folder
}

/// A command without root's rights.
pub(crate) fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

/// Runs a command to its end, which must be a good one.
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{command:?}:\n{}{}", said(&output.stdout), said(&output.stderr));
}

/// A server that runs.
pub(crate) struct Server {
    process: Child,
    /// The signal that asks it to end at once, with all its own children.
    end: libc::c_int,
    log: PathBuf,
}

impl Server {
    /// Starts it. What it says goes to a file in its folder.
    pub(crate) fn start(command: &mut Command, folder: &Path, end: libc::c_int) -> Self {
        let log = folder.join("server.log");
        let file = fs::File::create(&log).unwrap();
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Self { process: command.spawn().unwrap(), end, log }
    }

    /// Waits until it lets somebody connect.
    pub(crate) fn serves<E: std::fmt::Display>(&mut self, mut connect: impl FnMut() -> Result<(), E>) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = connect() {
            let log = || fs::read_to_string(&self.log).unwrap_or_default();
            assert!(self.process.try_wait().unwrap().is_none(), "the server has ended: {}", log());
            assert!(Instant::now() < deadline, "no connection: {error}\n{}", log());
            std::thread::sleep(Duration::from_millis(20)); // Looks again, until a deadline.
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !matches!(self.process.try_wait(), Ok(None)) {
            return;
        }
        let pid = libc::pid_t::try_from(self.process.id()).unwrap();
        // SAFETY: plain numbers; the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid, self.end) };
        let _ = self.process.wait();
    }
}

fn is_root() -> bool {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
