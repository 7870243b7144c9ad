//! Free functions of zero-copy messages that no socket receives: whichever call releases such a message, its free
//! function may call the same socket.
//!
//! Over inproc, where the message's own buffer passes to the other socket, and over tcp, where a socket writes its
//! queue while it reads. A free function called under a lock would deadlock; each test has a deadline.

use std::ffi::c_void;
use std::io::Read;
use std::net::{Shutdown, TcpStream};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::peer::RawPeer;
use support::wire::{command, frame};
use support::*;

const SIZE: usize = 2_000;

/// A buffer; its free function asks a socket for its type and its events.
struct Loan {
    bytes: Vec<u8>,
    asked: Arc<Socket>,
    freed: AtomicUsize,
}

unsafe extern "C" fn ask(_data: *mut c_void, hint: *mut c_void) {
    // SAFETY: the hint is the loan that the test keeps.
    let loan = unsafe { &*(hint as *const Loan) };
    let answers = [TYPE, EVENTS].map(|option| loan.asked.get(option).is_ok());
    if answers == [true, true] {
        loan.freed.fetch_add(1, Ordering::SeqCst);
    }
}

impl Loan {
    fn of(first: u8, asked: &Arc<Socket>) -> Box<Loan> {
        Box::new(Loan { bytes: vec![first; SIZE], asked: asked.clone(), freed: AtomicUsize::new(0) })
    }

    fn send(&self, socket: &Socket, flags: i32) {
        let hint = self as *const Loan as *mut c_void;
        // SAFETY: the test keeps the loan until the library has freed it.
        let mut message = unsafe { Message::lent(self.bytes.as_ptr() as *mut c_void, SIZE, Some(ask), hint) };
        assert_eq!(message.send(socket, flags), Ok(SIZE));
    }

    /// Waits until the function was called and its calls have returned.
    fn comes_back(&self) {
        until("freed, with the socket's answers", || {
            self.asked.events();
            self.freed.load(Ordering::SeqCst) == 1
        });
    }
}

fn pair(ctx: &Context, asked: i32, other: i32) -> (Arc<Socket>, Socket) {
    let (asked, other) = (ctx.socket(asked), ctx.socket(other));
    Transport::Inproc.join(&asked, &other);
    (Arc::new(asked), other)
}

