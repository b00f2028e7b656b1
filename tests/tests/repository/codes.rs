//! Every error code is documented.

use std::path::Path;

use holdfast_api::ErrorCode;

use crate::files;

#[test]
fn every_error_code_stands_in_the_documentation_with_its_status() {
    let text = files::text(Path::new("docs/http-api.md"));
    let is_documented = |code: &ErrorCode| {
        let (name, status) = (format!("`{}`", code.as_str()), code.status().to_string());
        text.lines().any(|line| line.starts_with('|') && line.contains(&name) && line.contains(&status))
    };
    let missing: Vec<_> = ErrorCode::ALL
        .iter()
        .filter(|code| !is_documented(code))
        .map(|code| format!("{} ({})", code.as_str(), code.status()))
        .collect();
    files::none(&missing, "codes that no table row of docs/http-api.md has with their status");
}
