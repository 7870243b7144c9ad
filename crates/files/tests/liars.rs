//! Servers that lie: frame by frame, by hand.

mod fake;

use std::fs;
use std::path::Path;

use fake::{Fake, content, data, with_client};
use pinnace_files::client::Report;
use pinnace_files::error::{Code, Error};
use pinnace_files::rules::{Pattern, Rules};
use pinnace_files::transfer::digest::{GROUP, group_value};
use pinnace_files::wire::{Entry, Extra, Form, Headers, Kind, Message, Mode, Request, put_entry};

/// Fetches from a scripted server.
fn get(to: &Path, script: impl FnOnce(&mut Fake) + Send + 'static) -> Result<Report, Error> {
    with_client(script, |client| client.get("/file", to).wait())
}

fn codes(outcome: &Result<Report, Error>) -> Vec<Code> {
    outcome.as_ref().unwrap().failed.iter().map(|(_, error)| error.code).collect()
}

#[test]
fn a_wrong_group_is_fetched_again_and_no_other() {
    let to = tempfile::tempdir().unwrap();
    let target = to.path().join("file");
    let whole = content(5);
    let expected = whole.clone();
    let report = get(&target, move |fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::File, whole.len() as u64);
        let mut wrong = whole.clone();
        wrong[2 * GROUP as usize + 5] ^= 1;
        fake.reply(&request, data(&whole), 0, true, &wrong);
        fake.end(&request);
        let again = fake.next_request().unwrap();
        assert_eq!(again.ranges, [(2 * GROUP, 3 * GROUP)]);
        assert_eq!(again.tag, b"tag");
        fake.begin(&again, Kind::File, whole.len() as u64);
        let group = &whole[2 * GROUP as usize..3 * GROUP as usize];
        let headers = Headers {
            groups: group_value(2, group, whole.len() as u64).to_vec(),
            digest: Some(*blake3::hash(&whole).as_bytes()),
            ..Headers::default()
        };
        fake.reply(&again, headers, 2 * GROUP, true, group);
        fake.end(&again);
    });
    assert_eq!(report.unwrap().failed, vec![]);
    assert_eq!(fs::read(target).unwrap(), expected);
}

#[test]
fn a_group_that_stays_wrong_fails_the_file() {
    let to = tempfile::tempdir().unwrap();
    let outcome = get(&to.path().join("file"), |fake| {
        let whole = content(2);
        for _ in 0..4 {
            let request = fake.next_request().unwrap();
            fake.begin(&request, Kind::File, whole.len() as u64);
            fake.reply(&request, data(&whole), 0, true, &vec![0; whole.len()]);
            fake.end(&request);
        }
    });
    assert_eq!(codes(&outcome), [Code::Corrupt]);
    assert!(!to.path().join("file").exists());
}

/// Octets of another content, after those that were verified: a part of a group, and a whole one with its value.
#[test]
fn verified_octets_are_not_overwritten() {
    for len in [100, GROUP as usize] {
        let to = tempfile::tempdir().unwrap();
        let report = get(&to.path().join("file"), move |fake| {
            let (request, whole, other) = (fake.next_request().unwrap(), content(3), vec![7; len]);
            fake.begin(&request, Kind::File, whole.len() as u64);
            fake.reply(&request, data(&whole), 0, false, &whole);
            let value = group_value(0, &other, whole.len() as u64).to_vec();
            let groups = if len == GROUP as usize { value } else { Vec::new() };
            fake.reply(&request, Headers { groups, ..data(&whole) }, 0, true, &other);
            fake.end(&request);
        });
        assert_eq!(report.unwrap().files, 1);
        assert!(fs::read(to.path().join("file")).unwrap() == content(3), "{len} octets");
    }
}

#[test]
fn another_digest_than_the_content_s_fails_the_file() {
    let to = tempfile::tempdir().unwrap();
    let outcome = get(&to.path().join("file"), |fake| {
        let (request, whole) = (fake.next_request().unwrap(), content(2));
        fake.begin(&request, Kind::File, whole.len() as u64);
        fake.reply(&request, Headers { digest: Some([9; 32]), ..data(&whole) }, 0, true, &whole);
        fake.end(&request);
    });
    assert_eq!(codes(&outcome), [Code::Corrupt]);
    assert!(!to.path().join("file").exists());
}

#[test]
fn content_beyond_the_file_or_between_groups_fails_the_file() {
    for (offset, len) in [(GROUP, 2 * GROUP), (u64::MAX, 1), (5, GROUP)] {
        let to = tempfile::tempdir().unwrap();
        let outcome = get(&to.path().join("file"), move |fake| {
            let request = fake.next_request().unwrap();
            fake.begin(&request, Kind::File, 2 * GROUP);
            fake.reply(&request, Headers::default(), offset, false, &vec![0; len as usize]);
            fake.end(&request);
        });
        assert_eq!(codes(&outcome), [Code::Invalid], "{len} octets at {offset}");
    }
}

