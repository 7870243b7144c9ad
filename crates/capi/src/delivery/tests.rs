//! Tests of delivery clients through the C functions.

use std::ffi::{CStr, CString};
use std::path::Path;
use std::ptr::{null, null_mut};
use std::time::{Duration, Instant};

use super::call_error::pinnace_client_error;
use super::handlers::*;
use super::options::*;
use super::receive::*;
use super::send::*;
use super::sql::pinnace_sql;
use super::together::*;
use super::*;
use crate::error::errno;

const SOON_MS: i64 = 20_000;

fn options(dir: &Path, name: &str) -> *mut c_void {
    let text = |text: String| CString::new(text).unwrap();
    let (name, topic) = (text(name.to_owned()), text(format!("{name}'s")));
    let set = |options, key: &CStr, value: String| {
        // SAFETY: C strings.
        assert_eq!(unsafe { pinnace_client_options_set(options, key.as_ptr(), text(value).as_ptr()) }, 0);
    };
    // SAFETY: as above.
    let options = unsafe { pinnace_client_options_new(name.as_ptr(), topic.as_ptr()) };
    set(options, c"data_dir", dir.join(name.to_str().unwrap()).display().to_string());
    set(options, c"registry", format!("dir://{}/registry", dir.display()));
    options
}

fn start(dir: &Path, name: &str) -> *mut c_void {
    let options = options(dir, name);
    let client = pinnace_client_start(options);
    assert!(!client.is_null(), "{}", words());
    assert_eq!(pinnace_client_options_destroy(options), 0);
    client
}

fn words() -> &'static str {
    // SAFETY: valid for this thread until its next failure.
    unsafe { CStr::from_ptr(pinnace_client_error()) }.to_str().unwrap()
}

fn refused(returned: c_int, number: c_int, part: &str) {
    assert_eq!((returned, errno()), (-1, number), "{}", words());
    assert!(words().contains(part), "{:?} without {part:?}", words());
}

#[test]
fn what_is_none_is_a_fault() {
    // Valid handles are odd.
    let gone = [null_mut(), std::ptr::without_provenance_mut(8)];
    for handle in gone {
        assert!(pinnace_client_start(handle).is_null());
        refused(pinnace_client_close(handle), libc::EFAULT, "not a client");
        refused(pinnace_delivery_ack(handle), libc::EFAULT, "not a delivery");
        refused(pinnace_client_options_destroy(handle), libc::EFAULT, "not an options handle");
        assert!(pinnace_client_recv(handle, 0).is_null());
        assert!(pinnace_delivery_body(handle).is_null());
        assert_eq!((pinnace_delivery_size(handle), errno()), (0, libc::EFAULT));
    }
    // SAFETY: null pointers.
    unsafe {
        assert!(pinnace_client_options_new(null(), c"topic".as_ptr()).is_null());
        assert_eq!((words(), errno()), ("the name is NULL", libc::EFAULT));
        assert!(pinnace_client_options_new(c"\xff".as_ptr(), c"topic".as_ptr()).is_null());
        assert_eq!((words(), errno()), ("the name is not UTF-8", libc::EINVAL));
    }
}

#[test]
fn options_are_checked_when_they_are_set() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), "one");
    // SAFETY: C strings.
    let set = |key: &CStr, value: &CStr| unsafe {
        pinnace_client_options_set(options, key.as_ptr(), value.as_ptr())
    };
    refused(set(c"colour", c"blue"), libc::EINVAL, "the options are data_dir, registry, listen");
    refused(set(c"lease_ms", c"0"), libc::EINVAL, "lease_ms must be a number from 1 to 2592000000");
    for none in [c"", c"-1", c"+1", c"1s", c" 1", c"99999999999999999999"] {
        refused(set(c"interval_ms", none), libc::EINVAL, "interval_ms");
    }
    refused(set(c"registry", c"\xff"), libc::EINVAL, "UTF-8");
    assert_eq!((set(c"lease_ms", c"2592000000"), set(c"max_deliveries", c"4294967295")), (0, 0));
    assert_eq!(set(c"registry", c"pigeon://loft"), 0);
    assert!(pinnace_client_start(options).is_null());
    assert_eq!(errno(), libc::EINVAL);
    assert!(words().contains("pigeon"), "{}", words());
    assert_eq!(pinnace_client_options_destroy(options), 0);
}

