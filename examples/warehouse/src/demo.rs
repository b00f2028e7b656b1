//! Two workers get the same event, which is then delivered once more.

use std::path::PathBuf;
use std::process::Command;

use holdfast_client::api::LockState;
use holdfast_client::{Client, Consistency};
use stage::{Actor, PATIENCE, Said, Stage, Trouble};
use tokio::task::block_in_place;

use crate::report::{APPLIED, BUSY, HOLDS, PAUSES, UNCHANGED};
use crate::stock::Stock;

const LOCK: &str = "stock-sync:warehouse-42";
/// The longest pause before a retry in the first chapter.
const RETRY_AT_MOST_MS: u64 = 2_000;
const RETRY_SOON: [&str; 2] = ["--retry-at-most", "2000ms"];
const DELIVERY: [&str; 6] = ["--event", "evt-1001", "--change", "bolts=40", "--change", "nuts=25"];
const PICKING: [&str; 4] = ["--event", "evt-1002", "--change", "bolts=-5"];
const COUNTING: [&str; 4] = ["--event", "evt-1003", "--change", "nuts=-1"];
/// `EX_TEMPFAIL`: whoever sent the event may send it again later.
const GAVE_UP: i32 = 75;

/// Plays the whole demo.
pub(crate) async fn play(stage: &mut Stage, endpoints: &[String]) -> Result<(), Trouble> {
    let client = Client::builder().endpoints(endpoints).build().map_err(Trouble::other)?;
    let scene = Scene { client, endpoints: endpoints.join(","), db: stage.folder().join("stock.db") };
    if !scene.is_free().await? {
        return Err(Trouble::Other(format!("somebody holds {LOCK} already")));
    }
    two_get_the_same_event(stage, &scene).await?;
    the_event_comes_once_more(stage, &scene).await?;
    another_event_comes(stage, &scene).await?;
    one_is_never_free(stage, &scene).await
}

struct Scene {
    client: Client,
    endpoints: String,
    db: PathBuf,
}

type Rows<T> = Vec<(String, T)>;

impl Scene {
    fn worker(&self, stage: &mut Stage, name: &str, more: &[&str]) -> Result<Actor, Trouble> {
        let mut command = Command::new(std::env::current_exe()?);
        command.args([
            "sync",
            "--endpoints",
            &self.endpoints,
            "--owner",
            name,
            "--lock",
            LOCK,
            "--ttl",
            "30s",
        ]);
        command.arg("--db").arg(&self.db).args(more);
        stage.start(name, command)
    }

    /// Pieces of each item, and who applied each event.
    fn stock(&self, stage: &Stage) -> Result<(Rows<i64>, Rows<String>), Trouble> {
        let read = || {
            let stock = Stock::open(&self.db)?;
            Ok::<_, rusqlite::Error>((stock.quantities()?, stock.applied()?))
        };
        let (quantities, applied) = block_in_place(read).map_err(Trouble::other)?;
        let pieces: Vec<_> = quantities.iter().map(|(item, pieces)| format!("{item} {pieces}")).collect();
        let events: Vec<_> = applied.iter().map(|(event, worker)| format!("{event} by {worker}")).collect();
        stage.story.tell(format!("the stock: {}; applied: {}", pieces.join(", "), events.join(", ")));
        Ok((quantities, applied))
    }

    async fn is_free(&self) -> Result<bool, Trouble> {
        let lock = self.client.get(LOCK, Consistency::Linearizable).await;
        Ok(lock.map_err(Trouble::other)?.state == LockState::Free)
    }
}

