//! `pinnace files`: served and fetched as in a shell.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::common::files::{same, serve, serve_by};
use crate::common::{Folder, PINNACE, run, start};

#[test]
fn a_folder_is_fetched_listed_and_fetched_again() {
    let folder = Folder::new();
    let source = folder.path("source");
    fs::create_dir_all(source.join("a/b")).unwrap();
    fs::write(source.join("a/b/large"), vec![7; 3_000_000]).unwrap();
    fs::write(source.join("a/small"), "small\n").unwrap();
    let (server, endpoint) = serve(&folder, &format!("{}=/data", folder.text("source")));
    let copy = folder.text("copy");
    let got = run(&["files", "get", "-s", &endpoint, "/data/", &copy], b"").expect(0);
    assert_eq!(got.err, "pinnace: 2 files, 3000006 bytes\n");
    assert!(same(&source, &folder.path("copy")));
    let got = run(&["files", "get", "-s", &endpoint, "/data/", &copy], b"").expect(0);
    assert_eq!(got.err, "pinnace: 0 files, 0 bytes\n");
    let listed = run(&["files", "ls", "-s", &endpoint, "/data"], b"").expect(0);
    assert_eq!(listed.out, "a/\na/b/\na/b/large\na/small\n");
    let listed = run(&["files", "ls", "-s", &endpoint, "/data/a/small", "--json"], b"").expect(0);
    assert!(listed.out.contains("\"size\":6"), "{listed:?}");
    // From the test vectors of BLAKE3's authors.
    fs::write(source.join("zero"), [0]).unwrap();
    let lines =
        run(&["files", "get", "-s", &endpoint, "--json", "--discard", "/data/zero"], b"").expect(0).out;
    let digest = "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213";
    assert!(lines.contains(&format!("\"blake3\":\"{digest}\"")), "{lines}");
    server.end();
}

#[test]
fn exit_codes_say_why() {
    let folder = Folder::new();
    fs::create_dir(folder.path("source")).unwrap();
    let (_server, endpoint) = serve(&folder, &folder.text("source"));
    let to = folder.text("to");
    let get = |endpoint: &str, path: &str, timeout: &str| {
        run(&["files", "get", "-s", endpoint, "--timeout", timeout, path, &to], b"")
    };
    let done = get(&endpoint, "/none", "20000").expect(1);
    assert!(done.err.contains("pinnace: /none: No such file or directory"), "{done:?}");
    assert!(done.err.ends_with("pinnace: 1 file failed\n"), "{done:?}");
    let below = run(&["files", "get", "-s", &endpoint, "/a", &folder.text("none/below")], b"").expect(1);
    let none = folder.text("none");
    assert!(below.err.contains(&format!("pinnace: {none}/below: {none}: No such file")), "{below:?}");
    assert!(get(&folder.ipc("nobody"), "/a", "300").expect(3).err.contains("no server answers at ipc://"));
    get("carrier://pigeon", "/a", "300").expect(2);
    run(&["files", "serve", &folder.text("none")], b"").expect(2);
    let wrong = |words: &[&str], expected: &str| {
        let done = run(&[&["files"], words].concat(), b"").expect(2);
        assert!(done.err.contains(expected), "{words:?}: {done:?}");
    };
    for (pattern, expected) in [("[", "the pattern [: "), ("", "an empty pattern"), ("/", "an empty pattern")]
    {
        wrong(&["get", "-s", &endpoint, "/", &to, "--exclude", pattern], expected);
        wrong(&["verify", "-s", &endpoint, "/", &to, "--exclude", pattern], expected);
    }
    wrong(&["get", "-s", &endpoint, "photos"], "begins with a slash, as in /photos");
    wrong(&["put", "-s", &endpoint, "a", "photos"], "begins with a slash");
    // No server is asked: there is none.
    let nobody = folder.ipc("nobody");
    for (path, expected) in
        [("/..", "a name . or .."), ("/a/./b/", "a name . or .."), ("/a//b", "an empty name")]
    {
        for command in ["get", "sync", "verify", "watch"] {
            wrong(&[command, "-s", &nobody, path, &to], expected);
        }
        wrong(&["ls", "-s", &nobody, path], expected);
        wrong(&["put", "-s", &nobody, &to, path], expected);
        wrong(&["serve", &to, "--read", &format!("*={path}")], expected);
    }
    wrong(&["ls", "-s", &nobody, "--timeout", "0"], "must be at least 1");
    wrong(&["ls", "-s", &endpoint, "--user", "a", "--password-file", &none], "none: No such file");
    wrong(&["ls", "-s", &endpoint, "--cert", &none, "--server-key", &none], "none");
    let source = folder.text("source");
    let serve = |words: &[&str], expected: &str| wrong(&[&["serve", &source], words].concat(), expected);
    serve(&["--cert", &none], "none");
    serve(&["--passwords", &none], "none: No such file");
    serve(&["--bind", "carrier://pigeon"], "carrier://pigeon");
    serve(&["--read", "carol=/"], "carol: there is no such user");
    wrong(&["serve", &format!("{source}=/data"), "--read", "*=/date"], "/date: no folder is served there");
    let twice = [&format!("{source}=/a")[..], &format!("{}=/a", folder.text("source"))];
    wrong(&[&["serve"], &twice[..]].concat(), "two folders have the alias /a");
    let users = folder.write("users", b"alice:one\nalice:two\n");
    serve(&["--passwords", &users], "the user alice is given twice");
    // An endpoint that is in use.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = format!("tcp://{}", listener.local_addr().unwrap());
    assert!(run(&["files", "serve", &source, "--bind", &taken], b"").expect(1).err.contains(&taken));
}

