//! A PostgreSQL server of the test's own: in a temporary folder, on a Unix socket, without root's rights.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// Where Debian keeps the servers of all versions.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";
/// `nobody` and `nogroup`: PostgreSQL refuses to run as root.
const NOBODY: u32 = 65_534;
const PATIENCE: Duration = Duration::from_secs(60);

/// A server that ends with its test.
pub(crate) struct PrivatePostgres {
    folder: TempDir,
    server: Child,
}

impl PrivatePostgres {
    /// Starts a server; none, said on stderr, where no PostgreSQL is installed.
    pub(crate) fn start() -> Option<Self> {
        let Some(programs) = installed() else {
            eprintln!("SKIPPED: there is no PostgreSQL server in {DEBIAN_VERSIONS}");
            return None;
        };
        let folder = tempfile::Builder::new().prefix("invoices-pg-").tempdir().unwrap();
        if is_root() {
            chown(folder.path(), Some(NOBODY), Some(NOBODY)).unwrap();
        }
        let data = folder.path().join("data");
        let mut initdb = unprivileged(&programs.join("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username=invoices", "--encoding=UTF8", "--locale=C"]);
        let made = initdb.arg("-D").arg(&data).output().unwrap();
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));

        let log = fs::File::create(folder.path().join("server.log")).unwrap();
        let mut server = unprivileged(&programs.join("postgres"));
        server.arg("-D").arg(&data).arg("-k").arg(folder.path());
        server.args(["-c", "listen_addresses=", "-c", "fsync=off"]).stderr(log).stdout(Stdio::null());
        let server = server.spawn().unwrap();
        let mut postgres = Self { folder, server };
        postgres.wait_until_it_serves();
        Some(postgres)
    }

    /// Makes an empty database. Returns its URL.
    pub(crate) fn new_database(&self, name: &str) -> String {
        // PostgreSQL cuts names at 63 bytes, silently.
        let name = &name[..name.len().min(60)];
        let mut client = postgres::Client::connect(&self.url("postgres"), postgres::NoTls).unwrap();
        client.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        self.url(name)
    }

    fn url(&self, database: &str) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://invoices@{folder}/{database}")
    }

    fn wait_until_it_serves(&mut self) {
        let deadline = Instant::now() + PATIENCE;
        while let Err(error) = postgres::Client::connect(&self.url("postgres"), postgres::NoTls) {
            let log = || fs::read_to_string(self.folder.path().join("server.log")).unwrap_or_default();
            assert!(self.server.try_wait().unwrap().is_none(), "the server has ended: {}", log());
            assert!(Instant::now() < deadline, "no connection: {error}\n{}", log());
            std::thread::sleep(Duration::from_millis(20)); // Looks again, until a deadline.
        }
    }
}

impl Drop for PrivatePostgres {
    fn drop(&mut self) {
        // SIGINT asks PostgreSQL to end at once, with its own children.
        let pid = libc::pid_t::try_from(self.server.id()).unwrap();
        // SAFETY: plain numbers; the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(pid, libc::SIGINT) };
        let _ = self.server.wait();
    }
}

/// The folder of the newest server's programs.
fn installed() -> Option<PathBuf> {
    let versions = fs::read_dir(DEBIAN_VERSIONS).ok()?.filter_map(Result::ok);
    let programs = versions.map(|version| version.path().join("bin"));
    programs.filter(|bin| bin.join("postgres").is_file() && bin.join("initdb").is_file()).max_by_key(|bin| {
        let version = bin.parent().and_then(Path::file_name).and_then(OsStr::to_str);
        version.and_then(|version| version.parse::<u32>().ok())
    })
}

fn unprivileged(program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir("/").stdin(Stdio::null());
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn is_root() -> bool {
    // SAFETY: it takes nothing and cannot fail.
    unsafe { libc::geteuid() == 0 }
}