#[test]
fn send_options_are_of_this_version_or_an_earlier_one() {
    let dir = tempfile::tempdir().unwrap();
    let client = start(dir.path(), "one");
    let given = |size: usize, ttl_ms: i64, durability: i64, beyond: i64| {
        // As laid out in memory: `all` is the lower half of a word, and another word may follow.
        let options = [size as i64, -1, ttl_ms, durability << 32, 0, 0, 0, 0, 0, 0, 0, beyond];
        // SAFETY: a C string, an empty body, and options followed by one more word.
        unsafe { pinnace_client_send(client, c"news".as_ptr(), null(), 0, options.as_ptr().cast()) }
    };
    let size = size_of::<SendOptions>();
    assert_eq!((given(size, 0, 0, 1), given(size + 8, u32::MAX.into(), 1, 0)), (0, 0));
    refused(given(size + 8, 0, 0, 1), libc::E2BIG, "does not have");
    // The first version ended after the durability, and the second one after the number of headers.
    assert_eq!((given(32, 0, 1, 0), given(40, 0, 0, 0), given(80, 0, 0, 0)), (0, 0, 0));
    for odd in [24, 31, 33, 44] {
        refused(given(odd, 0, 0, 0), libc::EINVAL, "set it to the size of the structure");
    }
    refused(given(0, 0, 0, 0), libc::EINVAL, "send options: 0;");
    refused(given(usize::MAX, 0, 0, 0), libc::EINVAL, "set it to the size of the structure");
    refused(given(size, 0, 7, 0), libc::EINVAL, "durability 7");
    refused(given(size, -1, 0, 0), libc::EINVAL, "not -1");
    refused(given(size, 1 << 32, 0, 0), libc::EINVAL, "4294967295");
    refused(pinnace_client_wait(client, u64::MAX, 0), libc::EINVAL, "unknown ticket");
    assert_eq!(pinnace_client_close(client), 0);
    refused(pinnace_client_close(client), libc::EFAULT, "closed");
}

unsafe extern "C" fn pass_on(delivery: *mut c_void, client: *mut c_void) -> c_int {
    let (body, size) = (pinnace_delivery_body(delivery), pinnace_delivery_size(delivery));
    if size == 0 {
        return pinnace_client_close(client);
    }
    // SAFETY: body and size as the delivery reports them.
    unsafe { pinnace_client_send_to(client, c"last's".as_ptr(), body, size) }
}

#[test]
fn a_handler_may_send_and_close_its_own_client() {
    let dir = tempfile::tempdir().unwrap();
    let (first, middle, last) =
        (start(dir.path(), "first"), start(dir.path(), "middle"), start(dir.path(), "last"));
    // SAFETY: a handler of this kind, and a client; then C strings and bodies.
    unsafe {
        assert_eq!(pinnace_client_listen(middle, Some(pass_on), middle), 0);
        for body in [&b"one"[..], b"two"] {
            let (data, topic) = (body.as_ptr().cast(), c"middle's".as_ptr());
            assert_eq!(pinnace_client_send_to(first, topic, data, body.len()), 0);
        }
    }
    for size in [3, 3] {
        let delivery = pinnace_client_recv(last, SOON_MS);
        assert_eq!(pinnace_delivery_size(delivery), size, "{}", words());
        // SAFETY: the text of a delivery.
        assert_eq!(unsafe { CStr::from_ptr(pinnace_delivery_from(delivery)) }, c"middle");
        assert_eq!(pinnace_delivery_ack(delivery), 0);
        refused(pinnace_delivery_ack(delivery), libc::EFAULT, "settled");
    }
    // SAFETY: a C string, and an empty body.
    assert_eq!(unsafe { pinnace_client_send_to(first, c"middle's".as_ptr(), null(), 0) }, 0);
    while !pinnace_client_name(middle).is_null() {
        std::thread::yield_now();
    }
    assert_eq!(pinnace_client_close(first), 0);
    // Close returns 0 if the client has not ended yet; it waits for the end then.
    if pinnace_client_close(middle) != 0 {
        assert_eq!(errno(), libc::EFAULT);
    }
    refused(pinnace_client_close(middle), libc::EFAULT, "closed");
    assert_eq!(pinnace_client_close(last), 0);
}

