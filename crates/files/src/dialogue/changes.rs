//! What changes in a folder: from the hints of its file system to the changes that subscribers are told.
//!
//! A file that is written is told of when its writer closes it, or when nothing has happened to it for some time.

use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use crate::error::FileError;
use crate::tree::{Hint, TreePath};

/// The most changes that wait for a subscriber. If there are more, it is told everything again.
const QUEUE_MAX: usize = 65_536;

/// Called when a request may have something to send again.
pub type Wake = Arc<dyn Fn() + Send + Sync>;

/// A change that subscribers are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathChange {
    /// The path was created, changed or removed.
    At(TreePath),
    Moved {
        from: TreePath,
        to: TreePath,
    },
}

/// How long the second name of a move is waited for.
const MOVE_FOR: Duration = Duration::from_millis(100);

/// The paths that may still be written or moved.
pub struct Settling {
    quiet: Duration,
    /// When a path is told of if nothing more happens to it, and whether it may be open.
    due: BTreeMap<TreePath, (Instant, bool)>,
    ready: Vec<PathChange>,
    is_lost: bool,
}

impl Settling {
    /// `quiet`: how long nothing may have happened to an open file.
    pub fn new(quiet: Duration) -> Settling {
        Settling { quiet, due: BTreeMap::new(), ready: Vec::new(), is_lost: false }
    }

    pub fn on_hint(&mut self, hint: Hint, now: Instant) {
        match hint {
            Hint::Written(path) => drop(self.due.insert(path, (now + self.quiet, true))),
            Hint::Named(path) => drop(self.due.entry(path).or_insert((now + MOVE_FOR, false))),
            Hint::Settled(path) | Hint::Directory(path) => {
                self.due.remove(&path);
                self.ready.push(PathChange::At(path));
            }
            Hint::Moved { from, to } => {
                self.due.remove(&to);
                if self.due.remove(&from).is_some_and(|(_, is_open)| is_open) {
                    self.due.insert(to.clone(), (now + self.quiet, true));
                }
                self.ready.push(PathChange::Moved { from, to });
            }
            Hint::Lost | Hint::Blind => {
                (self.due, self.ready, self.is_lost) = (BTreeMap::new(), Vec::new(), true);
            }
        }
    }

    /// The changes to tell now. None: some are not known, so everything is to be told again.
    pub fn take(&mut self, now: Instant) -> Option<Vec<PathChange>> {
        let settled = self.due.extract_if(.., |_, (at, _)| *at <= now).map(|(path, _)| PathChange::At(path));
        self.ready.extend(settled);
        let ready = std::mem::take(&mut self.ready);
        (!std::mem::take(&mut self.is_lost)).then_some(ready)
    }

    /// When to call `take` again.
    pub fn next_due(&self) -> Option<Instant> {
        self.due.values().map(|(at, _)| *at).min()
    }
}

/// Begins to watch a folder, and returns when it is watched.
type Begin = Box<dyn Fn() -> Result<(), FileError> + Send>;

/// The changes of one folder, and its subscribers.
pub struct Changes {
    subscribers: Mutex<Vec<Weak<Subscription>>>,
    begin: Mutex<Begin>,
    is_watched: AtomicBool,
}

/// The changes below a path that wait to be told.
pub struct Subscription {
    base: TreePath,
    queue: Mutex<Queue>,
    wake: Wake,
}

#[derive(Default)]
struct Queue {
    changes: VecDeque<PathChange>,
    /// The paths of the changes `At`.
    paths: HashSet<TreePath>,
    is_lost: bool,
}

