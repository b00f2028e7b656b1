//! Requests that are not what the service takes: each is refused at once, by name, and does nothing.

use std::time::Duration;

use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::client::{Reply, Service, request, token};

const POSTS: [&str; 3] = ["/v1/locks/x/acquire", "/v1/locks/x/renew", "/v1/locks/x/release"];

fn post(path: &str, headers: &str, body: &str) -> String {
    let len = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}Content-Length: {len}\r\n\r\n{body}"
    )
}

const JSON: &str = "Content-Type: application/json\r\n";

#[tokio::test]
async fn a_body_that_is_no_object_of_known_fields_is_refused_by_name() {
    let service = Service::start().await;
    let token = token('a');
    let bodies = [
        ("{", "`body`"),
        ("", "`body`"),
        ("[]", "`body`"),
        ("null", "`body`"),
        ("{}x", "`body`"),
        ("\u{feff}{}", "`body`"),
        (&format!("{{\"token\":\"{token}\",\"nonsense\":1}}"), "`nonsense`"),
        (&format!("{{\"token\":\"{token}\",\"token\":\"{token}\"}}"), "`token`"),
        ("{\"token\":5}", "`token`"),
        ("{\"token\":null}", "`token`"),
        ("{\"token\":\"short\"}", "`token`"),
        ("{\"token\":\"with a space in it\"}", "`token`"),
    ];
    for path in POSTS {
        for (body, field) in bodies {
            let reply = service.raw(post(path, JSON, body)).await;
            assert_eq!(reply.status, 400, "{path} {body}");
            let detail = reply.detail("invalid_argument");
            assert!(detail.starts_with(field), "{path} {body}: {detail}");
            assert!(!detail.contains("with a space") && !detail.contains(&token), "{detail}");
        }
    }
    for path in &POSTS[1..] {
        assert!(service.raw(post(path, JSON, "{}")).await.detail("invalid_argument").starts_with("`token`"));
        assert!(service.call("POST", path, None).await.detail("invalid_argument").starts_with("`body`"));
    }
    service.stop().await;
}

#[tokio::test]
async fn a_ttl_outside_its_limits_changes_no_lease() {
    let service = Service::start().await;
    service.post("/v1/locks/x/acquire", json!({"token": token('a')})).await.ok();
    for ttl in ["0", "-1", "-20", "99", "86400001", "0.0004", "1e30", "null", "\"\"", "\"30s\"", "[]", "true"]
    {
        let body = format!("{{\"token\":\"{}\",\"ttl_ms\":{ttl}}}", token('a'));
        for path in ["/v1/locks/x/renew", "/v1/locks/y/acquire"] {
            let reply = service.raw(post(path, JSON, &body)).await;
            assert_eq!(reply.status, 400, "{path} {ttl}");
            let detail = reply.detail("invalid_argument");
            for part in ["`ttl_ms`", "100", "86400000", "milliseconds"] {
                assert!(detail.contains(part), "{path} {ttl}: {detail}");
            }
        }
    }
    let lock = service.get("/v1/locks/x").await.ok();
    assert_eq!((&lock["state"], &lock["holders"][0]["ttl_ms"]), (&json!("held"), &json!(30_000)));
    assert_eq!(service.get("/v1/locks/y").await.ok()["state"], "free");
    // Left out, it is the one in force.
    let renewed = service.post("/v1/locks/x/renew", json!({"token": token('a')})).await.ok();
    assert_eq!(renewed["ttl_ms"], 30_000);
    service.stop().await;
}

#[tokio::test]
async fn the_other_fields_of_an_acquire_have_their_limits() {
    let service = Service::start().await;
    let refused = [
        (json!({"owner": ""}), "`owner`", "1 to 256 bytes"),
        (json!({"owner": "x".repeat(257)}), "`owner`", "256 bytes"),
        (json!({"owner": "a\nb"}), "`owner`", "control characters"),
        (json!({"wait_ms": 600_001}), "`wait_ms`", "600000 milliseconds"),
        (json!({"wait_ms": -1}), "`wait_ms`", "600000 milliseconds"),
        (json!({"metadata": {"x": "y".repeat(1_024)}}), "`metadata`", "1024 bytes"),
        (json!({"metadata": "x"}), "`metadata`", "JSON object"),
        (json!({"token": "x".repeat(15)}), "`token`", "16 to 128 characters"),
        (json!({"token": "x".repeat(129)}), "`token`", "16 to 128 characters"),
    ];
    for (body, field, limit) in refused {
        let detail = service.post("/v1/locks/x/acquire", body.clone()).await.detail("invalid_argument");
        assert!(detail.starts_with(field) && detail.contains(limit), "{body}: {detail}");
    }
    let full =
        json!({"owner": "o".repeat(256), "token": "t".repeat(128), "metadata": {"x": "y".repeat(1_016)}});
    service.post("/v1/locks/x/acquire", full).await.ok();
    service.stop().await;
}