#[test]
fn a_size_without_room_is_told_before_the_content() {
    let to = tempfile::tempdir().unwrap();
    let outcome = get(&to.path().join("file"), |fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::File, 1 << 60);
        fake.end(&request);
    });
    assert!(matches!(codes(&outcome)[..], [Code::NoRoom | Code::Limit]), "{outcome:?}");
}

#[test]
fn content_beyond_the_credit_ends_the_dialogue() {
    let to = tempfile::tempdir().unwrap();
    let outcome = get(&to.path().join("file"), |fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::File, 1 << 30);
        // 3 MiB; the first window has 2 MiB.
        fake.reply(&request, Headers::default(), 0, false, &content(16 * 12));
        fake.end(&request);
    });
    assert!(matches!(outcome, Err(Error::Protocol(_))), "{outcome:?}");
}

#[test]
fn a_server_that_understands_nothing_is_given_up() {
    let to = tempfile::tempdir().unwrap();
    let outcome = get(&to.path().join("file"), |fake| {
        for _ in 0..4 {
            fake.next_request().unwrap();
            fake.send(&Message::Rtfm { reason: b"what?" }.to_frame());
        }
    });
    assert!(matches!(&outcome, Err(Error::Protocol(reason)) if reason == "what?"), "{outcome:?}");
}

#[test]
fn names_that_leave_the_folder_are_refused() {
    let to = tempfile::tempdir().unwrap();
    let inner = to.path().join("inner");
    let outcome = get(&inner, |fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::Directory, 0);
        fake.end(&request);
        let list = fake.next_request().unwrap();
        let mut chunk = Vec::new();
        for name in ["../outside", "/outside", "a/../../outside", "", ".", "a//b"] {
            let (name, target) = (name.as_bytes(), &b""[..]);
            for kind in [Kind::File, Kind::Directory] {
                let entry = Entry {
                    kind,
                    name,
                    size: 1,
                    mtime_ns: 0,
                    mode: 0o644,
                    target,
                    content: None,
                    extra: Extra::default(),
                };
                put_entry(&mut chunk, &entry).unwrap();
            }
        }
        fake.reply(&list, Headers { form: Form::List, ..Headers::default() }, 0, false, &chunk);
        let mut pack = Vec::new();
        let digest = *blake3::hash(b"x").as_bytes();
        let content = Some((&digest, &b"x"[..]));
        let entry = Entry {
            kind: Kind::File,
            name: b"../outside",
            size: 1,
            mtime_ns: 0,
            mode: 0o644,
            target: b"",
            content,
            extra: Extra::default(),
        };
        put_entry(&mut pack, &entry).unwrap();
        fake.reply(&list, Headers { form: Form::Pack, ..Headers::default() }, 0, false, &pack);
        fake.end(&list);
    });
    assert_eq!(codes(&outcome), vec![Code::Invalid; 13]);
    assert_eq!(fs::read_dir(to.path()).unwrap().count(), 1, "something is outside");
    assert_eq!(fs::read_dir(&inner).unwrap().count(), 1, "the directory itself");
    assert_eq!(fs::read_dir(inner.join("file")).unwrap().count(), 0);
}

/// CVE-2024-12087 and others of rsync: a link that the server has planted is not followed.
#[test]
fn a_link_that_the_server_made_is_not_followed() {
    let to = tempfile::tempdir().unwrap();
    let (inner, outside) = (to.path().join("inner"), to.path().join("outside"));
    fs::create_dir(&outside).unwrap();
    let target = outside.to_str().unwrap().as_bytes().to_vec();
    let outcome = get(&inner, move |fake| {
        let request = fake.next_request().unwrap();
        fake.begin(&request, Kind::Directory, 0);
        fake.end(&request);
        let list = fake.next_request().unwrap();
        let (mut chunk, mut pack) = (Vec::new(), Vec::new());
        let link = Entry {
            kind: Kind::Link,
            name: b"a",
            size: 0,
            mtime_ns: 0,
            mode: 0o777,
            target: &target,
            content: None,
            extra: Extra::default(),
        };
        put_entry(&mut chunk, &link).unwrap();
        fake.reply(&list, Headers { form: Form::List, ..Headers::default() }, 0, false, &chunk);
        let digest = *blake3::hash(b"x").as_bytes();
        let content = Some((&digest, &b"x"[..]));
        let file = Entry {
            kind: Kind::File,
            name: b"a/x",
            size: 1,
            mtime_ns: 0,
            mode: 0o644,
            target: b"",
            content,
            extra: Extra::default(),
        };
        put_entry(&mut pack, &file).unwrap();
        fake.reply(&list, Headers { form: Form::Pack, ..Headers::default() }, 0, false, &pack);
        fake.end(&list);
    });
    assert!(matches!(codes(&outcome)[..], [Code::NotPlain | Code::NotFound]), "{outcome:?}");
    assert_eq!(fs::read_dir(outside).unwrap().count(), 0);
}

