//! One `holdfast serve` process.

use std::fs::{self, File, OpenOptions};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use crate::binary::holdfast;
use crate::client::Client;
use crate::eventually::{PATIENCE, eventually};
use crate::ports::Addresses;
use crate::signal::{self, Signal};

/// Lines of a node's log that are shown when a test fails.
const LOG_LINES_SHOWN: usize = 150;

/// One node: its arguments, its folder, and its process while there is one.
#[derive(Debug)]
pub struct Node {
    id: u64,
    addresses: Addresses,
    data_dir: PathBuf,
    log_file: PathBuf,
    args: Vec<String>,
    client: Client,
    child: Mutex<Option<Child>>,
}

impl Node {
    /// A node that does not run yet. Its log goes to `log_file`.
    pub fn new(
        id: u64,
        addresses: Addresses,
        data_dir: PathBuf,
        log_file: PathBuf,
        args: Vec<String>,
    ) -> Self {
        let client = Client::new(format!("http://{}", addresses.client));
        Self { id, addresses, data_dir, log_file, args, client, child: Mutex::new(None) }
    }

    /// Its id.
    pub fn id(&self) -> u64 {
        self.id
    }

    /// Where it listens.
    pub fn addresses(&self) -> Addresses {
        self.addresses
    }

    /// Its folder.
    pub fn data_dir(&self) -> &Path {
        &self.data_dir
    }

    /// A way to talk to it.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The same node and log with another folder and other arguments, not started yet.
    #[must_use]
    pub fn again(&self, data_dir: PathBuf, args: Vec<String>) -> Self {
        Self::new(self.id, self.addresses, data_dir, self.log_file.clone(), args)
    }

    /// The same node, folder and log at other addresses with other arguments, not started yet.
    #[must_use]
    pub fn moved(&self, addresses: Addresses, args: Vec<String>) -> Self {
        Self::new(self.id, addresses, self.data_dir.clone(), self.log_file.clone(), args)
    }

    /// Its process id.
    ///
    /// # Panics
    /// If it does not run.
    pub fn pid(&self) -> u32 {
        self.child().as_ref().expect("the node runs").id()
    }

    /// Whether there is a process.
    pub fn is_running(&self) -> bool {
        self.exit_status().is_none() && self.child().is_some()
    }

    /// Starts the process, and does not wait for anything.
    ///
    /// # Panics
    /// If it cannot be started, or runs already.
    pub fn start(&self) {
        let mut child = self.child();
        assert!(child.is_none(), "node {} runs already", self.id);
        let mut command = Command::new(holdfast());
        command.arg("serve");
        command.args(["--node-id", &self.id.to_string()]);
        command.args(["--listen", &self.addresses.client.to_string()]);
        command.args(["--peer-listen", &self.addresses.peer.to_string()]);
        command.arg("--data-dir").arg(&self.data_dir);
        command.args(&self.args);
        command.stdin(Stdio::null()).stdout(self.log_to()).stderr(self.log_to());
        *child = Some(command.spawn().expect("the program can be started"));
    }

    fn log_to(&self) -> File {
        let opened = OpenOptions::new().create(true).append(true).open(&self.log_file);
        opened.expect("the folder of the test can be written to")
    }

    /// Ends it at once, as a crash would.
    pub fn kill(&self) {
        let mut child = self.child();
        if let Some(mut child) = child.take() {
            child.kill().expect("the process has not been waited for");
            child.wait().expect("the process is ours");
        }
    }

    /// Sends it a signal.
    ///
    /// # Panics
    /// If it does not run.
    pub fn signal(&self, signal: Signal) {
        signal::send(self.child().as_ref().expect("the node runs"), signal);
    }

    /// Stops it from running, without its knowing.
    pub fn pause(&self) {
        self.signal(Signal::Stop);
    }

    /// Lets it go on.
    pub fn resume(&self) {
        self.signal(Signal::Continue);
    }

    /// Waits until the process has ended by itself.
    pub async fn exited(&self, within: Duration) -> ExitStatus {
        let what = format!("node {} ends", self.id);
        let status = eventually(within, &what, async || self.exit_status()).await;
        *self.child() = None;
        status
    }

    /// Asks it to stop, and waits until it has.
    pub async fn terminate(&self) -> ExitStatus {
        self.signal(Signal::Term);
        self.exited(PATIENCE).await
    }

    /// Waits until it serves: it knows a leader that has a majority.
    ///
    /// # Panics
    /// If it ends instead.
    pub async fn ready(&self, within: Duration) {
        let what = format!("node {} is ready", self.id);
        eventually(within, &what, async || {
            assert!(self.is_running(), "node {} has ended:\n{}", self.id, self.log());
            self.is_ready().await.then_some(())
        })
        .await;
    }

    /// Waits until it answers at all.
    pub async fn alive(&self, within: Duration) {
        let what = format!("node {} answers", self.id);
        eventually(within, &what, async || self.client.get("/livez").await.ok()).await;
    }

    /// Whether it says that it serves.
    pub async fn is_ready(&self) -> bool {
        self.client.get("/readyz").await.is_ok_and(|answer| answer.is_ok())
    }

    /// What it has logged, over all its runs.
    pub fn log(&self) -> String {
        fs::read(&self.log_file).map_or(String::new(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    fn exit_status(&self) -> Option<ExitStatus> {
        self.child().as_mut()?.try_wait().expect("the process is ours")
    }

    fn child(&self) -> MutexGuard<'_, Option<Child>> {
        self.child.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    #[expect(clippy::print_stderr, reason = "the test runner shows it with the failure")]
    fn show_log(&self) {
        let log = self.log();
        let lines: Vec<_> = log.lines().collect();
        let shown = &lines[lines.len().saturating_sub(LOG_LINES_SHOWN)..];
        eprintln!("--- last {} of {} lines of node {}", shown.len(), lines.len(), self.id);
        for line in shown {
            eprintln!("{line}");
        }
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.kill();
        if std::thread::panicking() {
            self.show_log();
        }
    }
}