#[tokio::test]
async fn a_body_that_is_not_declared_as_json_is_refused() {
    let service = Service::start().await;
    let body = format!("{{\"token\":\"{}\"}}", token('a'));
    for path in POSTS {
        for headers in [
            "",
            "Content-Type: text/plain\r\n",
            "Content-Type: application/x-www-form-urlencoded\r\n",
            "Content-Type: application/json\r\nContent-Encoding: gzip\r\n",
        ] {
            let reply = service.raw(post(path, headers, &body)).await;
            assert_eq!(reply.status, 415, "{path} {headers}");
            reply.problem("unsupported_media_type");
        }
    }
    let headers = "Content-Type: Application/JSON; charset=utf-8\r\nContent-Encoding: identity\r\n";
    service.raw(post("/v1/locks/x/acquire", headers, &body)).await.ok();
    service.stop().await;
}

#[tokio::test]
async fn a_body_that_announces_too_much_is_refused_before_it_is_sent() {
    let service = Service::start().await;
    let head = "POST /v1/locks/x/acquire HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
                Content-Length: 100000000\r\n\r\n";
    let reply = service.raw(head).await;
    assert_eq!(reply.status, 413);
    assert!(reply.detail("too_large").contains("65536 bytes"));
    service.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_100_megabytes_all_the_same_still_gets_its_answer() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr()).await.unwrap();
    let head = "POST /v1/locks/x/acquire HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
                Content-Length: 100000000\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let chunk = vec![b' '; 1_000_000];
    for _ in 0..100 {
        if stream.write_all(&chunk).await.is_err() {
            break;
        }
    }
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    Reply::parse(&bytes).problem("too_large");
    service.stop().await;
}

#[tokio::test]
async fn a_body_in_chunks_is_cut_at_its_limit() {
    let service = Service::start().await;
    let mut request = String::from(
        "POST /v1/locks/x/acquire HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
    );
    for _ in 0..17 {
        request += &format!("1000\r\n{}\r\n", " ".repeat(4096));
    }
    let reply = service.raw(request).await;
    assert_eq!(reply.status, 413);
    reply.problem("too_large");
    service.stop().await;
}

#[tokio::test]
async fn a_body_in_many_chunks_is_put_together() {
    let service = Service::start().await;
    let body = format!("{{\"token\":\"{}\",\"owner\":\"in pieces\"}}", token('a'));
    let mut request = String::from(
        "POST /v1/locks/x/acquire HTTP/1.1\r\nHost: test\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n",
    );
    for byte in body.chars() {
        request += &format!("1\r\n{byte}\r\n");
    }
    assert_eq!(service.raw(request + "0\r\n\r\n").await.ok()["owner"], "in pieces");
    service.stop().await;
}

#[tokio::test]
async fn a_body_that_comes_too_slowly_is_given_up() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr()).await.unwrap();
    stream
        .write_all(post("/v1/locks/x/acquire", JSON, "{}")[..].trim_end_matches('}').as_bytes())
        .await
        .unwrap();
    let reply = tokio::time::timeout(Duration::from_secs(15), Reply::read(&mut stream)).await.unwrap();
    assert_eq!(reply.status, 408);
    reply.problem("request_timeout");
    service.stop().await;
}

