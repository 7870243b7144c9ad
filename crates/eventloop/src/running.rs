//! The thread of an event loop.

use std::collections::{BTreeSet, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use std::time::{Duration, Instant};

use pinnace_engine::{Error, Poller};

use super::doorbell::{Bells, Doorbell};
use super::{Next, Source, Task, TaskId};

/// The most events taken from the poller at once. The poller has them in the order in which they were registered: with
/// more sockets that are always ready, the last of them would get no turn.
const EVENTS_MAX: usize = 4096;

/// A task to run.
pub struct Order<K: Task> {
    pub id: TaskId,
    pub task: Box<K>,
    pub commands: Receiver<K::Command>,
    pub doorbell: Arc<Doorbell>,
    /// Dropped after the task.
    pub alive: Sender<()>,
}

struct Scheduled<K: Task> {
    order: Order<K>,
    next: Next,
    /// It has a turn now.
    is_due: bool,
}

struct Tasks<K: Task> {
    by_id: HashMap<TaskId, Scheduled<K>>,
    deadlines: BTreeSet<(Instant, TaskId)>,
    /// Those that have a turn now.
    due: Vec<TaskId>,
}

pub fn run<K: Task>(poller: &Poller<Source<K::Token>>, bells: &Bells, orders: &Receiver<Order<K>>) {
    let mut tasks = Tasks { by_id: HashMap::new(), deadlines: BTreeSet::new(), due: Vec::new() };
    let mut rung = Vec::new();
    loop {
        let events = match poller.wait(EVENTS_MAX, tasks.timeout(), None) {
            Ok(events) => events,
            Err(Error::WouldBlock | Error::Interrupted) => Vec::new(),
            Err(_) => return,
        };
        for event in events {
            match event.data {
                Source::Bells => bells.take_rung(&mut rung),
                Source::Task(id, token) => tasks.ready(id, token),
            }
        }
        rung.drain(..).for_each(|id| tasks.make_due(id));
        loop {
            match orders.try_recv() {
                Ok(order) => tasks.add(order),
                Err(TryRecvError::Empty) => break,
                Err(TryRecvError::Disconnected) => return,
            }
        }
        tasks.turn();
    }
}

impl<K: Task> Tasks<K> {
    fn add(&mut self, order: Order<K>) {
        let id = order.id;
        self.by_id.insert(id, Scheduled { order, next: Next::Wait(None), is_due: false });
        self.make_due(id);
    }

    /// How long the poller may wait.
    fn timeout(&self) -> Option<Duration> {
        if !self.due.is_empty() {
            return Some(Duration::ZERO);
        }
        self.deadlines.first().map(|(at, _)| at.saturating_duration_since(Instant::now()))
    }

    fn ready(&mut self, id: TaskId, token: K::Token) {
        let Some(scheduled) = self.by_id.get_mut(&id) else { return };
        let task = &mut scheduled.order.task;
        match catch_unwind(AssertUnwindSafe(|| task.on_ready(token))) {
            Ok(()) => self.make_due(id),
            Err(_) => self.remove(id),
        }
    }

    fn make_due(&mut self, id: TaskId) {
        if let Some(scheduled) = self.by_id.get_mut(&id)
            && !std::mem::replace(&mut scheduled.is_due, true)
        {
            self.due.push(id);
        }
    }

    /// Gives each task that is due its turn.
    fn turn(&mut self) {
        if let Some((first, _)) = self.deadlines.first()
            && let now = Instant::now()
            && *first <= now
        {
            let passed: Vec<TaskId> =
                self.deadlines.iter().take_while(|(at, _)| *at <= now).map(|(_, id)| *id).collect();
            passed.into_iter().for_each(|id| self.make_due(id));
        }
        for id in std::mem::take(&mut self.due) {
            self.turn_of(id);
        }
    }

    fn turn_of(&mut self, id: TaskId) {
        let Some(scheduled) = self.by_id.get_mut(&id) else { return };
        scheduled.is_due = false;
        let order = &mut scheduled.order;
        order.doorbell.clear();
        // The task has printed its message if it panics.
        match catch_unwind(AssertUnwindSafe(|| step(&mut *order.task, &order.commands))) {
            Ok(Some(next)) => {
                let before = std::mem::replace(&mut scheduled.next, next);
                if before == next && next != Next::Now {
                    return;
                }
                if let Next::Wait(Some(at)) = before {
                    self.deadlines.remove(&(at, id));
                }
                match next {
                    Next::Now => self.make_due(id),
                    Next::Wait(at) => self.deadlines.extend(at.map(|at| (at, id))),
                }
            }
            Ok(None) | Err(_) => self.remove(id),
        }
    }

    fn remove(&mut self, id: TaskId) {
        if let Some(Scheduled { order, next, .. }) = self.by_id.remove(&id) {
            if let Next::Wait(Some(at)) = next {
                self.deadlines.remove(&(at, id));
            }
            let Order { task, alive, .. } = order;
            // Its destructor must not end the others.
            let _ = catch_unwind(AssertUnwindSafe(|| drop(task)));
            drop(alive);
        }
    }
}

/// Passes commands on and lets the task work. None: its handle was dropped.
fn step<K: Task>(task: &mut K, commands: &Receiver<K::Command>) -> Option<Next> {
    loop {
        match commands.try_recv() {
            Ok(command) => task.on_command(command),
            Err(TryRecvError::Empty) => return Some(task.work()),
            Err(TryRecvError::Disconnected) => return None,
        }
    }
}
