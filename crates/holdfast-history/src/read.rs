//! Reading a history.

use std::io::BufRead;

use crate::format::{Entry, Header};
use crate::history::{Assembly, History, HistoryError};

/// Reads a history to its end. Empty lines are skipped; what is not known is refused, never skipped.
///
/// # Errors
/// Names the line, and the field where it is known.
pub fn read(input: impl BufRead) -> Result<History, HistoryError> {
    let mut header = None;
    let mut assembly = Assembly::default();
    for (line, text) in (1..).zip(input.lines()) {
        let fail = |why: String| HistoryError { line, why };
        let text = text.map_err(|error| fail(error.to_string()))?;
        if text.trim().is_empty() {
            continue;
        }
        if header.is_none() {
            header = Some(read_header(&text).map_err(fail)?);
        } else {
            let entry: Entry = serde_json::from_str(&text).map_err(|error| fail(said(&error)))?;
            assembly.add(entry).map_err(fail)?;
        }
    }
    let nothing = || HistoryError { line: 1, why: "holdfast_history: there is no header".into() };
    Ok(assembly.finish(header.ok_or_else(nothing)?))
}

/// The version comes before everything else: a later one may have fields that this one does not know.
fn read_header(text: &str) -> Result<Header, String> {
    #[derive(serde::Deserialize)]
    struct Version {
        holdfast_history: u32,
    }
    let version: Version =
        serde_json::from_str(text).map_err(|error| format!("this is no history: {}", said(&error)))?;
    let known = Header { version: version.holdfast_history, ..Header::of_many_clocks() };
    known.check()?;
    serde_json::from_str(text).map_err(|error| said(&error))
}

/// Every text is one line: its number in the text says nothing.
fn said(error: &serde_json::Error) -> String {
    error.to_string().replace(" at line 1 column ", " at column ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"holdfast_history":1,"clock":"m"}"#;
    const INVOKE: &str =
        r#"{"invoke":{"id":1,"process":"a","at_ns":5,"node":"n","request":{"read":{"lock":"db"}}}}"#;

    fn error_of(lines: &[&str]) -> String {
        read(lines.join("\n").as_bytes()).unwrap_err().to_string()
    }

    #[test]
    fn an_invocation_without_a_completion_has_an_unknown_outcome() {
        let history = read([HEADER, "", INVOKE].join("\n").as_bytes()).unwrap();
        assert_eq!(history.operations.len(), 1);
        assert_eq!(history.operations[0].until(), u64::MAX);
    }

    #[test]
    fn what_cannot_be_read_is_named_with_its_line_and_field() {
        let complete = r#"{"complete":{"id":1,"at_ns":9,"outcome":{"ok":{"released":{"fence":1}}}}}"#;
        for (lines, line, word) in [
            (vec![""], 1, "no header"),
            (vec!["Jepsen"], 1, "no history"),
            (vec![r#"{"holdfast_history":4,"shards":[]}"#], 1, "version 4"),
            (vec![r#"{"holdfast_history":1,"clock":null,"shards":[]}"#], 1, "shards"),
            (vec![HEADER, INVOKE, INVOKE], 3, "id:"),
            (vec![HEADER, "", complete], 3, "id:"),
            (vec![HEADER, INVOKE, complete], 3, "outcome:"),
            (vec![HEADER, r#"{"session":{}}"#], 2, "session"),
            (vec![HEADER, r#"{"note":{"at_ns":"soon"}}"#], 2, "at column"),
        ] {
            let error = error_of(&lines);
            assert!(error.starts_with(&format!("line {line}: ")), "{error}");
            assert!(error.contains(word), "{error}");
        }
    }

    #[test]
    fn an_answer_from_before_the_question_is_refused() {
        let complete = r#"{"complete":{"id":1,"at_ns":4,"outcome":{"unknown":{}}}}"#;
        assert!(error_of(&[HEADER, INVOKE, complete]).starts_with("line 3: at_ns:"));
    }
}