#[tokio::test]
async fn a_method_that_a_path_does_not_take_is_refused_with_those_that_it_takes() {
    let service = Service::start().await;
    let body = || Some(json!({"token": token('a')}));
    for path in POSTS {
        for method in ["GET", "PUT", "DELETE", "PATCH", "HEAD", "FROBNICATE"] {
            let reply = service.call(method, path, if method == "DELETE" { body() } else { None }).await;
            assert_eq!(
                (reply.status, reply.header("allow")),
                (405, Some("POST, OPTIONS")),
                "{method} {path}"
            );
        }
    }
    for path in ["/v1/locks/x", "/v1/locks", "/v1/cluster", "/livez", "/readyz", "/metrics", "/openapi.json"]
    {
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE"] {
            let reply = service.call(method, &format!("{path}?token=x"), body()).await;
            assert_eq!(
                (reply.status, reply.header("allow")),
                (405, Some("GET, HEAD, OPTIONS")),
                "{method} {path}"
            );
            reply.problem("method_not_allowed");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn head_and_options_are_answered_without_a_body() {
    let service = Service::start().await;
    let get = service.get("/v1/locks/x").await;
    let head = service.call("HEAD", "/v1/locks/x", None).await;
    assert_eq!((head.status, head.body.len()), (200, 0));
    assert_eq!(head.header("content-length").unwrap(), get.body.len().to_string());
    assert_eq!(head.header("content-type"), Some("application/json"));
    let options = service.call("OPTIONS", "/v1/locks/x/acquire", None).await;
    assert_eq!((options.status, options.header("allow")), (204, Some("POST, OPTIONS")));
    service.stop().await;
}

#[tokio::test]
async fn an_unknown_path_and_an_unknown_parameter_are_refused() {
    let service = Service::start().await;
    for path in ["/", "/v1", "/v2/locks", "/v1/locks.json", "//v1/locks", "/v1/cluster/", "/LIVEZ"] {
        let reply = service.get(path).await;
        assert_eq!(reply.status, 404, "{path}");
        reply.problem("not_found");
    }
    let parameters = [
        ("/v1/locks?page=2", "`page`"),
        ("/v1/locks?limit=0", "`limit`"),
        ("/v1/locks?limit=1001", "`limit`"),
        ("/v1/locks?limit=ten", "`limit`"),
        ("/v1/locks?limit=1&limit=2", "`limit`"),
        ("/v1/locks?prefix=%ff", "`prefix`"),
        ("/v1/locks?consistency=none", "`consistency`"),
        ("/v1/locks/x?consistency=STALE", "`consistency`"),
        ("/v1/locks/x?limit=1", "`limit`"),
        ("/livez?x", "`x`"),
    ];
    for (path, field) in parameters {
        let detail = service.get(path).await.detail("invalid_argument");
        assert!(detail.starts_with(field), "{path}: {detail}");
    }
    service.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_before_it_sends_is_told_to_go_on() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr()).await.unwrap();
    let head = "POST /v1/locks/x/acquire HTTP/1.1\r\nHost: test\r\nConnection: close\r\nExpect: 100-continue\r\n\
                Content-Type: application/json\r\nContent-Length: 2\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut go_on = [0; 25];
    stream.read_exact(&mut go_on).await.unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    stream.write_all(b"{}").await.unwrap();
    Reply::read(&mut stream).await.ok();
    service.stop().await;
}

#[tokio::test]
async fn what_is_no_http_at_all_is_refused_as_a_problem() {
    let service = Service::start().await;
    for bytes in [
        "GET /v1/locks/a b HTTP/1.1\r\nHost: test\r\n\r\n",
        "GET /v1/locks HTTP/1.1\r\nHost: test\r\nBad Header: x\r\n\r\n",
        "nonsense\r\n\r\n",
    ] {
        let reply = service.raw(bytes).await;
        assert_eq!(reply.status, 400, "{bytes}");
        assert_eq!(reply.json()["code"], "invalid_argument");
        assert_eq!(reply.header("content-type"), Some("application/problem+json"));
    }
    let long = format!("GET /v1/locks HTTP/1.1\r\nHost: test\r\nX-Long: {}\r\n\r\n", "x".repeat(1_000_000));
    assert_eq!(service.raw(long).await.json()["code"], "too_large");
    service.stop().await;
}

#[tokio::test]
async fn a_connection_is_used_again_after_a_refusal() {
    let service = Service::start().await;
    let mut stream = TcpStream::connect(service.addr()).await.unwrap();
    let refused = "POST /v1/locks/x/acquire HTTP/1.1\r\nHost: test\r\nContent-Type: application/json\r\n\
                   Content-Length: 2\r\n\r\n[]";
    stream.write_all(refused.as_bytes()).await.unwrap();
    stream.write_all(request("GET", "/livez", None).as_bytes()).await.unwrap();
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await.unwrap();
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.starts_with("HTTP/1.1 400") && text.contains("HTTP/1.1 200"), "{text}");
    service.stop().await;
}