/// What is forbidden here, and not only by the server.
#[test]
fn what_is_forbidden_is_refused() {
    let folder = Folder::new();
    for name in ["source", "empty", "to/a"] {
        fs::create_dir_all(folder.path(name)).unwrap();
    }
    fs::write(folder.path("source/a"), "a").unwrap();
    let (source, empty) = (folder.text("source"), folder.text("empty"));
    let words = [&format!("{source}=/source")[..], &format!("{empty}=/empty"), "--domain", "test"];
    let (_server, endpoint) = serve_by(&folder, "files", &words);
    let (to, domain) = (folder.text("to"), ["-s", &endpoint, "--domain", "test"]);
    let refused = |words: &[&str], expected: &str| {
        let done = run(&[&["files", words[0]], &domain[..], &words[1..]].concat(), b"").expect(4);
        assert!(done.err.contains(expected), "{words:?}: {done:?}");
    };
    refused(&["get", "/source/a", &to], &format!("pinnace: {to}/a: a directory is in the way of a file"));
    refused(&["sync", "/empty/", &to], "nothing was removed: the source is empty");
    refused(&["put", &source, "/source/new"], "/source/new: the folder is read-only");
    let other = run(&["files", "ls", "-s", &endpoint, "--domain", "other"], b"").expect(4);
    assert!(other.err.contains("it serves the domain \"test\" only"), "{other:?}");
    let listed = run(&[&["files", "ls"], &domain[..]].concat(), b"").expect(0);
    assert_eq!(listed.out, "empty/\nsource/\n");
}

#[test]
fn a_killed_client_goes_on() {
    let folder = Folder::new();
    let content: Vec<u8> =
        (0..100_000_000_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    fs::create_dir(folder.path("source")).unwrap();
    fs::write(folder.path("source/file"), &content).unwrap();
    let (_server, endpoint) = serve(&folder, &folder.text("source"));
    let to = folder.text("copy");
    let line = ["files", "get", "-s", &endpoint, "/file", &to, "--json"];
    let mut client = start(&line);
    assert!(client.line().contains("begun"));
    client.signal(Signal::KILL);
    let _ = client.end();
    // It is whole or absent, whenever the client was killed.
    assert!(fs::read(folder.path("copy")).is_ok_and(|copy| copy == content) || !folder.path("copy").exists());
    run(&line, b"").expect(0);
    assert!(fs::read(folder.path("copy")).unwrap() == content);
}

#[test]
fn a_folder_is_uploaded_where_that_is_allowed() {
    let folder = Folder::new();
    for name in ["source/a", "target"] {
        fs::create_dir_all(folder.path(name)).unwrap();
    }
    fs::write(folder.path("source/a/large"), vec![7; 3_000_000]).unwrap();
    let (source, target) = (format!("{}/", folder.text("source")), folder.text("target"));
    let (_server, endpoint) = serve_by(&folder, "writable", &[&target, "--writable"]);
    let put = run(&["files", "put", "-s", &endpoint, &source, "/copy"], b"").expect(0);
    assert_eq!(put.err, "pinnace: 1 file, 3000000 bytes\n");
    assert!(same(&folder.path("source"), &folder.path("target/copy")));
    let (_server, endpoint) = serve(&folder, &target);
    let put = run(&["files", "put", "-s", &endpoint, &source, "/other"], b"").expect(4);
    assert!(put.err.contains("/other: the folder is read-only"), "{put:?}");
}

/// Waits until the copy is what the source is.
fn until_same(source: &Path, copy: &Path) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !Command::new("diff").args(["-qr"]).args([source, copy]).output().unwrap().status.success() {
        assert!(Instant::now() < deadline, "{} and {}", source.display(), copy.display());
    }
}

