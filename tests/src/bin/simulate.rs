//! Runs seeds of the simulation: see `scripts/simulate --help`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program for a terminal")]

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use holdfast_tests::sim::sometimes::{ALL, Sightings};
use holdfast_tests::sim::{Extent, Plan, Profile, Reduction, Report, shrink, simulate};

/// How long a failing run is made smaller.
const SHRINKING: Duration = Duration::from_secs(90);
/// Longer traces are shown from their end.
const LINES_SHOWN: usize = 250;

struct Options {
    first: u64,
    count: Option<u64>,
    minutes: Option<f64>,
    jobs: usize,
    profile: Profile,
    reduction: Reduction,
    shows_trace: bool,
    must_see: bool,
}

fn main() -> ExitCode {
    show_logs_if_asked();
    let options = match parse() {
        Ok(options) => options,
        Err(why) => {
            eprintln!("simulate: {why} (see scripts/simulate --help)");
            return ExitCode::from(64);
        }
    };
    let begun = Instant::now();
    println!("seeds from {} on, profile {}, {} at a time", options.first, options.profile, options.jobs);
    let tally = run_seeds(&options, begun);
    show_tally(&tally, begun.elapsed());
    if let Some((seed, report)) = tally.failed {
        fail(&options, seed, &report);
        return ExitCode::FAILURE;
    }
    let unseen: Vec<_> = ALL.iter().filter(|what| !tally.sightings.contains_key(*what)).collect();
    if options.must_see && !unseen.is_empty() {
        eprintln!("FAILED: the profile {} never came across: {unseen:?}", options.profile);
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

#[derive(Default)]
struct Tally {
    extent: Extent,
    sightings: Sightings,
    failed: Option<(u64, Report)>,
}

fn run_seeds(options: &Options, begun: Instant) -> Tally {
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let tally = Mutex::new(Tally::default());
    let limit = options.minutes.map(|minutes| Duration::from_secs_f64(minutes * 60.0));
    let is_done = |number: u64| {
        let has_run_all = options.count.is_some_and(|count| number >= count);
        let is_late = limit.is_some_and(|limit| begun.elapsed() >= limit);
        has_run_all || is_late || is_over.load(Ordering::Relaxed)
    };
    let work = || loop {
        let number = next.fetch_add(1, Ordering::Relaxed);
        if is_done(number) {
            return;
        }
        let seed = options.first + number;
        let report = simulate(&Plan::of(seed, options.profile).reduced(&options.reduction));
        if options.shows_trace {
            print!("{}", report.trace.lines);
            println!("trace hash {:016x}, {:?}", report.trace.hash, report.extent);
        }
        let mut tally = tally.lock().expect("counting does not panic");
        tally.extent += report.extent;
        for (what, times) in &report.sightings {
            *tally.sightings.entry(what).or_default() += times;
        }
        if !report.violations.is_empty() {
            is_over.store(true, Ordering::Relaxed);
            tally.failed.get_or_insert((seed, report));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(work);
        }
    });
    tally.into_inner().expect("counting does not panic")
}

fn show_tally(tally: &Tally, took: Duration) {
    let Extent { runs, simulated_ms, nodes, calls, unknown, grants, faults, entries, polls } = tally.extent;
    let each = |total: u64| total as f64 / (runs.max(1)) as f64;
    println!(
        "{runs} seeds in {:.1} s ({:.0} an hour); each on average: {:.1} simulated s, {:.1} nodes, {:.0} calls ({:.0} of \
         unknown outcome), {:.0} grants, {:.1} faults, {:.0} log entries, {:.0} steps",
        took.as_secs_f64(),
        runs as f64 * 3_600.0 / took.as_secs_f64(),
        each(simulated_ms) / 1_000.0,
        each(nodes),
        each(calls),
        each(unknown),
        each(grants),
        each(faults),
        each(entries),
        each(polls),
    );
    for what in ALL {
        println!("  {:>8} {what}", tally.sightings.get(what).copied().unwrap_or(0));
    }
}

fn fail(options: &Options, seed: u64, report: &Report) {
    eprintln!("\nFAILED: seed {seed}");
    for violation in &report.violations {
        eprintln!("  {violation}");
    }
    eprintln!("making it smaller, for at most {} s", SHRINKING.as_secs());
    let plan = Plan::of(seed, options.profile).reduced(&options.reduction);
    let Some(shrunk) = shrink(&plan, SHRINKING) else {
        eprintln!("it did not fail again: the simulation is not deterministic, which is a bug of its own");
        return;
    };
    let lines: Vec<&str> = shrunk.report.trace.lines.lines().collect();
    let hidden = lines.len().saturating_sub(LINES_SHOWN);
    eprintln!(
        "the smallest failing run of {} tries, {} lines ({hidden} not shown):",
        shrunk.tries,
        lines.len()
    );
    for line in &lines[hidden..] {
        eprintln!("  {line}");
    }
    for violation in &shrunk.report.violations {
        eprintln!("  VIOLATION {violation}");
    }
    let (profile, reduction) = (options.profile, merged(&options.reduction, shrunk.reduction));
    eprintln!(
        "\nfailing seed: {seed}\nreproduce with:\n  scripts/simulate --profile {profile} --seed {seed} --count 1{reduction} --trace"
    );
}

/// What the command line left out and what was left out since.
fn merged(given: &Reduction, found: Reduction) -> Reduction {
    Reduction {
        steps: found.steps.or_else(|| given.steps.clone()),
        clients: found.clients.or(given.clients),
        locks: found.locks.or(given.locks),
        faults_ms: found.faults_ms.or(given.faults_ms),
    }
}

fn parse() -> Result<Options, String> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let mut options = Options {
        first: now.as_secs() << 16,
        count: None,
        minutes: None,
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        profile: Profile::Mixed,
        reduction: Reduction::default(),
        shows_trace: false,
        must_see: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(flag) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{flag} lacks its value"));
        match flag.as_str() {
            "--seed" => options.first = number(&flag, &value()?)?,
            "--count" => options.count = Some(number(&flag, &value()?)?),
            "--minutes" => options.minutes = Some(number(&flag, &value()?)?),
            "--jobs" => options.jobs = number(&flag, &value()?)?,
            "--profile" => {
                let name = value()?;
                options.profile = Profile::named(&name).ok_or(format!("there is no profile {name}"))?;
            }
            "--steps" => {
                let steps = value()?;
                let list = steps.split(',').filter(|step| *step != "none");
                options.reduction.steps =
                    Some(list.map(|step| number(&flag, step)).collect::<Result<_, _>>()?);
            }
            "--clients" => options.reduction.clients = Some(number(&flag, &value()?)?),
            "--locks" => options.reduction.locks = Some(number(&flag, &value()?)?),
            "--faults-ms" => options.reduction.faults_ms = Some(number(&flag, &value()?)?),
            "--trace" => options.shows_trace = true,
            "--must-see" => options.must_see = true,
            _ => return Err(format!("there is no flag {flag}")),
        }
    }
    if options.count.is_none() && options.minutes.is_none() {
        options.count = Some(100);
    }
    Ok(options)
}

fn number<T: std::str::FromStr>(flag: &str, text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("{flag} {text} is no such number"))
}

/// `RUST_LOG` shows what the replicas say, which is a lot.
fn show_logs_if_asked() {
    if let Ok(filter) = std::env::var("RUST_LOG") {
        tracing_subscriber::fmt().without_time().with_env_filter(filter).with_ansi(false).init();
    }
}
