//! Byte-for-byte comparison with libzmq 4.3.4 in the same conversations.
//!
//! Each conversation was recorded with a bound libzmq socket: a script on a plain TCP connection sent the left side
//! step by step and recorded the replies. Our output must be identical, step by step.

use crate::common::{drain, handshake, hex};
use pinnace_zmtp::SocketType::{self, *};

struct Conversation {
    name: &'static str,
    socket_type: SocketType,
    routing_id: &'static [u8],
    /// What the script sent, and libzmq's reply.
    steps: &'static [(&'static str, &'static str)],
}

const ZEROS_32: &str = "0000000000000000000000000000000000000000000000000000000000000000";

/// `{0}` stands for 32 zero bytes, as at the end of a greeting.
const CONVERSATIONS: &[Conversation] = &[
    Conversation {
        name: "ROUTER, ZMTP 3.1, in stages",
        socket_type: Router,
        routing_id: b"",
        steps: &[
            ("", "ff 00 00 00 00 00 00 00 01 7f"),
            ("ff 00 00 00 00 00 00 00 00 7f", "03"),
            ("03", "01 4e554c4c 00000000000000000000000000000000 {0}"),
            (
                "01 4e554c4c 00000000000000000000000000000000 {0}",
                "04 29 05 5245414459 0b 536f636b65742d54797065 00000006 524f55544552
                 08 4964656e74697479 00000000",
            ),
            (
                "04 29 05 5245414459 0b 536f636b65742d54797065 00000006 4445414c4552
                 08 4964656e74697479 00000000",
                "",
            ),
        ],
    },
    Conversation {
        name: "PULL, ZMTP 3.1, whole greeting at once",
        socket_type: Pull,
        routing_id: b"",
        steps: &[
            ("", "ff 00 00 00 00 00 00 00 01 7f"),
            (
                "ff 00 00 00 00 00 00 00 00 7f 03 01 4e554c4c 00000000000000000000000000000000 {0}",
                "03 01 4e554c4c 00000000000000000000000000000000 {0}
                 04 1a 05 5245414459 0b 536f636b65742d54797065 00000004 50554c4c",
            ),
            ("04 1a 05 5245414459 0b 536f636b65742d54797065 00000004 50555348", ""),
        ],
    },
    Conversation {
        name: "DEALER with a routing id, ZMTP 3.0",
        socket_type: Dealer,
        routing_id: b"worker-7",
        steps: &[
            ("", "ff 00 00 00 00 00 00 00 09 7f"),
            (
                "ff 00 00 00 00 00 00 00 00 7f 03 00 4e554c4c 00000000000000000000000000000000 {0}",
                "03 01 4e554c4c 00000000000000000000000000000000 {0}
                 04 31 05 5245414459 0b 536f636b65742d54797065 00000006 4445414c4552
                 08 4964656e74697479 00000008 776f726b65722d37",
            ),
            ("04 1c 05 5245414459 0b 536f636b65742d54797065 00000006 524f55544552", ""),
        ],
    },
    Conversation {
        name: "PULL, ZMTP 2.0",
        socket_type: Pull,
        routing_id: b"",
        steps: &[
            ("", "ff 00 00 00 00 00 00 00 01 7f"),
            ("ff 00 00 00 00 00 00 00 00 7f 01 08", "03 07 00 00"),
            ("00 00", ""),
        ],
    },
    Conversation {
        name: "REQ with a routing id, ZMTP 2.0",
        socket_type: Req,
        routing_id: b"me",
        steps: &[
            ("", "ff 00 00 00 00 00 00 00 03 7f"),
            ("ff 00 00 00 00 00 00 00 00 7f 01 04", "03 03 00 02 6d65"),
            ("00 00", ""),
        ],
    },
    Conversation {
        name: "REQ with a routing id, ZMTP 1.0",
        socket_type: Req,
        routing_id: b"me",
        steps: &[("", "ff 00 00 00 00 00 00 00 03 7f"), ("01", "6d65"), ("00", "")],
    },
    Conversation {
        name: "XPUB, ZMTP 1.0",
        socket_type: XPub,
        routing_id: b"",
        steps: &[("", "ff 00 00 00 00 00 00 00 01 7f"), ("01 00", "")],
    },
    Conversation {
        name: "REQ with a routing id, ZMTP 1.0 behind a signature",
        socket_type: Req,
        routing_id: b"me",
        steps: &[
            ("", "ff 00 00 00 00 00 00 00 03 7f"),
            ("ff 00 00 00 00 00 00 00 00 7f 00 04", "03 03 03 00 6d65"),
            ("01 00", ""),
        ],
    },
    Conversation {
        name: "SUB, ZMTP 3.1",
        socket_type: Sub,
        routing_id: b"",
        steps: &[
            ("", "ff 00 00 00 00 00 00 00 01 7f"),
            (
                "ff 00 00 00 00 00 00 00 00 7f 03 01 4e554c4c 00000000000000000000000000000000 {0}",
                "03 01 4e554c4c 00000000000000000000000000000000 {0}
                 04 19 05 5245414459 0b 536f636b65742d54797065 00000003 535542",
            ),
            ("04 19 05 5245414459 0b 536f636b65742d54797065 00000003 505542", ""),
        ],
    },
];

#[test]
fn we_answer_as_libzmq_does() {
    for Conversation { name, socket_type, routing_id, steps } in CONVERSATIONS {
        let mut ours = handshake(*socket_type, routing_id);
        for (step, (theirs, answer)) in steps.iter().enumerate() {
            let theirs = hex(&theirs.replace("{0}", ZEROS_32));
            assert_eq!(ours.input(&theirs), Ok(theirs.len()), "{name}, step {step}");
            let answer = hex(&answer.replace("{0}", ZEROS_32));
            assert_eq!(drain(&mut ours), answer, "{name}, step {step}");
        }
        assert!(ours.peer().is_some(), "{name}");
    }
}

/// libzmq answers revision 2, which RFC 37 assigns to ZMTP 2.0, with the rest of a ZMTP 3 greeting.
#[test]
fn revision_2_is_answered_as_libzmq_does() {
    let mut ours = handshake(Pull, b"");
    drain(&mut ours);
    ours.input(b"\xff\0\0\0\0\0\0\0\0\x7f\x02").unwrap();
    let answer = format!("03 01 4e554c4c 00000000000000000000000000000000 {ZEROS_32}");
    assert_eq!(drain(&mut ours), hex(&answer));
}

#[test]
fn ready_of_a_router_has_43_bytes() {
    let mut ours = handshake(Router, b"");
    ours.input(&crate::common::greeting(1, "NULL")).unwrap();
    assert_eq!(ours.output().len(), 64 + 43);
}

/// We also understand libzmq's bytes: each side's recorded output is fed to its counterpart.
#[test]
fn libzmq_is_understood() {
    let router = &CONVERSATIONS[0];
    let bytes: String = router.steps.iter().map(|(_, answer)| *answer).collect();
    let bytes = hex(&bytes.replace("{0}", ZEROS_32));
    assert_eq!(bytes.len(), 64 + 43);
    let mut dealer = handshake(Dealer, b"");
    assert_eq!(dealer.input(&bytes), Ok(bytes.len()));
    let peer = dealer.into_parts().unwrap().0;
    assert_eq!(peer.socket_type, Some(Router));
    assert_eq!(peer.properties.len(), 2);
    assert_eq!(peer.property("identity"), Some(&b""[..]));
}
