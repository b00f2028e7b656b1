//! The files of the repository.

use std::path::{Path, PathBuf};

/// The top folder.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

/// All files with this ending, build products and hidden folders left out, relative to the top folder.
pub(crate) fn with_ending(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    collect(&root(), ending, &mut found);
    let root = root();
    found.iter().map(|path| path.strip_prefix(&root).unwrap().to_owned()).collect()
}

fn collect(folder: &Path, ending: &str, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy();
        if path.is_dir() {
            if name != "target" && name != "data" && !name.starts_with('.') {
                collect(&path, ending, found);
            }
        } else if name.ends_with(ending) {
            found.push(path);
        }
    }
}

/// The text of a file.
pub(crate) fn text(path: &Path) -> String {
    let path = root().join(path);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Fails with all findings at once.
pub(crate) fn none(findings: &[String], what: &str) {
    assert!(findings.is_empty(), "{what}:\n  {}", findings.join("\n  "));
}
