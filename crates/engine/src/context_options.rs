//! A context's options: zmq_ctx_set(3), zmq_ctx_get(3) and their variants for values of any length, from one table.
//!
//! Thread options apply to the I/O threads, which a context starts with its first socket. The others apply to
//! sockets created later.

use pinnace_sys::thread;

use crate::error::{Error, Invalid};

/// The values of a context's options.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextOptions {
    pub io_threads: u32,
    pub max_sockets: u32,
    /// The largest message in bytes that sockets of this context send.
    pub max_msgsz: i32,
    pub ipv6: bool,
    /// False: new sockets get a linger time of zero.
    pub blocky: bool,
    /// Accepted as in libzmq, without effect: large bodies are always received in place.
    pub zero_copy_recv: bool,
    /// None: the system's default.
    pub thread_sched_policy: Option<i32>,
    pub thread_priority: Option<i32>,
    /// The processors that I/O threads may run on; empty: all.
    pub thread_affinity: Vec<usize>,
    /// Prefix of the I/O threads' names, followed by "/"; empty: none.
    pub thread_name_prefix: Vec<u8>,
}

/// The value of SOCKET_LIMIT. libzmq returns it, but accepts larger numbers.
pub const SOCKET_LIMIT: i32 = 65_535;
/// sizeof (zmq_msg_t).
const MSG_T_SIZE: i32 = 64;
/// Maximum length of a thread name prefix in bytes. The kernel keeps 15 bytes of the whole name.
const PREFIX_MAX: usize = 16;
/// THREAD_NAME_PREFIX, the only option that takes a string.
const THREAD_NAME_PREFIX: i32 = 9;
const LAST_PROCESSOR: i32 = thread::PROCESSORS as i32 - 1;

impl Default for ContextOptions {
    fn default() -> ContextOptions {
        ContextOptions {
            io_threads: 1,
            max_sockets: 1023,
            max_msgsz: i32::MAX,
            ipv6: false,
            blocky: true,
            zero_copy_recv: true,
            thread_sched_policy: None,
            thread_priority: None,
            thread_affinity: Vec::new(),
            thread_name_prefix: Vec::new(),
        }
    }
}

/// How a value is read.
pub type Get = fn(&ContextOptions) -> i32;
/// How a value is set.
pub type Set = fn(&mut ContextOptions, i32) -> Result<(), Error>;

/// One option: its range, and how it is set and read.
pub struct Row {
    pub number: i32,
    /// libzmq's name, without `ZMQ_`.
    pub name: &'static str,
    pub min: i32,
    pub max: i32,
    pub get: Option<Get>,
    pub set: Option<Set>,
}

const fn row(number: i32, name: &'static str, min: i32, max: i32, get: Get, set: Set) -> Row {
    Row { number, name, min, max, get: Some(get), set: Some(set) }
}

/// A row that can only be read.
const fn fact(number: i32, name: &'static str, get: Get) -> Row {
    Row { number, name, min: 0, max: 0, get: Some(get), set: None }
}

/// A row that can only be set.
const fn order(number: i32, name: &'static str, max: i32, set: Set) -> Row {
    Row { number, name, min: 0, max, get: None, set: Some(set) }
}

/// The table. Number 3 is SOCKET_LIMIT when it is read, and THREAD_PRIORITY when it is set.
pub const TABLE: &[Row] = &[
    row(1, "IO_THREADS", 0, i32::MAX, |o| o.io_threads as i32, |o, v| kept(&mut o.io_threads, v as u32)),
    row(2, "MAX_SOCKETS", 1, i32::MAX, |o| o.max_sockets as i32, |o, v| kept(&mut o.max_sockets, v as u32)),
    fact(3, "SOCKET_LIMIT", |_| SOCKET_LIMIT),
    order(3, "THREAD_PRIORITY", i32::MAX, |o, v| kept(&mut o.thread_priority, Some(v))),
    row(4, "THREAD_SCHED_POLICY", 0, i32::MAX, SCHED_POLICY, |o, v| {
        kept(&mut o.thread_sched_policy, Some(v))
    }),
    row(5, "MAX_MSGSZ", 0, i32::MAX, |o| o.max_msgsz, |o, v| kept(&mut o.max_msgsz, v)),
    fact(6, "MSG_T_SIZE", |_| MSG_T_SIZE),
    order(7, "THREAD_AFFINITY_CPU_ADD", LAST_PROCESSOR, add_processor),
    order(8, "THREAD_AFFINITY_CPU_REMOVE", LAST_PROCESSOR, remove_processor),
    row(
        THREAD_NAME_PREFIX,
        "THREAD_NAME_PREFIX",
        i32::MIN,
        i32::MAX,
        |o| leading_number(&o.thread_name_prefix),
        |o, v| kept(&mut o.thread_name_prefix, v.to_string().into_bytes()),
    ),
    // A draft option of libzmq.
    row(
        10,
        "ZERO_COPY_RECV",
        0,
        i32::MAX,
        |o| o.zero_copy_recv.into(),
        |o, v| kept(&mut o.zero_copy_recv, v != 0),
    ),
    row(42, "IPV6", 0, i32::MAX, |o| o.ipv6.into(), |o, v| kept(&mut o.ipv6, v != 0)),
    row(70, "BLOCKY", 0, i32::MAX, |o| o.blocky.into(), |o, v| kept(&mut o.blocky, v != 0)),
];

