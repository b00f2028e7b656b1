//! Links between our own documents lead somewhere.

use std::path::Path;

use crate::files;

/// The targets of `[text](target)`.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| rest.split(')').next())
}

#[test]
fn links_in_the_documents_resolve() {
    let mut findings = Vec::new();
    for path in files::with_ending(".md") {
        let text = files::text(&path);
        for target in targets(&text) {
            let target = target.split('#').next().unwrap();
            let is_elsewhere = target.contains("://") || target.starts_with("mailto:");
            if target.is_empty() || is_elsewhere {
                continue;
            }
            let file = files::root().join(path.parent().unwrap_or(Path::new(""))).join(target);
            if !file.exists() {
                findings.push(format!("{}: {target}", path.display()));
            }
        }
    }
    files::none(&findings, "links that lead nowhere");
}
