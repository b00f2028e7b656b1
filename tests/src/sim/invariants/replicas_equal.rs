//! Replicas that have applied the same index are equal, byte for byte, and have applied the same entries in order.

use super::Violation;
use crate::sim::journal::{Discord, Journal};

const NAME: &str = "replicas at the same index are equal";

pub(crate) fn check(journal: &Journal) -> Vec<Violation> {
    journal.discords.iter().map(|discord| Violation::new(NAME, show(discord))).collect()
}

fn show(discord: &Discord) -> String {
    match discord {
        Discord::Entry { node, index, was, is } => {
            format!("node {node} applied another entry at {index}: {is}, where there was {was}")
        }
        Discord::Order { node, reached, index } => {
            format!("node {node} went from entry {reached} to {index}")
        }
        Discord::State { node, index } => format!("node {node} has another state at entry {index}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_with_another_state_is_found() {
        let mut journal = Journal::default();
        journal.note_digest(1, 7, 0xa);
        journal.note_digest(2, 7, 0xa);
        assert_eq!(check(&journal), []);
        journal.note_digest(3, 7, 0xb);
        assert!(check(&journal)[0].what.contains("node 3 has another state at entry 7"));
    }
}