#[test]
fn closing_ends_what_waits() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), "one");
    // SAFETY: C strings.
    let set = unsafe { pinnace_client_options_set(options, c"disk_limit".as_ptr(), c"4194304".as_ptr()) };
    let client = pinnace_client_start(options);
    assert_eq!((set, pinnace_client_options_destroy(options)), (0, 0));
    // SAFETY: a C string, and an empty body.
    assert_eq!(unsafe { pinnace_client_send_to(client, c"nobody's".as_ptr(), null(), 0) }, 0);
    let address = client.addr();
    std::thread::scope(|scope| {
        let client = || std::ptr::without_provenance_mut::<c_void>(address);
        let ends = [
            scope.spawn(move || (pinnace_client_recv(client(), -1).is_null(), errno())),
            scope.spawn(move || (pinnace_client_wait_pending(client(), 0, -1) == -1, errno())),
        ];
        // The registry's reference, one for each call in progress, and the one of this `get`.
        while Arc::strong_count(&CLIENTS.get(client()).unwrap()) < 4 {
            std::thread::yield_now();
        }
        let sends = scope.spawn(move || {
            let body = [7; 10_000];
            // Sends until the disk is full, then waits. SAFETY: a C string and a body.
            let send = || unsafe {
                pinnace_client_send_to(client(), c"nobody's".as_ptr(), body.as_ptr().cast(), body.len())
            };
            while send() == 0 {}
            errno()
        });
        // Either the sender waits, or it is slow and the test shows less.
        let (mut pending, mut since) = (0, Instant::now());
        while since.elapsed() < Duration::from_millis(100) {
            let mut now = 0;
            // SAFETY: a place for the number.
            assert_eq!(unsafe { pinnace_client_pending(client(), &raw mut now) }, 0);
            if now != pending {
                (pending, since) = (now, Instant::now());
            }
            std::thread::yield_now();
        }
        assert_eq!(pinnace_client_close(client()), 0);
        for end in ends {
            assert_eq!(end.join().unwrap(), (true, libc::ECANCELED));
        }
        // EFAULT: the sender was between two calls.
        assert!([libc::ECANCELED, libc::EFAULT].contains(&sends.join().unwrap()));
    });
    // The name is free at once.
    assert_eq!(pinnace_client_close(start(dir.path(), "one")), 0);
}

#[test]
fn a_full_store_says_what_uses_it() {
    let dir = tempfile::tempdir().unwrap();
    let options = options(dir.path(), "full");
    // SAFETY: C strings.
    let set = unsafe { pinnace_client_options_set(options, c"disk_limit".as_ptr(), c"4194304".as_ptr()) };
    let client = pinnace_client_start(options);
    assert_eq!((set, pinnace_client_options_destroy(options)), (0, 0));
    let body = [7; 100_000];
    // The first version of pinnace_send_options_t: size, timeout_ms, ttl_ms, and two numbers of int.
    let how: [i64; 4] = [32, 300, 0, 0];
    // SAFETY: a C string, a body and options.
    let send = || unsafe {
        let (data, topic) = (body.as_ptr().cast(), c"away".as_ptr());
        pinnace_client_send(client, topic, data, body.len(), how.as_ptr().cast())
    };
    // On a busy machine a send may time out while there is room.
    while send() >= 0 || errno() == libc::EAGAIN {}
    assert_eq!(errno(), libc::ENOSPC);
    for part in ["4194304 (disk_limit)", "bytes for any receiver on away"] {
        assert!(words().contains(part), "{}", words());
    }
    assert_eq!(pinnace_client_close(client), 0);
}

