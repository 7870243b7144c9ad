//! What a store holds, read beside whoever has it open.

use std::io::ErrorKind;
use std::path::Path;
use std::time::Duration;

use super::State;
use crate::log::{LogError, View};

/// How often a log is read before what looks like damage is taken for it, and the pause between.
const READS: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);

/// Reads a store until what was read makes sense, and hands it over. A reader whose error is Damaged has it read again.
pub fn view<R>(
    path: &Path,
    mut reader: impl FnMut(&State, &View) -> Result<R, LogError>,
) -> Result<R, LogError> {
    let mut left = READS;
    loop {
        let mut state = State::default();
        let viewed = View::read(path, &mut state).and_then(|view| {
            state.found_all();
            reader(&state, &view)
        });
        left -= 1;
        match viewed {
            // Files come and go, and are used again, while they are read.
            Err(LogError::Damaged(_) | LogError::Io(ErrorKind::UnexpectedEof)) if left > 0 => {}
            Err(LogError::Io(ErrorKind::NotFound)) if left > 0 && path.is_dir() => {}
            viewed => return viewed,
        }
        std::thread::sleep(PAUSE);
    }
}
