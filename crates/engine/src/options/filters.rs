//! Filters of the peers that may connect to a bound endpoint: ZMQ_TCP_ACCEPT_FILTER and the ZMQ_IPC_FILTER_ options
//! (zmq_setsockopt(3)). Without a filter of a kind all peers may connect.

use std::net::IpAddr;

use pinnace_sys::net::Process;

use super::Options;
use crate::error::{Error, Invalid};

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filters {
    addresses: Vec<Network>,
    pids: Vec<u32>,
    uids: Vec<u32>,
    gids: Vec<u32>,
}

/// The addresses that share a prefix of `bits` bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    ip: IpAddr,
    bits: u32,
}

impl Filters {
    pub fn admits_address(&self, ip: IpAddr) -> bool {
        self.addresses.is_empty() || self.addresses.iter().any(|network| network.holds(ip.to_canonical()))
    }

    pub fn has_processes(&self) -> bool {
        !(self.pids.is_empty() && self.uids.is_empty() && self.gids.is_empty())
    }

    /// `groups`: the supplementary groups of the process, evaluated only if they decide. A process without a pid in
    /// our PID namespace (pid 0) never matches a pid filter.
    pub fn admits_process(&self, process: &Process, groups: impl FnOnce() -> Vec<u32>) -> bool {
        !self.has_processes()
            || (process.pid != 0 && self.pids.contains(&process.pid))
            || self.uids.contains(&process.uid)
            || self.gids.contains(&process.gid)
            || (!self.gids.is_empty() && groups().iter().any(|group| self.gids.contains(group)))
    }
}

impl Network {
    /// "address" or "address/bits".
    fn parse(text: &str) -> Option<Network> {
        let (ip, bits) = match text.split_once('/') {
            Some((ip, bits)) => (ip, Some(bits)),
            None => (text, None),
        };
        let ip: IpAddr = ip.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        let whole = if ip.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            Some(bits) if bits.bytes().all(|byte| byte.is_ascii_digit()) => bits.parse().ok()?,
            Some(_) => return None,
            None => whole,
        };
        (bits <= whole).then_some(Network { ip, bits })
    }

    fn holds(&self, ip: IpAddr) -> bool {
        match (self.ip, ip) {
            (IpAddr::V4(ours), IpAddr::V4(theirs)) => {
                let other = ours.to_bits() ^ theirs.to_bits();
                other.checked_shr(32 - self.bits).unwrap_or(0) == 0
            }
            (IpAddr::V6(ours), IpAddr::V6(theirs)) => {
                let other = ours.to_bits() ^ theirs.to_bits();
                other.checked_shr(128 - self.bits).unwrap_or(0) == 0
            }
            _ => false,
        }
    }
}

/// Adds a network; an empty value removes all.
pub(super) fn add_address(options: &mut Options, value: &[u8]) -> Result<(), Error> {
    let value = value.strip_suffix(b"\0").unwrap_or(value);
    let text = std::str::from_utf8(value).map_err(|_| Error::Invalid(Invalid::Text))?;
    if text.is_empty() {
        options.filters.addresses.clear();
        return Ok(());
    }
    options.filters.addresses.push(Network::parse(text).ok_or(Error::Invalid(Invalid::Network))?);
    Ok(())
}

pub(super) fn add_pid(options: &mut Options, value: &[u8]) -> Result<(), Error> {
    add(&mut options.filters.pids, value)
}

pub(super) fn add_uid(options: &mut Options, value: &[u8]) -> Result<(), Error> {
    add(&mut options.filters.uids, value)
}

pub(super) fn add_gid(options: &mut Options, value: &[u8]) -> Result<(), Error> {
    add(&mut options.filters.gids, value)
}

/// Adds a number; an empty value removes all.
fn add(numbers: &mut Vec<u32>, value: &[u8]) -> Result<(), Error> {
    if value.is_empty() {
        numbers.clear();
        return Ok(());
    }
    let number = u32::from_ne_bytes(value.try_into().map_err(|_| Error::Invalid(Invalid::Length))?);
    if !numbers.contains(&number) {
        numbers.push(number);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filters(networks: &[&str]) -> Filters {
        let mut options = Options::default();
        networks.iter().for_each(|network| add_address(&mut options, network.as_bytes()).unwrap());
        options.filters.clone()
    }

    #[test]
    fn networks_hold_what_begins_with_their_bits() {
        for (network, ip, holds) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("10.1.0.0/16", "10.1.255.3", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("0.0.0.0/0", "192.0.2.7", true),
            ("::1", "::1", true),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::1", false),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
        ] {
            assert_eq!(filters(&[network]).admits_address(ip.parse().unwrap()), holds, "{network} {ip}");
        }
        assert!(filters(&[]).admits_address("192.0.2.7".parse().unwrap()));
        assert!(filters(&["::1", "10.0.0.0/8"]).admits_address("10.9.9.9".parse().unwrap()));
        assert!(filters(&["::1", ""]).admits_address("10.9.9.9".parse().unwrap()), "removed again");
    }

    #[test]
    fn what_is_no_network_is_refused() {
        for text in ["localhost", "1.2.3", "1.2.3.4/33", "::1/129", "1.2.3.4/", "1.2.3.4/-1", "1.2.3.4/+8"] {
            assert!(
                matches!(add_address(&mut Options::default(), text.as_bytes()), Err(Error::Invalid(_))),
                "{text}"
            );
        }
    }

    #[test]
    fn any_of_the_numbers_admits() {
        let mut options = Options::default();
        let process = Process { pid: 1, uid: 2, gid: 3 };
        assert!(options.filters.admits_process(&process, Vec::new));
        add_uid(&mut options, &7u32.to_ne_bytes()).unwrap();
        assert!(!options.filters.admits_process(&process, Vec::new));
        add_gid(&mut options, &9u32.to_ne_bytes()).unwrap();
        assert!(options.filters.admits_process(&process, || vec![8, 9]));
        add_pid(&mut options, &1u32.to_ne_bytes()).unwrap();
        assert!(options.filters.admits_process(&process, Vec::new));
        assert!(matches!(add_pid(&mut options, b"abc"), Err(Error::Invalid(_))));
    }

    #[test]
    fn who_has_no_number_here_comes_in_by_user_or_group_alone() {
        let mut options = Options::default();
        let process = Process { pid: 0, uid: 2, gid: 3 };
        add_pid(&mut options, &0u32.to_ne_bytes()).unwrap();
        assert!(!options.filters.admits_process(&process, Vec::new));
        add_uid(&mut options, &2u32.to_ne_bytes()).unwrap();
        assert!(options.filters.admits_process(&process, Vec::new));
    }
}