/// What a subscriber is to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Told {
    Nothing,
    PathChange(PathChange),
    /// Changes are not known: list everything again.
    Lost,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Changes {
    /// `begin` is called for the first subscriber.
    pub fn new(begin: Begin) -> Changes {
        Changes {
            subscribers: Mutex::default(),
            begin: Mutex::new(begin),
            is_watched: AtomicBool::new(false),
        }
    }

    /// Subscribes to the changes below `base`. `wake` is called when there is something to tell. The folder is watched
    /// when this returns, so a listing that is made afterwards misses nothing that is not told. Error: it cannot be
    /// watched.
    pub fn subscribe(&self, base: TreePath, wake: Wake) -> Result<Arc<Subscription>, FileError> {
        let subscription = Arc::new(Subscription { base, queue: Mutex::default(), wake });
        let mut subscribers = lock(&self.subscribers);
        if subscribers.len() == subscribers.capacity() {
            // Those that are gone are removed when a change is told, which may be never.
            subscribers.retain(|subscriber| subscriber.strong_count() > 0);
            let living = subscribers.len();
            subscribers.reserve(living);
        }
        subscribers.push(Arc::downgrade(&subscription));
        drop(subscribers);
        // Another subscriber waits here until the folder is watched.
        let begin = lock(&self.begin);
        if !self.is_watched.load(Ordering::Relaxed) {
            begin()?;
            self.is_watched.store(true, Ordering::Relaxed);
        }
        Ok(subscription)
    }

    /// Tells all subscribers. None: everything is to be told again.
    pub fn tell(&self, changes: Option<&[PathChange]>) {
        let mut subscribers = lock(&self.subscribers);
        subscribers.retain(|subscriber| subscriber.strong_count() > 0);
        let all: Vec<Arc<Subscription>> = subscribers.iter().filter_map(Weak::upgrade).collect();
        drop(subscribers);
        for subscriber in all {
            subscriber.add(changes);
        }
    }
}

impl Subscription {
    pub fn base(&self) -> &TreePath {
        &self.base
    }

    fn add(&self, changes: Option<&[PathChange]>) {
        let mut queue = lock(&self.queue);
        match changes {
            None => queue.lose(),
            Some(changes) => changes.iter().for_each(|change| queue.add(&self.base, change)),
        }
        let is_awake = queue.changes.is_empty() && !queue.is_lost;
        drop(queue);
        if !is_awake {
            (self.wake)();
        }
    }

    /// Takes the next change.
    pub fn take(&self) -> Told {
        let mut queue = lock(&self.queue);
        if std::mem::take(&mut queue.is_lost) {
            return Told::Lost;
        }
        let Some(change) = queue.changes.pop_front() else { return Told::Nothing };
        if let PathChange::At(path) = &change {
            queue.paths.remove(path);
        }
        Told::PathChange(change)
    }
}

impl Queue {
    fn lose(&mut self) {
        *self = Queue { is_lost: true, ..Queue::default() };
    }

