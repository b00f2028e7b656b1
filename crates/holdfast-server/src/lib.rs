//! The HTTP API, metrics, configuration and wiring of a node, and the development cluster.
