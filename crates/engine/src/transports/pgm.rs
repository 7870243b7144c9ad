//! pgm:// and epgm:// (zmq_pgm(7)): one sender or one receiver of reliable multicast.

use pinnace_sys::{interfaces, pgm, random};

use crate::endpoint::{Host, PgmEndpoint};
use crate::error::{Error, Invalid};
use crate::options::Options;

/// Maximum retransmit window in packets: OpenPGM allocates a pointer for each.
const WINDOW_MAX: i64 = 1 << 20;

/// Whether this build has PGM.
pub fn has_pgm() -> bool {
    pgm::BUILT_IN
}

/// Joins the groups of `endpoint`, to send or to receive. Errors: Invalid for an unknown interface, System(EPERM) if
/// pgm:// lacks a privilege, and errors of the system.
pub(crate) fn open(endpoint: &PgmEndpoint, sends: bool, options: &Options) -> Result<pgm::Socket, Error> {
    let given = |bytes: i32| Some(bytes).filter(|&bytes| bytes > 0);
    let config = pgm::Config {
        interface: index(&endpoint.interface).ok_or(Error::Invalid(Invalid::Interface))?,
        groups: &endpoint.groups,
        send_group: endpoint.send_group,
        port: endpoint.port,
        over_udp: endpoint.over_udp,
        sends,
        id: random::bytes()?,
        max_packet: options.multicast_maxtpdu,
        rate: bytes_per_second(options.rate),
        window: window(options),
        hops: options.multicast_hops,
        send_buffer: given(options.sndbuf),
        recv_buffer: given(options.rcvbuf),
    };
    pgm::Socket::open(&config).map_err(|error| match error {
        pinnace_sys::Errno::INVAL => Error::Invalid(Invalid::Address),
        error => error.into(),
    })
}

fn index(interface: &Host) -> Option<u32> {
    match interface {
        Host::Any => None,
        Host::Ip(ip, _) => interfaces::index_of(*ip),
        Host::Name(name) => interfaces::index(name),
    }
}

/// Converts ZMQ_RATE, in thousands of bits per second.
fn bytes_per_second(rate: i32) -> i32 {
    i32::try_from(i64::from(rate) * 1000 / 8).unwrap_or(i32::MAX)
}

/// Packets in ZMQ_RECOVERY_IVL at ZMQ_RATE; at least one.
fn window(options: &Options) -> i32 {
    let bytes = i64::from(options.recovery_ivl_ms) * (i64::from(options.rate) / 8);
    (bytes / i64::from(options.multicast_maxtpdu.max(1))).clamp(1, WINDOW_MAX) as i32
}

#[cfg(test)]
mod tests {
    use super::*;
    use pinnace_zmtp::SocketType;

    #[test]
    fn rates_and_windows_are_libzmqs() {
        let mut options = Options::new(SocketType::Pub);
        assert_eq!((bytes_per_second(options.rate), window(&options)), (12_500, 80));
        options.recovery_ivl_ms = 0;
        assert_eq!(window(&options), 1);
        (options.rate, options.recovery_ivl_ms) = (i32::MAX, i32::MAX);
        assert_eq!((bytes_per_second(options.rate), window(&options)), (i32::MAX, 1 << 20));
    }
}
