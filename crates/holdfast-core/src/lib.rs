//! The rules of the locks: one deterministic state machine.
