//! Frames spelt out by hand, and frames of this encoder read again.

use super::*;
use crate::rules::{Deletion, Existing, Pattern, Rules};

#[test]
fn commands_have_the_octets_of_libfilemq() {
    let cases: [(Message<'_>, &[u8]); 10] = [
        (Message::GREETING, b"\xAA\xA3\x01\x06FILEMQ\0\x02"),
        (Message::OhaiOk, b"\xAA\xA3\x04"),
        (
            Message::Icanhaz { path: b"/a", options: Hash::EMPTY, cache: Hash::EMPTY },
            b"\xAA\xA3\x05\0\0\0\x02/a\0\0\0\0\0\0\0\0",
        ),
        (Message::IcanhazOk, b"\xAA\xA3\x06"),
        (
            Message::Nom { credit: 5_000_000, sequence: 1 },
            b"\xAA\xA3\x07\0\0\0\0\0\x4C\x4B\x40\0\0\0\0\0\0\0\x01",
        ),
        (
            Message::Cheezburger(Cheezburger {
                sequence: 3,
                operation: Change::Create,
                filename: b"/a/b",
                offset: 256,
                eof: true,
                headers: Hash::EMPTY,
                chunk: b"xyz",
            }),
            b"\xAA\xA3\x08\0\0\0\0\0\0\0\x03\x01\0\0\0\x04/a/b\0\0\0\0\0\0\x01\0\x01\0\0\0\0\0\0\0\x03xyz",
        ),
        (Message::Hugz, b"\xAA\xA3\x09"),
        (Message::HugzOk, b"\xAA\xA3\x0A"),
        (Message::Srsly { reason: b"no" }, b"\xAA\xA3\x80\x02no"),
        (Message::Rtfm { reason: b"what" }, b"\xAA\xA3\x81\x04what"),
    ];
    for (message, frame) in cases {
        assert_eq!(message.to_frame(), frame, "{message:?}");
        assert_eq!(Message::read(frame), Ok(message));
    }
}

#[test]
fn every_cut_is_malformed() {
    let request = Request::new(7, Mode::Fetch, b"/a").to_frame();
    for len in 0..request.len() {
        assert!(Message::read(&request[..len]).is_err());
    }
    assert_eq!(Message::read(b"\xAA\xA0\x01"), Err(DecodeError::Foreign));
}

#[test]
fn requests_are_read_as_written() {
    let mut request = Request::new(42, Mode::Fetch, b"/alias/dir");
    request.names = vec![b"a".to_vec(), b"b/c".to_vec()];
    request.ranges = vec![(0, 16384), (32768, 40000)];
    (request.chunk, request.tag, request.source) = (65536, b"v1".to_vec(), b"/up".to_vec());
    (request.known, request.digests) = (Some((5, -7)), true);
    for deletion in [None, Some(Deletion::default()), Some(Deletion { most: Some(0), force: true })] {
        request.rules = Rules {
            filter: vec![Pattern::exclude("*.o"), Pattern::include("-a")],
            existing: Existing::NotNewer,
            checksum: deletion.is_some(),
            whole_files: deletion.is_none(),
            deletion,
            fsync: deletion.is_some(),
            compress: true,
            sparse: deletion.is_some(),
            hard_links: deletion.is_none(),
            owner: deletion.is_some(),
            xattrs: deletion.is_none(),
            dry_run: deletion.is_none(),
        };
        assert_read_as_written(&request);
    }
    assert_eq!(Request::read(b"/a", Hash::EMPTY), None);
}

fn assert_read_as_written(request: &Request) {
    let frame = request.to_frame();
    let Ok(Message::Icanhaz { path, options, .. }) = Message::read(&frame) else { panic!("no ICANHAZ") };
    assert_eq!(Request::read(path, options).unwrap().as_ref(), Ok(request));
}

#[test]
fn ranges_out_of_order_are_refused() {
    for ranges in ["5-5", "5-4", "0-9,8-10", "0-", "-1", "a-b", "", "0-18446744073709551616", "+1-2"] {
        let mut options = HashWriter::default();
        for (name, value) in [("pinnace", "1"), ("request", "1"), ("mode", "fetch"), ("ranges", ranges)] {
            options.put(name.as_bytes(), value.as_bytes());
        }
        assert_eq!(Request::read(b"/", options.hash()), Some(Err("invalid ranges")), "{ranges}");
    }
}

#[test]
fn headers_are_read_as_written() {
    let headers = Headers {
        request: Some(9),
        form: Form::Begin,
        kind: Some(Kind::File),
        size: Some(u64::MAX),
        mtime_ns: Some(-5),
        mode: Some(0o644),
        tag: b"\0tag".to_vec(),
        digest: Some([7; DIGEST]),
        groups: vec![1; 2 * DIGEST],
        ..Headers::default()
    };
    assert_eq!(Headers::read(headers.write().hash()), Ok(headers));
    assert_eq!(Headers::read(Hash::EMPTY), Ok(Headers::default()));
}

#[test]
fn entries_are_read_as_written() {
    let list = [
        Entry {
            kind: Kind::Directory,
            name: b"d",
            size: 0,
            mtime_ns: 1,
            mode: 0o755,
            target: b"",
            content: None,
            extra: Extra::default(),
        },
        Entry {
            kind: Kind::Link,
            name: b"l\n",
            size: 0,
            mtime_ns: -1,
            mode: 0o777,
            target: b"d/x",
            content: None,
            extra: Extra::default(),
        },
    ];
    let mut chunk = Vec::new();
    list.iter().for_each(|entry| put_entry(&mut chunk, entry).unwrap());
    assert_eq!(Entries::of_list(&chunk).collect::<Result<Vec<_>, _>>(), Ok(list.to_vec()));
    let digest = [3; DIGEST];
    assert_extra_is_read_as_written(list[0]);
    let file = Entry {
        kind: Kind::File,
        name: b"f",
        size: 2,
        mtime_ns: 0,
        mode: 0o600,
        target: b"",
        content: Some((&digest, b"hi")),
        extra: Extra::default(),
    };
    let mut pack = Vec::new();
    put_entry(&mut pack, &file).unwrap();
    assert_eq!(Entries::of_pack(&pack).collect::<Vec<_>>(), [Ok(file)]);
    assert!(Entries::of_pack(&pack[..pack.len() - 1]).any(|entry| entry.is_err()));
}

fn assert_extra_is_read_as_written(entry: Entry<'_>) {
    for link in [HardLink::None, HardLink::First, HardLink::Later(b"a/b")] {
        let (owner, xattrs) = (Some((7, u32::MAX)), Some(&b"xattrs"[..]).filter(|_| link == HardLink::First));
        let (entry, mut chunk) = (Entry { extra: Extra { link, owner, xattrs }, ..entry }, Vec::new());
        put_entry_with_extra(&mut chunk, &entry).unwrap();
        let len = chunk.len();
        let read = |chunk| Entries::of_list(chunk).with_extra(true).collect::<Result<Vec<_>, _>>();
        assert_eq!(read(&chunk), Ok(vec![entry]));
        (1..len).for_each(|cut| assert!(read(&chunk[..cut]).is_err(), "{cut} octets"));
    }
    let mut chunk = Vec::new();
    put_entry(&mut chunk, &entry).unwrap();
    // A tag of a later version is ignored.
    chunk.extend_from_slice(&[0, 0, 0, 6, 99, 0, 0, 0, 1, 7]);
    assert_eq!(Entries::of_list(&chunk).with_extra(true).next(), Some(Ok(entry)));
}
