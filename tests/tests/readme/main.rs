//! What the README promises, taken from it word by word.
#![allow(clippy::unwrap_used, reason = "a test may")]

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use holdfast_tests::holdfast;

/// How many nodes `holdfast dev` starts.
const NODES: u16 = 3;
/// The client port of the first node in the README.
const BASE_PORT: u16 = 7101;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn text(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap()
}

/// The block of code that contains a text.
fn block(language: &str, containing: &str) -> String {
    let readme = text("README.md");
    let start = format!("```{language}\n");
    let blocks = readme.split(&start).skip(1);
    let mut blocks = blocks.filter_map(|rest| rest.split("\n```").next());
    blocks.find(|block| block.contains(containing)).expect("the README has this block").to_owned()
}

/// A development cluster that ends with the test.
struct Dev {
    process: Child,
    base_port: u16,
}

impl Dev {
    /// A port that was free may be taken a moment later: then another one is chosen.
    fn start() -> Self {
        (0..20).find_map(|_| Self::try_start(free_port())).expect("some ports stay free for a moment")
    }

    fn try_start(base_port: u16) -> Option<Self> {
        let mut command = Command::new(holdfast());
        command.args(["dev", "--base-port", &base_port.to_string()]);
        let mut process = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let said: Vec<_> = BufReader::new(process.stdout.take().unwrap())
            .lines()
            .map_while(Result::ok)
            .take(usize::from(NODES) + 1)
            .collect();
        let dev = Self { process, base_port };
        (said.last().map(String::as_str) == Some("ready")).then_some(dev)
    }

    /// Runs lines of the README as a shell does, against this cluster.
    fn run(&self, lines: &str) -> Output {
        let lines = (0..NODES).fold(lines.to_owned(), |lines, at| {
            let (theirs, ours) = (BASE_PORT + at, self.base_port + at);
            lines.replace(&format!("localhost:{theirs}"), &format!("localhost:{ours}"))
        });
        let program = holdfast();
        let mut path = program.parent().unwrap().as_os_str().to_owned();
        path.push(":");
        path.push(std::env::var_os("PATH").unwrap());
        Command::new("sh")
            .args(["-ec", &lines])
            .env("PATH", path)
            .env("HOLDFAST_ENDPOINTS", format!("http://127.0.0.1:{}", self.base_port))
            .output()
            .unwrap()
    }
}

impl Drop for Dev {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn stdout(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {stderr}", output.status);
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[test]
fn the_calls_of_the_readme_succeed_and_say_what_it_says() {
    let dev = Dev::start();
    let answers = stdout(&dev.run(&block("sh", "/acquire")));
    let answers: Vec<serde_json::Value> =
        answers.lines().map(|line| serde_json::from_str(line).expect("one answer a line")).collect();
    let [acquired, read, renewed, released] = answers.as_slice() else { panic!("{answers:?}") };
    let shown: serde_json::Value = serde_json::from_str(&block("json", "host-a-attempt-0001")).unwrap();
    assert_eq!(*acquired, shown);
    assert_eq!(read["state"], "held");
    assert_eq!(renewed["fence"], shown["fence"]);
    assert_eq!(released["released"], true);
    // A second time, with the same token, it is refused as the README says.
    let again = stdout(&dev.run(&block("sh", "/acquire")));
    assert!(again.lines().next().unwrap().contains("lease_released"), "{again}");
}

#[test]
fn the_command_under_a_lock_runs_as_the_readme_says() {
    let dev = Dev::start();
    let lines = block("sh", "holdfast lock");
    assert_eq!(stdout(&dev.run(&lines)), "only one of us runs this\n");
}

#[test]
fn the_scripts_that_the_readme_names_are_there_and_the_check_runs_the_tests() {
    for script in ["scripts/demo", "scripts/test"] {
        assert_eq!(block("sh", script), script);
        let mode = std::fs::metadata(root().join(script)).unwrap().permissions().mode();
        assert_eq!(mode & 0o111, 0o111, "{script}");
    }
    assert!(text(".ci/run").lines().any(|line| line.trim() == "scripts/test"));
}