/// What a server has said before it got the client's last greeting is about its session before.
#[test]
fn an_upload_begins_once_after_each_greeting() {
    let dir = tempfile::tempdir().unwrap();
    let (from, whole) = (dir.path().join("file"), content(5));
    fs::write(&from, &whole).unwrap();
    let outcome = with_client(
        move |fake| {
            let fetch = |upload: &Request| Request::new(1, Mode::Fetch, &upload.source).to_frame();
            let nom = |credit| Message::Nom { credit, sequence: 1 }.to_frame();
            let upload = fake.next_upload().unwrap();
            fake.send(&Message::Rtfm { reason: b"something else" }.to_frame());
            // The client begins again, and this server does not know yet.
            fake.send(&nom(3 * GROUP / 2));
            fake.send(&fetch(&upload));
            let upload = fake.next_upload().unwrap();
            fake.send(&nom(whole.len() as u64));
            fake.send(&fetch(&upload));
            let mut got = Vec::new();
            assert_eq!(fake.next_chunk().1.form, Form::Begin);
            loop {
                let (offset, headers, chunk) = fake.next_chunk();
                if headers.form == Form::End {
                    break;
                }
                assert_eq!((headers.form, offset), (Form::Data, got.len() as u64));
                got.extend(chunk);
            }
            assert!(got == whole);
            fake.end(&upload);
        },
        |client| client.put(&from, "/file").wait(),
    );
    assert_eq!(outcome.unwrap().failed, []);
}

/// A directory that cannot be read is listed, and then fails. Whether a pattern of directories leaves it out is known
/// by the listing only.
#[test]
fn a_directory_that_is_left_out_may_be_unreadable() {
    for (pattern, failed) in [("locked", 0), ("locked/", 0), ("/locked/", 0), ("other/", 2)] {
        let to = tempfile::tempdir().unwrap();
        fs::create_dir(to.path().join("file")).unwrap();
        fs::write(to.path().join("file/old"), "").unwrap();
        let script = |fake: &mut Fake| {
            let request = fake.next_request().unwrap();
            fake.begin(&request, Kind::Directory, 0);
            fake.end(&request);
            let request = fake.next_request().unwrap();
            let mut entries = Vec::new();
            for (name, kind) in [(&b"link"[..], Kind::Link), (b"locked", Kind::Directory)] {
                let (size, mtime_ns, content) = (0, 0, None);
                let extra = Extra::default();
                let entry = Entry { kind, name, size, mtime_ns, mode: 0, target: b"x", content, extra };
                put_entry(&mut entries, &entry).unwrap();
            }
            fake.reply(&request, Headers { form: Form::List, ..Headers::default() }, 0, false, &entries);
            let denied = Headers { form: Form::Failed, error: b"denied".to_vec(), ..Headers::default() };
            fake.reply_of(&request, b"/file/locked", denied);
            fake.reply(&request, Headers { form: Form::Listed, ..Headers::default() }, 0, false, b"");
            fake.end(&request);
        };
        let rules = Rules { filter: vec![Pattern::exclude(pattern)], ..Rules::mirror() };
        let outcome = with_client(script, |client| client.get_by("/file", to.path(), rules).wait());
        assert_eq!(codes(&outcome).len(), failed, "{pattern}: {outcome:?}");
        assert_eq!(to.path().join("file/old").exists(), failed > 0, "{pattern}");
    }
}

/// Of a large version that was replaced by a small one while it was fetched, nothing is left.
#[test]
fn a_file_that_shrinks_while_it_is_fetched_leaves_no_record() {
    let to = tempfile::tempdir().unwrap();
    let report = get(&to.path().join("file"), |fake| {
        let (request, large, small) = (fake.next_request().unwrap(), content(40), content(2));
        fake.begin(&request, Kind::File, large.len() as u64);
        fake.reply(&request, data(&large), 0, false, &large[..20 * GROUP as usize]);
        let changed = Headers { form: Form::Failed, error: b"changed".to_vec(), ..Headers::default() };
        fake.reply(&request, changed, 0, false, b"");
        fake.end(&request);
        let again = fake.next_request().unwrap();
        fake.begin(&again, Kind::File, small.len() as u64);
        fake.reply(&again, data(&small), 0, true, &small);
        fake.end(&again);
    });
    assert_eq!(report.unwrap().failed, vec![]);
    let names: Vec<_> = fs::read_dir(to.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["file"]);
}
