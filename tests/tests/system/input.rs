//! Bad input: refused with its code, on every node alike, and nothing is changed by it.

use std::time::Duration;

use bytes::Bytes;
use holdfast_tests::{Answer, Attempt, Client, Cluster, encode_segment, new_token};
use hyper::Method;
use serde_json::{Value, json};

const JSON: Option<&str> = Some("application/json");

/// A request, the answer that it must get, and words that the answer must have.
struct Bad {
    method: Method,
    path: String,
    content_type: Option<&'static str>,
    body: Bytes,
    status: u16,
    code: &'static str,
    names: &'static [&'static str],
}

fn bad(path: &str, body: impl Into<Bytes>, names: &'static [&'static str]) -> Bad {
    Bad {
        method: Method::POST,
        path: path.into(),
        content_type: JSON,
        body: body.into(),
        status: 400,
        code: "invalid_argument",
        names,
    }
}

fn bad_acquire(field: &str, value: &Value, names: &'static [&'static str]) -> Bad {
    bad("/v1/locks/db/acquire", json!({ field: value }).to_string(), names)
}

const TTL: &[&str] = &["ttl_ms", "100", "86400000", "milliseconds"];
const WAIT: &[&str] = &["wait_ms", "600000", "milliseconds"];
const TOKEN: &[&str] = &["token", "16", "128"];
const TOKEN_LETTERS: &[&str] = &["token", "A-Z, a-z, 0-9"];
const OWNER: &[&str] = &["owner", "256"];
const METADATA: &[&str] = &["metadata", "1024"];
const NAME: &[&str] = &["name", "512"];

fn bad_fields() -> Vec<Bad> {
    let mut cases = Vec::new();
    for ttl in
        [json!(0), json!(99), json!(86_400_001), json!(-1), json!(0.0004), json!(null), json!(""), json!([])]
    {
        cases.push(bad_acquire("ttl_ms", &ttl, TTL));
        let renew = json!({ "token": new_token(), "ttl_ms": ttl });
        cases.push(bad("/v1/locks/db/renew", renew.to_string(), TTL));
    }
    for wait in [json!(-1), json!(600_001), json!(7_200_000), json!("1s"), json!(true)] {
        cases.push(bad_acquire("wait_ms", &wait, WAIT));
    }
    let tokens = [
        (json!("short"), TOKEN),
        (json!("x".repeat(129)), TOKEN),
        (json!(7), TOKEN),
        (json!("there are spaces in it"), TOKEN_LETTERS),
        (json!("tökentökentöken"), TOKEN_LETTERS),
    ];
    for (token, names) in tokens {
        for action in ["acquire", "renew", "release"] {
            let body = json!({ "token": token }).to_string();
            cases.push(bad(&format!("/v1/locks/db/{action}"), body, names));
        }
    }
    for owner in [json!(""), json!("x".repeat(257)), json!({})] {
        cases.push(bad_acquire("owner", &owner, OWNER));
    }
    cases.push(bad_acquire("owner", &json!("a\nb"), &["owner", "control characters"]));
    for metadata in [json!({ "a": "x".repeat(1024) }), json!("text"), json!([1])] {
        cases.push(bad_acquire("metadata", &metadata, METADATA));
    }
    cases
}

