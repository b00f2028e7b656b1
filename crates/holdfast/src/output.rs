//! Standard output: answers and nothing else.

use std::io::{ErrorKind, Write};

use crate::exit::Failure;

/// Writes one line of text.
pub(crate) fn line(text: &str) -> Result<(), Failure> {
    bytes_and_newline(text.as_bytes())
}

/// Writes bytes as they are, and ends the line if they do not. Whoever closed the pipe has read enough.
pub(crate) fn bytes_and_newline(bytes: &[u8]) -> Result<(), Failure> {
    write(bytes).map(|_| ())
}

/// Writes one line of text; false if nobody reads any more.
pub(crate) fn line_unless_closed(text: &str) -> Result<bool, Failure> {
    write(text.as_bytes())
}

fn write(bytes: &[u8]) -> Result<bool, Failure> {
    let mut out = std::io::stdout().lock();
    let newline: &[u8] = if bytes.ends_with(b"\n") { b"" } else { b"\n" };
    let written = out.write_all(bytes).and_then(|()| out.write_all(newline)).and_then(|()| out.flush());
    match written {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        other => other
            .map(|()| true)
            .map_err(|error| Failure::other(format!("cannot write to standard output: {error}"))),
    }
}