    fn add(&mut self, base: &TreePath, change: &PathChange) {
        let change = match change {
            PathChange::Moved { from, to } => match (from.is_below(base), to.is_below(base)) {
                (true, true) => change.clone(),
                (true, false) => PathChange::At(from.clone()),
                (false, true) => PathChange::At(to.clone()),
                (false, false) if base.is_below(from) || base.is_below(to) => PathChange::At(base.clone()),
                (false, false) => return,
            },
            // A change above the base may be one of the base.
            PathChange::At(path) if base.is_below(path) => PathChange::At(base.clone()),
            PathChange::At(path) if path.is_below(base) => change.clone(),
            PathChange::At(_) => return,
        };
        match &change {
            PathChange::At(path) if !self.paths.insert(path.clone()) => return,
            _ => self.changes.push_back(change),
        }
        if self.changes.len() > QUEUE_MAX {
            self.lose();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> TreePath {
        TreePath::parse(text.as_bytes()).unwrap()
    }

    #[test]
    fn a_file_is_told_of_when_it_is_closed_or_quiet() {
        let (quiet, began) = (Duration::from_secs(1), Instant::now());
        let mut settling = Settling::new(quiet);
        settling.on_hint(Hint::Written(path("a")), began);
        settling.on_hint(Hint::Written(path("b")), began);
        assert_eq!(settling.take(began), Some(vec![]));
        settling.on_hint(Hint::Settled(path("a")), began);
        assert_eq!(settling.take(began), Some(vec![PathChange::At(path("a"))]));
        settling.on_hint(Hint::Written(path("b")), began + quiet / 2);
        assert_eq!(settling.next_due(), Some(began + quiet * 3 / 2));
        assert_eq!(settling.take(began + quiet), Some(vec![]));
        assert_eq!(settling.take(began + quiet * 3 / 2), Some(vec![PathChange::At(path("b"))]));
        assert_eq!(settling.next_due(), None);
    }

    #[test]
    fn an_open_file_keeps_its_time_when_it_is_moved() {
        let (quiet, began) = (Duration::from_secs(1), Instant::now());
        let mut settling = Settling::new(quiet);
        settling.on_hint(Hint::Written(path("a")), began);
        settling.on_hint(Hint::Moved { from: path("a"), to: path("b") }, began);
        assert_eq!(settling.take(began), Some(vec![PathChange::Moved { from: path("a"), to: path("b") }]));
        assert_eq!(settling.take(began + quiet), Some(vec![PathChange::At(path("b"))]));
    }

    #[test]
    fn a_move_is_waited_for() {
        let began = Instant::now();
        let mut settling = Settling::new(Duration::from_secs(1));
        settling.on_hint(Hint::Named(path("a")), began);
        settling.on_hint(Hint::Named(path("b")), began);
        settling.on_hint(Hint::Named(path("c")), began);
        settling.on_hint(Hint::Moved { from: path("a"), to: path("b") }, began);
        assert_eq!(settling.take(began), Some(vec![PathChange::Moved { from: path("a"), to: path("b") }]));
        assert_eq!(settling.take(began + MOVE_FOR), Some(vec![PathChange::At(path("c"))]));
    }

    #[test]
    fn subscribers_that_are_gone_take_no_memory() {
        let changes = Changes::new(Box::new(|| Ok(())));
        let living: Vec<_> =
            (0..100).map(|_| changes.subscribe(path("a"), Arc::new(|| {})).unwrap()).collect();
        for _ in 0..10_000 {
            changes.subscribe(path("a"), Arc::new(|| {})).unwrap();
        }
        let kept = lock(&changes.subscribers).len();
        assert!((living.len()..=400).contains(&kept), "{kept}");
    }

    #[test]
    fn what_was_lost_is_not_told() {
        let mut settling = Settling::new(Duration::ZERO);
        settling.on_hint(Hint::Settled(path("a")), Instant::now());
        settling.on_hint(Hint::Lost, Instant::now());
        settling.on_hint(Hint::Settled(path("b")), Instant::now());
        assert_eq!(settling.take(Instant::now()), None);
        assert_eq!(settling.take(Instant::now()), Some(vec![]));
    }

    fn told(changes: &[PathChange], base: &str) -> Vec<Told> {
        let all = Changes::new(Box::new(|| Ok(())));
        let subscription = all.subscribe(path(base), Arc::new(|| {})).unwrap();
        all.tell(Some(changes));
        std::iter::from_fn(|| Some(subscription.take()).filter(|told| *told != Told::Nothing)).collect()
    }

    #[test]
    fn a_subscriber_is_told_what_is_below_its_path() {
        let moved = |from: &str, to: &str| PathChange::Moved { from: path(from), to: path(to) };
        let at = |at: &str| PathChange::At(path(at));
        let cases = [
            (at("a/b"), "a", Some(at("a/b"))),
            (at("a"), "a", Some(at("a"))),
            (at("ab"), "a", None),
            (at(""), "a/b", Some(at("a/b"))),
            (at("a"), "a/b", Some(at("a/b"))),
            (at("x"), "", Some(at("x"))),
            (moved("a/b", "a/c"), "a", Some(moved("a/b", "a/c"))),
            (moved("a/b", "c"), "a", Some(at("a/b"))),
            (moved("c", "a/b"), "a", Some(at("a/b"))),
            (moved("c", "d"), "a", None),
            (moved("a", "b"), "a/b", Some(at("a/b"))),
        ];
        for (change, base, expected) in cases {
            let expected: Vec<Told> = expected.into_iter().map(Told::PathChange).collect();
            assert_eq!(
                told(&[change.clone(), change.clone()], base)[..expected.len()],
                expected,
                "{change:?}"
            );
        }
    }

    #[test]
    fn the_same_path_waits_once_and_too_many_are_lost() {
        let at = |number: usize| PathChange::At(path(&number.to_string()));
        assert_eq!(told(&[at(1), at(2), at(1)], "").len(), 2);
        let many: Vec<PathChange> = (0..=QUEUE_MAX).map(at).collect();
        assert_eq!(told(&many, ""), [Told::Lost]);
        assert_eq!(told(&many[1..], "").len(), QUEUE_MAX);
    }
}
