//! Processes under test: the program, and what it runs.

use std::path::{Path, PathBuf};
use std::process::{Output, Stdio};
use std::time::{Duration, Instant};

use tokio::process::{Child, Command};

use crate::fake::{Fake, agree};

/// How long anything may take that should take a moment.
const PATIENCE: Duration = Duration::from_secs(20);

/// The program, with nothing of this process's environment but the search path.
pub(crate) fn holdfast(endpoints: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_holdfast"));
    command.env_clear().env("PATH", std::env::var_os("PATH").unwrap());
    command.env("HOLDFAST_ENDPOINTS", endpoints).kill_on_drop(true);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// `holdfast lock db`, with options and a shell script as the command.
pub(crate) fn lock(fake: &Fake, options: &[&str], script: &str) -> Command {
    let mut command = holdfast(&fake.url());
    command.args(["lock", "db"]).args(options).args(["--", "sh", "-c", script]);
    command
}

pub(crate) async fn run(mut command: Command) -> Output {
    let output = tokio::time::timeout(PATIENCE, command.output()).await;
    output.expect("the program ends in time").unwrap()
}

pub(crate) async fn status(mut child: Child) -> i32 {
    let status = tokio::time::timeout(PATIENCE, child.wait()).await;
    status.expect("the program ends in time").unwrap().code().expect("the program is not ended by a signal")
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A fake that agrees to everything under this TTL.
pub(crate) async fn agreeing(ttl_ms: u64) -> Fake {
    Fake::start(move |seen| agree(seen, ttl_ms)).await
}

/// A folder in which the commands under test leave notes.
pub(crate) struct Notes(tempfile::TempDir);

impl Notes {
    pub(crate) fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A script in which `@name` stands for the path of a note.
    pub(crate) fn script(&self, text: &str) -> String {
        text.replace('@', &format!("{}/", self.0.path().display()))
    }

    pub(crate) fn read(&self, name: &str) -> Option<String> {
        std::fs::read_to_string(self.path(name)).ok()
    }

    /// The text of a note, once it has a whole line.
    pub(crate) async fn line(&self, name: &str) -> String {
        until(&format!("a line in the note {name}"), || {
            self.read(name).filter(|text| text.ends_with('\n')).map(|text| text.trim_end().to_owned())
        })
        .await
    }

    /// The process id in a note.
    pub(crate) async fn pid(&self, name: &str) -> u32 {
        self.line(name).await.parse().unwrap()
    }
}

/// Looks again and again until there is something.
pub(crate) async fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await; // Looks again, until a deadline.
    }
}

/// Whether a process is there and no zombie.
pub(crate) fn lives(pid: u32) -> bool {
    let stat = std::fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("stat"));
    stat.is_ok_and(|stat| !stat.rsplit(')').next().unwrap_or("").trim_start().starts_with('Z'))
}

pub(crate) async fn until_gone(pid: u32) {
    until(&format!("the end of process {pid}"), || (!lives(pid)).then_some(())).await;
}

/// Sends a signal to one process.
pub(crate) fn signal(pid: u32, number: i32) {
    // SAFETY: kill takes two numbers.
    assert_eq!(unsafe { libc::kill(pid.try_into().unwrap(), number) }, 0);
}
