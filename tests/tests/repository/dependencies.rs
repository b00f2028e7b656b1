//! Which crate may know which.

use std::path::Path;

use crate::files;

/// What each crate of ours may depend on among ours.
const ALLOWED: [(&str, &[&str]); 7] = [
    ("holdfast-core", &[]),
    ("holdfast-api", &["holdfast-core"]),
    ("holdfast-replica", &["holdfast-core"]),
    ("holdfast-server", &["holdfast-api", "holdfast-core", "holdfast-replica"]),
    ("holdfast-client", &["holdfast-api", "holdfast-core"]),
    ("holdfast-history", &[]),
    (
        "holdfast",
        &[
            "holdfast-api",
            "holdfast-bench",
            "holdfast-client",
            "holdfast-core",
            "holdfast-history",
            "holdfast-server",
        ],
    ),
];

/// What only the replica may be built with, as it is written in a manifest; a simulated runtime is no part of it.
const REPLICA_ONLY: [&str; 5] = ["openraft", "openraft-macros", "openraft-rt", "openraft-rt-tokio", "sled"];

/// The part of a manifest that says what the crate itself is built with.
fn dependencies(manifest: &str) -> Vec<String> {
    let section = manifest.split("\n[").find(|section| section.starts_with("dependencies]"));
    let names = section.into_iter().flat_map(|section| section.lines().skip(1));
    names
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .map(str::to_owned)
        .collect()
}

#[test]
fn dependencies_point_one_way() {
    let mut findings = Vec::new();
    for (name, allowed) in ALLOWED {
        let manifest = files::text(&Path::new("crates").join(name).join("Cargo.toml"));
        for dependency in dependencies(&manifest) {
            if dependency.starts_with("holdfast") && !allowed.contains(&dependency.as_str()) {
                findings.push(format!("{name} depends on {dependency}"));
            }
        }
    }
    files::none(&findings, "dependencies that the architecture does not allow");
}

#[test]
fn only_the_replica_names_openraft_and_the_storage() {
    let mut findings = Vec::new();
    for path in files::with_ending(".rs").into_iter().chain(files::with_ending("Cargo.toml")) {
        let is_allowed = path.starts_with("crates/holdfast-replica")
            || path.starts_with("tests/tests/repository")
            || path == Path::new("Cargo.toml");
        if is_allowed {
            continue;
        }
        for (number, line) in (1..).zip(files::text(&path).lines()) {
            let code = line.split("//").next().unwrap();
            let names = match path.extension().is_some_and(|ending| ending == "toml") {
                true => code.split(['.', ' ', '=']).next().is_some_and(|name| REPLICA_ONLY.contains(&name)),
                false => ["openraft::", "openraft_rt::", "sled::"].iter().any(|path| code.contains(path)),
            };
            if names {
                findings.push(format!("{}:{number}: {}", path.display(), line.trim()));
            }
        }
    }
    files::none(&findings, "the consensus library or the storage is named outside the replica");
}

#[test]
fn the_rules_depend_on_nothing_that_reads_a_clock_or_does_io() {
    let manifest = files::text(Path::new("crates/holdfast-core/Cargo.toml"));
    let allowed = ["imbl", "postcard", "serde", "thiserror"];
    let others: Vec<_> =
        dependencies(&manifest).into_iter().filter(|name| !allowed.contains(&name.as_str())).collect();
    files::none(&others, "dependencies of the rules");
}
