//! Writes down what clients do and are told.

use std::fmt;
use std::fs::File;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use holdfast_history::format::{Complete, Entry, Header, Invoke};
use holdfast_history::{Outcome, Request, Writer};

/// How often which outcome came.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    ok: u64,
    refused: u64,
    unknown: u64,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { ok, refused, unknown } = self;
        write!(f, "{} operations: {ok} ok, {refused} refused, {unknown} unknown", ok + refused + unknown)
    }
}

/// The history of a run. Each line is written at once: it is there whatever becomes of this process.
#[derive(Debug)]
pub(crate) struct Recorder {
    book: Mutex<Book>,
}

#[derive(Debug)]
struct Book {
    writer: Writer<File>,
    last_id: u64,
    tally: Tally,
    /// The first one; what comes after it is not written.
    failure: Option<io::Error>,
}

impl Recorder {
    pub(crate) fn begin(file: File, clock: String, about: String) -> io::Result<Self> {
        let writer = Writer::begin(file, &Header { about, ..Header::of_one_clock(clock) })?;
        let book = Book { writer, last_id: 0, tally: Tally::default(), failure: None };
        Ok(Self { book: Mutex::new(book) })
    }

    /// To be called before the request is sent. Gives the operation's id.
    pub(crate) fn invoke(&self, process: &Arc<str>, node: &Arc<str>, request: Request) -> u64 {
        let mut book = self.book();
        book.last_id += 1;
        let id = book.last_id;
        let (process, node, at_ns) = (process.clone(), node.clone(), monotonic_ns());
        book.write(&Entry::Invoke(Invoke { id, process, at_ns, node, request }));
        id
    }

    /// To be called when the answer is there.
    pub(crate) fn complete(&self, id: u64, outcome: Outcome) {
        let at_ns = monotonic_ns();
        let mut book = self.book();
        match &outcome {
            Outcome::Ok(_) => book.tally.ok += 1,
            Outcome::Refused(_) => book.tally.refused += 1,
            Outcome::Unknown { .. } => book.tally.unknown += 1,
        }
        book.write(&Entry::Complete(Complete { id, at_ns, outcome }));
    }

    /// Adds what happened now.
    pub(crate) fn mark(&self, make: impl FnOnce(u64) -> Entry) {
        self.book().write(&make(monotonic_ns()));
    }

    /// The counts, or why the history is not whole.
    pub(crate) fn finish(&self) -> io::Result<Tally> {
        let mut book = self.book();
        match book.failure.take() {
            Some(error) => Err(error),
            None => Ok(book.tally),
        }
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().expect("nothing panics while it holds this")
    }
}

impl Book {
    fn write(&mut self, entry: &Entry) {
        if self.failure.is_none() {
            self.failure = self.writer.write(entry).err();
        }
    }
}

/// The monotonic clock of this machine, the same for all its processes.
fn monotonic_ns() -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place for the result.
    let result = unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &raw mut now) };
    assert_eq!(result, 0, "every system has a monotonic clock");
    let seconds = u64::try_from(now.tv_sec).expect("it counts from the start of the machine");
    seconds * 1_000_000_000 + u64::try_from(now.tv_nsec).expect("it is below a second")
}

/// Names the clock: this start of this machine. Elsewhere it has another name, and its times mean nothing.
pub(crate) fn clock_name() -> String {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let boot = boot.unwrap_or_else(|_| format!("process-{}", std::process::id()));
    format!("{}/monotonic", boot.trim())
}
