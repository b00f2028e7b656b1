//! The harness and the suites that run whole nodes.
