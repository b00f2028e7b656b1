//! `holdfast lock` and `holdfast elect`: a command that runs while a lock is held.

mod command;
mod lease;
mod owner;
mod signals;
mod supervision;
mod system;
mod terminal;

use std::ffi::c_int;
use std::io::Write;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use clap::ArgMatches;
use clap::parser::ValueSource;
use holdfast_client::{
    AcquireError, AlreadyDone, Client, Guard, Leadership, LockRequest, LossReason, ReleaseError, Share, Terms,
};
use serde_json::Value;

use self::command::NotStarted;
use self::lease::LastMoments;
use self::signals::Signals;
use self::supervision::{Ended, Supervision};
use self::system::SignalMask;
pub(crate) use self::system::host_name;
use self::terminal::Terminal;
use crate::args::{ElectArgs, LockArgs, RunArgs};
use crate::exit::{BUSY, Failure, LOST, deadlock};
use crate::{api, duration, election, exit, runtime};

/// How long the release at the end may take. The lease runs out by itself otherwise.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(5);
/// The same once the lease is given up for lost: it is over soon in any case.
const LATE_RELEASE_TIMEOUT: Duration = Duration::from_millis(500);

/// What is asked for before the command runs.
enum Plea {
    /// The lock, and others with it.
    Lock(Share, Vec<String>, Terms),
    /// The lead, with what the leader says.
    Lead(Value),
}

/// Runs the command while it holds a lock.
pub(crate) fn run(args: &LockArgs, matches: Option<&ArgMatches>) -> Result<ExitCode, Failure> {
    let terms = args.terms.terms();
    if args.once_exit.is_some() && terms.once.is_none() {
        return Err(Failure::usage("--once-exit needs --once: how long the period is"));
    }
    let plea = Plea::Lock(args.share.share(), args.also.clone(), terms);
    match run_under(&plea, &args.run, matches)? {
        Outcome::Ran(code) => Ok(code),
        Outcome::AlreadyDone(done) => {
            say(&already_done(&args.run.name, &done));
            Ok(ExitCode::from(args.once_exit.unwrap_or(0)))
        }
    }
}

/// Runs the command while it leads.
pub(crate) fn elect(args: &ElectArgs, matches: Option<&ArgMatches>) -> Result<ExitCode, Failure> {
    let value = api::given(args.value.clone()).map(|text| election::value(&text)).transpose()?;
    match run_under(&Plea::Lead(value.unwrap_or_default()), &args.run, matches)? {
        Outcome::Ran(code) => Ok(code),
        Outcome::AlreadyDone(done) => Err(Failure::new(BUSY, already_done(&args.run.name, &done))),
    }
}

/// What came of the command.
enum Outcome {
    /// It ran, and this is what to exit with.
    Ran(ExitCode),
    /// Somebody has done it in this period.
    AlreadyDone(AlreadyDone),
}

impl Plea {
    /// Whether a command that succeeds is the run of its period.
    fn is_once(&self) -> bool {
        matches!(self, Self::Lock(_, _, Terms { once: Some(_), .. }))
    }
}

fn already_done(name: &str, done: &AlreadyDone) -> String {
    let next_in = duration::text_of(done.next_in);
    format!("{}. The command was not run; next in {next_in}", exit::already_done(name, done))
}

/// Runs the command and returns its exit status, or one of our own.
///
/// Everything happens on this thread: the kernel kills the command when the thread that started it is gone.
fn run_under(plea: &Plea, args: &RunArgs, matches: Option<&ArgMatches>) -> Result<Outcome, Failure> {
    let wait = resolve_wait(args, matches)?;
    let mask = SignalMask::block(libc::SIGTTOU); // To handle the terminal from the background.
    runtime::single_threaded()?.block_on(async {
        let mut signals = Signals::new()?;
        let client = api::client(&args.client)?;
        let mut stopped_by = None;
        let stop = async { stopped_by = Some(signals.next_ending().await) };
        let guard = match acquire(&client, plea, args, wait, stop).await {
            Ok(guard) => guard,
            Err(AcquireError::AlreadyDone(done)) => return Ok(Outcome::AlreadyDone(done)),
            Err(error) => return Err(not_acquired(&args.name, error, stopped_by)),
        };
        let is_once = plea.is_once();
        under_lock(args, &client, guard, &mut signals, mask, is_once).await.map(Outcome::Ran)
    })
}

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    No,
    AtMost(Duration),
    Forever,
}

