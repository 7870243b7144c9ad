//! The message API: every way to create a message, when it is freed and by which side, and what moving and copying
//! mean.

use std::ffi::c_void;
use std::sync::atomic::{AtomicUsize, Ordering};

use support::api::*;
use support::filler::body;
use support::*;

const FAULT: Outcome<()> = Err(Errno(libc::EFAULT));

/// Counts the calls for one lent buffer and checks the arguments.
struct Loan {
    bytes: Vec<u8>,
    freed: AtomicUsize,
}

unsafe extern "C" fn give_back(data: *mut c_void, hint: *mut c_void) {
    // SAFETY: the hint is the Loan that the test keeps.
    let loan = unsafe { &*(hint as *const Loan) };
    assert_eq!(data as *const u8, loan.bytes.as_ptr());
    loan.freed.fetch_add(1, Ordering::SeqCst);
}

impl Loan {
    fn of(size: usize) -> Box<Loan> {
        Box::new(Loan { bytes: body(7, size), freed: AtomicUsize::new(0) })
    }

    fn message(&self) -> Message {
        let hint = self as *const Loan as *mut c_void;
        // SAFETY: the test keeps the loan until the library has freed it.
        unsafe { Message::lent(self.bytes.as_ptr() as *mut c_void, self.bytes.len(), Some(give_back), hint) }
    }

    fn freed(&self) -> usize {
        self.freed.load(Ordering::SeqCst)
    }
}

fn sizes() -> impl Iterator<Item = usize> {
    (0..=80).chain([255, 256, 1_000, 8_192, 100_000])
}

#[test]
fn holds_any_size() {
    for size in sizes() {
        let content = body(size as u64, size);
        let mut message = Message::of(&content);
        assert_eq!(message.size(), size);
        assert_eq!(message.bytes(), content);
        assert!(!message.more());
        assert_eq!(message.close(), Ok(()));
    }
    let mut empty = Message::new();
    assert_eq!((empty.size(), empty.more()), (0, false));
}

#[test]
fn closing_twice_is_efault() {
    for size in sizes() {
        let mut message = Message::of(&body(1, size));
        assert_eq!(message.close(), Ok(()));
        assert_eq!(message.close(), FAULT);
        assert_eq!(message.close(), FAULT);
    }
    let loan = Loan::of(100);
    let mut message = loan.message();
    assert_eq!((message.close(), message.close(), loan.freed()), (Ok(()), FAULT, 1));
}

/// A message can be relocated in memory as its 64 bytes.
#[test]
fn survives_relocation() {
    for size in sizes() {
        let content = body(size as u64, size);
        let message = std::mem::ManuallyDrop::new(Message::of(&content));
        let elsewhere = Box::new([message.raw; 3]);
        let mut moved = Message { raw: elsewhere[1] };
        assert_eq!(moved.bytes(), content);
        assert_eq!(moved.close(), Ok(()));
    }
    let loan = Loan::of(500);
    let message = std::mem::ManuallyDrop::new(loan.message());
    let mut moved = Message { raw: message.raw };
    assert_eq!(moved.data() as *const u8, loan.bytes.as_ptr(), "lent bytes are not copied");
    assert_eq!((moved.close(), loan.freed()), (Ok(()), 1));
}

#[test]
fn frees_a_loan_exactly_once() {
    for size in [0, 1, 33, 34, 5_000] {
        let loan = Loan::of(size);
        let mut message = loan.message();
        assert_eq!((message.size(), loan.freed()), (size, 0));
        assert_eq!(message.close(), Ok(()));
        assert_eq!(loan.freed(), 1);
    }
    // Without a free function the library does not free the content.
    let mut content = body(3, 5_000);
    // SAFETY: the content outlives the message.
    let mut message =
        unsafe { Message::lent(content.as_mut_ptr().cast(), content.len(), None, std::ptr::null_mut()) };
    assert_eq!(message.bytes(), body(3, 5_000));
    assert_eq!(message.close(), Ok(()));
    assert_eq!(content, body(3, 5_000));
}

#[test]
fn frees_a_loan_after_the_last_copy() {
    let loan = Loan::of(1_000);
    let mut message = loan.message();
    let mut copies: Vec<Message> = (0..3).map(|_| Message::new()).collect();
    for copy in &mut copies {
        assert_eq!(copy.copy_from(&mut message), Ok(()));
    }
    assert_eq!(message.close(), Ok(()));
    for copy in &mut copies {
        assert_eq!((loan.freed(), copy.bytes()), (0, &loan.bytes[..]));
        assert_eq!(copy.close(), Ok(()));
    }
    assert_eq!(loan.freed(), 1);
}

over_transports!(
    frees_a_sent_loan_once,
    keeps_a_loan_until_it_has_left,
    delivers_copies_that_were_sent,
    keeps_the_message_of_a_failed_send,
);

