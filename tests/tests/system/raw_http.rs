//! Requests that no HTTP library sends: cut, slow, huge, or announced and not sent.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use holdfast_tests::{Attempt, Cluster};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const PROMPT: Duration = Duration::from_secs(1);

/// Sends bytes and reads until the status line is there.
async fn status_of(address: SocketAddr, request: &str) -> (String, TcpStream) {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    (status_line(&mut stream).await, stream)
}

async fn status_line(stream: &mut TcpStream) -> String {
    let mut line = Vec::new();
    let mut byte = [0];
    while !line.ends_with(b"\r\n") && stream.read(&mut byte).await.unwrap() == 1 {
        line.push(byte[0]);
    }
    String::from_utf8(line).unwrap()
}

fn head(rest: &str) -> String {
    format!("POST /v1/locks/db/acquire HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n{rest}\r\n")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_body_is_refused_before_it_is_read_and_an_endless_one_once_it_is_too_long() {
    let cluster = Cluster::start(1).await;
    let address = cluster.node(1).addresses().client;
    let begun = Instant::now();
    let (status, _) = status_of(address, &head("content-length: 104857600\r\n")).await;
    assert!(status.contains(" 413 ") && begun.elapsed() < PROMPT, "{status}");

    let begun = Instant::now();
    let piece = " ".repeat(0x8000);
    let endless = head("transfer-encoding: chunked\r\n") + &format!("8000\r\n{piece}\r\n").repeat(3);
    let (status, _) = status_of(address, &endless).await;
    assert!(status.contains(" 413 ") && begun.elapsed() < PROMPT, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_that_does_not_come_is_given_up_and_holds_nobody_up() {
    const GIVEN_UP_WITHIN: Duration = Duration::from_secs(15);
    let cluster = Cluster::start(1).await;
    let address = cluster.node(1).addresses().client;
    let begun = Instant::now();
    let mut slow = TcpStream::connect(address).await.unwrap();
    slow.write_all((head("content-length: 2\r\n") + "{").as_bytes()).await.unwrap();
    let answer = cluster.client(1).acquire(&Attempt::at("db")).await.unwrap().ok();
    assert!(answer.took < PROMPT, "others are served meanwhile");
    let status = status_line(&mut slow).await;
    assert!(status.contains(" 408 ") && begun.elapsed() < GIVEN_UP_WITHIN, "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_that_asks_before_it_sends_is_told_to_go_on() {
    let cluster = Cluster::start(1).await;
    let address = cluster.node(1).addresses().client;
    let (status, mut stream) =
        status_of(address, &head("content-length: 2\r\nexpect: 100-continue\r\n")).await;
    assert!(status.contains(" 100 "), "{status}");
    assert_eq!(status_line(&mut stream).await, "\r\n");
    stream.write_all(b"{}").await.unwrap();
    let status = status_line(&mut stream).await;
    assert!(status.contains(" 200 "), "{status}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_http_is_refused_or_cut_and_the_node_goes_on() {
    let cluster = Cluster::start(1).await;
    let address = cluster.node(1).addresses().client;
    for request in ["\r\n\r\n\0\0\0", "GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "{\"token\":1}\r\n\r\n"] {
        let (status, _) = status_of(address, request).await;
        assert!(
            status.is_empty() || status.contains(" 400 ") || status.contains(" 505 "),
            "{request:?}: {status}"
        );
    }
    let (status, _) = status_of(address, &head("content-length: -1\r\n")).await;
    assert!(status.contains(" 400 "), "{status}");
    assert!(cluster.client(1).acquire(&Attempt::at("db")).await.unwrap().is_ok());
}
