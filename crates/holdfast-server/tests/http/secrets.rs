//! A token is told to nobody but its owner.

use std::io;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tracing_subscriber::fmt::MakeWriter;

use crate::client::{Service, request};

const SECRETS: [&str; 3] =
    ["hidden-token-of-the-first", "hidden-token-of-another", "hidden-token-of-a-session"];

#[derive(Clone, Default)]
struct Captured(Arc<Mutex<Vec<u8>>>);

impl io::Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for Captured {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn a_token_shows_up_nowhere_but_in_its_own_grant() {
    let log = Captured::default();
    tracing_subscriber::fmt().with_max_level(tracing::Level::TRACE).with_writer(log.clone()).init();
    let service = Service::start().await;
    let [first, other, of_session] = SECRETS;
    let mut shown = Vec::new();
    service.post("/v1/locks/x/acquire", json!({"token": first})).await.ok();
    shown.push(service.post("/v1/locks/x/acquire", json!({"token": other})).await);
    shown.push(service.post("/v1/locks/x/acquire", json!({"token": other, "wait_ms": 20})).await);
    shown.push(service.post("/v1/locks/x/acquire", json!({"token": first, "owner": "else"})).await);
    shown.push(service.post("/v1/locks/x/renew", json!({"token": other})).await);
    shown.push(service.post("/v1/locks/x/release", json!({"token": other})).await);
    shown.push(service.post("/v1/locks/x/renew", json!({"token": format!("{first} ")})).await);
    shown.push(service.post("/v1/locks/x/renew", json!({"token": first, "ttl_ms": first})).await);
    shown.push(service.post("/v1/locks/x/acquire", json!([first])).await);
    shown.push(service.raw(request("POST", "/v1/locks/x/renew", Some(json!(first)))).await);
    let session = service.post("/v1/sessions", json!({"token": of_session})).await.ok();
    let (session, keep) = (session["id"].as_str().unwrap(), json!({"token": of_session}));
    let kept = json!({"session": session, "session_token": of_session});
    shown.push(service.post("/v1/locks/y/acquire", kept).await);
    shown.push(service.post("/v1/sessions", json!({"token": of_session, "owner": "else"})).await);
    shown.push(service.post("/v1/sessions/777777/renew", keep.clone()).await);
    for path in [&format!("/v1/sessions/{session}"), "/v1/sessions"] {
        shown.push(service.get(path).await);
    }
    shown.push(service.post(&format!("/v1/sessions/{session}/end"), keep.clone()).await);
    shown.push(service.post(&format!("/v1/sessions/{session}/renew"), keep).await);
    for path in ["/v1/locks/x", "/v1/locks", "/v1/cluster", "/metrics", "/debug/digest", "/readyz"] {
        shown.push(service.get(path).await);
    }
    shown.push(service.post("/v1/locks/x/release", json!({"token": first})).await);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("request") && log.contains("/v1/locks/{name}/acquire"), "the log was captured");
    for secret in SECRETS {
        assert!(!log.contains(secret), "the log shows a token");
        for reply in &shown {
            assert!(!reply.text().contains(secret), "{reply:?}");
        }
    }
    service.stop().await;
}
