//! The HTTP API, metrics, configuration and wiring of a node, and the development cluster.
//!
//! [`serve`] runs one node until it is told to stop; [`dev_cluster`] runs several in this process. Whoever calls them
//! passes in the listeners and the signal: nothing here reads the environment or handles a signal.

mod attempt;
mod config;
mod dev;
mod front;
mod http;
mod metrics;
mod node;
mod openapi;
mod socket;

pub use config::{
    ConfigError, LISTEN_DEFAULT, LOG_LEVEL_DEFAULT, LogFormat, PEER_LISTEN_DEFAULT, ServeConfig, ServeOptions,
};
pub use dev::{DevCluster, DevOptions, dev_cluster};
pub use node::{Candidate, Listeners, Node, ServeError, serve};

const _: () =
    assert!(!holdfast_core::planted::POSSIBLE, "a program that serves is never built with planted bugs");
