//! Options of sockets of every type and of contexts: any number, any value. A refused value changes nothing; an
//! accepted value can be read again; the socket closes and the context terminates.
//!
//! An instruction is a row of the option table or, from 200 on, the number of a context option; then a length, and
//! the value.

use pinnace_engine::{Context, Error, OPTIONS, Socket, SocketType};

const SOCKET_TYPES: u8 = 21;
/// From this value on an instruction is for the context.
const CONTEXT: u8 = 200;
const ROOM: usize = 512;

/// The value that `get` writes; `None` if it is refused.
fn value(get: impl FnOnce(&mut [u8]) -> Result<usize, Error>) -> Option<Vec<u8>> {
    let mut room = vec![0; ROOM];
    let len = get(&mut room).ok()?;
    room.truncate(len);
    Some(room)
}

fn of_context(context: &Context, number: i32, given: &[u8]) {
    let get = |room: &mut [u8]| context.get_bytes(number, room);
    let before = value(get);
    if context.set_bytes(number, given).is_err() {
        assert_eq!(value(get), before, "context option {number} was refused and has changed");
    }
}

fn of_socket(socket: Socket, number: i32, given: &[u8]) {
    let get = |room: &mut [u8]| socket.get_option(number, room);
    let before = value(get);
    if socket.set_option(number, given).is_err() {
        assert_eq!(value(get), before, "option {number} was refused and has changed");
    }
    // A buffer of any length may be too short, and is then refused.
    let _ = socket.get_option(number, &mut vec![0; given.len()]);
}

pub fn run(data: &[u8]) {
    let [kind, instructions @ ..] = data else { return };
    let context = Context::new().expect("a context");
    let socket_type = SocketType::from_number(kind % SOCKET_TYPES).expect("all numbers below are types");
    let socket = context.socket(socket_type);
    let mut rest = instructions;
    while let [which, len, bytes @ ..] = rest {
        let (given, behind) = bytes.split_at(usize::from(*len).min(bytes.len()));
        match (&socket, which.checked_sub(CONTEXT)) {
            (_, Some(number)) => of_context(&context, number.into(), given),
            (Ok(socket), None) => {
                of_socket(*socket, OPTIONS[usize::from(*which) % OPTIONS.len()].number, given)
            }
            (Err(_), None) => {}
        }
        rest = behind;
    }
    if let Ok(socket) = socket {
        socket.close().expect("open");
    }
    context.terminate().expect("nothing is open");
}
