//! Packets of a multicast with arbitrary bytes: the decoder yields only whole messages, within the limits, and they
//! survive being packed into packets and decoded again.
//!
//! The first byte is the packet length, the second gives the limits.

use pinnace_zmtp::frame;
use pinnace_zmtp::pgm::{Assembler, AssemblerLimits, Packer};

pub fn run(data: &[u8]) {
    let [size, limit, bytes @ ..] = data else { return };
    let limits = AssemblerLimits {
        max_body: (*limit).into(),
        max_message: usize::from(*limit) * 3,
        max_parts: u32::from(*limit) / 8,
    };
    let (mut assembler, mut out) = (Assembler::new(limits), Vec::new());
    for packet in bytes.chunks(usize::from(*size).max(1)) {
        let _ = assembler.take(packet, &mut out);
    }
    let (mut packer, mut back, mut rest) = (Packer::new((*size).into()), Vec::new(), &out[..]);
    let mut again = Assembler::new(limits);
    let mut inside = false;
    while let Some(header) = frame::parse(rest) {
        assert!(header.body_len <= limits.max_body);
        inside = header.has_more();
        let (whole, behind) = rest.split_at(header.header_len + header.body_len as usize);
        loop {
            packer.push(header.flags, &whole[header.header_len..]);
            again.take(packer.apdu().expect("a frame was pushed"), &mut back).expect("ours are good");
            if packer.sent() == 1 {
                break;
            }
        }
        rest = behind;
    }
    assert!(rest.is_empty() && !inside && back == out);
}
