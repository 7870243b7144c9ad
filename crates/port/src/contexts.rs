//! Contexts that end when their sockets have sent what waits.

use std::time::{Duration, Instant};

use pinnace_engine::{Context, Error};

struct Ending {
    number: u32,
    context: Context,
    deadline: Option<Instant>,
}

#[derive(Default)]
pub struct EndingContexts(Vec<Ending>);

impl EndingContexts {
    pub fn add(&mut self, number: u32, context: Context, linger: Option<Duration>) {
        let deadline = linger.and_then(|linger| Instant::now().checked_add(linger));
        self.0.push(Ending { number, context, deadline });
    }

    /// Ends those without sockets, each in a thread, as it waits for what they send.
    pub fn end(&mut self, has_sockets: impl Fn(u32) -> bool) {
        for Ending { context, deadline, .. } in self.0.extract_if(.., |ending| !has_sockets(ending.number)) {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            // Without a thread, the context ends with the program.
            let _ = pinnace_sys::thread::start("port-end", move || {
                while let Err(Error::Interrupted) = context.terminate_within(left) {}
            });
        }
    }

    /// All that have not ended.
    pub fn into_contexts(self) -> impl Iterator<Item = Context> {
        self.0.into_iter().map(|ending| ending.context)
    }
}
