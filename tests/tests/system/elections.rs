//! Elections on real processes.

use std::time::{Duration, Instant};

use holdfast_tests::{Answer, Cluster, PATIENCE, Roamer, eventually, new_token};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

const LONG: Duration = Duration::from_secs(600);
const LONG_MS: u64 = 600_000;

/// One campaign of one candidate.
#[derive(Clone, Debug)]
struct Candidate {
    owner: &'static str,
    token: String,
    roamer: Roamer,
}

impl Candidate {
    /// Its calls go to this node first.
    fn new(cluster: &Cluster, owner: &'static str, node: usize) -> Self {
        Self { owner, token: new_token(), roamer: cluster.roamer(node) }
    }

    /// The call for the lead, waiting for it.
    fn campaigns(&self) -> JoinHandle<Answer> {
        let candidate = self.clone();
        tokio::spawn(async move {
            let value = json!({"at": candidate.owner});
            let body =
                json!({"owner": candidate.owner, "value": value, "ttl_ms": LONG_MS, "wait_ms": LONG_MS});
            candidate.post("campaign", body, LONG).await
        })
    }

    async fn hands_over_to(&self, to: &str) -> Answer {
        self.post("hand-over", json!({"to": to}), Duration::ZERO).await
    }

    async fn post(&self, action: &str, mut body: Value, wait: Duration) -> Answer {
        body["token"] = self.token.clone().into();
        self.roamer.post(&format!("/v1/elections/job/{action}"), &body, wait).await
    }
}

async fn election(cluster: &Cluster) -> Value {
    cluster.roamer(0).get("/v1/elections/job").await.ok().body
}

fn candidates(election: &Value) -> Vec<&str> {
    let waiting = election["candidates"].as_array().unwrap().iter();
    waiting.map(|candidate| candidate["owner"].as_str().unwrap()).collect()
}

async fn waits(cluster: &Cluster, owner: &str) {
    eventually(PATIENCE, "the candidate waits", async || {
        candidates(&election(cluster).await).contains(&owner).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lead_is_handed_around_fifty_times_and_a_third_candidate_never_slips_in() {
    let cluster = Cluster::start(3).await;
    let mut leader = Candidate::new(&cluster, "ping", 0);
    let first = leader.campaigns().await.unwrap().ok().fence();
    let third = Candidate::new(&cluster, "third", 1);
    let third_leads = third.campaigns();
    waits(&cluster, "third").await;
    for round in 1..=50 {
        let owner = if round % 2 == 1 { "pong" } else { "ping" };
        let next = Candidate::new(&cluster, owner, round);
        let next_leads = next.campaigns();
        waits(&cluster, owner).await;
        let handed = leader.hands_over_to(owner).await.ok();
        let lead = next_leads.await.unwrap().ok();
        // One counter for the whole cluster: nobody has had anything in between.
        assert_eq!((handed.fence(), lead.fence()), (first + round as u64 - 1, first + round as u64));
        assert_eq!(leader.hands_over_to(owner).await.ok().body, handed.body);
        leader = next;
    }
    let look = election(&cluster).await;
    assert_eq!((&look["leader"]["owner"], candidates(&look)), (&json!("ping"), vec!["third"]));
    assert!(!third_leads.is_finished());
    leader.post("resign", json!({}), Duration::ZERO).await.ok();
    assert_eq!(third_leads.await.unwrap().ok().fence(), first + 51);
    cluster.equal_digests(&cluster.ids()).await;
}

/// The candidate is connected to a node that stays; the leader asks the node that is killed that moment.
#[tokio::test(flavor = "multi_thread")]
async fn a_hand_over_while_the_cluster_changes_its_leader_takes_place_once() {
    let cluster = Cluster::start(3).await;
    let killed = cluster.leader().await;
    let nodes = |id: u64| cluster.ids().iter().position(|known| *known == id).unwrap();
    let others = cluster.others(killed);
    let old = Candidate::new(&cluster, "old", nodes(killed));
    let fence = old.campaigns().await.unwrap().ok().fence();
    let third = Candidate::new(&cluster, "third", nodes(others[0]));
    let third_leads = third.campaigns();
    waits(&cluster, "third").await;
    let chosen = Candidate::new(&cluster, "chosen", nodes(others[1]));
    let chosen_leads = chosen.campaigns();
    waits(&cluster, "chosen").await;

    let hands_over = tokio::spawn({
        let old = old.clone();
        async move { old.hands_over_to("chosen").await }
    });
    cluster.node(killed).kill();
    let told = hands_over.await.unwrap().ok();
    assert_eq!((told.fence(), &told.body["to"]), (fence, &json!("chosen")));
    let lead = chosen_leads.await.unwrap().ok();
    assert_eq!((lead.fence(), &lead.body["value"]), (fence + 1, &json!({"at": "chosen"})));
    assert!(!third_leads.is_finished());
    let renewed = old.post("renew", json!({}), Duration::ZERO).await;
    assert_eq!((renewed.code(), renewed.detail().contains("handed")), ("lease_released", true));
    assert_eq!(old.hands_over_to("chosen").await.ok().body, told.body);
    let look = election(&cluster).await;
    assert_eq!((&look["leader"]["fence"], candidates(&look)), (&json!(fence + 1), vec!["third"]));

    // What the leader says is seen at every node, also after the killed one is back.
    chosen.post("proclaim", json!({"value": ["a", 1]}), Duration::ZERO).await.ok();
    cluster.node(killed).start();
    cluster.ready().await;
    for id in cluster.ids() {
        let look = cluster.client(id).get("/v1/elections/job").await.unwrap().ok().body;
        assert_eq!(
            (&look["leader"]["owner"], &look["leader"]["value"]),
            (&json!("chosen"), &json!(["a", 1]))
        );
    }
    cluster.equal_digests(&cluster.ids()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn candidates_that_resigned_or_were_cut_off_never_lead_and_the_next_one_does_within_a_second() {
    let cluster = Cluster::start(3).await;
    let leader = Candidate::new(&cluster, "leader", 0);
    leader.campaigns().await.unwrap().ok();
    let resigns = Candidate::new(&cluster, "resigns", 1);
    let resigned = resigns.campaigns();
    waits(&cluster, "resigns").await;
    let cut_off = Candidate::new(&cluster, "cut off", 2).campaigns();
    waits(&cluster, "cut off").await;
    let stays = Candidate::new(&cluster, "stays", 1);
    let leads = stays.campaigns();
    waits(&cluster, "stays").await;

    cut_off.abort();
    resigns.post("resign", json!({}), Duration::ZERO).await.ok();
    assert_eq!(resigned.await.unwrap().code(), "lease_released");
    let begun = Instant::now();
    leader.post("resign", json!({}), Duration::ZERO).await.ok();
    leads.await.unwrap().ok();
    assert!(begun.elapsed() < Duration::from_secs(1), "{:?}", begun.elapsed());
    let look = election(&cluster).await;
    assert_eq!((&look["leader"]["owner"], &look["candidate_count"]), (&json!("stays"), &json!(0)));
}
