//! A PostgreSQL server.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use ::postgres::{Client, NoTls};
use tempfile::TempDir;

use crate::server::{self, Server};

/// Where Debian keeps the servers of all versions.
const DEBIAN_VERSIONS: &str = "/usr/lib/postgresql";

/// A PostgreSQL server that ends with its test.
pub struct PrivatePostgres {
    // Before its folder: fields are dropped in this order.
    server: Server,
    folder: TempDir,
}

impl PrivatePostgres {
    /// Starts a server; none, said on stderr, where no PostgreSQL is installed. With `CI=true` that is a failure.
    pub fn start() -> Option<Self> {
        let Some(programs) = installed() else {
            server::left_out("PostgreSQL", "postgresql");
            return None;
        };
        let folder = server::folder("pg-");
        let data = folder.path().join("data");
        let mut initdb = server::unprivileged(&programs.join("initdb"));
        initdb.args(["--no-sync", "--auth=trust", "--username=tests", "--encoding=UTF8", "--locale=C"]);
        server::run(initdb.arg("-D").arg(&data));

        let mut command = server::unprivileged(&programs.join("postgres"));
        command.arg("-D").arg(&data).arg("-k").arg(folder.path());
        command.args(["-c", "listen_addresses=", "-c", "fsync=off"]);
        let server = Server::start(&mut command, folder.path(), libc::SIGINT);
        let mut postgres = Self { server, folder };
        let url = postgres.url("postgres");
        postgres.server.serves(|| Client::connect(&url, NoTls).map(drop));
        Some(postgres)
    }

    /// Makes an empty database. Returns its URL.
    pub fn new_database(&self, name: &str) -> String {
        // PostgreSQL cuts names at 63 bytes, silently.
        let name = &name[..name.len().min(60)];
        let mut client = Client::connect(&self.url("postgres"), NoTls).unwrap();
        client.batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        self.url(name)
    }

    fn url(&self, database: &str) -> String {
        let folder = self.folder.path().to_str().unwrap().replace('/', "%2F");
        format!("postgres://tests@{folder}/{database}")
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