/// A flag goes before the environment, also before the other flag's.
fn resolve_wait(args: &RunArgs, matches: Option<&ArgMatches>) -> Result<Waiting, Failure> {
    let is_flag =
        |id| matches.is_some_and(|matches| matches.value_source(id) == Some(ValueSource::CommandLine));
    match (args.wait, args.no_wait) {
        (Some(_), true) if is_flag("wait") && is_flag("no_wait") => {
            Err(Failure::usage("--wait and --no-wait exclude each other: give one of them"))
        }
        (Some(wait), no_wait) if !wait.is_zero() && (!no_wait || is_flag("wait")) => {
            Ok(Waiting::AtMost(wait))
        }
        (None, false) => Ok(Waiting::Forever),
        (Some(_) | None, _) => Ok(Waiting::No),
    }
}

async fn acquire(
    client: &Client,
    plea: &Plea,
    args: &RunArgs,
    waiting: Waiting,
    stop: impl Future<Output = ()>,
) -> Result<Guard, AcquireError> {
    let owner = api::given(args.owner.clone()).unwrap_or_else(owner::default_owner);
    match plea {
        Plea::Lock(share, also, terms) => {
            let mut request = client.lock(&args.name).ttl(args.ttl).owner(owner).share(*share);
            for name in also.iter().filter(|name| !name.is_empty()) {
                request = request.also(name, *share);
            }
            let request = on_terms(request, terms);
            let request = match waiting {
                Waiting::No => request,
                Waiting::AtMost(wait) => request.wait(wait),
                Waiting::Forever => request.wait_forever(),
            };
            request.acquire_until(stop).await
        }
        Plea::Lead(value) => {
            let election = client.election(&args.name).ttl(args.ttl).owner(owner);
            let election = match waiting {
                Waiting::No => election.wait(Duration::ZERO),
                Waiting::AtMost(wait) => election.wait(wait),
                Waiting::Forever => election,
            };
            election.campaign_until(value.clone(), stop).await.map(Leadership::into_guard)
        }
    }
}

fn on_terms(mut request: LockRequest, terms: &Terms) -> LockRequest {
    if let Some(delay) = terms.delay {
        request = request.delay(delay);
    }
    if let Some(min_hold) = terms.min_hold {
        request = request.min_hold(min_hold);
    }
    if let Some(max_hold) = terms.max_hold {
        request = request.max_hold(max_hold);
    }
    if let Some(period) = terms.once {
        request = request.once(period);
    }
    request
}

fn not_acquired(name: &str, error: AcquireError, stopped_by: Option<c_int>) -> Failure {
    match error {
        AcquireError::Stopped => {
            let number = stopped_by.expect("only a signal stops the attempt");
            let status = u8::try_from(128 + number).expect("signals are small numbers");
            Failure::new(
                status,
                format!("signal {number} ended the wait for {name:?}; the command was not run"),
            )
        }
        AcquireError::Busy { .. } => Failure::new(
            BUSY,
            format!("{name:?}: {error}. The command was not run; leave out --no-wait to wait for it"),
        ),
        AcquireError::WaitTimeout => {
            Failure::new(BUSY, format!("{name:?}: {error}. The command was not run; --wait may be longer"))
        }
        AcquireError::Deadlock { cycle } => {
            Failure::new(BUSY, format!("{name:?}: {}. The command was not run", deadlock(&cycle)))
        }
        AcquireError::SessionOver => Failure::new(LOST, error.to_string()),
        AcquireError::Lost(reason) => Failure::new(LOST, lost_before_start(name, reason)),
        AcquireError::Refused(refusal) => Failure::of_refusal(&refusal),
        AcquireError::Unreachable(unanswered) => Failure::unreachable(unanswered),
        AcquireError::AlreadyDone(done) => Failure::new(BUSY, already_done(name, &done)),
        AcquireError::Protocol(what) => Failure::unreachable(format!("unexpected answer: {what}")),
    }
}

