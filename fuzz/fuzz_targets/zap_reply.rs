//! A ZAP handler's reply: only status 200 admits a peer.
//!
//! Each frame is a length and its bytes; length 255 stands for the valid frame at that position.

use pinnace_engine::fuzzing::zap_reply_admits;

const GOOD: [&[u8]; 7] = [b"", b"1.0", b"1", b"200", b"OK", b"joe", b"\x03X-a\0\0\0\x01b"];

pub fn run(data: &[u8]) {
    let (mut frames, mut rest) = (Vec::new(), data);
    while let [len, bytes @ ..] = rest {
        if *len == u8::MAX {
            frames.push(GOOD.get(frames.len()).copied().unwrap_or_default().to_vec());
            rest = bytes;
        } else {
            let (frame, behind) = bytes.split_at(usize::from(*len).min(bytes.len()));
            frames.push(frame.to_vec());
            rest = behind;
        }
    }
    if zap_reply_admits(&frames) {
        assert_eq!(frames.len(), GOOD.len());
        assert!((0..4).all(|at| frames[at] == GOOD[at]));
    }
}
