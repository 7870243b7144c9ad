//! Errors that no call returns, on their way to the application's function.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};

use pinnace_sys::signals::Mask;

use crate::Error;
use crate::peer_loop::Notify;
use crate::signal::Signal;
use crate::workers::Workers;

/// The most errors that wait for the function. Later ones are dropped.
const WAITING_MAX: usize = 1000;

/// Calls the function on a shared thread: one call at a time, in the order of the errors. So a function that takes long
/// delays no message.
pub struct Reports {
    function: Notify,
    /// The signals that are blocked while it runs.
    signals: Mask,
    /// None: it is called on the thread that reports.
    workers: Option<Arc<Workers>>,
    state: Mutex<ReportsState>,
    /// Wakes a thread that waits for the end of the calls.
    done: Signal,
}

#[derive(Default)]
struct ReportsState {
    waiting: VecDeque<Error>,
    /// A job makes the calls, or will.
    has_job: bool,
    /// The thread on which the function runs.
    calling: Option<ThreadId>,
    ended: bool,
}

impl Reports {
    pub fn new(function: Notify, signals: Mask, workers: Option<Arc<Workers>>) -> Arc<Reports> {
        let (state, done) = Default::default();
        Arc::new(Reports { function, signals, workers, state, done })
    }

    /// Reports an error to the function.
    pub fn notify(self: &Arc<Reports>) -> Notify {
        let this = self.clone();
        Arc::new(move |error| this.report(error))
    }

    fn state(&self) -> MutexGuard<'_, ReportsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn report(self: &Arc<Reports>, error: &Error) {
        let Some(workers) = &self.workers else { return (self.function)(error) };
        let mut state = self.state();
        if state.ended || state.waiting.len() == WAITING_MAX {
            return;
        }
        state.waiting.push_back(error.clone());
        if !std::mem::replace(&mut state.has_job, true) {
            drop(state);
            let this = self.clone();
            workers.submit(move || this.call());
        }
    }

    fn call(&self) {
        let mut state = self.state();
        while let Some(error) = state.waiting.pop_front() {
            state.calling = Some(thread::current().id());
            drop(state);
            // A panic has printed its message.
            let call = || self.signals.during(|| (self.function)(&error));
            let _ = catch_unwind(AssertUnwindSafe(call));
            state = self.state();
            state.calling = None;
        }
        state.has_job = false;
        drop(state);
        self.done.tell();
    }

    /// Waits until the function was called with all errors so far, unless it calls this itself. It is not called any
    /// more then.
    pub fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        if state.calling == Some(thread::current().id()) {
            state.waiting.clear();
            return;
        }
        while state.has_job {
            state = self.done.wait(state, None).unwrap_or_else(|| self.state());
        }
    }
}
