//! A process that forks with a live context: the child may close and terminate the inherited objects at once and
//! create new ones; the parent is not affected. And SIGPIPE, which must never be raised.

use std::time::{Duration, Instant};

use support::api::*;
use support::child;
use support::peer::RawListener;
use support::pinnace::Leftover;
use support::*;

support::roles!(
    forks_and_starts_anew,
    forks_and_misuses,
    forks_and_ends_in_time,
    forks_while_busy,
    writes_into_a_closed_pipe
);

/// Forks; the child runs `body` and exits with 0 unless `body` panics; the parent waits with a deadline.
fn forked(body: impl FnOnce()) {
    // SAFETY: the process has one Rust thread; the child only runs `body` and exits.
    let pid = unsafe { libc::fork() };
    assert!(pid >= 0, "fork");
    if pid == 0 {
        let ok = std::panic::catch_unwind(std::panic::AssertUnwindSafe(body)).is_ok();
        child::leave(if ok { 0 } else { 101 });
    }
    let mut status = 0;
    // SAFETY: waits for a child of ours.
    let ended = || unsafe { libc::waitpid(pid, &mut status, libc::WNOHANG) } == pid;
    until("the forked child ends", ended);
    assert!(
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0,
        "the forked child: status {status:#x}"
    );
}

struct Before {
    pairs: Vec<(Socket, Socket)>,
    ctx: Context,
}

impl Before {
    fn new() -> Before {
        let ctx = Context::new();
        let pairs: Vec<_> = Transport::ALL.iter().map(|transport| transport.pair(&ctx, PULL, PUSH)).collect();
        let before = Before { pairs, ctx };
        before.talk(10);
        before
    }

    fn talk(&self, count: u32) {
        for (pull, push) in &self.pairs {
            for n in 0..count {
                push.put(n.to_string());
                assert_eq!(pull.take_text(), n.to_string());
            }
        }
    }

    /// The child closes and terminates what it inherited, which must not wait.
    fn put_down(&self) {
        let start = Instant::now();
        for (pull, push) in &self.pairs {
            // SAFETY: handles of the parent, closed once in this process.
            unsafe {
                assert_eq!(zmq_close(pull.raw()), 0);
                assert_eq!(zmq_close(push.raw()), 0);
            }
        }
        // SAFETY: the same for the context.
        let rc = unsafe { zmq_ctx_term(self.ctx.raw()) };
        assert!(rc == 0, "term of an inherited context: {:?}", errno::last());
        assert!(start.elapsed() < Duration::from_secs(2), "{:?}", start.elapsed());
    }
}

fn start_anew() {
    let ctx = Context::new();
    for transport in Transport::ALL {
        let (pull, push) = transport.pair(&ctx, PULL, PUSH);
        push.put("anew");
        assert_eq!(pull.take_text(), "anew");
    }
}

fn forks_and_starts_anew(_: &[String]) {
    let before = Before::new();
    for _ in 0..3 {
        forked(|| {
            before.put_down();
            start_anew();
        });
        forked(start_anew);
        before.talk(200);
    }
}

/// Fails with libzmq 4.3.4: zmq_ctx_term fails with EINTR in the child and must be called again.
#[test]
fn a_child_puts_down_and_starts_anew() {
    child::alone("forks_and_starts_anew", &[]);
}

/// On inherited objects, all calls but close and term are errors.
fn forks_and_misuses(_: &[String]) {
    let before = Before::new();
    let unsent = before.ctx.socket(PUSH);
    forked(|| {
        for (pull, push) in &before.pairs {
            assert!(pull.recv(DONTWAIT).is_err());
            assert!(push.send("from the child", DONTWAIT).is_err());
            assert!(push.get(TYPE).is_err());
            assert!(unsent.bind("tcp://127.0.0.1:*").is_err());
            assert!(before.ctx.try_socket(PULL).is_err());
        }
        before.put_down();
        start_anew();
    });
    before.talk(200);
}

/// Fails with libzmq 4.3.4, where a child's calls act on objects shared with the parent.
#[test]
fn a_childs_other_calls_are_errors() {
    child::alone("forks_and_misuses", &[]);
}

/// Termination with a deadline is for the parent alone: in a child it ends nothing and reports nothing left over.
fn forks_and_ends_in_time(_: &[String]) {
    let before = Before::new();
    forked(|| {
        let mut left =
            Leftover { size: size_of::<Leftover>(), messages: 7, open_sockets: 7, ..Leftover::default() };
        before.ctx.try_term_within(0, Some(&mut left)).expect("nothing to do");
        assert_eq!(left, Leftover { size: size_of::<Leftover>(), ..Leftover::default() });
        before.put_down();
        start_anew();
    });
    before.talk(200);
}

#[test]
fn a_childs_end_in_time_touches_nothing() {
    child::alone("forks_and_ends_in_time", &[]);
}

/// Forks while other threads send and receive; the traffic continues, in order.
fn forks_while_busy(_: &[String]) {
    let before = Before::new();
    std::thread::scope(|scope| {
        for (pull, push) in &before.pairs {
            scope.spawn(|| (0..30_000u32).for_each(|n| push.put(n.to_string())));
            scope.spawn(|| (0..30_000u32).for_each(|n| assert_eq!(pull.take_text(), n.to_string())));
        }
        for _ in 0..10 {
            forked(|| {});
        }
    });
    before.talk(10);
}

#[test]
fn forking_does_not_disturb_traffic() {
    child::alone("forks_while_busy", &[]);
}

/// With the default SIGPIPE action, the first write to a closed connection would end the process.
fn writes_into_a_closed_pipe(_: &[String]) {
    // SAFETY: sets a disposition.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_DFL) };
    let ctx = Context::new();
    for transport in Transport::WIRES {
        let listener = RawListener::bind(transport);
        let push = ctx.socket(PUSH).with(RECONNECT_IVL, 1);
        push.connect(&listener.endpoint()).expect("connect");
        for _ in 0..100 {
            let mut peer = listener.accept();
            peer.handshake(1, "PULL");
            drop(peer);
            for _ in 0..20 {
                let _ = push.send([0; 5_000], DONTWAIT);
            }
        }
    }
}

#[test]
fn sigpipe_never_comes() {
    child::alone("writes_into_a_closed_pipe", &[]);
}
