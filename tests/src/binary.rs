//! Where the program under test is.

use std::path::PathBuf;

/// The `holdfast` program: `HOLDFAST_BIN`, or the one that was built next to the running test.
///
/// # Panics
/// If it is not there.
pub fn holdfast() -> PathBuf {
    let path = match std::env::var_os("HOLDFAST_BIN") {
        Some(path) => PathBuf::from(path),
        None => beside_the_test(),
    };
    assert!(
        path.is_file(),
        "there is no {}: build it with `cargo build -p holdfast`, or name another one in HOLDFAST_BIN",
        path.display()
    );
    path
}

/// Tests lie in `target/PROFILE/deps`, programs in `target/PROFILE`.
fn beside_the_test() -> PathBuf {
    let mut path = std::env::current_exe().expect("the system knows which program runs");
    path.pop();
    if path.ends_with("deps") {
        path.pop();
    }
    path.join("holdfast")
}
