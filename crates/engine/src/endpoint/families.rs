//! "vsock://cid:port", and the forms of "tipc://": `{service,lower,upper}`, `{service,instance}` with or without
//! `@z.c.n`, `<z.c.n:reference>`, `<*>`.

use std::fmt;

use pinnace_sys::families::Address;

use super::Role;
use crate::error::{Error, Invalid};

/// A vsock or TIPC address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FamilyEndpoint(pub(crate) Address);

impl FamilyEndpoint {
    pub(super) fn vsock(text: &str, role: Role) -> Result<FamilyEndpoint, Error> {
        let (cid, port) = text.split_once(':').ok_or(Error::Invalid(Invalid::Address))?;
        let part = |text: &str| match text {
            "*" if role == Role::Bind => Ok(None),
            // u32::MAX is the wildcard of vsock(7).
            text => number(text)
                .filter(|&number| number != u32::MAX)
                .map(Some)
                .ok_or(Error::Invalid(Invalid::Address)),
        };
        Ok(FamilyEndpoint(Address::Vsock { cid: part(cid)?, port: part(port)? }))
    }

    pub(super) fn tipc(text: &str, role: Role) -> Result<FamilyEndpoint, Error> {
        let parsed = match (text, role) {
            ("<*>", Role::Bind) => Some(Address::TipcSocket { node: 0, reference: 0 }),
            (_, Role::Bind) => range(text),
            (_, Role::Connect) => service(text).or_else(|| socket(text)),
        };
        parsed.map(FamilyEndpoint).ok_or(Error::Invalid(Invalid::Address))
    }

    pub(super) fn transport(&self) -> &'static str {
        if matches!(self.0, Address::Vsock { .. }) { "vsock" } else { "tipc" }
    }
}

fn number(text: &str) -> Option<u32> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok())?
}

fn within(text: &str, open: char, close: char) -> Option<&str> {
    text.strip_prefix(open)?.strip_suffix(close)
}

fn range(text: &str) -> Option<Address> {
    let mut numbers = within(text, '{', '}')?.split(',').map(|part| number(part.trim()));
    let (service, lower, upper) = (numbers.next()??, numbers.next()??, numbers.next()??);
    (numbers.next().is_none() && lower <= upper).then_some(Address::TipcRange { service, lower, upper })
}

/// The domain follows the braces, or is inside them as in libzmq.
fn service(text: &str) -> Option<Address> {
    let (inside, behind) = text.strip_prefix('{')?.split_once('}')?;
    let (inside, within) = inside.split_once('@').map_or((inside, None), |(a, b)| (a, Some(b)));
    let domain = match (behind.strip_prefix('@'), within) {
        (Some(domain), None) | (None, Some(domain)) if behind.is_empty() || within.is_none() => node(domain)?,
        (None, None) if behind.is_empty() => 0,
        _ => return None,
    };
    let (service, instance) = inside.split_once(',')?;
    let (service, instance) = (number(service.trim())?, number(instance.trim())?);
    Some(Address::TipcService { service, instance, domain })
}

/// No socket has the reference 0.
fn socket(text: &str) -> Option<Address> {
    let (at, reference) = within(text, '<', '>')?.split_once(':')?;
    let reference = number(reference).filter(|&reference| reference > 0)?;
    Some(Address::TipcSocket { node: node(at)?, reference })
}

/// "zone.cluster.node", of 8, 12 and 12 bits.
fn node(text: &str) -> Option<u32> {
    let mut parts = text.split('.').map(number);
    let (zone, cluster, node) = (parts.next()??, parts.next()??, parts.next()??);
    let fits = zone < 1 << 8 && cluster < 1 << 12 && node < 1 << 12 && parts.next().is_none();
    fits.then_some(zone << 24 | cluster << 12 | node)
}

impl fmt::Display for FamilyEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let node = |node: u32| format!("{}.{}.{}", node >> 24, node >> 12 & 0xfff, node & 0xfff);
        let or_any = |number: Option<u32>| number.map_or("*".to_owned(), |number| number.to_string());
        match self.0 {
            Address::Vsock { cid, port } => write!(f, "{}:{}", or_any(cid), or_any(port)),
            Address::TipcRange { service, lower, upper } => write!(f, "{{{service},{lower},{upper}}}"),
            Address::TipcService { service, instance, domain } => {
                write!(f, "{{{service},{instance}}}@{}", node(domain))
            }
            Address::TipcSocket { node: 0, reference: 0 } => f.write_str("<*>"),
            Address::TipcSocket { node: at, reference } => write!(f, "<{}:{reference}>", node(at)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vsock_and_tipc_are_read_and_written() {
        let parse = |text: &str, role| crate::endpoint::Endpoint::parse(text, role);
        for (text, role) in [
            ("vsock://3:5555", Role::Connect),
            ("vsock://*:5555", Role::Bind),
            ("vsock://1:*", Role::Bind),
            ("tipc://{5560,0,10}", Role::Bind),
            ("tipc://<*>", Role::Bind),
            ("tipc://{5560,7}@1.2.3", Role::Connect),
            ("tipc://<1.4095.4095:99>", Role::Connect),
        ] {
            assert_eq!(parse(text, role).map(|endpoint| endpoint.to_string()), Ok(text.to_owned()));
        }
        for (given, text) in [
            ("tipc://{5560, 7}", "tipc://{5560,7}@0.0.0"),
            ("tipc://{5560,7@1.2.3}", "tipc://{5560,7}@1.2.3"),
        ] {
            assert_eq!(parse(given, Role::Connect).map(|endpoint| endpoint.to_string()), Ok(text.to_owned()));
        }
        for text in
            ["vsock://3", "vsock://a:1", "vsock://4294967295:1", "vsock://+3:1", "tipc://{1}", "tipc://<>"]
        {
            assert!(matches!(parse(text, Role::Bind), Err(Error::Invalid(_))), "{text}");
        }
        for text in [
            "vsock://*:1",
            "vsock://1:*",
            "tipc://{1,2,3}",
            "tipc://{1,2}@",
            "tipc://{1,2}@1.2",
            "tipc://{1,2}x",
            "tipc://{1,2@1.2.3}@1.2.3",
            "tipc://<1.2.3>",
            "tipc://<256.0.0:1>",
            "tipc://<0.0.0:0>",
            "tipc://<*>",
            "tipc://{1,2",
        ] {
            assert!(matches!(parse(text, Role::Connect), Err(Error::Invalid(_))), "{text}");
        }
        assert!(matches!(parse("tipc://{1,3,2}", Role::Bind), Err(Error::Invalid(_))));
    }
}