fn lost_before_start(name: &str, reason: LossReason) -> String {
    format!(
        "{name:?} was granted, but lost before the command could start ({reason}); a longer --ttl may help"
    )
}

/// Runs the command, and releases the lock when nothing of it is left.
async fn under_lock(
    args: &RunArgs,
    client: &Client,
    mut guard: Guard,
    signals: &mut Signals,
    mask: SignalMask,
    is_once: bool,
) -> Result<ExitCode, Failure> {
    let clock = client.clock();
    system::adopt_orphans().map_err(|error| Failure::other(format!("cannot adopt orphans: {error}")))?;
    let terminal = Terminal::open();
    let start_by = match guard.deadline() {
        Some(deadline) => LastMoments::before(deadline, guard.ttl(), args.kill_after).terminate_at,
        None => clock.now(),
    };
    let ended = match command::start(&args.command, &guard, start_by, clock, terminal.as_ref(), mask) {
        Ok(group) => {
            let supervision = Supervision::new(group, &guard, clock, terminal.as_ref(), args.kill_after);
            let ended = supervision.run(signals).await;
            if let Some(terminal) = &terminal {
                terminal.take_from(group);
            }
            Ok(ended)
        }
        Err(NotStarted::TooLate) => {
            Err(Failure::new(LOST, lost_before_start(&args.name, LossReason::Deadline)))
        }
        Err(NotStarted::Failed(failure)) => Err(failure),
    };
    let is_late = ended.as_ref().is_ok_and(|ended| ended.lost);
    // What failed is not done: somebody else may try.
    let is_done = is_once && ended.as_ref().is_ok_and(|ended| !ended.lost && ended.status.success());
    let loss = release(&mut guard, is_late, is_done).await;
    let Ended { status, lost } = ended?;
    if lost || loss.is_some() {
        return Ok(ExitCode::from(LOST));
    }
    Ok(ExitCode::from(shell_status(status)))
}

/// Returns the loss that only the release has brought to light.
async fn release(guard: &mut Guard, is_late: bool, is_done: bool) -> Option<LossReason> {
    let was_held = guard.is_held();
    let patience = if is_late { LATE_RELEASE_TIMEOUT } else { RELEASE_TIMEOUT };
    let released = async {
        match is_done {
            true => guard.release_done().await,
            false => guard.release().await,
        }
    };
    match tokio::time::timeout(patience, released).await {
        Ok(Ok(())) => None,
        // The command was over in time: that the release was late makes no difference to it.
        Ok(Err(ReleaseError::Lost(LossReason::Deadline | LossReason::MaxHold))) if !is_done => None,
        Ok(Err(ReleaseError::Lost(reason))) => {
            if was_held {
                say(&format!("the lock was lost while the command ran ({reason})"));
            }
            Some(reason)
        }
        Ok(Err(error)) => {
            say(&format!("{error}; the lock stays taken until its lease has run out"));
            None
        }
        Err(_) => {
            say("the release was not confirmed in time; the lock may stay taken until its lease has run out");
            None
        }
    }
}

/// As a shell has it: the exit status, or 128 and the signal.
fn shell_status(status: ExitStatus) -> u8 {
    let number = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    u8::try_from(number).unwrap_or(u8::MAX)
}

/// Messages go to stderr. That nobody reads them is no reason to stop.
fn say(what: &str) {
    let _ = writeln!(std::io::stderr(), "holdfast: {what}");
}
