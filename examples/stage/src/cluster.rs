//! The cluster that a demo runs against.

use std::path::PathBuf;
use std::process::Command;

use clap::Args;

use crate::actor::Actor;
use crate::stage::Stage;
use crate::trouble::Trouble;

/// Which cluster a demo runs against.
#[derive(Clone, Debug, Args)]
pub struct ClusterArgs {
    /// Base URLs of the nodes, separated by commas
    #[arg(
        long,
        env = "HOLDFAST_ENDPOINTS",
        value_name = "URL,URL,…",
        value_delimiter = ',',
        required_unless_present = "dev"
    )]
    endpoints: Vec<String>,
    /// Start a cluster of three nodes on free ports, and stop it at the end
    #[arg(long)]
    dev: bool,
}

/// A cluster that serves: somebody's, or one of the demo's own.
#[derive(Debug)]
pub struct Cluster {
    endpoints: Vec<String>,
    own: Option<Actor>,
}

impl Cluster {
    pub(crate) async fn open(stage: &mut Stage, args: &ClusterArgs) -> Result<Self, Trouble> {
        if args.dev {
            return Self::start(stage).await;
        }
        Ok(Self { endpoints: args.endpoints.clone(), own: None })
    }

    /// Starts three nodes on free ports. They keep their data in the stage's folder.
    ///
    /// # Errors
    /// The program is not built, or the cluster is not ready in time.
    pub async fn start(stage: &mut Stage) -> Result<Self, Trouble> {
        let mut command = Command::new(program()?);
        command.args(["--log-level", "error", "dev", "--nodes", "3", "--base-port", "0", "--data-dir"]);
        command.arg(stage.folder().join("cluster"));
        let actor = stage.start("cluster", command)?;
        stage.line(&actor, "ready").await?;
        let lines = stage.said().filter(|said| said.is_by(&actor));
        let endpoints = lines.flat_map(|said| urls(&said.text)).collect();
        Ok(Self { endpoints, own: Some(actor) })
    }

    /// Base URLs of its nodes.
    pub fn endpoints(&self) -> &[String] {
        &self.endpoints
    }

    /// Stops the cluster if it was started here.
    ///
    /// # Errors
    /// It has ended before, or does not end in time.
    pub async fn close(self, stage: &mut Stage) -> Result<(), Trouble> {
        let Some(mut actor) = self.own else { return Ok(()) };
        actor.terminate()?;
        let status = stage.end(&mut actor).await?;
        stage.story.check(format!("the cluster ended cleanly ({status})"), status.success());
        Ok(())
    }
}

fn urls(line: &str) -> Vec<String> {
    let words = line.split(|c: char| c.is_whitespace() || c == ',');
    words.filter(|word| word.starts_with("http://")).map(str::to_owned).collect()
}

/// The `holdfast` program: cargo puts it beside the examples' programs, and tests in a folder below.
fn program() -> Result<PathBuf, Trouble> {
    let file = format!("holdfast{}", std::env::consts::EXE_SUFFIX);
    let mut folder = std::env::current_exe()?;
    folder.pop();
    if folder.ends_with("deps") {
        folder.pop();
    }
    let program = folder.join(file);
    if program.is_file() { Ok(program) } else { Err(Trouble::NoProgram(program)) }
}
