//! A MariaDB server.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use tempfile::TempDir;

use crate::server::{self, Server};

const SERVER: &str = "/usr/sbin/mariadbd";
const INSTALL: &str = "/usr/bin/mariadb-install-db";
const CLIENT: &str = "/usr/bin/mariadb";

/// A MariaDB server that ends with its test.
pub struct PrivateMariadb {
    // Before its folder: fields are dropped in this order.
    server: Server,
    folder: TempDir,
}

impl PrivateMariadb {
    /// Starts a server; none, said on stderr, where no MariaDB is installed. With `CI=true` that is a failure.
    pub fn start() -> Option<Self> {
        if ![SERVER, INSTALL, CLIENT].iter().all(|program| Path::new(program).is_file()) {
            server::left_out("MariaDB", "mariadb-server-core and mariadb-client-core");
            return None;
        }
        let folder = server::folder("my-");
        let data = format!("--datadir={}", folder.path().join("data").display());
        let quick = "--innodb-flush-log-at-trx-commit=0";
        let mut install = server::unprivileged(Path::new(INSTALL));
        install.args([
            "--no-defaults",
            &data,
            quick,
            "--auth-root-authentication-method=normal",
            "--skip-test-db",
        ]);
        server::run(&mut install);

        let mut command = server::unprivileged(Path::new(SERVER));
        command.args(["--no-defaults", &data, quick, "--skip-networking"]);
        command.arg(format!("--socket={}", socket(&folder).display()));
        command.arg(format!("--pid-file={}", folder.path().join("pid").display()));
        let server = Server::start(&mut command, folder.path(), libc::SIGTERM);
        let mut mariadb = Self { server, folder };
        let mut look = mariadb.client("mysql");
        look.args(["-e", "SELECT 1"]).stdout(Stdio::null()).stderr(Stdio::null());
        mariadb.server.serves(|| match look.status().unwrap().success() {
            true => Ok(()),
            false => Err("the client fails"),
        });
        Some(mariadb)
    }

    /// Makes an empty database.
    pub fn new_database(&self, name: &str) {
        server::run(self.client("mysql").args(["-e", &format!("CREATE DATABASE {name}")]));
    }

    /// The command line client, as root of the server.
    pub fn client(&self, database: &str) -> Command {
        let mut command = Command::new(CLIENT);
        command.args(["--no-defaults", "--user=root", "--default-character-set=utf8mb4"]);
        command.arg(format!("--socket={}", socket(&self.folder).display())).arg(database);
        command
    }
}

fn socket(folder: &TempDir) -> PathBuf {
    folder.path().join("socket")
}
