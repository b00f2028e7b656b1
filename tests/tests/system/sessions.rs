//! Sessions on real processes.

use std::time::Duration;

use holdfast_tests::{Answer, Attempt, Cluster, PATIENCE, Roamer, eventually, new_token};
use serde_json::{Value, json};

const LONG_MS: u64 = 600_000;

struct Session {
    id: String,
    token: String,
}

impl Session {
    async fn open(roamer: &Roamer, ttl_ms: u64) -> Self {
        let token = new_token();
        let body = json!({"token": token, "ttl_ms": ttl_ms});
        let opened = roamer.post("/v1/sessions", &body, Duration::ZERO).await.ok();
        Self { id: opened.body["id"].as_str().unwrap().to_owned(), token }
    }

    fn path(&self, action: &str) -> String {
        format!("/v1/sessions/{}{action}", self.id)
    }

    fn attempt(&self, lock: &str) -> Attempt {
        Attempt::at(lock).in_session(&self.id, &self.token)
    }

    async fn post(&self, roamer: &Roamer, action: &str) -> Answer {
        roamer.post(&self.path(action), &json!({"token": self.token}), Duration::ZERO).await
    }

    async fn waits_for(&self, roamer: &Roamer, lock: &str) {
        eventually(PATIENCE, "the session waits", async || {
            (roamer.get(&self.path("")).await.ok().body["waits"] == json!([lock])).then_some(())
        })
        .await;
    }
}

fn is_free(lock: &Answer) -> bool {
    lock.body["state"] == "free"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_its_holds_and_its_places_survive_a_killed_leader_and_end_at_one_moment() {
    let cluster = Cluster::start(3).await;
    let session = Session::open(&cluster.roamer(0), LONG_MS).await;
    let mut fences = Vec::new();
    for node in 0..3 {
        let attempt = session.attempt(&format!("lock {node}"));
        fences.push(cluster.roamer(node).acquire(&attempt).await.ok().fence());
    }
    let busy = Attempt::at("busy").ttl_ms(LONG_MS);
    cluster.roamer(0).acquire(&busy).await.ok();
    let (roamer, waiting) = (cluster.roamer(1), session.attempt("busy").wait_ms(LONG_MS));
    let waits = tokio::spawn(async move { roamer.acquire(&waiting).await });
    session.waits_for(&cluster.roamer(2), "busy").await;

    let leader = cluster.leader().await;
    cluster.node(leader).kill();
    cluster.leader_among(&cluster.others(leader)).await;
    session.post(&cluster.roamer(1), "/renew").await.ok();
    for (node, fence) in fences.iter().enumerate() {
        let lock = cluster.roamer(node).lock(&format!("lock {node}")).await.ok();
        assert_eq!(lock.body["holders"][0]["fence"].as_u64(), Some(*fence));
        assert_eq!(lock.body["holders"][0]["session"], session.id);
    }
    session.waits_for(&cluster.roamer(2), "busy").await;

    let ended = session.post(&cluster.roamer(2), "/end").await.ok();
    assert_eq!(ended.body, json!({"id": session.id, "ended": true, "released": 3}));
    assert_eq!(waits.await.unwrap().code(), "session_expired");
    for node in 0..3 {
        assert!(is_free(&cluster.roamer(node).lock(&format!("lock {node}")).await.ok()));
    }
    assert_eq!(session.post(&cluster.roamer(0), "/end").await.ok().body["released"], 3);
    assert_eq!(session.post(&cluster.roamer(1), "/renew").await.code(), "session_expired");
    cluster.node(leader).start();
    cluster.equal_digests(&cluster.ids()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_keep_alive_keeps_a_thousand_locks_and_without_it_all_of_them_are_free() {
    const LOCKS: usize = 1_000;
    let cluster = Cluster::start(3).await;
    let session = Session::open(&cluster.roamer(0), 5_000).await;
    for batch in 0..10 {
        let mut acquires = tokio::task::JoinSet::new();
        for n in batch * LOCKS / 10..(batch + 1) * LOCKS / 10 {
            let (roamer, attempt) = (cluster.roamer(n), session.attempt(&format!("many/{n}")));
            acquires.spawn(async move { roamer.acquire(&attempt).await.ok().fence() });
        }
        acquires.join_all().await;
        session.post(&cluster.roamer(0), "/renew").await.ok();
    }
    let shown = cluster.roamer(1).get(&session.path("")).await.ok();
    assert_eq!(shown.body["holds"].as_array().map(Vec::len), Some(LOCKS));
    assert_eq!(cluster.roamer(2).list("many/").await.len(), LOCKS);
    // Somebody gets one of them as soon as nobody renews the session any more.
    let next = Attempt::at("many/7").wait_ms(30_000);
    cluster.roamer(1).acquire(&next).await.ok();
    let held: Vec<Value> = cluster.roamer(2).list("many/").await;
    assert_eq!(held.iter().map(|lock| lock["name"].as_str()).collect::<Vec<_>>(), [Some("many/7")]);
    assert_eq!(cluster.roamer(0).get(&session.path("")).await.code(), "session_not_found");
    cluster.equal_digests(&cluster.ids()).await;
}
