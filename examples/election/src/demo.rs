//! Three workers: the one that leads is killed, twice; then one is asked to stop.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use holdfast_client::api::Election;
use holdfast_client::{Client, Consistency};
use stage::{Actor, PATIENCE, Said, Stage, Trouble};
use tokio::task::block_in_place;

use crate::belief::{Belief, are_apart, merged};
use crate::decisions::{Decision, Decisions};
use crate::report::{BELIEVES, DECIDES, LEADS, RENEWED};

const ELECTION: &str = "leader:dispatch";
/// How much later than its TTL a lease may end, at most.
const SLACK: Duration = Duration::from_secs(1);
/// How long a hand-over may take where nobody has to wait for a lease to end.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How often the cluster is asked how many wait.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// Plays the whole demo.
pub(crate) async fn play(stage: &mut Stage, endpoints: &[String], ttl: Duration) -> Result<(), Trouble> {
    let client = Client::builder().endpoints(endpoints).build().map_err(Trouble::other)?;
    let db = stage.folder().join("decisions.db");
    let scene = Scene { client, endpoints: endpoints.join(","), db, ttl };
    if scene.election().await?.leader.is_some() {
        return Err(Trouble::Other(format!("somebody leads in {ELECTION} already")));
    }

    stage.story.chapter("Three workers start. One leads, two wait.");
    let mut workers = Vec::new();
    for name in ["worker-1", "worker-2", "worker-3"] {
        workers.push(scene.worker(stage, name)?);
    }
    let mut leader = scene.next_leader(stage, &mut workers).await?;
    let mut leaders = vec![leader.term()?];
    scene.until_waiting(2).await?;

    for again in ["", ", too"] {
        stage
            .story
            .chapter(format!("{} is killed (SIGKILL) right after a renewal{again}.", leader.actor.name()));
        let next = scene.kill_the_leader(stage, &leader, &mut workers).await?;
        leader = next;
        leaders.push(leader.term()?);
    }

    stage.story.chapter("Another worker comes, and the one that leads is asked to stop (SIGTERM).");
    workers.push(scene.worker(stage, "worker-4")?);
    scene.until_waiting(1).await?;
    leader = scene.stop_the_leader(stage, leader, &mut workers).await?;
    leaders.push(leader.term()?);
    leader.actor.terminate()?;
    let ended = stage.end(&mut leader.actor).await?;

    stage.story.chapter("What was seen.");
    let nobody_leads = scene.election().await?.leader.is_none();
    stage.story.check("the last one exited with 0, and nobody leads", ended.success() && nobody_leads);
    scene.check_all(stage, &leaders)
}

struct Scene {
    client: Client,
    endpoints: String,
    db: PathBuf,
    ttl: Duration,
}

/// The worker that leads, and what it said when it began to.
struct Leader {
    actor: Actor,
    leads: Said,
}

impl Leader {
    /// The decision that it may take.
    fn term(&self) -> Result<Decision, Trouble> {
        Ok(Decision { fence: self.leads.number("fence")?, leader: self.actor.name().into() })
    }
}

