//! A holder is paused beyond its lease: another one takes over, and the first one's late write is refused.

use std::time::Instant;

use stage::{Actor, PATIENCE, Stage, Trouble};

use super::Scene;
use super::table::{customers, lock_of, tell};
use crate::job::EXIT_LOST;
use crate::report::{HOLDS, PAUSES, RAN, REFUSED};
use crate::store::Invoice;

const MONTH: &str = "2026-12";
/// The customer whose invoice the paused instance is about to write.
const GONE: i64 = 3;

pub(super) async fn one_is_paused_beyond_its_lease(stage: &mut Stage, scene: &Scene) -> Result<(), Trouble> {
    stage.story.chapter("A month later, the instance that runs is paused for longer than its lease of 2 s.");
    scene.must_be_untouched(MONTH).await?;
    let flags = ["--ttl", "2s", "--customers", "8", "--pause-at-customer", "3"];
    let mut first = scene.instance(stage, "instance-1", MONTH, &flags)?;
    let old = stage.line(&first, HOLDS).await?.number("fence")?;
    stage.line(&first, PAUSES).await?;
    first.stopped(PATIENCE).await?;
    stage.story.tell("instance-1 is stopped (SIGSTOP): it renews nothing, and sees no time pass");

    let new = another_takes_over(stage, scene).await?;
    let before = scene.invoices(MONTH)?;

    stage.story.tell("instance-1 goes on (SIGCONT), as sure of its lock as before");
    first.resume()?;
    let refused = stage.line(&first, REFUSED).await?;
    let status = stage.end(&mut first).await?;
    let after = scene.invoices(MONTH)?;
    tell(stage, &after);

    let story = &mut stage.story;
    story.check(format!("the fence of instance-2 is the higher one: {new} after {old}"), new > old);
    story.check(format!("the store refused the late write, for fence {old} is older than {new}"), {
        refused.number("customer")? == GONE.unsigned_abs()
            && refused.number("fence")? == old
            && refused.number("has seen")? == new
    });
    story.check(format!("instance-1 exited with {EXIT_LOST}, as one that has lost its lock"), {
        status.code() == Some(i32::from(EXIT_LOST))
    });
    story.check("the late write changed nothing", before == after);
    story.check("the customer who had left got no invoice; the others have theirs, once", {
        customers(&after) == [1, 2, 4, 5, 6, 7, 8]
    });
    story.check(format!("customers 1 and 2 have theirs of fence {old}, the later ones of fence {new}"), {
        after.iter().all(|Invoice { customer, fence, .. }| *fence == if *customer < GONE { old } else { new })
    });
    Ok(())
}

/// The lease ends, a customer leaves, and the second instance runs to the end. Returns its fence.
async fn another_takes_over(stage: &mut Stage, scene: &Scene) -> Result<u64, Trouble> {
    let stopped = Instant::now();
    scene.until_free(MONTH).await?;
    let after = stopped.elapsed().as_secs_f64();
    stage.story.tell(format!("the lease is over: {after:.2} s later the cluster says that the lock is free"));
    // Its invoice is missing for good now. No constraint on the table could tell that a late one is wrong.
    scene.store(|store| store.remove_customer(GONE))?;
    stage.story.tell(format!("customer {GONE} leaves"));

    let mut second: Actor =
        scene.instance(stage, "instance-2", MONTH, &["--ttl", "60s", "--customers", "0"])?;
    let fence = stage.line(&second, HOLDS).await?.number("fence")?;
    stage.line(&second, RAN).await?;
    let status = stage.end(&mut second).await?;
    let newest = scene.store(|store| store.newest_fence(&lock_of(MONTH)))?;
    stage.story.check("instance-2 took over and ran to the end", status.success());
    stage.story.check(format!("the newest fence in the store is now that of instance-2, {fence}"), {
        newest == Some(fence)
    });
    Ok(fence)
}
