//! A run that takes longer than its lease.

#![allow(clippy::unwrap_used, reason = "a test may")]

use std::process::Command;

use stage::{Actor, Cluster, Stage, Trouble};

fn instance(stage: &mut Stage, cluster: &Cluster, name: &str) -> Actor {
    let mut command = Command::new(env!("CARGO_BIN_EXE_invoices"));
    command.args(["run-once", "--endpoints", &cluster.endpoints().join(","), "--month", "2026-11"]);
    command.args(["--owner", name, "--ttl", "1s", "--customers", "6", "--work", "500ms", "--db"]);
    command.arg(stage.folder().join("invoices.db"));
    stage.start(name, command).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_takes_longer_than_its_lease_keeps_its_lock() -> Result<(), Trouble> {
    let mut stage = Stage::open()?;
    let cluster = Cluster::start(&mut stage).await?;
    let mut long = instance(&mut stage, &cluster, "long");
    let fence = stage.line(&long, "holds").await?.number("fence")?;
    // Four times half a second: twice the lease has passed.
    stage.line(&long, "wrote the invoice of customer 4 ").await?;
    let mut late = instance(&mut stage, &cluster, "late");
    assert_eq!(stage.line(&late, "skips").await?.number("held by long with fence")?, fence);
    assert!(stage.end(&mut late).await?.success());
    stage.line(&long, "ran to the end: 6 invoices written, 0 were in place").await?;
    assert!(stage.end(&mut long).await?.success());
    cluster.close(&mut stage).await
}
