//! The log's work on threads that all logs share: writing, and making spares. A thread attends to a duty from the
//! first call until there has been nothing to do for a while.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use super::queue::Queue;
use super::{Log, Shared, Step, locked, spares};
use crate::environment::now;
use crate::signal::Signal;

/// How long a thread waits for more to do. Calling another one costs more than waking this one.
const LINGER: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy)]
pub enum Duty {
    Commit,
    Spares,
}

/// The jobs that work for a log now.
#[derive(Default)]
pub struct Attendants {
    state: Mutex<AttendantsState>,
    /// Wakes a thread that waits until there are none.
    left: Signal,
}

#[derive(Default)]
struct AttendantsState {
    jobs: usize,
    /// The log ends: no job begins.
    ended: bool,
}

impl Attendants {
    fn state(&self) -> MutexGuard<'_, AttendantsState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a job with a log, unless it has ended. The log's files are closed when it has ended and no job runs.
    fn during(&self, log: &Weak<Shared>, job: impl FnOnce(&Arc<Shared>)) {
        let mut state = self.state();
        if state.ended {
            return;
        }
        state.jobs += 1;
        drop(state);
        if let Some(shared) = log.upgrade() {
            job(&shared);
        }
        self.state().jobs -= 1;
        self.left.tell();
    }

    /// Waits until no job runs.
    fn end(&self) {
        let mut state = self.state();
        state.ended = true;
        while state.jobs > 0 {
            state = self.left.wait(state, None).unwrap_or_else(|| self.state());
        }
    }
}

/// What wakes the thread of a duty, after the log's lock is released.
#[must_use]
pub struct Call {
    duty: Duty,
    /// No job attends to it.
    is_first: bool,
}

impl Duty {
    /// Whether a job attends to it, or will.
    fn is_attended(self, queue: &mut Queue) -> &mut bool {
        match self {
            Duty::Commit => &mut queue.is_writing,
            Duty::Spares => &mut queue.is_making_spares,
        }
    }

    /// Wakes the thread that is present.
    fn signal(self, shared: &Shared) -> &Signal {
        match self {
            Duty::Commit => &shared.work,
            Duty::Spares => &shared.wants_spare,
        }
    }

    fn step<'a>(self, shared: &'a Arc<Shared>, queue: MutexGuard<'a, Queue>) -> Step<'a> {
        match self {
            Duty::Commit => {
                // Only one thread attends: nobody waits for this lock.
                let mut committer = shared.committer.lock().unwrap_or_else(PoisonError::into_inner);
                committer.step(shared, queue)
            }
            Duty::Spares => spares::step(shared, queue),
        }
    }

    /// Notes that there is something to do.
    pub fn call(self, queue: &mut Queue) -> Call {
        Call { duty: self, is_first: !std::mem::replace(self.is_attended(queue), true) }
    }
}

impl Call {
    pub fn deliver(self, shared: &Arc<Shared>) {
        let Call { duty, is_first } = self;
        match &shared.workers {
            Some(workers) if is_first => {
                let (attendants, log) = (shared.attendants.clone(), Arc::downgrade(shared));
                workers.submit(move || attendants.during(&log, |shared| attend(shared, duty)));
            }
            _ => duty.signal(shared).tell(),
        }
    }
}

/// Does a duty's work until there is none for a while.
fn attend(shared: &Arc<Shared>, duty: Duty) {
    let mut queue = locked(&shared.queue);
    let is_short = || shared.workers.as_ref().is_some_and(|workers| workers.is_short());
    let mut leave_at = None;
    loop {
        queue = match duty.step(shared, queue) {
            Step::Worked => {
                leave_at = None;
                locked(&shared.queue)
            }
            Step::Wait(mut queue, None) if is_short() || leave_at.is_some_and(|at| at <= now()) => {
                *duty.is_attended(&mut queue) = false;
                return;
            }
            Step::Wait(queue, until) => {
                let until = until.unwrap_or_else(|| *leave_at.get_or_insert_with(|| now() + LINGER));
                duty.signal(shared).wait(queue, Some(until)).unwrap_or_else(|| locked(&shared.queue))
            }
            Step::Stop => {
                *duty.is_attended(&mut locked(&shared.queue)) = false;
                return;
            }
        };
        if is_short() {
            drop(queue);
            return Call { duty, is_first: true }.deliver(shared);
        }
    }
}

/// Takes steps until the next must wait. Returns how long.
fn all_due(shared: &Arc<Shared>, duty: Duty) -> Option<Instant> {
    loop {
        match duty.step(shared, locked(&shared.queue)) {
            Step::Worked => {}
            Step::Wait(_, until) => return until,
            Step::Stop => return None,
        }
    }
}

impl Log {
    /// Wakes the threads that a change concerns. `before`: the urgency and the next segment before the change.
    pub(super) fn follow(&self, mut queue: MutexGuard<'_, Queue>, before: (u8, u64), wants_room: bool) {
        let is_news = queue.urgency_level() > before.0;
        let wants_spare = queue.next_segment != before.1 || wants_room;
        let calls = [
            wants_spare.then(|| Duty::Spares.call(&mut queue)),
            is_news.then(|| Duty::Commit.call(&mut queue)),
        ];
        drop(queue);
        calls.into_iter().flatten().for_each(|call| call.deliver(&self.shared));
    }

    /// Has both duties begun.
    pub(super) fn begin_duties(&self) {
        let calls = {
            let mut queue = locked(&self.shared.queue);
            [Duty::Spares, Duty::Commit].map(|duty| duty.call(&mut queue))
        };
        calls.into_iter().for_each(|call| call.deliver(&self.shared));
    }

    /// Ends both, after writing and syncing everything gathered.
    pub(super) fn end_duties(&self) {
        let shared = &self.shared;
        locked(&shared.queue).stop = true;
        [Duty::Commit, Duty::Spares].into_iter().for_each(|duty| duty.signal(shared).tell());
        shared.attendants.end();
        all_due(shared, Duty::Commit);
    }

    /// Does all work that is due in a log without threads. Returns when more is due.
    #[cfg(test)]
    pub fn step(&self) -> Option<Instant> {
        if self.shared.workers.is_some() {
            return None;
        }
        let commit_at = all_due(&self.shared, Duty::Commit);
        // A failed file is tried again by each call.
        let spare_at = all_due(&self.shared, Duty::Spares);
        spare_at.into_iter().chain(commit_at).min()
    }
}
