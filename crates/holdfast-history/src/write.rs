//! Writing a history.

use std::io::{self, Write};

use crate::format::{Entry, Header};

/// Writes a history line by line.
#[derive(Debug)]
pub struct Writer<W: Write> {
    out: W,
}

impl<W: Write> Writer<W> {
    /// Begins a history.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn begin(out: W, header: &Header) -> io::Result<Self> {
        let mut writer = Self { out };
        writer.line(header)?;
        Ok(writer)
    }

    /// Adds a line.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write(&mut self, entry: &Entry) -> io::Result<()> {
        self.line(entry)
    }

    /// Passes on what is buffered, and gives `out` back.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn line(&mut self, line: &impl serde::Serialize) -> io::Result<()> {
        // In one piece: `out` need not be buffered.
        let mut text = serde_json::to_vec(line)?;
        text.push(b'\n');
        self.out.write_all(&text)
    }
}
