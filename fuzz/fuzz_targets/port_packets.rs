//! Packets of a client of pinnace-port: malformed, or read to the end. Their messages are whole.

use pinnace_port::wire::{ClientPacket, Malformed, Messages, Parts};

pub fn run(data: &[u8]) {
    match ClientPacket::parse(data) {
        Ok(ClientPacket::Request { mut arguments, .. }) => {
            // As operations read them: numbers, then a text or the rest.
            let _ = (arguments.u32(), arguments.text(), arguments.i32(), arguments.bool());
            assert!(arguments.rest().len() < data.len());
            assert_eq!(arguments.end(), Ok(()));
        }
        Ok(ClientPacket::Send { messages: octets, .. }) => {
            let Ok(mut messages) = Messages::new(octets) else { return };
            let (count, mut frames, mut found, mut length) = (messages.count(), Vec::new(), 0, 0);
            loop {
                let taken = messages.next(&mut frames);
                if taken == 0 {
                    break;
                }
                assert_eq!(taken, frames.iter().map(|frame| frame.len() + 4).sum::<usize>());
                found += 1;
                length += taken;
            }
            assert_eq!((found, length), (count, octets.len()));
        }
        // The frames are the same, however the message is cut.
        Ok(ClientPacket::SendPart { content, .. }) => {
            let whole = frames(&[content]);
            let (begin, end) = content.split_at(content.len() / 2);
            assert_eq!(frames(&[begin, end]), whole);
            if let (Ok(whole), Ok(mut messages)) = (whole, Messages::new(content)) {
                let mut expected = Vec::new();
                assert_eq!(messages.next(&mut expected), content.len());
                assert_eq!(whole, expected);
            }
        }
        _ => {}
    }
}

/// The frames of a message in these parts. A frame that says that it is long takes as much memory.
fn frames(parts: &[&[u8]]) -> Result<Vec<Vec<u8>>, Malformed> {
    let mut message = Parts::default();
    parts.iter().try_for_each(|part| message.add(part))?;
    message.finish()
}
