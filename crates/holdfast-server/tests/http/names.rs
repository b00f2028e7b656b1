//! Names of locks: which there are, and that none is taken for another.

use std::collections::BTreeSet;

use serde_json::json;

use crate::client::{Service, path_of, token};

const NAMES: [&str; 28] = [
    "/a",
    "a/",
    "a//b",
    "a%2Fb",
    "a%252Fb",
    "../a",
    ".",
    "..",
    "...",
    "a b",
    "a+b",
    "a@b:c",
    "a?b",
    "a#b",
    "a",
    "a/b",
    "/",
    "//",
    "acquire",
    "a/acquire",
    "\u{1F512}",
    "é",
    "e\u{301}",
    "A",
    " a",
    "a ",
    "a;b=c",
    "\\a",
];

#[tokio::test]
async fn every_name_comes_back_exactly_and_is_a_lock_of_its_own() {
    let service = Service::start().await;
    let long = "x".repeat(512);
    let names: BTreeSet<&str> = NAMES.into_iter().chain([long.as_str(), "x"]).collect();
    for name in &names {
        let grant = service.post(&path_of(name, "/acquire"), json!({"token": token('a')})).await.ok();
        assert_eq!(grant["name"], **name);
    }
    for name in &names {
        let lock = service.get(&path_of(name, "")).await.ok();
        assert_eq!((&lock["name"], &lock["state"]), (&json!(name), &json!("held")));
    }
    let list = service.get("/v1/locks?limit=1000").await.ok();
    let listed: Vec<_> = list["locks"].as_array().unwrap().iter().map(|lock| lock["name"].as_str()).collect();
    assert_eq!(listed, names.iter().map(|name| Some(*name)).collect::<Vec<_>>());
    for name in &names {
        let released = service.post(&path_of(name, "/release"), json!({"token": token('a')})).await.ok();
        assert_eq!(released["name"], **name);
    }
    assert_eq!(service.get("/v1/locks").await.ok()["locks"], json!([]));
    service.stop().await;
}

#[tokio::test]
async fn a_name_is_the_same_however_it_is_encoded() {
    let service = Service::start().await;
    for path in ["/v1/locks/a-b", "/v1/locks/%61-b", "/v1/locks/a%2Db", "/v1/locks/a%2db"] {
        assert_eq!(service.get(path).await.ok()["name"], "a-b");
    }
    assert_eq!(service.get("/v1/locks/..").await.ok()["name"], "..");
    assert_eq!(service.get("/v1/locks/%2e%2E").await.ok()["name"], "..");
    service.stop().await;
}

#[tokio::test]
async fn a_name_outside_its_limits_is_refused_with_the_rule() {
    let service = Service::start().await;
    let refused = [
        ("", "must not be empty"),
        ("%00", "control characters"),
        ("a%0Ab", "control characters"),
        ("%C2%85", "control characters"),
        ("%ff", "not valid UTF-8"),
        ("%C3", "not valid UTF-8"),
        ("100%", "two hexadecimal digits"),
        ("%zz", "two hexadecimal digits"),
        (&"x".repeat(513), "at most 512 bytes"),
        (&"%C3%A9".repeat(257), "at most 512 bytes"),
    ];
    for (raw, rule) in refused {
        for (method, action) in [("GET", ""), ("POST", "/acquire"), ("POST", "/renew"), ("POST", "/release")]
        {
            let reply = service.call(method, &format!("/v1/locks/{raw}{action}"), None).await;
            assert_eq!(reply.status, 400, "{raw}{action}");
            let detail = reply.detail("invalid_argument");
            assert!(detail.starts_with("`name` ") && detail.contains(rule), "{raw}{action}: {detail}");
        }
    }
    service.stop().await;
}

#[tokio::test]
async fn a_bare_slash_in_a_name_is_answered_with_how_to_write_it() {
    let service = Service::start().await;
    for path in ["/v1/locks/a/b", "/v1/locks/a//acquire", "/v1/locks/../cluster/acquire", "/v1/locks/a/"] {
        let reply = service.call("POST", path, Some(json!({}))).await;
        assert_eq!(reply.status, 404, "{path}");
        assert!(reply.detail("not_found").contains("%2F"), "{path}");
    }
    service.stop().await;
}

#[tokio::test]
async fn no_lock_stands_in_the_way_of_another_whose_name_begins_like_it() {
    let service = Service::start().await;
    let names = ["a", "a/", "a/1", "a1", "ab", "a/b/c"];
    for name in names {
        service.post(&path_of(name, "/acquire"), json!({"token": token('a'), "owner": name})).await.ok();
    }
    for name in names {
        let busy =
            service.post(&path_of(name, "/acquire"), json!({"token": token('b')})).await.problem("held");
        assert_eq!(busy["holder"]["owner"], name);
    }
    service.post(&path_of("a", "/release"), json!({"token": token('a')})).await.ok();
    let list = service.get("/v1/locks?prefix=a%2F").await.ok();
    let listed: Vec<_> = list["locks"].as_array().unwrap().iter().map(|lock| &lock["name"]).collect();
    assert_eq!(listed, ["a/", "a/1", "a/b/c"]);
    service.stop().await;
}

#[tokio::test]
async fn pages_of_a_list_fit_together() {
    let service = Service::start().await;
    for name in ["p/1", "p/2", "p/3", "q"] {
        service.post(&path_of(name, "/acquire"), json!({"token": token('a')})).await.ok();
    }
    let first = service.get("/v1/locks?prefix=p/&limit=2").await.ok();
    assert_eq!((first["locks"].as_array().unwrap().len(), &first["next"]), (2, &json!("p/2")));
    let second = service.get("/v1/locks?prefix=p/&limit=2&after=p%2F2").await.ok();
    assert_eq!((&second["locks"][0]["name"], &second["next"]), (&json!("p/3"), &json!(null)));
    service.stop().await;
}
