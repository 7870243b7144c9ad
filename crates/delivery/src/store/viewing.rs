//! Reads a store without its lock, even while another process has it open.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::State;
use crate::environment::now;
use crate::log::{LogError, View};

/// An error that so many reads in turn have returned is reported. Beside a writer, reads return different ones.
const READS: u32 = 20;
/// After this time, any error is reported.
const LONGEST: Duration = Duration::from_secs(10);
/// The pause between two reads.
const PAUSE: Duration = Duration::from_millis(5);

/// Reads a store until the result is consistent, and passes it to `reader`. A reader that returns Damaged has the store
/// read again.
pub fn view<R>(
    path: &Path,
    mut reader: impl FnMut(&State, &View) -> Result<R, LogError>,
) -> Result<R, LogError> {
    let until = now() + LONGEST;
    let (mut found, mut times) = (None, 0);
    loop {
        let mut state = State::default();
        let viewed = View::read(path, &mut state).and_then(|view| {
            state.finish_recovery();
            reader(&state, &view)
        });
        let error = match viewed {
            // Files are created, removed and reused while they are read.
            Err(error @ (LogError::Damaged(_) | LogError::Io(ErrorKind::UnexpectedEof))) => error,
            Err(error @ LogError::Io(ErrorKind::NotFound)) if path.is_dir() => error,
            viewed => return viewed,
        };
        times = if found.as_ref() == Some(&error) { times + 1 } else { 1 };
        if times == READS || until <= now() {
            return Err(error);
        }
        found = Some(error);
        std::thread::sleep(PAUSE);
    }
}
