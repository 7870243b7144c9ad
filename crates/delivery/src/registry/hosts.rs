//! Which registries several hosts may share, and which endpoints other hosts can connect to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns true if clients on several hosts may share the registry at this address: it is a server on another host.
pub fn is_of_several_hosts(url: &str) -> bool {
    let server = url.split_once("://").filter(|(scheme, _)| scheme.starts_with("redis"));
    let Some((_, rest)) = server else { return false };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    !is_of_this_host(host_of(host))
}

/// Returns true unless other hosts certainly cannot connect to the endpoint: it is a local socket, a loopback address
/// or a wildcard.
pub fn is_reachable(endpoint: &str) -> bool {
    match endpoint.split_once("://") {
        Some(("ipc" | "inproc", _)) => false,
        Some(("tcp" | "tls" | "ws" | "wss", rest)) => {
            let address = rest.split('/').next().unwrap_or_default();
            let host = host_of(address);
            host != "*" && !is_of_this_host(host) && !is_unspecified(host)
        }
        _ => true,
    }
}

/// The host of `HOST[:PORT]`, without the brackets of an IPv6 address.
fn host_of(address: &str) -> &str {
    match address.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, _)) => host,
        None => address.split_once(':').map_or(address, |(host, _)| host),
    }
}

fn is_of_this_host(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost") || host.parse().is_ok_and(|address: IpAddr| address.is_loopback())
}

fn is_unspecified(host: &str) -> bool {
    let any = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
    host.parse().is_ok_and(|address| any.contains(&address))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_of_several_hosts_unless_they_are_local() {
        for url in
            ["redis://hub", "rediss://user:p@ss@hub:1/2", "redis://[fd00::1]:6379", "redis://10.0.0.1?a=b"]
        {
            assert!(is_of_several_hosts(url), "{url}");
        }
        for url in
            ["redis://localhost", "redis://:secret@127.0.0.1:7", "rediss://[::1]", "dir:///a", "sqlite://hub"]
        {
            assert!(!is_of_several_hosts(url), "{url}");
        }
    }

    #[test]
    fn local_and_wildcard_endpoints_are_not_reachable() {
        for endpoint in
            ["tcp://10.0.0.1:5555", "tcp://[fd00::1]:5555", "tls://hub:1", "ws://hub:80/path", "vsock://2:7"]
        {
            assert!(is_reachable(endpoint), "{endpoint}");
        }
        let local = ["ipc://@a", "inproc://a", "tcp://127.0.0.2:1", "tcp://[::1]:1", "tcp://localhost:*"];
        let wildcard = ["tcp://*:5555", "tcp://0.0.0.0:5555", "tcp://[::]:5555", "wss://*:443/p"];
        for endpoint in local.into_iter().chain(wildcard) {
            assert!(!is_reachable(endpoint), "{endpoint}");
        }
    }
}
