//! Two instances start at the same moment: one runs, one skips.

use stage::{Stage, Trouble};

use super::Scene;
use super::table::{customers, lock_of, tell};
use crate::report::{HOLDS, PAUSES, RAN, SKIPS};

const MONTH: &str = "2026-11";

pub(super) async fn two_start_at_once(stage: &mut Stage, scene: &Scene) -> Result<(), Trouble> {
    stage.story.chapter("Two instances of the nightly job start at the same moment.");
    scene.must_be_untouched(MONTH).await?;
    // Whichever gets the lock stops in the middle of its work until the other one has asked for it.
    let flags = ["--ttl", "60s", "--customers", "8", "--pause-at-customer", "4"];
    let mut one = scene.instance(stage, "instance-1", MONTH, &flags)?;
    let mut two = scene.instance(stage, "instance-2", MONTH, &flags)?;

    let holds = stage.first_of(&[&one, &two], HOLDS).await?;
    let (winner, other) = if holds.is_by(&one) { (&mut one, &mut two) } else { (&mut two, &mut one) };
    let fence = holds.number("fence")?;
    stage.line(winner, PAUSES).await?;
    winner.stopped(stage::PATIENCE).await?;
    let skips = stage.line(other, SKIPS).await?;
    let skipped = stage.end(other).await?;
    stage.story.tell(format!("{} goes on", winner.name()));
    winner.resume()?;
    stage.line(winner, RAN).await?;
    let ran = stage.end(winner).await?;
    let winner = winner.name().to_owned();

    let invoices = scene.invoices(MONTH)?;
    let newest = scene.store(|store| store.newest_fence(&lock_of(MONTH)))?;
    let is_free = scene.is_free(MONTH).await?;
    let (holds, skips_said) = (stage.said().filter(|said| said.text.starts_with(HOLDS)).count(), &skips.text);
    tell(stage, &invoices);

    let story = &mut stage.story;
    story.check("one instance ran, the other skipped the run, and both exited with 0", {
        holds == 1 && ran.success() && skipped.success()
    });
    story.check(format!("the one that skipped knew who runs: {winner} with fence {fence}"), {
        skips_said.contains(&format!("held by {winner} with")) && skips.number("fence")? == fence
    });
    story.check("each of the 8 customers has its invoice, once", {
        customers(&invoices) == (1..=8).collect::<Vec<_>>()
    });
    story.check(format!("all of them were written by {winner} under fence {fence}"), {
        invoices.iter().all(|invoice| invoice.written_by == winner && invoice.fence == fence)
    });
    story.check(format!("the store has noted fence {fence}, and the lock is free again"), {
        newest == Some(fence) && is_free
    });
    Ok(())
}
