//! What a node's process asks of the kernel, in order: writes and syncs, as strace saw them.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use holdfast_tests::{Node, PATIENCE, eventually};

/// One thing that strace saw.
#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// Bytes were handed to the kernel; `to` is a path, or the two ends of a connection.
    Write { to: String, bytes: Vec<u8> },
    /// A sync of `of` began.
    SyncBegun { of: String },
    /// A sync of `of` has ended well.
    SyncDone { of: String },
}

/// strace at work on one node.
pub(crate) struct Trace {
    strace: Child,
    output: PathBuf,
}

/// Whether this machine has strace.
pub(crate) fn is_there() -> bool {
    Command::new("strace").arg("-V").stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

impl Trace {
    /// Watches all threads of a node from now on.
    pub(crate) async fn of(node: &Node, output: PathBuf) -> Self {
        let pid = node.pid();
        let strace = Command::new("strace")
            .args(["-f", "-yy", "-xx", "-s", "65536"])
            .args(["-e", "trace=write,writev,pwrite64,pwritev,sendto,sendmsg,fsync,fdatasync"])
            .arg("-o")
            .arg(&output)
            .args(["-p", &pid.to_string()])
            .stderr(Stdio::null())
            .spawn()
            .expect("strace can be started");
        eventually(PATIENCE, "strace has every thread", async || is_traced(pid).then_some(())).await;
        Self { strace, output }
    }

    /// Lets the node go, and reads what there was to see.
    pub(crate) fn end(mut self) -> Vec<Event> {
        let pid = i32::try_from(self.strace.id()).unwrap();
        // SAFETY: the call takes two numbers; the child has not been waited for, so that the number is its own.
        unsafe { libc::kill(pid, libc::SIGINT) };
        self.strace.wait().unwrap();
        parse(&fs::read_to_string(&self.output).unwrap())
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        let _ = self.strace.kill(); // It may have ended.
        let _ = self.strace.wait();
    }
}

fn is_traced(pid: u32) -> bool {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return false };
    tasks.flatten().all(|task| {
        fs::read_to_string(task.path().join("status"))
            .is_ok_and(|status| !status.lines().any(|line| line == "TracerPid:\t0"))
    })
}

fn parse(text: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut syncing: BTreeMap<&str, String> = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, call)) = line.split_once(' ') else { continue };
        let call = call.trim_start();
        if call.starts_with("<... fdatasync resumed>") || call.starts_with("<... fsync resumed>") {
            if let Some(of) = syncing.remove(thread).filter(|_| call.ends_with("= 0")) {
                events.push(Event::SyncDone { of });
            }
        } else if call.starts_with("fdatasync(") || call.starts_with("fsync(") {
            let of = descriptor(call);
            events.push(Event::SyncBegun { of: of.clone() });
            if call.ends_with("= 0") {
                events.push(Event::SyncDone { of });
            } else {
                syncing.insert(thread, of);
            }
        } else if call.starts_with("write") || call.starts_with("pwrite") || call.starts_with("send") {
            events.push(Event::Write { to: descriptor(call), bytes: bytes_of(call) });
        }
    }
    events
}

/// `fdatasync(9<\x2f\x74…>)`: what stands between the angle brackets, decoded where it is encoded.
fn descriptor(call: &str) -> String {
    let inner = call.split_once('<').map_or("", |(_, rest)| rest);
    // Connections have an arrow in them; paths are in hexadecimal and have no bracket.
    let end = inner.find(">)").or_else(|| inner.find(">, ")).unwrap_or(inner.len());
    let text = &inner[..end];
    if text.starts_with("\\x") { String::from_utf8_lossy(&unhex(text)).into_owned() } else { text.to_owned() }
}

/// All buffers of a call, one after the other.
fn bytes_of(call: &str) -> Vec<u8> {
    call.split('"').skip(1).step_by(2).flat_map(unhex).collect()
}

fn unhex(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|pair| u8::from_str_radix(&pair[..2], 16).unwrap()).collect()
}
