//! A node that has no file descriptors left for new clients. Its own program: the limit is the whole process's.

#![allow(clippy::unwrap_used, reason = "a test that meets a surprise has failed")]

use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::fd::AsRawFd;
use std::time::Duration;

use holdfast_server::{DevOptions, dev_cluster};

fn limit() -> libc::rlimit {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the pointer is valid for the whole call.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) }, 0);
    limit
}

fn set_limit(limit: libc::rlimit) {
    // SAFETY: the pointer is valid for the whole call.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) }, 0);
}

#[tokio::test]
async fn clients_that_cannot_be_accepted_for_a_while_are_served_afterwards() {
    let cluster = dev_cluster(DevOptions { nodes: 1, base_port: 0, ..DevOptions::default() }).await.unwrap();
    cluster.ready().await.unwrap();
    let addr = cluster.urls()[0].strip_prefix("http://").unwrap().to_owned();
    // The node runs on this very thread: it cannot accept before the next await.
    let mut client = TcpStream::connect(addr).unwrap();
    client.write_all(b"GET /livez HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n").unwrap();
    let full = limit();
    // The lowest one that is free: all below are in use.
    let free = std::fs::File::open("/proc/self/stat").unwrap().as_raw_fd();
    set_limit(libc::rlimit { rlim_cur: free.try_into().unwrap(), ..full });
    assert!(std::fs::File::open("/proc/self/stat").is_err(), "no descriptor is left");
    // Several tries to accept; what is shown is that none of them ends the node.
    tokio::time::sleep(Duration::from_millis(200)).await;
    client.set_nonblocking(true).unwrap();
    assert!(client.read(&mut [0]).is_err(), "nobody has answered yet");
    client.set_nonblocking(false).unwrap();
    set_limit(full);
    let answer = tokio::task::spawn_blocking(move || {
        let mut answer = String::new();
        client.read_to_string(&mut answer).map(|_| answer)
    });
    let answer = tokio::time::timeout(Duration::from_secs(10), answer).await.unwrap().unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    cluster.shutdown().await.unwrap();
}