fn frees_a_sent_loan_once(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    for size in [1, 33, 34, 3_000, 300_000] {
        let loan = Loan::of(size);
        let mut message = loan.message();
        assert_eq!(message.send(&push, 0), Ok(size));
        assert_eq!(message.size(), 0, "a sent message is empty");
        assert_eq!(message.close(), Ok(()));
        let mut received = Message::new();
        assert_eq!(received.recv(&pull, 0), Ok(size));
        assert_eq!(received.bytes(), loan.bytes);
        assert_eq!(received.close(), Ok(()));
        until("the loan is given back", || loan.freed() > 0);
        push.put("next");
        assert_eq!(pull.take_text(), "next");
        assert_eq!(loan.freed(), 1);
    }
}

/// The free function means that the message has left, so the library does not call it earlier, however small the
/// message.
fn keeps_a_loan_until_it_has_left(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = (ctx.socket(PULL), ctx.socket(PUSH));
    let endpoint = transport.fresh();
    push.connect(&endpoint).expect("connect to nobody");
    let loans = [1, 33, 300_000].map(Loan::of);
    for loan in &loans {
        assert_eq!(loan.message().send(&push, 0), Ok(loan.bytes.len()));
        assert_eq!(loan.freed(), 0, "{} bytes, and nobody there to take them", loan.bytes.len());
    }
    pull.bind(&endpoint).expect("bind");
    for loan in &loans {
        assert_eq!(pull.take(), loan.bytes);
        until("the loan is given back", || loan.freed() == 1);
    }
}

fn delivers_copies_that_were_sent(transport: Transport) {
    let ctx = Context::new();
    let (pull, push) = transport.pair(&ctx, PULL, PUSH);
    for size in sizes() {
        let content = body(9, size);
        let mut original = Message::of(&content);
        for _ in 0..3 {
            let mut copy = Message::new();
            assert_eq!(copy.copy_from(&mut original), Ok(()));
            assert_eq!(copy.send(&push, 0), Ok(size));
        }
        assert_eq!(original.bytes(), content);
        (0..3).for_each(|_| assert_eq!(pull.take(), content));
        assert_eq!(original.bytes(), content);
    }
}

/// A failed send does not take the message: the caller still owns it, and can send it again.
fn keeps_the_message_of_a_failed_send(transport: Transport) {
    let ctx = Context::new();
    let push = ctx.socket(PUSH);
    let loan = Loan::of(2_000);
    let mut message = loan.message();
    assert_eq!(message.send(&push, DONTWAIT), Err(Errno(libc::EAGAIN)));
    assert_eq!((message.bytes(), loan.freed()), (&loan.bytes[..], 0));
    let pull = ctx.socket(PULL);
    transport.join(&pull, &push);
    assert_eq!(message.send(&push, 0), Ok(2_000));
    assert_eq!(pull.take(), loan.bytes);
    until("the loan is given back", || loan.freed() == 1);
}

#[test]
fn moves_leave_nothing_behind() {
    for size in sizes() {
        let content = body(5, size);
        let (mut from, mut to) = (Message::of(&content), Message::of(b"old content"));
        assert_eq!(to.move_from(&mut from), Ok(()));
        assert_eq!((to.bytes(), from.size()), (&content[..], 0));
        assert_eq!((from.close(), to.close()), (Ok(()), Ok(())));
    }
    let (old, new) = (Loan::of(100), Loan::of(200));
    let (mut from, mut to) = (new.message(), old.message());
    assert_eq!(to.move_from(&mut from), Ok(()));
    assert_eq!((old.freed(), new.freed()), (1, 0), "the old content is freed");
}

/// Copying from or to a closed message fails with EFAULT.
#[test]
fn closed_messages_are_no_source() {
    let (mut closed, mut open) = (Message::of(b"x"), Message::of(b"y"));
    closed.close().expect("close");
    assert_eq!(open.copy_from(&mut closed), FAULT);
    assert_eq!(open.move_from(&mut closed), FAULT);
    assert_eq!(open.bytes(), b"y");
}

#[test]
fn receiving_replaces_the_old_content() {
    let ctx = Context::new();
    let (pull, push) = Transport::Inproc.pair(&ctx, PULL, PUSH);
    let loan = Loan::of(1_000);
    let mut message = loan.message();
    push.tx(&["new", "content"]);
    assert_eq!(message.recv(&pull, 0), Ok(3));
    assert_eq!((message.bytes(), loan.freed()), (&b"new"[..], 1));
    assert!(message.more());
    assert_eq!(message.recv(&pull, 0), Ok(7));
    assert!(!message.more());
}

