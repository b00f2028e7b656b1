//! A demo from its beginning to its verdict.

use std::process::ExitCode;

use crate::cluster::{Cluster, ClusterArgs};
use crate::signals::asked_to_stop;
use crate::stage::Stage;
use crate::trouble::Trouble;

/// The exit code of a demo that was interrupted, as a shell has it.
const INTERRUPTED: u8 = 130;

/// Opens a stage and a cluster, lets `demo` play on them, ends the cluster, and prints the verdict.
///
/// Workers that still run at the end, or when the demo is interrupted, are killed.
pub async fn perform(
    args: &ClusterArgs,
    demo: impl AsyncFnOnce(&mut Stage, &[String]) -> Result<(), Trouble>,
) -> ExitCode {
    let mut stage = match Stage::open() {
        Ok(stage) => stage,
        Err(error) => return crate::story::Story::begin().broken_off(error),
    };
    let played = tokio::select! {
        played = play(&mut stage, args, demo) => Some(played),
        _ = asked_to_stop() => None,
    };
    match played {
        Some(Ok(())) => stage.story.verdict(),
        Some(Err(error)) => stage.story.broken_off(error),
        None => {
            stage.story.broken_off("interrupted");
            ExitCode::from(INTERRUPTED)
        }
    }
}

async fn play(
    stage: &mut Stage,
    args: &ClusterArgs,
    demo: impl AsyncFnOnce(&mut Stage, &[String]) -> Result<(), Trouble>,
) -> Result<(), Trouble> {
    let cluster = Cluster::open(stage, args).await?;
    demo(stage, cluster.endpoints()).await?;
    cluster.close(stage).await
}
