//! Marks of the history out of lines of text.

use std::io::BufRead;

use holdfast_history::format::{Entry, Mark};

use super::recorder::Recorder;
use crate::exit;

/// Reads to the end of the input. A line that is no mark is said to be none.
pub(super) fn read(input: impl BufRead, recorder: &Recorder) {
    for line in input.lines().map_while(Result::ok) {
        match parse(&line) {
            Some(make) => recorder.mark(make),
            None => exit::note(&format!("a mark begins with fault, healthy or note, not like {line:?}")),
        }
    }
}

fn parse(line: &str) -> Option<impl FnOnce(u64) -> Entry + use<>> {
    let (word, text) = line.split_once(' ').unwrap_or((line, ""));
    let make: fn(Mark) -> Entry = match word {
        "fault" => Entry::Fault,
        "healthy" => Entry::Healthy,
        "note" => Entry::Note,
        _ => return None,
    };
    let text = text.to_owned();
    Some(move |at_ns| make(Mark { at_ns, text }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_mark_with_the_rest_as_its_text() {
        let mark = |text: &str| Mark { at_ns: 7, text: text.into() };
        assert_eq!(parse("fault node 2").unwrap()(7), Entry::Fault(mark("node 2")));
        assert_eq!(parse("healthy").unwrap()(7), Entry::Healthy(mark("")));
        assert!(parse("faulty").is_none());
    }
}