async fn two_get_the_same_event(stage: &mut Stage, scene: &Scene) -> Result<(), Trouble> {
    stage.story.chapter("Two workers get the same event at the same moment.");
    // Whichever gets the lock stops in the middle of its work until the other one has asked for it.
    let flags = [&DELIVERY[..], &RETRY_SOON, &["--pause-in-work"]].concat();
    let mut one = scene.worker(stage, "worker-1", &flags)?;
    let mut two = scene.worker(stage, "worker-2", &flags)?;
    let holds = stage.first_of(&[&one, &two], HOLDS).await?;
    let (first, second) = if holds.is_by(&one) { (&mut one, &mut two) } else { (&mut two, &mut one) };
    stage.line(first, PAUSES).await?;
    first.stopped(PATIENCE).await?;
    let busy = stage.line(second, BUSY).await?;
    stage.story.tell(format!("{} goes on", first.name()));
    first.resume()?;
    stage.line(first, APPLIED).await?;
    let first_ended = stage.end(first).await?;

    let holds_later = stage.line(second, HOLDS).await?;
    stage.line(second, PAUSES).await?;
    second.stopped(PATIENCE).await?;
    second.resume()?;
    stage.line(second, UNCHANGED).await?;
    let second_ended = stage.end(second).await?;
    let (quantities, applied) = scene.stock(stage)?;
    let first = first.name();

    let pause = busy.number("retry 1 of 5 in")?;
    let story = &mut stage.story;
    story.check(format!("the second worker knew who works, and planned a retry after {pause} ms"), {
        busy.text.contains(&format!("held by {first} with")) && is_planned_pause(pause)
    });
    story.check("its retry got the lock, with a higher fence", fence(&holds_later)? > fence(&holds)?);
    story.check("the event was applied once, by the first worker", {
        applied == [("evt-1001".into(), first.into())]
    });
    story.check("the stock has each of its changes once", {
        quantities == [("bolts".into(), 40), ("nuts".into(), 25)]
    });
    story.check("both workers exited with 0", first_ended.success() && second_ended.success());
    Ok(())
}

/// At least half of the longest pause, and at most all of it: much more is left of the lease.
fn is_planned_pause(pause_ms: u64) -> bool {
    (RETRY_AT_MOST_MS / 2..=RETRY_AT_MOST_MS).contains(&pause_ms)
}

fn fence(holds: &Said) -> Result<u64, Trouble> {
    holds.number("fence")
}

async fn the_event_comes_once_more(stage: &mut Stage, scene: &Scene) -> Result<(), Trouble> {
    stage.story.chapter("Nobody holds the lock any more, and the queue delivers the same event once more.");
    let mut worker = scene.worker(stage, "worker-1", &DELIVERY)?;
    stage.line(&worker, UNCHANGED).await?;
    let ended = stage.end(&mut worker).await?;
    let (quantities, applied) = scene.stock(stage)?;
    let is_free = scene.is_free().await?;
    stage.story.check("it changed nothing: only the store could know", {
        ended.success() && applied.len() == 1 && quantities == [("bolts".into(), 40), ("nuts".into(), 25)]
    });
    stage.story.check("the lock is free", is_free);
    Ok(())
}

async fn another_event_comes(stage: &mut Stage, scene: &Scene) -> Result<(), Trouble> {
    stage.story.chapter("Another event comes.");
    let mut worker = scene.worker(stage, "worker-2", &PICKING)?;
    stage.line(&worker, APPLIED).await?;
    let ended = stage.end(&mut worker).await?;
    let (quantities, applied) = scene.stock(stage)?;
    stage.story.check("it was applied", {
        ended.success() && applied.len() == 2 && quantities == [("bolts".into(), 35), ("nuts".into(), 25)]
    });
    Ok(())
}

async fn one_is_never_free(stage: &mut Stage, scene: &Scene) -> Result<(), Trouble> {
    stage.story.chapter("A worker finds the lock held at each of its two retries.");
    let mut slow = scene.worker(stage, "worker-1", &[&COUNTING[..], &["--pause-in-work"]].concat())?;
    stage.line(&slow, PAUSES).await?;
    slow.stopped(PATIENCE).await?;
    let flags = [&COUNTING[..], &["--retries", "2", "--retry-at-most", "100ms"]].concat();
    let mut other = scene.worker(stage, "worker-2", &flags)?;
    let gave_up = stage.end(&mut other).await?;
    let tries = stage.said().filter(|said| said.is_by(&other) && said.text.starts_with(BUSY)).count();
    slow.resume()?;
    stage.line(&slow, APPLIED).await?;
    let ended = stage.end(&mut slow).await?;
    let (quantities, _) = scene.stock(stage)?;
    stage.story.check(format!("it gave up after both retries, with status {GAVE_UP}"), {
        tries == 2 && gave_up.code() == Some(GAVE_UP)
    });
    stage.story.check("the other one did the work", {
        ended.success() && quantities == [("bolts".into(), 35), ("nuts".into(), 24)]
    });
    Ok(())
}
