//! REQ and REP: strict alternation, envelopes, several peers, replies to requesters that have gone.

use support::poll::ready;
use support::*;

over_transports!(
    answers,
    alternates_strictly,
    carries_multipart,
    serves_several_clients,
    asks_several_services_in_turn,
    keeps_the_envelope_through_a_dealer,
    shows_the_envelope_to_a_router,
    never_shows_a_malformed_reply,
    survives_a_client_that_left,
    relaxed_asks_again,
);

fn answers(transport: Transport) {
    let ctx = Context::new();
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    for n in 0..200 {
        req.put(format!("question {n}"));
        assert_eq!(rep.take_text(), format!("question {n}"));
        rep.put(format!("answer {n}"));
        assert_eq!(req.take_text(), format!("answer {n}"));
    }
}

/// A call out of turn is EFSM on either side, and does no harm.
fn alternates_strictly(transport: Transport) {
    let ctx = Context::new();
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    assert_eq!(req.recv(DONTWAIT), Err(Errno(EFSM)));
    assert_eq!(rep.send("early", DONTWAIT), Err(Errno(EFSM)));
    req.put("question");
    assert_eq!(req.send("again", DONTWAIT), Err(Errno(EFSM)));
    assert_eq!(rep.take_text(), "question");
    assert_eq!(rep.recv(DONTWAIT), Err(Errno(EFSM)));
    rep.put("answer");
    assert_eq!(rep.send("again", DONTWAIT), Err(Errno(EFSM)));
    assert_eq!(req.take_text(), "answer");
    assert_eq!(req.recv(DONTWAIT), Err(Errno(EFSM)));
    req.put("next");
    assert_eq!(rep.take_text(), "next");
}

fn carries_multipart(transport: Transport) {
    let ctx = Context::new();
    let (rep, req) = transport.pair(&ctx, REP, REQ);
    req.tx(&["one", "", "three"]);
    rep.expect(&["one", "", "three"]);
    rep.tx(&["", "b", ""]);
    req.expect(&["", "b", ""]);
}

/// Three clients with one request each: every answer reaches its requester.
fn serves_several_clients(transport: Transport) {
    let ctx = Context::new();
    let rep = ctx.socket(REP);
    let endpoint = transport.bind(&rep);
    let clients: Vec<Socket> = (0..3).map(|_| ctx.socket(REQ)).collect();
    clients.iter().for_each(|client| client.connect(&endpoint).expect("connect"));
    for turn in 0..20 {
        for (id, client) in clients.iter().enumerate() {
            client.put(format!("{turn}-{id}"));
        }
        for _ in 0..3 {
            let question = rep.take_text();
            rep.put(format!("re {question}"));
        }
        for (id, client) in clients.iter().enumerate() {
            assert_eq!(client.take_text(), format!("re {turn}-{id}"));
        }
    }
}

fn asks_several_services_in_turn(transport: Transport) {
    let ctx = Context::new();
    let req = ctx.socket(REQ);
    let services: Vec<Socket> = (0..3).map(|_| ctx.socket(REP)).collect();
    services.iter().for_each(|rep| {
        transport.join(rep, &req);
    });
    let mut order = Vec::new();
    for turn in 0..9 {
        req.put(format!("{turn}"));
        let asked = deadline::until_some("one of the services is asked", || {
            services.iter().position(|rep| ready(rep, POLLIN, 5) != 0)
        });
        assert_eq!(services[asked].take_text(), format!("{turn}"));
        services[asked].put("yes");
        assert_eq!(req.take_text(), "yes");
        order.push(asked);
    }
    assert!(order.windows(4).all(|turns| turns[0] == turns[3]), "{order:?}");
    assert!(order[0] != order[1] && order[1] != order[2] && order[0] != order[2], "{order:?}");
}

/// REP keeps the addresses before the empty delimiter and puts them before the answer.
fn keeps_the_envelope_through_a_dealer(transport: Transport) {
    let ctx = Context::new();
    let (rep, dealer) = transport.pair(&ctx, REP, DEALER);
    dealer.tx(&["hop 1", "hop 2", "", "body", "tail"]);
    rep.expect(&["body", "tail"]);
    rep.put("answer");
    dealer.expect(&["hop 1", "hop 2", "", "answer"]);
    dealer.tx(&["", "plain"]);
    rep.expect(&["plain"]);
    rep.tx(&["a", "b"]);
    dealer.expect(&["", "a", "b"]);
    // Without a delimiter it is no request: REP never delivers it.
    dealer.tx(&["no delimiter"]);
    dealer.tx(&["", "good"]);
    rep.expect(&["good"]);
}

