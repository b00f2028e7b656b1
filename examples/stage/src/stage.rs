//! Where the workers of a demo run, and what was heard of them.

use std::path::Path;
use std::process::{Command, ExitStatus};
use std::time::{Duration, Instant};

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::mpsc;

use crate::actor::{Actor, Voice};
use crate::story::Story;
use crate::trouble::Trouble;

/// How long anything is waited for. Only what hangs takes that long.
pub const PATIENCE: Duration = Duration::from_secs(30);
/// Most lines that wait to be heard; a worker that says more waits until somebody listens.
const UNHEARD_MAX: usize = 1024;
/// Lines that begin so are heard, but not told: they are for the demo's arithmetic.
const ASIDE: &str = "(";

/// A line that a worker said on its standard output, or on its standard error.
#[derive(Clone, Debug)]
pub struct Said {
    actor: usize,
    name: String,
    /// When it was heard.
    pub at: Instant,
    /// The line.
    pub text: String,
}

impl Said {
    /// Whether it was this worker.
    pub fn is_by(&self, actor: &Actor) -> bool {
        self.actor == actor.id
    }

    /// The number behind the first `label` in the line, as in `fence 7`.
    ///
    /// # Errors
    /// There is none: the example's words have changed.
    pub fn number(&self, label: &str) -> Result<u64, Trouble> {
        let behind = self.text.split_once(label).map(|(_, behind)| behind.trim_start());
        let digits = behind.map(|text| text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default());
        let number = digits.and_then(|digits| digits.parse().ok());
        number.ok_or_else(|| Trouble::Other(format!("no number behind \"{label}\" in \"{}\"", self.text)))
    }
}

enum Heard {
    Line(Said),
    /// This worker will say nothing any more.
    Silence(usize),
}

/// Workers, all that was heard of them, and a folder for the files of the demo.
#[derive(Debug)]
pub struct Stage {
    /// What is told of it.
    pub story: Story,
    started: usize,
    said: Vec<Said>,
    silent: Vec<usize>,
    mouth: mpsc::Sender<Heard>,
    ear: mpsc::Receiver<Heard>,
    folder: TempDir,
}

impl std::fmt::Debug for Heard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Line(said) => said.fmt(f),
            Self::Silence(actor) => f.debug_tuple("Silence").field(actor).finish(),
        }
    }
}

impl Stage {
    /// An empty stage, with a temporary folder that is removed with it.
    ///
    /// # Errors
    /// No folder can be made.
    pub fn open() -> Result<Self, Trouble> {
        let (mouth, ear) = mpsc::channel(UNHEARD_MAX);
        let folder = tempfile::Builder::new().prefix("holdfast-demo-").tempdir()?;
        let (said, silent) = Default::default();
        Ok(Self { story: Story::begin(), started: 0, said, silent, mouth, ear, folder })
    }

    /// The demo's folder.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts a worker. What it says on its standard output and error is heard.
    ///
    /// # Errors
    /// The program cannot be started.
    pub fn start(&mut self, name: &str, command: Command) -> Result<Actor, Trouble> {
        let id = self.started;
        let (actor, voice) = Actor::start(id, name, command)?;
        self.started += 1;
        tokio::spawn(listen(id, name.into(), voice, self.mouth.clone()));
        Ok(actor)
    }

    /// The first line of this worker that begins with `words`; it may have been said before.
    ///
    /// # Errors
    /// It ends without that line, or does not say it in time.
    pub async fn line(&mut self, actor: &Actor, words: &str) -> Result<Said, Trouble> {
        self.first_of(&[actor], words).await
    }

    /// The first line of any of these workers that begins with `words`; it may have been said before.
    ///
    /// # Errors
    /// All of them end without that line, or nobody says it in time.
    pub async fn first_of(&mut self, among: &[&Actor], words: &str) -> Result<Said, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        let is_meant =
            |said: &Said| among.iter().any(|actor| said.is_by(actor)) && said.text.starts_with(words);
        loop {
            if let Some(said) = self.said.iter().find(|said| is_meant(said)) {
                return Ok(said.clone());
            }
            if among.iter().all(|actor| self.silent.contains(&actor.id)) {
                return Err(Trouble::Silent { names: names(among), words: words.into() });
            }
            self.listen_until(deadline, || (names(among), format!("say \"{words}\""))).await?;
        }
    }

    /// How this worker ends, once all that it said has been heard.
    ///
    /// # Errors
    /// It does not end in time.
    pub async fn end(&mut self, actor: &mut Actor) -> Result<ExitStatus, Trouble> {
        let deadline = Instant::now() + PATIENCE;
        while !self.silent.contains(&actor.id) {
            self.listen_until(deadline, || (actor.name().into(), "end".into())).await?;
        }
        actor.ended(deadline.saturating_duration_since(Instant::now())).await
    }

    /// All that was heard so far, in that order.
    pub fn said(&self) -> impl Iterator<Item = &Said> {
        self.said.iter()
    }

    async fn listen_until(
        &mut self,
        deadline: Instant,
        missing: impl Fn() -> (String, String),
    ) -> Result<(), Trouble> {
        let heard = tokio::time::timeout_at(deadline.into(), self.ear.recv()).await.map_err(|_| {
            let (name, what) = missing();
            Trouble::Late { name, what, patience: PATIENCE }
        })?;
        match heard.expect("the stage has a mouth of its own") {
            Heard::Line(said) => {
                if !said.text.starts_with(ASIDE) {
                    self.story.line(&said.name, &said.text);
                }
                self.said.push(said);
            }
            Heard::Silence(actor) => self.silent.push(actor),
        }
        Ok(())
    }
}

fn names(actors: &[&Actor]) -> String {
    actors.iter().map(|actor| actor.name()).collect::<Vec<_>>().join(", ")
}

/// Ends by itself: with its worker's output, or with the stage that hears it.
async fn listen(actor: usize, name: String, voice: Voice, mouth: mpsc::Sender<Heard>) {
    tokio::join!(pass_on(actor, &name, voice.stdout, &mouth), pass_on(actor, &name, voice.stderr, &mouth));
    // Nobody may be there to hear it any more.
    let _ = mouth.send(Heard::Silence(actor)).await;
}

async fn pass_on(actor: usize, name: &str, stream: impl AsyncRead + Unpin, mouth: &mpsc::Sender<Heard>) {
    let mut lines = BufReader::new(stream).lines();
    while let Ok(Some(text)) = lines.next_line().await {
        let said = Said { actor, name: name.into(), at: Instant::now(), text };
        if mouth.send(Heard::Line(said)).await.is_err() {
            return;
        }
    }
}
