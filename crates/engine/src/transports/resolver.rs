//! One thread per context looks up host names, since the system's resolver may block for long. All endpoints with a
//! name share an answer for [`FRESH`]: a thousand endpoints that keep dialing one name cause ten lookups per second.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pinnace_sys::Errno;

use super::tcp::{Question, Remote, Route};

/// How long an answer is used.
const FRESH: Duration = Duration::from_millis(100);

/// The resolver of one context.
#[derive(Default)]
pub(crate) struct Resolver(Arc<ResolverShared>);

#[derive(Default)]
struct ResolverShared {
    state: Mutex<ResolverState>,
    /// Signalled when there is a request, or when the context has ended.
    changed: Condvar,
}

#[derive(Default)]
struct ResolverState {
    requests: VecDeque<Request>,
    answers: HashMap<Question, (Instant, Vec<SocketAddr>)>,
    has_thread: bool,
    has_ended: bool,
}

struct Request {
    remote: Remote,
    ipv6: bool,
    reply: Box<dyn FnOnce(Vec<Route>) + Send>,
}

impl Resolver {
    /// The routes to `remote`, if its names were looked up within [`FRESH`]. None: they are being looked up, and the
    /// resolver's thread will call `reply`. Errors: AGAIN, the thread cannot be started.
    pub(crate) fn ask(
        &self,
        remote: &Remote,
        ipv6: bool,
        reply: impl FnOnce(Vec<Route>) + Send + 'static,
    ) -> Result<Option<Vec<Route>>, Errno> {
        let mut state = self.0.state.lock();
        if let Some(routes) = remote.routes(ipv6, &mut |question| state.fresh(question)) {
            return Ok(Some(routes));
        }
        if !state.has_thread {
            let shared = self.0.clone();
            pinnace_sys::thread::start("pinnace/dns", move || shared.run()).map_err(|_| Errno::AGAIN)?;
            state.has_thread = true;
        }
        state.requests.push_back(Request { remote: remote.clone(), ipv6, reply: Box::new(reply) });
        self.0.changed.notify_one();
        Ok(None)
    }
}

/// The thread is not joined: it may be blocked in the system's resolver.
impl Drop for Resolver {
    fn drop(&mut self) {
        self.0.state.lock().has_ended = true;
        self.0.changed.notify_one();
    }
}

impl ResolverShared {
    fn run(&self) {
        while let Some(Request { remote, ipv6, reply }) = self.next() {
            let routes = remote.routes(ipv6, &mut |question| Some(self.look_up(question)));
            reply(routes.unwrap_or_default());
        }
    }

    /// The next request. None: the context has ended.
    fn next(&self) -> Option<Request> {
        let mut state = self.state.lock();
        loop {
            if state.has_ended {
                return None;
            }
            if let Some(request) = state.requests.pop_front() {
                return Some(request);
            }
            self.changed.wait(&mut state);
        }
    }

    fn look_up(&self, question: &Question) -> Vec<SocketAddr> {
        if let Some(answer) = self.state.lock().fresh(question) {
            return answer;
        }
        let answer = question.look_up();
        let mut state = self.state.lock();
        state.answers.retain(|_, (at, _)| at.elapsed() < FRESH);
        state.answers.insert(question.clone(), (Instant::now(), answer.clone()));
        answer
    }
}

impl ResolverState {
    fn fresh(&self, question: &Question) -> Option<Vec<SocketAddr>> {
        let (at, answer) = self.answers.get(question)?;
        (at.elapsed() < FRESH).then(|| answer.clone())
    }
}