/// What is invalid acknowledges nothing: the delivery is still the caller's, until all is accepted.
#[test]
fn an_acknowledgement_goes_with_messages() {
    let dir = tempfile::tempdir().unwrap();
    let [sender, worker, printer] = ["sender", "worker", "printer"].map(|name| start(dir.path(), name));
    let receive = |client| {
        let delivery = pinnace_client_recv(client, SOON_MS);
        assert!(!delivery.is_null(), "{}", words());
        delivery
    };
    let message = |topic: *const c_char, size| MessageEntry {
        topic,
        data: c"result".as_ptr().cast(),
        size,
        options: null(),
    };
    // SAFETY: a C string.
    assert_eq!(unsafe { pinnace_client_send_to(sender, c"worker's".as_ptr(), null(), 0) }, 0);
    let delivery = receive(worker);
    let good = message(c"printer's".as_ptr(), 6);
    let bad = [good, message(null(), 6)];
    let mut ticket = 0;
    // SAFETY: null pointers, or arrays of their size.
    unsafe {
        let call = pinnace_client_ack_and_send;
        refused(call(worker, null_mut(), null(), 0), libc::EFAULT, "not a delivery");
        refused(call(worker, delivery, null(), 1), libc::EFAULT, "the messages are NULL");
        refused(call(worker, delivery, bad.as_ptr(), 2), libc::EFAULT, "the topic is NULL");
        refused(call(printer, delivery, &raw const good, 1), libc::EINVAL, "another client");
        let call = pinnace_client_ack_and_send_async;
        refused(call(worker, delivery, null(), 0, null_mut()), libc::EFAULT, "the ticket pointer is NULL");
        assert_eq!(pinnace_delivery_size(delivery), 0);
        assert_eq!(call(worker, delivery, &raw const good, 1, &raw mut ticket), 0, "{}", words());
    }
    assert_eq!(pinnace_client_wait(worker, ticket, SOON_MS), 0);
    refused(pinnace_delivery_ack(delivery), libc::EFAULT, "not a delivery");
    let result = receive(printer);
    assert_eq!((pinnace_delivery_size(result), pinnace_delivery_ack(result)), (6, 0));
    assert_eq!(pinnace_client_wait_pending(sender, 0, SOON_MS), 0);
    for client in [sender, worker, printer] {
        assert_eq!(pinnace_client_close(client), 0);
    }
}

#[test]
fn sql_texts_have_numbers() {
    let found = |number| {
        let text = pinnace_sql(number);
        // SAFETY: NULL, or a C string for ever.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_str().unwrap())
    };
    for (number, begin) in [
        (0, "CREATE TABLE IF NOT EXISTS pinnace_outbox (\n    id INTEGER"),
        (1, "CREATE TABLE IF NOT EXISTS pinnace_outbox (\n    id BIGINT"),
        (2, "SELECT store_id FROM pinnace_outbox_relay"),
        (3, "INSERT INTO pinnace_outbox_relay"),
        (4, "SELECT id, message_id"),
        (5, "SELECT row_id, name, value"),
        (6, "DELETE FROM pinnace_outbox WHERE id"),
        (7, "UPDATE pinnace_outbox SET refused"),
        (8, "INSERT INTO pinnace_handled"),
        (9, "DELETE FROM pinnace_handled"),
    ] {
        assert!(found(number).is_some_and(|text| text.starts_with(begin)), "{number}: {:?}", found(number));
    }
    for number in [-1, 10, c_int::MAX] {
        assert_eq!((found(number), errno()), (None, libc::EINVAL));
        assert!(words().contains(&number.to_string()), "{}", words());
    }
}