macro_rules! within_limits {
    ($($(#[$note:meta])* $test:ident: $body:ident;)*) => { $(
        $(#[$note])*
        #[test]
        fn $test() {
            within(deadline::test_limit_s(), $body);
        }
    )* };
}

within_limits! {
    what_a_push_gets_is_let_go: push_discards;
    what_a_sub_filters_is_let_go: sub_filters;
    what_comes_too_late_for_a_req_is_let_go: req_drops;
    what_a_rep_cannot_answer_is_let_go: rep_drops;
    what_a_second_peer_of_a_pair_sends_is_let_go: pair_refuses;
    an_unfinished_message_is_taken_back: rolls_back;
    what_a_closed_peer_did_not_receive_is_let_go: peer_closes;
    what_a_disconnected_endpoint_held_is_let_go: disconnects;
    what_an_answer_to_the_peer_pushes_out_is_let_go: answers;
}

fn push_discards() {
    let ctx = Context::new();
    let (push, dealer) = pair(&ctx, PUSH, DEALER);
    let loan = Loan::of(0, &push);
    loan.send(&dealer, 0);
    loan.comes_back();
}

fn sub_filters() {
    let ctx = Context::new();
    let (sub, publisher) = pair(&ctx, SUB, XPUB);
    sub.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
    publisher.expect(&["\x01"]);
    let loans = [Loan::of(b'a', &sub), Loan::of(b'a', &sub)];
    loans[0].send(&publisher, SNDMORE);
    loans[1].send(&publisher, 0);
    sub.set_bytes(UNSUBSCRIBE, b"").expect("UNSUBSCRIBE");
    loans[0].comes_back();
    loans[1].comes_back();
}

fn req_drops() {
    let ctx = Context::new();
    let (req, rep) = pair(&ctx, REQ, REP);
    req.set(REQ_RELAXED, 1).expect("REQ_RELAXED");
    req.put("first");
    assert_eq!(rep.take_text(), "first");
    let loan = Loan::of(0, &req);
    loan.send(&rep, 0);
    req.put("second");
    assert_eq!(rep.take_text(), "second");
    loan.comes_back();
}

fn rep_drops() {
    let ctx = Context::new();
    let (rep, dealer) = pair(&ctx, REP, DEALER);
    let loan = Loan::of(1, &rep);
    loan.send(&dealer, 0); // Not a request: it has no empty delimiter frame.
    loan.comes_back();
}

fn pair_refuses() {
    let ctx = Context::new();
    let (pair, _first) = pair(&ctx, PAIR, PAIR);
    let second = ctx.socket(PAIR);
    second.connect(&pair.endpoint()).expect("connect");
    let loan = Loan::of(0, &pair);
    loan.send(&second, 0);
    loan.comes_back();
}

fn rolls_back() {
    let ctx = Context::new();
    let (publisher, sub) = pair(&ctx, XPUB, SUB);
    sub.set_bytes(SUBSCRIBE, b"").expect("SUBSCRIBE");
    publisher.expect(&["\x01"]);
    let loan = Loan::of(b'a', &publisher);
    loan.send(&publisher, SNDMORE);
    drop(sub);
    loan.comes_back();
}

fn peer_closes() {
    let ctx = Context::new();
    let (push, pull) = pair(&ctx, PUSH, PULL);
    let loan = Loan::of(0, &push);
    loan.send(&push, 0);
    drop(pull);
    loan.comes_back();
}

fn disconnects() {
    let ctx = Context::new();
    let push = Arc::new(ctx.socket(PUSH));
    let nobody = Transport::Inproc.fresh();
    push.connect(&nobody).expect("connect");
    let loan = Loan::of(0, &push);
    loan.send(&push, 0);
    push.disconnect(&nobody).expect("disconnect");
    loan.comes_back();
}

/// A thread that waits in a DEALER and reads a PING writes its answer together with what another thread has left
/// unwritten.
fn answers() {
    let ctx = Context::new();
    let dealer = Arc::new(ctx.socket(DEALER).hwm(0));
    let mut peer = RawPeer::connect(&Transport::Tcp.bind(&dealer));
    peer.handshake(1, "DEALER");
    // SAFETY: the peer keeps its descriptor open meanwhile.
    let fd = unsafe { BorrowedFd::borrow_raw(peer.fd()) };
    let mut drain = TcpStream::from(fd.try_clone_to_owned().expect("a descriptor"));
    let end = drain.try_clone().expect("a descriptor");
    let mut loans = Vec::new();
    let answered = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut bytes = [0; 8192];
            while let Ok(count @ 1..) = drain.read(&mut bytes) {
                // No other byte sent has this value.
                answered
                    .fetch_add(bytes[..count].iter().filter(|&&byte| byte == b'P').count(), Ordering::SeqCst);
            }
        });
        let waiting = scope.spawn(|| dealer.take_text());
        scope.spawn(|| {
            let mut peer = peer;
            for asked in 0..30 {
                (0..1000).for_each(|_| peer.send(&command("PING", b"\0\0")));
                // A peer that leaves more PINGs unanswered is cut off.
                until("half is answered", || answered.load(Ordering::SeqCst) >= asked * 1000 + 500);
            }
            peer.send(&frame(0, b"x"));
        });
        while !waiting.is_finished() {
            loans.push(Loan::of(0, &dealer));
            loans[loans.len() - 1].send(&dealer, 0);
        }
        assert_eq!(waiting.join().expect("no panic"), "x");
        loans.iter().for_each(|loan| loan.comes_back());
        end.shutdown(Shutdown::Both).expect("an end");
    });
}