impl Scene {
    fn worker(&self, stage: &mut Stage, name: &str) -> Result<Actor, Trouble> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "work",
            "--endpoints",
            &self.endpoints,
            "--owner",
            name,
            "--election",
            ELECTION,
            "--db",
        ]);
        command.arg(&self.db).args(["--ttl", &format!("{}ms", self.ttl.as_millis())]);
        stage.start(name, command)
    }

    async fn election(&self) -> Result<Election, Trouble> {
        let answer = self.client.get_election(ELECTION, Consistency::Linearizable).await;
        Ok(answer.map_err(Trouble::other)?.value)
    }

    /// Returns when so many workers stand in the queue.
    async fn until_waiting(&self, count: u64) -> Result<(), Trouble> {
        let deadline = Instant::now() + PATIENCE;
        while self.election().await?.candidate_count != count {
            if Instant::now() >= deadline {
                let (name, what) = ("the queue".into(), format!("have {count} workers"));
                return Err(Trouble::Late { name, what, patience: PATIENCE });
            }
            tokio::time::sleep(ASK_EVERY).await;
        }
        Ok(())
    }

    /// Takes the worker that leads out of those that do not, once it leads and has decided something.
    async fn next_leader(&self, stage: &mut Stage, workers: &mut Vec<Actor>) -> Result<Leader, Trouble> {
        let leads = stage.first_of(&workers.iter().collect::<Vec<_>>(), LEADS).await?;
        let at = workers.iter().position(|worker| leads.is_by(worker)).expect("one of them said so");
        let actor = workers.remove(at);
        stage.line(&actor, DECIDES).await?;
        Ok(Leader { actor, leads })
    }

    async fn kill_the_leader(
        &self,
        stage: &mut Stage,
        leader: &Leader,
        workers: &mut Vec<Actor>,
    ) -> Result<Leader, Trouble> {
        // A lease that was renewed: what is left of it when its holder dies is not the whole TTL.
        stage.line(&leader.actor, RENEWED).await?;
        let killed = Instant::now();
        leader.actor.kill()?;
        let next = self.next_leader(stage, workers).await?;
        let took = next.leads.at.saturating_duration_since(killed);
        let limit = self.ttl + SLACK;
        let (name, took_s, limit_s) = (next.actor.name(), took.as_secs_f64(), limit.as_secs_f64());
        let claim = format!("{name} leads {took_s:.2} s after the kill; at most {limit_s:.1} s are promised");
        stage.story.check(claim, took <= limit);
        Ok(next)
    }

    async fn stop_the_leader(
        &self,
        stage: &mut Stage,
        mut leader: Leader,
        workers: &mut Vec<Actor>,
    ) -> Result<Leader, Trouble> {
        let asked = Instant::now();
        leader.actor.terminate()?;
        let next = self.next_leader(stage, workers).await?;
        let ended = stage.end(&mut leader.actor).await?;
        let took = next.leads.at.saturating_duration_since(asked);
        let claim = format!(
            "{} leads {:.2} s later: nobody waits for a lease",
            next.actor.name(),
            took.as_secs_f64()
        );
        stage.story.check(claim, ended.success() && took <= AT_ONCE);
        Ok(next)
    }

    /// Checks the whole run: `leaders` are those that led, one after the other.
    fn check_all(&self, stage: &mut Stage, leaders: &[Decision]) -> Result<(), Trouble> {
        let beliefs = merged(said_beliefs(stage)?);
        let decisions = block_in_place(|| Decisions::open(&self.db)?.all()).map_err(Trouble::other)?;
        let fences: Vec<u64> = leaders.iter().map(|term| term.fence).collect();
        for Belief { fence, from_ms, until_ms } in &beliefs {
            let from_ms = from_ms - beliefs[0].from_ms;
            let until_ms = until_ms - beliefs[0].from_ms;
            let text = format!("fence {fence} could be believed in from {from_ms} ms until {until_ms} ms");
            stage.story.tell(text);
        }
        let story = &mut stage.story;
        story.check(
            format!("the fences rise: {fences:?}"),
            fences.is_sorted_by(|earlier, later| earlier < later),
        );
        story.check("never did two workers believe that they lead", {
            beliefs.len() == leaders.len() && are_apart(&beliefs)
        });
        let mut deciders = decisions.clone();
        deciders.dedup();
        story.check(format!("the {} decisions came from these leaders, in this order", decisions.len()), {
            deciders == leaders
        });
        Ok(())
    }
}

fn said_beliefs(stage: &Stage) -> Result<Vec<Belief>, Trouble> {
    let asides = stage.said().filter(|said| said.text.starts_with(BELIEVES));
    asides
        .map(|said| {
            let (fence, from_ms) = (said.number("fence")?, said.number("from")?);
            Ok(Belief { fence, from_ms, until_ms: said.number("until")? })
        })
        .collect()
}
