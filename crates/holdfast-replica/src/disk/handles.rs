//! The descriptors through which a lane writes.

use std::fs::{File, OpenOptions};
use std::io::{self, IoSlice, Write};
use std::path::{Path, PathBuf};

use bytes::Bytes;

/// A lane writes one file at a time and touches a second when it changes over. More would only keep the space of
/// removed files from being freed.
const OPEN_MAX: usize = 2;

/// Open files of one lane, the most recently used last.
pub(super) struct Handles {
    folder: PathBuf,
    open: Vec<(String, File)>,
}

impl Handles {
    pub(super) fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned(), open: Vec::new() }
    }

    /// Creates a file that must not exist.
    pub(super) fn create(&mut self, name: &str) -> io::Result<()> {
        self.forget(name);
        let file = OpenOptions::new().append(true).create_new(true).open(self.folder.join(name))?;
        self.keep(name, file);
        Ok(())
    }

    /// The file, opened for appending.
    pub(super) fn get(&mut self, name: &str) -> io::Result<&mut File> {
        let file = match self.open.iter().position(|(open, _)| open == name) {
            Some(at) => self.open.remove(at).1,
            None => OpenOptions::new().append(true).open(self.folder.join(name))?,
        };
        Ok(self.keep(name, file))
    }

    /// Closes a file whose name is about to mean another one, or none.
    pub(super) fn forget(&mut self, name: &str) {
        self.open.retain(|(open, _)| open != name);
    }

    fn keep(&mut self, name: &str, file: File) -> &mut File {
        if self.open.len() == OPEN_MAX {
            self.open.remove(0);
        }
        self.open.push((name.to_owned(), file));
        &mut self.open.last_mut().expect("one was just pushed").1
    }
}

/// Appends all buffers, or none of them: what a failed write has left is cut off again.
///
/// # Errors
/// The write's own. If its rest cannot be cut off, another one: the tail is torn, and opening the log trims it.
pub(super) fn append_all(file: &mut File, buffers: &[&Bytes]) -> io::Result<()> {
    let len_before = file.metadata()?.len();
    write_all(file, buffers).map_err(|error| match file.set_len(len_before) {
        Ok(()) => error,
        Err(cut) => io::Error::other(format!("{error}; and its beginning cannot be cut off again: {cut}")),
    })
}

fn write_all(file: &mut File, buffers: &[&Bytes]) -> io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> =
        buffers.iter().filter(|buffer| !buffer.is_empty()).map(|buffer| IoSlice::new(buffer)).collect();
    let mut left = slices.as_mut_slice();
    while !left.is_empty() {
        match file.write_vectored(left) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(written) => IoSlice::advance_slices(&mut left, written),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beyond_the_limit_are_closed_and_opened_again_when_needed() {
        let folder = tempfile::tempdir().unwrap();
        let mut handles = Handles::new(folder.path());
        for name in ["a", "b", "c"] {
            handles.create(name).unwrap();
        }
        assert_eq!(handles.open.len(), OPEN_MAX);
        let buffers = [Bytes::from_static(b"x"), Bytes::new(), Bytes::from_static(b"yz")];
        append_all(handles.get("a").unwrap(), &buffers.iter().collect::<Vec<_>>()).unwrap();
        assert_eq!(std::fs::read(folder.path().join("a")).unwrap(), b"xyz");
        assert_eq!(handles.open.len(), OPEN_MAX);
    }

    #[test]
    fn a_file_that_exists_is_not_created_again() {
        let folder = tempfile::tempdir().unwrap();
        let mut handles = Handles::new(folder.path());
        handles.create("a").unwrap();
        assert_eq!(handles.create("a").unwrap_err().kind(), io::ErrorKind::AlreadyExists);
    }
}