#[test]
fn a_folder_is_kept_the_same() {
    let folder = Folder::new();
    let (source, copy) = (folder.path("source"), folder.path("copy"));
    for name in ["source/a", "copy/own"] {
        fs::create_dir_all(folder.path(name)).unwrap();
    }
    fs::write(source.join("a/file"), "one").unwrap();
    fs::write(source.join("a/file.o"), "left out").unwrap();
    let (_server, endpoint) = serve(&folder, &folder.text("source"));
    let to = folder.text("copy");
    let sync = |more: &[&str], code| {
        let words = ["files", "sync", "-s", &endpoint, "/", &to, "--exclude", "*.o"];
        run(&[&words[..], more].concat(), b"").expect(code)
    };
    let done = sync(&["--dry-run"], 0);
    assert_eq!(done.out, format!("would fetch /a\nwould fetch /a/file\nwould remove {to}/own\n"));
    let done = sync(&["--max-delete", "0"], 1);
    assert!(done.err.contains("nothing was removed: 1 removal is due, and 0 allowed"), "{done:?}");
    assert_eq!(sync(&[], 0).out, format!("removed {to}/own\n"));
    fs::remove_file(source.join("a/file.o")).unwrap();
    assert!(same(&source, &copy));

    run(&["files", "verify", "-s", &endpoint, "/", &to], b"").expect(0);
    fs::write(copy.join("own"), "own").unwrap();
    let file = fs::File::options().write(true).open(copy.join("a/file")).unwrap();
    let time = file.metadata().unwrap().modified().unwrap();
    fs::write(copy.join("a/file"), "two").unwrap();
    file.set_modified(time).unwrap();
    let done = run(&["files", "verify", "-s", &endpoint, "/", &to], b"").expect(1);
    assert_eq!(
        (&done.out[..], &done.err[..]),
        (&format!("differs: /a/file\nnot at the source: {to}/own\n")[..], "pinnace: 2 names differ\n")
    );
    run(&["files", "verify", "-s", &endpoint, "/", &to, "--exclude", "own", "--exclude", "file"], b"")
        .expect(0);
    // A file by itself, and where links lead.
    let verify =
        |path: &str, code| run(&["files", "verify", "-s", &endpoint, path, &to], b"").expect(code).out;
    assert_eq!(verify("/a/file", 1), "missing: /a/file\n");
    fs::write(copy.join("file"), "one").unwrap();
    let same_time = fs::File::options().write(true).open(copy.join("file")).unwrap();
    same_time.set_modified(fs::metadata(source.join("a/file")).unwrap().modified().unwrap()).unwrap();
    assert_eq!(verify("/a/file", 0), "");
    fs::write(copy.join("file"), "two").unwrap();
    assert_eq!(verify("/a/file", 1), "differs: /a/file\n");
    for (directory, target) in [(&source, "one"), (&copy, "two")] {
        std::os::unix::fs::symlink(target, directory.join("link")).unwrap();
    }
    assert!(verify("/", 1).contains("differs: /link\n"));
    fs::remove_file(source.join("link")).unwrap();

    let made = Command::new("mkfifo").arg(source.join("pipe")).status().unwrap();
    assert!(made.success());
    let mut watch = start(&["files", "watch", "-s", &endpoint, "/", &to, "--delete", "--quiet"]);
    assert!(watch.said().starts_with("/pipe: not a regular file"));
    fs::remove_file(source.join("pipe")).unwrap();
    fs::write(source.join("a/file"), "changed").unwrap();
    until_same(&source, &copy);
    fs::remove_dir_all(source.join("a")).unwrap();
    fs::write(source.join("b"), "new").unwrap();
    until_same(&source, &copy);
    watch.signal(Signal::TERM);
    assert_eq!(watch.end().expect(0).out, "", "it is quiet");
}