const SCHED_POLICY: Get = |o| o.thread_sched_policy.unwrap_or(-1);

fn kept<T>(field: &mut T, value: T) -> Result<(), Error> {
    *field = value;
    Ok(())
}

fn add_processor(options: &mut ContextOptions, processor: i32) -> Result<(), Error> {
    let processor = processor as usize;
    if !options.thread_affinity.contains(&processor) {
        options.thread_affinity.push(processor);
    }
    Ok(())
}

fn remove_processor(options: &mut ContextOptions, processor: i32) -> Result<(), Error> {
    let at = options.thread_affinity.iter().position(|&listed| listed == processor as usize);
    options.thread_affinity.remove(at.ok_or(Error::Invalid(Invalid::Range))?);
    Ok(())
}

/// The number at the start of a string, as atoi(3) parses it; 0 if there is none.
fn leading_number(text: &[u8]) -> i32 {
    let text = text.trim_ascii_start();
    let sign = usize::from(matches!(text.first(), Some(b'+' | b'-')));
    let digits = text[sign..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let number = std::str::from_utf8(&text[..sign + digits]).ok();
    number.and_then(|number| number.parse().ok()).unwrap_or(0)
}

impl ContextOptions {
    /// Sets option `number`. Errors: `Invalid` for an unknown number or a value out of its range.
    pub fn set(&mut self, number: i32, value: i32) -> Result<(), Error> {
        let row = TABLE
            .iter()
            .find(|row| row.number == number && row.set.is_some())
            .ok_or(Error::Invalid(Invalid::UnknownOption))?;
        match row.set {
            Some(set) if (row.min..=row.max).contains(&value) => set(self, value),
            _ => Err(Error::Invalid(Invalid::Range)),
        }
    }

    /// The value of option `number`. Errors: `Invalid` for an unknown number, or one that can only be set.
    pub fn get(&self, number: i32) -> Result<i32, Error> {
        let get = TABLE.iter().filter(|row| row.number == number).find_map(|row| row.get);
        get.map(|get| get(self)).ok_or(Error::Invalid(Invalid::UnknownOption))
    }

    /// Like `set`; a value of four bytes is an int.
    pub fn set_bytes(&mut self, number: i32, value: &[u8]) -> Result<(), Error> {
        if let Ok(int) = value.try_into() {
            return self.set(number, i32::from_ne_bytes(int));
        }
        if number != THREAD_NAME_PREFIX || value.is_empty() || value.len() > PREFIX_MAX {
            return Err(Error::Invalid(Invalid::Length));
        }
        self.thread_name_prefix = value.to_vec();
        Ok(())
    }

    /// Like `get`, for `room` of four bytes; a string needs at least its length in `room`. Returns the value's
    /// length.
    pub fn get_bytes(&self, number: i32, room: &mut [u8]) -> Result<usize, Error> {
        if let Ok(int) = <&mut [u8; 4]>::try_from(&mut *room) {
            *int = self.get(number)?.to_ne_bytes();
            return Ok(int.len());
        }
        let text = &self.thread_name_prefix;
        let place = room.get_mut(..text.len()).filter(|_| number == THREAD_NAME_PREFIX);
        place.ok_or(Error::Invalid(Invalid::Length))?.copy_from_slice(text);
        Ok(text.len())
    }

    /// The name of an I/O thread. A prefix set from C may contain its terminating NUL.
    pub fn thread_name(&self, number: u32) -> String {
        let prefix = self.thread_name_prefix.split(|&byte| byte == 0).next().unwrap_or_default();
        match prefix {
            [] => format!("ZMQbg/IO/{number}"),
            prefix => format!("{}/ZMQbg/IO/{number}", String::from_utf8_lossy(prefix)),
        }
    }

    /// Applies the options to the calling I/O thread. Settings that the system does not permit are skipped.
    pub fn apply_to_thread(&self) {
        if !self.thread_affinity.is_empty() {
            let _ = thread::run_on(&self.thread_affinity);
        }
        if self.thread_sched_policy.is_some() || self.thread_priority.is_some() {
            let _ = thread::schedule(self.thread_sched_policy, self.thread_priority);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_libzmqs() {
        let options = ContextOptions::default();
        for (number, expected) in
            [(1, 1), (2, 1023), (3, 65_535), (4, -1), (5, i32::MAX), (6, 64), (9, 0), (42, 0), (70, 1)]
        {
            assert_eq!(options.get(number), Ok(expected), "option {number}");
        }
    }

    #[test]
    fn ranges_hold_at_both_ends() {
        for row in TABLE.iter().filter(|row| row.get.is_some() && row.set.is_some()) {
            for end in [row.min, row.max] {
                let mut options = ContextOptions::default();
                options.set(row.number, end).unwrap();
                let switch = matches!(row.number, 10 | 42 | 70);
                let expected = if switch { end.min(1) } else { end };
                assert_eq!(options.get(row.number), Ok(expected), "option {}", row.number);
            }
            for outside in [row.min.checked_sub(1), row.max.checked_add(1)].into_iter().flatten() {
                let outcome = ContextOptions::default().set(row.number, outside);
                assert!(matches!(outcome, Err(Error::Invalid(_))), "option {} at {outside}", row.number);
            }
        }
    }

    #[test]
    fn unknown_and_one_way_options_are_refused() {
        let mut options = ContextOptions::default();
        for number in [-1, 0, 11, 41, 43, 71] {
            assert!(matches!(options.set(number, 1), Err(Error::Invalid(_))));
            assert!(matches!(options.get(number), Err(Error::Invalid(_))));
        }
        assert!(matches!(options.set(6, 64), Err(Error::Invalid(_))));
        assert!(matches!(options.get(7), Err(Error::Invalid(_))));
    }

    #[test]
    fn priority_shares_its_number_with_the_socket_limit() {
        let mut options = ContextOptions::default();
        options.set(3, 7).unwrap();
        assert_eq!((options.thread_priority, options.get(3)), (Some(7), Ok(SOCKET_LIMIT)));
    }

    #[test]
    fn processors_come_and_go() {
        let mut options = ContextOptions::default();
        options.set(7, 2).unwrap();
        options.set(7, 2).unwrap();
        assert_eq!(options.thread_affinity, [2]);
        options.set(8, 2).unwrap();
        assert!(matches!(options.set(8, 2), Err(Error::Invalid(_))));
    }

    #[test]
    fn prefixes_are_numbers_or_texts() {
        let mut options = ContextOptions::default();
        let mut room = [0; 16];
        assert_eq!((options.get_bytes(9, &mut room), options.thread_name(0)), (Ok(0), "ZMQbg/IO/0".into()));
        options.set(9, -12).unwrap();
        assert_eq!((options.get(9), options.thread_name(1)), (Ok(-12), "-12/ZMQbg/IO/1".into()));
        options.set_bytes(9, b"of mine\0").unwrap();
        assert_eq!((options.get(9), options.thread_name(2)), (Ok(0), "of mine/ZMQbg/IO/2".into()));
        assert_eq!((options.get_bytes(9, &mut room), &room[..8]), (Ok(8), &b"of mine\0"[..]));
        assert!(matches!(options.get_bytes(9, &mut [0; 7]), Err(Error::Invalid(_))));
        assert_eq!(options.get_bytes(9, &mut [7; 4]), Ok(4), "four bytes are an int");
        assert!(matches!(options.set_bytes(9, b""), Err(Error::Invalid(_))));
        assert!(matches!(options.set_bytes(9, &[b'x'; 17]), Err(Error::Invalid(_))));
        assert!(matches!(options.set_bytes(1, &[0; 8]), Err(Error::Invalid(_))));
        assert!(matches!(options.get_bytes(1, &mut room), Err(Error::Invalid(_))));
        for (text, number) in [(&b" +7x"[..], 7), (b"x7", 0), (b"-", 0), (b"99999999999", 0)] {
            assert_eq!(leading_number(text), number);
        }
    }
}
