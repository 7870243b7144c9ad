//! ZMTP bytes built by hand from the RFCs (23 and 37 for 3.x, 15 for 2.0, 13 for 1.0), so that the tests share no
//! encoder with the library under test.

pub const MORE: u8 = 1;
pub const LONG: u8 = 2;
pub const COMMAND: u8 = 4;

/// The 64-byte greeting of ZMTP 3.
pub fn greeting(minor: u8, mechanism: &str, as_server: bool) -> Vec<u8> {
    let mut bytes = vec![0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 3, minor];
    bytes.extend_from_slice(mechanism.as_bytes());
    bytes.resize(32, 0);
    bytes.push(as_server as u8);
    bytes.resize(64, 0);
    bytes
}

/// A frame of ZMTP 2 and 3; a body over 255 bytes has a long size.
pub fn frame(flags: u8, body: &[u8]) -> Vec<u8> {
    let mut bytes =
        if body.len() > 255 { long_header(flags, body.len() as u64) } else { vec![flags, body.len() as u8] };
    bytes.extend_from_slice(body);
    bytes
}

/// The first nine bytes of a long frame that claims this size.
pub fn long_header(flags: u8, size: u64) -> Vec<u8> {
    let mut bytes = vec![flags | LONG];
    bytes.extend_from_slice(&size.to_be_bytes());
    bytes
}

/// A message of several parts.
pub fn message(parts: &[&[u8]]) -> Vec<u8> {
    let last = parts.len() - 1;
    parts.iter().enumerate().flat_map(|(i, part)| frame((i < last) as u8 * MORE, part)).collect()
}

/// A command frame.
pub fn command(name: &str, data: &[u8]) -> Vec<u8> {
    let mut body = vec![name.len() as u8];
    body.extend_from_slice(name.as_bytes());
    body.extend_from_slice(data);
    frame(COMMAND, &body)
}

/// Properties in READY's encoding.
pub fn metadata(properties: &[(&str, &[u8])]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (name, value) in properties {
        bytes.push(name.len() as u8);
        bytes.extend_from_slice(name.as_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_be_bytes());
        bytes.extend_from_slice(value);
    }
    bytes
}

/// The READY command of a socket of this type, without an identity.
pub fn ready(socket_type: &str) -> Vec<u8> {
    command("READY", &metadata(&[("Socket-Type", socket_type.as_bytes())]))
}

/// The READY command with an identity.
pub fn ready_as(socket_type: &str, identity: &[u8]) -> Vec<u8> {
    command("READY", &metadata(&[("Socket-Type", socket_type.as_bytes()), ("Identity", identity)]))
}

/// Number of a socket type in the greeting of ZMTP 2.0.
pub fn type_number(socket_type: &str) -> u8 {
    ["PAIR", "PUB", "SUB", "REQ", "REP", "DEALER", "ROUTER", "PULL", "PUSH"]
        .iter()
        .position(|known| *known == socket_type)
        .expect("a socket type of ZMTP 2.0") as u8
}

/// Greeting of ZMTP 2.0: signature, revision 1, socket type; the identity follows as a frame.
pub fn greeting_2(socket_type: &str, identity: &[u8]) -> Vec<u8> {
    let mut bytes = vec![0xFF, 0, 0, 0, 0, 0, 0, 0, 1, 0x7F, 1, type_number(socket_type)];
    bytes.extend_from_slice(&frame(0, identity));
    bytes
}

/// A frame of ZMTP 1.0: the length counts the flags.
pub fn frame_1(more: bool, body: &[u8]) -> Vec<u8> {
    let length = body.len() + 1;
    let mut bytes = Vec::new();
    if length < 255 {
        bytes.push(length as u8);
    } else {
        bytes.push(255);
        bytes.extend_from_slice(&(length as u64).to_be_bytes());
    }
    bytes.push(more as u8);
    bytes.extend_from_slice(body);
    bytes
}
