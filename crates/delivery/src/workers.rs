//! Threads that all clients of a process share for work that may block: writing logs, creating files, calling back.
//!
//! A job gets a thread at once, as long as the system has one more; a thread without a job ends soon. So a client that
//! does nothing has no thread. If the system has no more threads, the jobs share those that there are
//! ([`Workers::is_short`]).

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::environment::now;
use crate::process::PerProcess;
use crate::signal::Signal;

/// How long a thread waits for another job.
const KEEP: Duration = Duration::from_secs(1);

type Work = Box<dyn FnOnce() + Send>;

/// The threads, which end when this is dropped.
pub struct Workers(Arc<Pool>);

struct Pool {
    state: Mutex<PoolState>,
    changed: Signal,
    /// A job waits for a thread.
    short: AtomicBool,
}

#[derive(Default)]
struct PoolState {
    jobs: VecDeque<Work>,
    threads: Vec<JoinHandle<()>>,
    /// Threads that wait for a job.
    idle: usize,
    /// Threads that have not ended.
    alive: usize,
    ends: bool,
}

/// The process's workers, if there are any.
static RUNNING: PerProcess<Weak<Workers>> = PerProcess::new();

impl Workers {
    /// The workers of this process: at least one thread, as long as a caller keeps them. Error: the first thread could
    /// not be created.
    pub fn of_process() -> io::Result<Arc<Workers>> {
        RUNNING.with(|running| {
            if let Some(workers) = running.upgrade() {
                return Ok(workers);
            }
            let (state, changed, short) = Default::default();
            let workers = Workers(Arc::new(Pool { state, changed, short }));
            workers.0.add_thread(&mut workers.0.state())?;
            let workers = Arc::new(workers);
            *running = Arc::downgrade(&workers);
            Ok(workers)
        })
    }

    /// Has a thread run a job.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) {
        let mut state = self.0.state();
        state.jobs.push_back(Box::new(job));
        if state.idle < state.jobs.len() && self.0.add_thread(&mut state).is_err() {
            self.0.short.store(true, Ordering::Relaxed);
        }
        drop(state);
        self.0.changed.tell();
    }

    /// Returns true if a job waits because the system has no more threads: a long job should submit its rest.
    pub fn is_short(&self) -> bool {
        self.0.short.load(Ordering::Relaxed)
    }
}

impl Drop for Workers {
    fn drop(&mut self) {
        let mut state = self.0.state();
        state.ends = true;
        let threads = std::mem::take(&mut state.threads);
        drop(state);
        self.0.changed.tell();
        // A job may drop the last reference: its thread ends after it.
        let others = threads.into_iter().filter(|of| of.thread().id() != thread::current().id());
        others.for_each(|thread| drop(thread.join()));
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add_thread(self: &Arc<Pool>, state: &mut PoolState) -> io::Result<()> {
        let pool = self.clone();
        let thread = pinnace_sys::thread::start("pinnace-worker", move || pool.work())?;
        state.alive += 1;
        state.threads.retain(|thread| !thread.is_finished());
        state.threads.push(thread);
        Ok(())
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            let until = now() + KEEP;
            state.idle += 1;
            while state.jobs.is_empty() && !state.ends {
                // The last thread stays.
                let patience = (state.alive > 1).then_some(until);
                state = match self.changed.wait(state, patience) {
                    Some(state) => state,
                    None => self.state(),
                };
                if state.jobs.is_empty() && state.alive > 1 && until <= now() {
                    break;
                }
            }
            state.idle -= 1;
            let Some(job) = state.jobs.pop_front() else {
                state.alive -= 1;
                return;
            };
            self.short.fetch_and(!state.jobs.is_empty(), Ordering::Relaxed);
            drop(state);
            // A panic has printed its message, and ends this job alone.
            let _ = catch_unwind(AssertUnwindSafe(job));
            state = self.state();
        }
    }
}
