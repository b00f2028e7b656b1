//! Addresses for nodes that must be known before the nodes run.
//!
//! The members of a cluster are told each other's addresses when they start, and keep them over restarts. So a port has
//! to stay free while nobody listens on it. On 127.0.0.1 it would not: every connection that any process opens takes
//! a port there for its own end. Nothing connects from other addresses of the loopback network unless it is told to,
//! so each cluster lives on one of its own, chosen at random.

use std::net::{Ipv4Addr, SocketAddr, TcpListener};

/// An address of the loopback network that belongs to one test.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackHost(Ipv4Addr);

/// Where one node listens.
#[derive(Clone, Copy, Debug)]
pub struct Addresses {
    /// For clients.
    pub client: SocketAddr,
    /// For peers.
    pub peer: SocketAddr,
}

impl LoopbackHost {
    /// Chooses one of 16 million.
    ///
    /// # Panics
    /// Without randomness.
    pub fn choose() -> Self {
        let [a, b, c, _] = getrandom::u32().expect("the system has random numbers").to_le_bytes();
        Self(Ipv4Addr::new(127, 1 + a % 254, b, 1 + c % 254))
    }

    /// Free ports for so many nodes, all of them different.
    ///
    /// # Panics
    /// If there are none.
    pub fn reserve(self, nodes: usize) -> Vec<Addresses> {
        let bind = || TcpListener::bind((self.0, 0)).expect("the loopback network has free ports");
        let bound: Vec<_> = (0..nodes).map(|_| (bind(), bind())).collect();
        let address = |listener: &TcpListener| listener.local_addr().expect("it is bound");
        bound
            .iter()
            .map(|(client, peer)| Addresses { client: address(client), peer: address(peer) })
            .collect()
    }
}
