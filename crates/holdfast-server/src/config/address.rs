//! Addresses as options give them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// What is wrong with a text that should be `HOST:PORT`; nothing if it is one.
pub(super) fn check_host_port(text: &str) -> Result<(), String> {
    let error = || format!("must be HOST:PORT with a port from 0 to 65535, got `{text}`");
    let (host, port) = text.rsplit_once(':').ok_or_else(error)?;
    let is_host = if let Some(inner) = host.strip_prefix('[') {
        inner.strip_suffix(']').is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok())
    } else {
        !host.is_empty() && !host.contains([':', '/', ' ', ',', '='])
    };
    if is_host && port.parse::<u16>().is_ok() { Ok(()) } else { Err(error()) }
}

/// A base URL without its last slash.
pub(super) fn parse_base_url(text: &str) -> Result<String, String> {
    let url = text.strip_suffix('/').unwrap_or(text);
    let host = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
    match host {
        Some(host) if !host.is_empty() && !host.contains(['/', '?', '#', ' ']) => Ok(url.into()),
        _ => Err(format!("must be a URL like http://HOST:PORT without a path, got `{text}`")),
    }
}

/// The list of first members: `ID=HOST:PORT,ID=HOST:PORT,…`.
pub(super) fn parse_initial_cluster(text: &str) -> Result<Vec<(u64, String)>, String> {
    let mut members: Vec<(u64, String)> = Vec::new();
    for part in text.split(',').map(str::trim) {
        let (id, addr) = part.split_once('=').ok_or_else(|| form(part))?;
        let id = id.trim().parse().ok().filter(|id| *id > 0).ok_or_else(|| form(part))?;
        let addr = addr.trim();
        check_host_port(addr).map_err(|_| form(part))?;
        if members.iter().any(|(other, _)| *other == id) {
            return Err(format!("names node {id} twice"));
        }
        if members.iter().any(|(_, other)| other == addr) {
            return Err(format!("gives the address {addr} to two nodes"));
        }
        members.push((id, addr.into()));
    }
    Ok(members)
}

fn form(part: &str) -> String {
    format!("must be ID=HOST:PORT,ID=HOST:PORT,… with ids from 1, got `{part}`")
}

/// Where a listener on all addresses can be reached from this machine.
pub(super) fn reachable(bound: SocketAddr) -> SocketAddr {
    let ip = match bound.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, bound.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_host_and_a_port() {
        for text in ["127.0.0.1:7101", "localhost:0", "n1.example:65535", "[::1]:7101", "[::]:0"] {
            assert_eq!(check_host_port(text), Ok(()), "{text}");
        }
        for text in
            ["", "7101", ":7101", "localhost", "localhost:", "localhost:65536", "::1:7101", "[x]:1", "a b:1"]
        {
            assert!(check_host_port(text).unwrap_err().contains("HOST:PORT"), "{text}");
        }
    }

    #[test]
    fn a_base_url_loses_its_last_slash_and_has_no_path() {
        assert_eq!(parse_base_url("http://n1:7101/").unwrap(), "http://n1:7101");
        for text in ["n1:7101", "http://", "http://n1/x", "ftp://n1", "http://n1?x"] {
            assert!(parse_base_url(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_initial_cluster_gives_each_id_one_address() {
        let members = parse_initial_cluster("1=n1:7201, 2=n2:7201,30=[::1]:7201").unwrap();
        assert_eq!(members[2], (30, "[::1]:7201".into()));
        for text in ["", "1", "1=n1", "x=n1:1", "0=n1:1", "1=n1:1,", "1=n1:1,1=n2:1", "1=n1:1,2=n1:1"] {
            assert!(parse_initial_cluster(text).is_err(), "{text}");
        }
    }
}