/// A name with a line break and a byte that is not UTF-8, and a folder that does not exist yet.
#[test]
fn names_of_any_bytes_are_told() {
    let folder = Folder::new();
    let name = OsStr::from_bytes(b"a\n\xff b");
    fs::create_dir(folder.path("source")).unwrap();
    fs::write(folder.path("source").join(name), "content").unwrap();
    let (_server, endpoint) = serve(&folder, &folder.text("source"));
    let ls = ["files", "ls", "-s", &endpoint];
    let piped = Command::new(PINNACE).args(ls).output().unwrap();
    assert_eq!(piped.stdout, b"a\n\xff b\n", "as it is");
    let terminal = "import pty, sys; sys.exit(pty.spawn(sys.argv[1:]))";
    let shown = Command::new("python3").args(["-c", terminal, PINNACE]).args(ls).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&shown.stdout), "a\\n\\377 b\r\n");
    let lines = run(&[&ls[..], &["--json"]].concat(), b"").expect(0).out;
    assert!(lines.contains("\"name_base64\":\"YQr/IGI=\""), "{lines}");
    fs::write(folder.path("source/plain"), "plain").unwrap();
    let new = format!("{}/", folder.text("new"));
    run(&["files", "get", "-s", &endpoint, "/plain", &new], b"").expect(0);
    assert_eq!(fs::read_to_string(folder.path("new/plain")).unwrap(), "plain");
}

#[test]
fn users_have_rights() {
    let folder = Folder::new();
    for name in ["source/open", "source/secret"] {
        fs::create_dir_all(folder.path(name)).unwrap();
        fs::write(folder.path(name).join("file"), name).unwrap();
    }
    let file = |name: &str, text: &str| {
        fs::write(folder.path(name), text).unwrap();
        folder.text(name)
    };
    let users = file("users", "# users\nalice:one\nbob:two words\n");
    let (right, wrong) = (file("right", "two words\n"), file("wrong", "one\n"));
    let source = folder.text("source");
    let words = [&source[..], "--passwords", &users, "--read", "bob=/open", "--domain", "test"];
    let (_server, endpoint) = serve_by(&folder, "plain", &words);
    let get = |password: &str, domain: &str, path: &str, code| {
        let words = ["files", "get", "-s", &endpoint, "--user", "bob", "--password-file", password];
        let more = ["--domain", domain, "--timeout", "2000", path, &folder.text("copy")];
        run(&[&words[..], &more].concat(), b"").expect(code)
    };
    get(&right, "test", "/open/file", 0);
    assert!(get(&right, "test", "/secret/file", 4).err.contains("no right to this path"));
    assert!(get(&right, "production", "/open/file", 4).err.contains("domain \"test\""));
    assert!(get(&wrong, "test", "/open/file", 4).err.contains("the handshake fails"));

    for name in ["server", "client"] {
        run(&["keygen", &folder.text(name)], b"").expect(0);
    }
    let (server, client) = (folder.text("server"), folder.text("client"));
    let (own, theirs) = (format!("{server}_secret"), format!("{client}_secret"));
    let words = [&source[..], "--cert", &own, "--trust", &format!("client={client}")];
    let (_server, endpoint) = serve_by(&folder, "curve", &words);
    let copy = folder.text("copy2");
    let get = ["files", "get", "-s", &endpoint, "/open/file", &copy, "--timeout", "2000"];
    run(&[&get[..], &["--cert", &theirs, "--server-key", &server]].concat(), b"").expect(0);
    run(&[&get[..], &["--cert", &own, "--server-key", &server]].concat(), b"").expect(4);
    run(&get, b"").expect(4);
}

