//! A stream of WebSocket frames, fed whole and in chunks: both must have the same result, within the limits, and the
//! output must survive being encoded and decoded again.
//!
//! The first byte chooses our side, the second is the chunk size, the third gives the limits.

use pinnace_zmtp::frame;
use pinnace_zmtp::ws::{Decoder, DecoderLimits, Encoder, Error, Role, Status};

type Seen = (Vec<u8>, Vec<u8>, Result<Status, Error>);

fn translate(role: &Role, limits: DecoderLimits, bytes: &[u8], piece: usize) -> Seen {
    let mut decoder = Decoder::new(role, limits);
    let (mut frames, mut replies, mut result) = (Vec::new(), Vec::new(), Ok(Status::Open));
    for piece in bytes.chunks(piece) {
        result = decoder.translate(piece, &mut frames, &mut replies);
    }
    (frames, replies, result)
}

pub fn run(data: &[u8]) {
    let [side, piece, limit, bytes @ ..] = data else { return };
    let client = Role::Client { seed: [1; 32] };
    let (ours, theirs) = if side & 1 == 0 { (Role::Server, client) } else { (client, Role::Server) };
    let limits = DecoderLimits {
        max_body: u64::from(*limit),
        max_fragmented: usize::from(*limit) + usize::from(side >> 1),
    };
    let whole = translate(&ours, limits, bytes, bytes.len().max(1));
    assert_eq!(whole, translate(&ours, limits, bytes, usize::from(*piece).max(1)));

    let (frames, replies, result) = whole;
    assert!(frames.len() <= bytes.len() && replies.len() <= 3 * bytes.len() + 131);
    let mut rest = &frames[..];
    while let Some(header) = frame::parse(rest) {
        assert!(header.body_len <= limits.max_body);
        let Some(behind) = rest.get(header.header_len + header.body_len as usize..) else { break };
        rest = behind;
    }
    let mut out = Vec::new();
    let used = Encoder::new(&ours).encode_frames(&frames, &mut out);
    assert_eq!(used, frames.len() - rest.len());
    let (again, _, status) = translate(&theirs, DecoderLimits::default(), &out, 100);
    assert_eq!((&again[..], status), (&frames[..used], Ok(Status::Open)));
    // The other side accepts all that we reply.
    let (none, _, answered) = translate(&theirs, DecoderLimits::default(), &replies, 100);
    assert!(none.is_empty() && answered.is_ok());
    if let Err(error) = result {
        assert!(matches!(error, Error::Violation(_)) && answered == Ok(Status::Closed));
    }
}