fn shows_the_envelope_to_a_router(transport: Transport) {
    let ctx = Context::new();
    let (router, req) = transport.pair(&ctx, ROUTER, REQ);
    req.tx(&["question", "more"]);
    let parts = router.rx();
    assert_eq!(parts.len(), 4);
    assert_eq!(parts[1..], [b"".to_vec(), b"question".to_vec(), b"more".to_vec()]);
    router.tx(&[&parts[0][..], b"", b"answer"]);
    req.expect(&["answer"]);
}

/// A reply without the empty first frame is malformed. Over inproc REQ continues to wait for a valid one; over a wire
/// the peer may be cut off for it. Either way the caller never receives it, and the service continues.
fn never_shows_a_malformed_reply(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let endpoint = transport.bind(&router);
    let req = ctx.socket(REQ).with(RECONNECT_IVL, -1);
    req.connect(&endpoint).expect("connect");
    req.put("question");
    let id = router.rx().swap_remove(0);
    router.tx(&[&id[..], b"junk"]);
    router.tx(&[&id[..], b"junk", b"and more"]);
    router.tx(&[&id[..], b"", b"answer"]);
    if transport == Transport::Inproc {
        req.expect(&["answer"]);
    } else {
        req.set(RCVTIMEO, 300).expect("RCVTIMEO");
        let result = req.recv(0);
        assert!(result == Ok(b"answer".to_vec()) || result == Err(Errno(libc::EAGAIN)), "{result:?}");
    }
    let next = ctx.socket(REQ);
    next.connect(&endpoint).expect("connect");
    next.put("next");
    let parts = router.rx();
    assert_eq!(parts[1..], [b"".to_vec(), b"next".to_vec()]);
    router.tx(&parts);
    next.expect(&["next"]);
}

/// The answer to a client that has closed is dropped, and the next client is served.
fn survives_a_client_that_left(transport: Transport) {
    let ctx = Context::new();
    let rep = ctx.socket(REP);
    let endpoint = transport.bind(&rep);
    for turn in 0..5 {
        let client = ctx.socket(REQ);
        client.connect(&endpoint).expect("connect");
        client.put(format!("{turn}"));
        assert_eq!(rep.take_text(), format!("{turn}"));
        client.close().expect("close");
        rep.put("for nobody");
    }
    let client = ctx.socket(REQ);
    client.connect(&endpoint).expect("connect");
    client.put("still there?");
    assert_eq!(rep.take_text(), "still there?");
    rep.put("yes");
    assert_eq!(client.take_text(), "yes");
}

/// With REQ_RELAXED a socket may send another request without an answer; with REQ_CORRELATE only the answer to the
/// last request counts.
fn relaxed_asks_again(transport: Transport) {
    let ctx = Context::new();
    let router = ctx.socket(ROUTER);
    let req = ctx.socket(REQ).with(REQ_RELAXED, 1).with(REQ_CORRELATE, 1);
    transport.join(&router, &req);
    req.put("first");
    let first = router.rx();
    assert_eq!(first.len(), 4, "address, request id, delimiter, body");
    assert_eq!((first[1].len(), &first[2][..], &first[3][..]), (4, &b""[..], &b"first"[..]));
    req.put("second");
    let second = router.rx();
    assert_ne!(first[1], second[1], "each question has an id of its own");
    // The relaxed REQ may have reconnected; the late answer has no peer or is skipped.
    router.tx(&[&second[0][..], &first[1][..], b"", b"late"]);
    router.tx(&[&second[0][..], &second[1][..], b"", b"in time"]);
    req.expect(&["in time"]);
}

#[test]
fn waits_for_a_service() {
    let ctx = Context::new();
    let req = ctx.socket(REQ);
    assert_eq!(req.send("nobody", DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!(req.recv(DONTWAIT), Err(Errno(EFSM)), "the failed send has not begun a turn");
}
