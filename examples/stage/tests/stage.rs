//! What demos rely on: nothing that a worker says is missed, and whoever waits in vain is told so.

use std::process::Command;

use stage::{PATIENCE, Stage, Trouble};

fn sh(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

#[tokio::test]
async fn lines_are_found_in_any_order_by_who_said_them() -> Result<(), Trouble> {
    let mut stage = Stage::open()?;
    let one = stage.start("one", sh("echo holds fence 7; echo done"))?;
    let two = stage.start("two", sh("echo done; echo holds fence 8"))?;
    stage.line(&one, "done").await?;
    stage.line(&two, "holds").await?;
    assert_eq!(stage.line(&one, "holds").await?.number("fence")?, 7);
    assert!(stage.first_of(&[&two], "holds").await?.is_by(&two));
    assert!(stage.line(&one, "holds").await?.number("number").is_err());
    Ok(())
}

#[tokio::test]
async fn a_worker_that_ends_without_its_line_is_not_waited_for() -> Result<(), Trouble> {
    let mut stage = Stage::open()?;
    let mut worker = stage.start("worker", sh("echo something else; echo no >&2; exit 3"))?;
    let missed = stage.line(&worker, "holds").await;
    assert!(matches!(missed, Err(Trouble::Silent { .. })), "{missed:?}");
    assert_eq!(stage.end(&mut worker).await?.code(), Some(3));
    let said: Vec<&str> = stage.said().map(|said| said.text.as_str()).collect();
    assert!(said.contains(&"something else") && said.contains(&"no"), "{said:?}");
    Ok(())
}

#[tokio::test]
async fn a_stopped_worker_is_seen_to_be_stopped_and_goes_on_where_it_was() -> Result<(), Trouble> {
    let mut stage = Stage::open()?;
    let mut worker = stage.start("worker", sh("kill -STOP $$; echo back"))?;
    worker.stopped(PATIENCE).await?;
    worker.resume()?;
    stage.line(&worker, "back").await?;
    assert!(stage.end(&mut worker).await?.success());
    Ok(())
}

#[tokio::test]
async fn a_program_that_does_not_exist_is_named() {
    let mut stage = Stage::open().expect("a temporary folder");
    let missing = stage.start("worker", Command::new("no-such-program")).expect_err("there is none");
    assert!(missing.to_string().contains("no-such-program"), "{missing}");
}