fn bad_bodies() -> Vec<Bad> {
    let acquire = "/v1/locks/db/acquire";
    let mut cases = vec![
        bad(acquire, r#"{"unknown_field":1}"#, &["unknown_field"]),
        bad(acquire, r#"{"ttl_ms":1000"#, &["JSON"]),
        bad(acquire, "[]", &["object"]),
        bad(acquire, "null", &["object"]),
        bad(acquire, "\"text\"", &["object"]),
        bad("/v1/locks/db/renew", "{}", &["token"]),
        bad("/v1/locks/db/release", "{}", &["token"]),
    ];
    for action in ["renew", "release"] {
        let path = format!("/v1/locks/db/{action}");
        cases.push(Bad { content_type: None, ..bad(&path, "", &[]) });
    }
    for content_type in [None, Some("text/plain"), Some("application/x-www-form-urlencoded")] {
        let (status, code) = (415, "unsupported_media_type");
        cases.push(Bad { content_type, status, code, ..bad(acquire, "{}", &["application/json"]) });
    }
    let (status, code) = (413, "too_large");
    cases.push(Bad { status, code, ..bad(acquire, vec![b' '; 65_537], &["65536"]) });
    cases
}

fn bad_targets() -> Vec<Bad> {
    let get = |path: &str, names| Bad { method: Method::GET, content_type: None, ..bad(path, "", names) };
    let mut cases = vec![
        get("/v1/locks?limit=0", &["limit", "1000"]),
        get("/v1/locks?limit=1001", &["limit", "1000"]),
        get("/v1/locks?limit=x", &["limit", "1000"]),
        get("/v1/locks?order=name", &["order"]),
        get("/v1/locks/db?consistency=weak", &["consistency"]),
    ];
    for path in ["/v1/lock", "/v2/locks", "/v1/locks/a/b", "/v1/locks/db/steal", "/"] {
        cases.push(Bad { status: 404, code: "not_found", ..get(path, &[]) });
    }
    for (method, path) in [
        (Method::GET, "/v1/locks/db/acquire"),
        (Method::PUT, "/v1/locks/db/renew"),
        (Method::DELETE, "/v1/locks/db"),
        (Method::POST, "/v1/locks"),
        (Method::POST, "/readyz"),
    ] {
        let (status, code) = (405, "method_not_allowed");
        cases.push(Bad { method, status, code, content_type: None, ..bad(path, "", &[]) });
    }
    for name in [encode_segment(&"x".repeat(513)), "%00".into(), "a%0Ab".into(), String::new()] {
        cases.push(bad(&format!("/v1/locks/{name}/acquire"), "{}", NAME));
    }
    for name in ["%4", "%zz", "a%", "%FF"] {
        cases.push(bad(&format!("/v1/locks/{name}/acquire"), "{}", &["name"]));
    }
    cases
}

async fn check(client: &Client, case: &Bad) -> Answer {
    let sent =
        client.send(case.method.clone(), &case.path, case.content_type, case.body.clone(), Duration::ZERO);
    let answer = sent.await.unwrap();
    let shown = String::from_utf8_lossy(&case.body[..case.body.len().min(100)]);
    let what = format!("{} {} {shown}: {answer:?}", case.method, case.path);
    assert_eq!((answer.status, answer.code()), (case.status, case.code), "{what}");
    let content_type = answer.headers["content-type"].to_str().unwrap();
    assert_eq!(content_type, "application/problem+json", "{what}");
    for name in case.names {
        assert!(answer.detail().contains(name), "does not say {name}: {what}");
    }
    assert!(answer.took < Duration::from_secs(1), "{what}");
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_input_gets_its_code_on_every_node_and_changes_nothing() {
    let cluster = Cluster::start(3).await;
    let before = cluster.settled().await;
    for case in bad_fields().iter().chain(&bad_bodies()).chain(&bad_targets()) {
        let mut answers = Vec::new();
        for id in cluster.ids() {
            answers.push(check(&cluster.client(id), case).await.detail().to_owned());
        }
        answers.dedup();
        assert_eq!(answers.len(), 1, "leader and followers say the same: {answers:?}");
    }
    // Without a lease nothing goes into the log by itself: not one entry has come of all this.
    assert_eq!(cluster.equal_digests(&cluster.ids()).await, before);
    let fence = cluster.client(1).acquire(&Attempt::at("db")).await.unwrap().ok().fence();
    assert_eq!(fence, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_renewal_with_a_bad_ttl_leaves_the_lease_as_it_was() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client(1);
    let hold = Attempt::at("db").ttl_ms(30_000);
    let fence = client.acquire(&hold).await.unwrap().ok().fence();
    for ttl in [json!(0), json!(-1), json!(-20), json!(0.0004), json!(null), json!("")] {
        let before = client.lock("db").await.unwrap().ok();
        let body = json!({ "token": hold.token, "ttl_ms": ttl });
        let answer = client.post("/v1/locks/db/renew", &body, Duration::ZERO).await.unwrap();
        assert_eq!((answer.status, answer.code()), (400, "invalid_argument"), "{ttl}");
        let after = client.lock("db").await.unwrap().ok();
        assert_eq!(after.held_fence(), Some(fence));
        let left = |answer: &Answer| answer.body["holders"][0]["expires_in_ms"].as_u64().unwrap();
        assert!(left(&after) <= left(&before) && left(&after) > 20_000, "{ttl}");
    }
    assert_eq!(client.renew(&hold).await.unwrap().ok().body["ttl_ms"], 30_000);
}

/// Names that look alike, look like paths, or are prefixes of each other.
fn names() -> Vec<String> {
    let mut names: Vec<String> = [
        "/a",
        "a/",
        "a//b",
        "a%2Fb",
        "a%252Fb",
        "../a",
        ".",
        "..",
        "a b",
        "a+b",
        "a@b:c",
        "a?b",
        "a#b",
        "💡",
        "caf\u{e9}",
        "cafe\u{301}",
        "x",
        "a",
        "a/1",
        "a1",
        "ab",
        "a/b/c",
        "A",
        "acquire",
        "a/acquire",
        "&=;,'\"<>\\",
    ]
    .map(str::to_owned)
    .into();
    names.push("n".repeat(512));
    names
}

#[tokio::test(flavor = "multi_thread")]
async fn every_accepted_name_is_a_lock_of_its_own_and_reads_back_exactly() {
    let cluster = Cluster::start(3).await;
    let names = names();
    let mut holds = Vec::new();
    for (number, name) in names.iter().enumerate() {
        let hold = Attempt::at(name).owner(format!("owner-{number}")).ttl_ms(600_000);
        let grant = cluster.client(1 + (number % 3) as u64).acquire(&hold).await.unwrap().ok();
        assert_eq!(grant.body["name"], name.as_str());
        holds.push((hold, grant.fence()));
    }
    let listed = cluster.roamer(0).list("").await;
    let mut expected = names.clone();
    expected.sort();
    assert_eq!(listed.iter().map(|lock| lock["name"].as_str().unwrap()).collect::<Vec<_>>(), expected);
    for (number, (hold, fence)) in holds.iter().enumerate() {
        let lock = cluster.client(1 + ((number + 1) % 3) as u64).lock(&hold.lock).await.unwrap().ok();
        assert_eq!(lock.body["name"], hold.lock.as_str());
        assert_eq!(lock.held_fence(), Some(*fence), "{:?}", hold.lock);
    }
    for prefix in ["a", "a/", "..", "é", ""] {
        let found = cluster.roamer(1).list(prefix).await;
        let found: Vec<_> = found.iter().map(|lock| lock["name"].as_str().unwrap().to_owned()).collect();
        let expected: Vec<_> = expected.iter().filter(|name| name.starts_with(prefix)).cloned().collect();
        assert_eq!(found, expected, "prefix {prefix:?}");
    }
    for (number, (hold, fence)) in holds.iter().enumerate() {
        let released = cluster.client(1 + ((number + 2) % 3) as u64).release(hold).await.unwrap().ok();
        assert_eq!(released.fence(), *fence);
        assert_eq!(cluster.roamer(0).list("").await.len(), names.len() - number - 1, "{:?}", hold.lock);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dots_in_a_path_are_a_name_and_lead_nowhere_else() {
    let cluster = Cluster::start(1).await;
    let client = cluster.client(1);
    let grant = client.post("/v1/locks/../acquire", &json!({}), Duration::ZERO).await.unwrap().ok();
    assert_eq!(grant.body["name"], "..");
    assert_eq!(client.get("/v1/locks/..").await.unwrap().ok().held_fence(), Some(grant.fence()));
    for path in ["/v1/locks/../cluster", "/v1/locks/%2E%2E/cluster", "/v1//locks/x", "//v1/locks/x"] {
        assert_eq!(client.get(path).await.unwrap().status, 404, "{path}");
    }
}
