//! A Prometheus of a test's own: Debian's program, in a temporary folder, on an address of the loopback network.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use holdfast_tests::{Client, Cluster, LoopbackHost, PATIENCE, encode_segment, eventually};
use serde_json::Value;
use tempfile::TempDir;

const PROMETHEUS: &str = "/usr/bin/prometheus";
const PROMTOOL: &str = "/usr/bin/promtool";

/// A Prometheus that scrapes a cluster. It ends with this value.
pub(crate) struct Prometheus {
    process: Child,
    client: Client,
    folder: TempDir,
}

/// Whether Debian's package is there. Where everything must be there, it is a failure if it is not.
#[expect(clippy::print_stderr, reason = "the test runner shows it")]
pub(crate) fn is_installed() -> bool {
    let is_there = Path::new(PROMETHEUS).is_file() && Path::new(PROMTOOL).is_file();
    assert!(is_there || std::env::var("CI").as_deref() != Ok("true"), "prometheus is not installed");
    if !is_there {
        eprintln!("*** SKIPPED: Prometheus is not installed (Debian: prometheus). ***");
    }
    is_there
}

impl Prometheus {
    /// Starts one that scrapes all nodes of a cluster and follows these rules, and waits until it answers.
    pub(crate) async fn start(cluster: &Cluster, rules: &str) -> Self {
        let folder = TempDir::with_prefix("holdfast-prometheus-").unwrap();
        let targets: Vec<_> =
            cluster.nodes().iter().map(|node| node.addresses().client.to_string()).collect();
        let config = format!(
            "global: {{scrape_interval: 200ms, evaluation_interval: 200ms}}\n\
             rule_files: [rules.yml]\n\
             scrape_configs: [{{job_name: holdfast, static_configs: [{{targets: {targets:?}}}]}}]\n"
        );
        fs::write(folder.path().join("rules.yml"), rules).unwrap();
        fs::write(folder.path().join("prometheus.yml"), config).unwrap();
        let addr = LoopbackHost::choose().reserve(1)[0].client;
        let log = File::create(folder.path().join("log")).unwrap();
        let mut command = Command::new(PROMETHEUS);
        command.arg(format!("--config.file={}", folder.path().join("prometheus.yml").display()));
        command.arg(format!("--storage.tsdb.path={}", folder.path().join("data").display()));
        command.arg(format!("--web.listen-address={addr}"));
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let process = command.spawn().unwrap();
        let prometheus = Self { process, client: Client::new(format!("http://{addr}")), folder };
        eventually(PATIENCE, "Prometheus is ready", async || {
            prometheus.client.get("/-/ready").await.ok().filter(holdfast_tests::Answer::is_ok)
        })
        .await;
        prometheus
    }

    /// What its API answers as `data`.
    pub(crate) async fn api(&self, path: &str) -> Value {
        self.client.get(&format!("/api/v1/{path}")).await.unwrap().ok().body["data"].clone()
    }

    /// Waits until a query gives this one number.
    pub(crate) async fn tells(&self, query: &str, number: f64) {
        let path = format!("query?query={}", encode_segment(query));
        eventually(PATIENCE, &format!("{query} is {number}"), async || {
            let data = self.api(&path).await;
            let told = match data["result"].as_array().map(Vec::as_slice) {
                Some([one]) => one["value"][1].as_str()?.parse().ok(),
                _ => None,
            };
            (told == Some(number)).then_some(())
        })
        .await;
    }
}

impl Drop for Prometheus {
    #[expect(clippy::print_stderr, reason = "the test runner shows it with the failure")]
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if std::thread::panicking() {
            eprintln!("{}", fs::read_to_string(self.folder.path().join("log")).unwrap_or_default());
        }
    }
}

/// What `promtool check …` says to a text; it must be content.
pub(crate) fn promtool_passes(args: &[&str], text: &str) {
    let mut command = Command::new(PROMTOOL);
    command.arg("check").args(args).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut process = command.spawn().unwrap();
    process.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    let output = process.wait_with_output().unwrap();
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, error) = (said(&output.stdout), said(&output.stderr));
    assert!(output.status.success() && error.is_empty(), "{args:?}: {out}{error}");
}
