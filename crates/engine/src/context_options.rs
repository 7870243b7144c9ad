//! A context's options: zmq_ctx_set(3) and zmq_ctx_get(3), from one table.
//!
//! Those of threads are taken and kept; the I/O threads that a context starts with its first socket look at
//! them.

use crate::error::Error;

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
    /// Taken, as libzmq does: large bodies are always received in place here.
    pub zero_copy_recv: bool,
    /// None: the system's.
    pub thread_sched_policy: Option<i32>,
    pub thread_priority: Option<i32>,
    /// The processors that I/O threads may run on; empty: all.
    pub thread_affinity: Vec<i32>,
    /// A number before the I/O threads' names; 0: none.
    pub thread_name_prefix: i32,
}

/// The answer to SOCKET_LIMIT. libzmq gives it, and takes larger numbers nevertheless.
pub const SOCKET_LIMIT: i32 = 65_535;
/// sizeof (zmq_msg_t).
const MSG_T_SIZE: i32 = 64;

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
            thread_name_prefix: 0,
        }
    }
}

type Get = fn(&ContextOptions) -> i32;
type Set = fn(&mut ContextOptions, i32) -> Result<(), Error>;

/// One option: what can be set, and how it is read.
struct Row {
    number: i32,
    min: i32,
    max: i32,
    get: Option<Get>,
    set: Option<Set>,
}

const fn row(number: i32, min: i32, max: i32, get: Get, set: Set) -> Row {
    Row { number, min, max, get: Some(get), set: Some(set) }
}

/// The table. Number 3 is SOCKET_LIMIT where it is read and THREAD_PRIORITY where it is set.
const TABLE: &[Row] = &[
    // IO_THREADS
    row(1, 0, i32::MAX, |o| o.io_threads as i32, |o, v| kept(&mut o.io_threads, v as u32)),
    // MAX_SOCKETS
    row(2, 1, i32::MAX, |o| o.max_sockets as i32, |o, v| kept(&mut o.max_sockets, v as u32)),
    row(3, 0, i32::MAX, |_| SOCKET_LIMIT, |o, v| kept(&mut o.thread_priority, Some(v))),
    // THREAD_SCHED_POLICY
    row(
        4,
        0,
        i32::MAX,
        |o| o.thread_sched_policy.unwrap_or(-1),
        |o, v| kept(&mut o.thread_sched_policy, Some(v)),
    ),
    // MAX_MSGSZ
    row(5, 0, i32::MAX, |o| o.max_msgsz, |o, v| kept(&mut o.max_msgsz, v)),
    Row { number: 6, min: 0, max: 0, get: Some(|_| MSG_T_SIZE), set: None },
    // THREAD_AFFINITY_CPU_ADD, THREAD_AFFINITY_CPU_REMOVE
    Row { number: 7, min: 0, max: 1023, get: None, set: Some(add_processor) },
    Row { number: 8, min: 0, max: 1023, get: None, set: Some(remove_processor) },
    // THREAD_NAME_PREFIX
    row(9, i32::MIN, i32::MAX, |o| o.thread_name_prefix, |o, v| kept(&mut o.thread_name_prefix, v)),
    // ZERO_COPY_RECV, a draft
    row(10, 0, i32::MAX, |o| o.zero_copy_recv.into(), |o, v| kept(&mut o.zero_copy_recv, v != 0)),
    // IPV6
    row(42, 0, i32::MAX, |o| o.ipv6.into(), |o, v| kept(&mut o.ipv6, v != 0)),
    // BLOCKY
    row(70, 0, i32::MAX, |o| o.blocky.into(), |o, v| kept(&mut o.blocky, v != 0)),
];

fn kept<T>(field: &mut T, value: T) -> Result<(), Error> {
    *field = value;
    Ok(())
}

fn add_processor(options: &mut ContextOptions, processor: i32) -> Result<(), Error> {
    if !options.thread_affinity.contains(&processor) {
        options.thread_affinity.push(processor);
    }
    Ok(())
}

fn remove_processor(options: &mut ContextOptions, processor: i32) -> Result<(), Error> {
    let at = options.thread_affinity.iter().position(|&listed| listed == processor);
    options.thread_affinity.remove(at.ok_or(Error::Invalid)?);
    Ok(())
}

impl ContextOptions {
    /// Sets option `number`. Errors: `Invalid` for an unknown number or a value out of its range.
    pub fn set(&mut self, number: i32, value: i32) -> Result<(), Error> {
        let row = TABLE.iter().find(|row| row.number == number).ok_or(Error::Invalid)?;
        match row.set {
            Some(set) if (row.min..=row.max).contains(&value) => set(self, value),
            _ => Err(Error::Invalid),
        }
    }

    /// The value of option `number`. Errors: `Invalid` for an unknown number, or one that can only be set.
    pub fn get(&self, number: i32) -> Result<i32, Error> {
        let row = TABLE.iter().find(|row| row.number == number).ok_or(Error::Invalid)?;
        row.get.map(|get| get(self)).ok_or(Error::Invalid)
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
        for row in TABLE.iter().filter(|row| row.get.is_some() && row.set.is_some() && row.number != 3) {
            for end in [row.min, row.max] {
                let mut options = ContextOptions::default();
                options.set(row.number, end).unwrap();
                let switch = matches!(row.number, 10 | 42 | 70);
                let expected = if switch { end.min(1) } else { end };
                assert_eq!(options.get(row.number), Ok(expected), "option {}", row.number);
            }
            for outside in [row.min.checked_sub(1), row.max.checked_add(1)].into_iter().flatten() {
                let outcome = ContextOptions::default().set(row.number, outside);
                assert_eq!(outcome, Err(Error::Invalid), "option {} at {outside}", row.number);
            }
        }
    }

    #[test]
    fn unknown_and_one_way_options_are_refused() {
        let mut options = ContextOptions::default();
        for number in [-1, 0, 11, 41, 43, 71] {
            assert_eq!(options.set(number, 1), Err(Error::Invalid));
            assert_eq!(options.get(number), Err(Error::Invalid));
        }
        assert_eq!(options.set(6, 64), Err(Error::Invalid));
        assert_eq!(options.get(7), Err(Error::Invalid));
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
        assert_eq!(options.set(8, 2), Err(Error::Invalid));
    }
}
