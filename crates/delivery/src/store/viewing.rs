//! Reads a store without its lock, even while another process has it open.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::State;
use crate::log::{LogError, View};

/// How often to read before apparent damage is reported, and the pause between the reads.
const READS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Reads a store until the result is consistent, and passes it to `reader`. A reader that returns Damaged has the store
/// read again.
pub fn view<R>(
    path: &Path,
    mut reader: impl FnMut(&State, &View) -> Result<R, LogError>,
) -> Result<R, LogError> {
    let mut left = READS;
    loop {
        let mut state = State::default();
        let viewed = View::read(path, &mut state).and_then(|view| {
            state.finish_recovery();
            reader(&state, &view)
        });
        left -= 1;
        match viewed {
            // Files are created, removed and reused while they are read.
            Err(LogError::Damaged(_) | LogError::Io(ErrorKind::UnexpectedEof)) if left > 0 => {}
            Err(LogError::Io(ErrorKind::NotFound)) if left > 0 && path.is_dir() => {}
            viewed => return viewed,
        }
        std::thread::sleep(PAUSE);
    }
}
