//! The queue of frames, in one thread and in several.

mod books;
mod budget;
mod common;
mod intake;
mod link;
mod lock;
mod mixed;
mod queue;
mod regressions;
mod threads;