/// A receive that finds no message also closes the old content; after other errors the content is still there.
#[test]
fn a_receive_of_nothing_closes_the_old_content() {
    let ctx = Context::new();
    for kind in [PULL, SUB, DEALER, ROUTER, REP, PAIR, XSUB] {
        let socket = ctx.bare_socket(kind);
        let loan = Loan::of(1_000);
        let mut message = loan.message();
        assert_eq!(message.recv(&socket, DONTWAIT), Err(Errno(libc::EAGAIN)));
        assert_eq!((message.size(), loan.freed()), (0, 1), "type {kind}");
    }
    for (kind, error) in [(REQ, EFSM), (PUSH, libc::ENOTSUP)] {
        let socket = ctx.bare_socket(kind);
        let mut message = Message::of(b"from before");
        assert_eq!(message.recv(&socket, DONTWAIT), Err(Errno(error)));
        assert_eq!(message.bytes(), b"from before", "type {kind}");
    }
}

/// The count is unchanged if an argument is invalid; otherwise it is the number of received frames.
#[test]
fn vectors_that_stay_empty_are_counted() {
    let ctx = Context::new();
    let pull = ctx.bare_socket(PULL);
    let mut room = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 3];
    let (mut first, mut second) = (3, 3);
    // SAFETY: a live handle, room for three vectors, and null, which is under test.
    unsafe {
        assert_eq!(zmq_recviov(pull.raw(), std::ptr::null_mut(), &mut first, DONTWAIT), -1);
        assert_eq!((first, errno::last()), (3, Errno(libc::EINVAL)));
        assert_eq!(zmq_recviov(pull.raw(), room.as_mut_ptr(), &mut second, DONTWAIT), -1);
        assert_eq!((second, errno::last()), (0, Errno(libc::EAGAIN)));
    }
}

#[test]
fn knows_its_properties() {
    let mut message = Message::of(&body(1, 1_000));
    let mut copy = Message::new();
    // SAFETY: initialised messages.
    unsafe {
        assert_eq!(zmq_msg_get(&mut message.raw, MSG_MORE), 0);
        assert_eq!(zmq_msg_get(&mut message.raw, MSG_SHARED), 0);
        copy.copy_from(&mut message).expect("copy");
        assert_eq!(zmq_msg_get(&mut message.raw, MSG_SHARED), 1);
        assert_eq!(zmq_msg_get(&mut copy.raw, MSG_SHARED), 1);
        assert_eq!(zmq_msg_get(&mut message.raw, 99), -1);
        assert_eq!(errno::last(), Errno(libc::EINVAL));
        assert_eq!(zmq_msg_set(&mut message.raw, MSG_MORE, 1), -1);
        assert_eq!(errno::last(), Errno(libc::EINVAL));
    }
}

#[test]
fn has_no_property_that_nobody_gave() {
    let ctx = Context::new();
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    push.put("x");
    let mut message = Message::new();
    message.recv(&pull, 0).expect("receive");
    assert_eq!(message.property(c"No-Such"), None);
    assert_eq!(errno::last(), Errno(libc::EINVAL));
    let mut own = Message::of(b"x");
    assert_eq!(own.property(c"Socket-Type"), None);
}

/// An impossible size is an error, not an abort.
#[test]
fn refuses_the_impossible_size() {
    for size in [usize::MAX, usize::MAX - 39, usize::MAX / 2] {
        let mut raw = RawMsg::zeroed();
        // SAFETY: 64 bytes of ours.
        assert_eq!(unsafe { zmq_msg_init_size(&mut raw, size) }, -1);
        assert_eq!(errno::last(), Errno(libc::ENOMEM));
    }
}

#[test]
fn older_names_do_the_same() {
    let ctx = Context::new();
    let (pull, push) = Transport::Tcp.pair(&ctx, PULL, PUSH);
    let (mut out, mut back) = (Message::of(b"by sendmsg"), Message::new());
    // SAFETY: initialised messages, live handles; the vectors' bodies are freed here.
    unsafe {
        assert_eq!(zmq_sendmsg(push.raw(), &mut out.raw, 0), 10);
        assert_eq!(zmq_recvmsg(pull.raw(), &mut back.raw, 0), 10);
        assert_eq!(back.bytes(), b"by sendmsg");
        static CONSTANT: &[u8] = b"constant bytes, longer than a small message may be";
        let size = CONSTANT.len();
        assert_eq!(zmq_send_const(push.raw(), CONSTANT.as_ptr().cast(), size, 0), size as i32);
        assert_eq!(pull.take(), CONSTANT);
        let mut words = [*b"one", *b"two"];
        let mut parts =
            words.each_mut().map(|word| libc::iovec { iov_base: word.as_mut_ptr().cast(), iov_len: 3 });
        assert_eq!(zmq_sendiov(push.raw(), parts.as_mut_ptr(), 2, SNDMORE), 3);
        let mut room = [libc::iovec { iov_base: std::ptr::null_mut(), iov_len: 0 }; 4];
        let mut count = 4;
        assert_eq!(zmq_recviov(pull.raw(), room.as_mut_ptr(), &mut count, 0), 2);
        assert_eq!((count, room[0].iov_len, room[1].iov_len), (2, 3, 3));
        for (part, word) in room.iter().zip(words) {
            assert_eq!(std::slice::from_raw_parts(part.iov_base as *const u8, 3), word);
            libc::free(part.iov_base);
        }
    }
}
