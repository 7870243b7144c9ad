//! A sequence of frames, as a traffic reader parses them: re-encoding a header gives the same bytes.

use pinnace_zmtp::frame::Header;
use pinnace_zmtp::{frame, v1};

/// Walks over all frames that `parse` finds, and hands each header to `check`.
fn walk(mut bytes: &[u8], parse: impl Fn(&[u8]) -> Option<Header>, check: impl Fn(Header)) {
    while let Some(header) = parse(bytes) {
        assert!(header.header_len >= 2 && header.header_len <= bytes.len());
        assert_eq!(parse(&bytes[..header.header_len]), Some(header));
        assert_eq!(parse(&bytes[..header.header_len - 1]), None);
        check(header);
        let body = &bytes[header.header_len..];
        let Some(rest) = usize::try_from(header.body_len).ok().and_then(|len| body.get(len..)) else { break };
        bytes = rest;
    }
}

pub fn run(data: &[u8]) {
    walk(data, frame::parse, |header| {
        let mut out = [0; frame::MAX_HEADER];
        let len = frame::encode(header.flags, header.body_len, &mut out);
        let again = frame::parse(&out[..len]).expect("a whole header");
        assert_eq!(again.body_len, header.body_len);
        assert_eq!((again.has_more(), again.is_command()), (header.has_more(), header.is_command()));
    });
    walk(
        data,
        |bytes| v1::parse(bytes).ok().flatten(),
        |header| {
            let mut out = [0; v1::MAX_HEADER];
            let len = v1::encode(header.flags, header.body_len, &mut out);
            let again = v1::parse(&out[..len]).expect("not of length 0").expect("a whole header");
            assert_eq!((again.body_len, again.flags), (header.body_len, header.flags));
        },
    );
}