#[test]
fn standard_output_and_input_are_files() {
    let folder = Folder::new();
    let source = folder.path("source");
    fs::create_dir_all(source.join("folder")).unwrap();
    let lines: String = (0..500_000).map(|number| format!("{number}\n")).collect();
    fs::write(source.join("lines"), &lines).unwrap();
    let (server, endpoint) = serve_by(&folder, "files", &[&folder.text("source"), "--writable"]);
    let get = |path: &str| ["files", "get", "-s", &endpoint, path, "-"].map(str::to_owned);
    let done = run(&get("/lines"), b"").expect(0);
    assert_eq!(done.err, format!("pinnace: 1 file, {} bytes\n", lines.len()));
    assert!(done.out == lines);
    assert!(run(&get("/none"), b"").expect(1).err.contains("/none: No such file"));
    assert!(run(&get("/folder"), b"").expect(1).err.contains("a directory has no content"));
    run(&[&get("/lines")[..], &["--json".to_owned()]].concat(), b"").expect(2);
    let mut reader_is_gone = start(&get("/lines"));
    reader_is_gone.close_out();
    assert!(reader_is_gone.end().expect(1).err.contains("standard output: closed"));

    run(&["files", "put", "-s", &endpoint, "-", "/copy"], lines.as_bytes()).expect(0);
    assert!(fs::read(source.join("copy")).unwrap() == lines.as_bytes());
    run(&["files", "put", "-s", &endpoint, "-", "/empty"], b"").expect(0);
    assert!(fs::read(source.join("empty")).unwrap().is_empty());
    run(&["files", "put", "-s", &endpoint, "-", "/folder/"], b"").expect(2);
    let dry = run(&["files", "put", "-s", &endpoint, "-", "/dry", "-n"], b"dry").expect(0);
    assert_eq!(dry.out, "would send /dry\n");
    server.end();
}

#[test]
fn attributes_travel_by_option() {
    let folder = Folder::new();
    let (source, copy) = (folder.path("source"), folder.path("copy"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("lines"), "a line\n".repeat(500_000)).unwrap();
    fs::hard_link(source.join("lines"), source.join("again")).unwrap();
    fs::File::create(source.join("hole")).unwrap().set_len(50_000_000).unwrap();
    let (server, endpoint) = serve_by(&folder, "files", &[&folder.text("source"), "--writable"]);
    let all = ["--compress", "--sparse", "--hard-links", "--owner", "--xattrs"];
    let get = ["files", "get", "-s", &endpoint, "/", &folder.text("copy")];
    let done = run(&[&get[..], &all].concat(), b"").expect(0);
    assert_eq!(done.err, "pinnace: 2 files, 53500000 bytes\n");
    assert!(same(&source, &copy));
    let known = |name: &str| fs::metadata(copy.join(name)).unwrap();
    assert_eq!((known("lines").ino(), known("lines").nlink()), (known("again").ino(), 2));
    assert!(known("hole").blocks() * 512 < 1_000_000);
    let put = ["files", "put", "-s", &endpoint, &format!("{}/", folder.text("copy")), "/back", "-zSHoX"];
    assert_eq!(run(&put, b"").expect(0).err, done.err);
    assert!(same(&copy, &source.join("back")));
    server.end();
}

/// The server is away for longer than --timeout.
#[test]
fn a_watch_waits_for_its_server() {
    let folder = Folder::new();
    let (source, copy) = (folder.path("source"), folder.path("copy"));
    fs::create_dir(&source).unwrap();
    fs::write(source.join("one"), "one").unwrap();
    let to = folder.text("copy");
    let words =
        ["files", "watch", "-s", &folder.ipc("files"), "/", &to, "--delete", "--timeout", "2000", "-q"];
    assert!(run(&words, b"").expect(3).err.contains("no server answers"), "it was never there");
    let (server, _) = serve(&folder, &folder.text("source"));
    let mut watch = start(&words);
    until_same(&source, &copy);
    server.end();
    assert_eq!(watch.said(), format!("no server answers at {}; trying again", folder.ipc("files")));
    fs::write(source.join("two"), "two").unwrap();
    let (_server, _) = serve(&folder, &folder.text("source"));
    until_same(&source, &copy);
    watch.signal(Signal::TERM);
    assert_eq!(watch.end().expect(0).err.matches("no server answers").count(), 1, "it is told once");
}
