//! `pinnace files` when files fail: what is said, by which path, and the exit code.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::common::files::{Serving, same, serve, serve_by};
use crate::common::{Done, Folder, PINNACE, run, start_command};

fn files(words: &[&str], code: i32) -> Done {
    run(&[&["files"], words].concat(), b"").expect(code)
}

/// What is said on standard error, sorted except the first and the last line.
fn said(done: &Done) -> Vec<String> {
    let mut lines: Vec<String> =
        done.err.lines().map(|line| line.trim_start_matches("pinnace: ").to_owned()).collect();
    let last = lines.len() - 1;
    lines[1..last].sort();
    lines
}

fn file(path: &Path, content: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// A source, and a target where directories have the names of files, and a file that of a directory.
fn crossed() -> Folder {
    let folder = Folder::new();
    for (name, content) in [("small", "small"), ("more/a", "a"), ("more/b", "b"), ("kept", "kept")] {
        file(&folder.path("source/below").join(name), content);
    }
    fs::write(folder.path("source/below/large"), vec![7; 3_000_000]).unwrap();
    for name in ["small", "large"] {
        fs::create_dir_all(folder.path("to/below").join(name)).unwrap();
    }
    file(&folder.path("to/below/more"), "a file");
    folder
}

fn in_the_way(root: &str, total: &str) -> Vec<String> {
    let told = [
        (total, ""),
        (root, "/below/large: a directory is in the way of a file"),
        (root, "/below/more: a file is in the way of a directory"),
        (root, "/below/small: a directory is in the way of a file"),
        ("3 files failed", ""),
    ];
    told.map(|(one, other)| format!("{one}{other}")).to_vec()
}

#[test]
fn what_is_in_the_way_is_told_once() {
    let folder = crossed();
    let (_server, endpoint) = serve(&folder, &folder.text("source"));
    let to = folder.text("to");
    let dry = files(&["get", "-s", &endpoint, "/", &to, "--dry-run"], 1);
    assert_eq!(said(&dry), in_the_way(&to, "0 files, 0 bytes"));
    assert_eq!(dry.out, "would fetch /below/kept\n");
    let got = files(&["get", "-s", &endpoint, "/", &to], 1);
    assert_eq!(said(&got), in_the_way(&to, "1 file, 4 bytes"));
    let limited = files(&["sync", "-s", &endpoint, "/", &to, "--max-delete", "0"], 1);
    let told =
        format!("{to}/below/more: a file is in the way of a directory; nothing was removed: 1 removal");
    assert!(limited.err.contains(&told) && limited.err.lines().count() == 5, "{limited:?}");
    files(&["sync", "-s", &endpoint, "/", &to], 0);
    assert!(same(&folder.path("source"), &folder.path("to")));
}

#[test]
fn what_is_in_the_way_of_an_upload_is_told_by_the_server_s_path() {
    let folder = crossed();
    let (_server, endpoint) = serve_by(&folder, "files", &[&folder.text("to"), "--writable"]);
    let source = format!("{}/", folder.text("source"));
    let put = files(&["put", "-s", &endpoint, &source, "/"], 1);
    assert_eq!(said(&put), in_the_way("", "1 file, 4 bytes"));
    files(&["put", "-s", &endpoint, &source, "/", "--delete"], 0);
    assert!(same(&folder.path("source"), &folder.path("to")));
    // The whole upload is refused.
    let put = |from: &str, path: &str, expected: &str| {
        let done = files(&["put", "-s", &endpoint, from, path], 4);
        assert_eq!(said(&done)[1], expected);
    };
    let small = folder.text("source/below/small");
    put(&source, "/below/small", "/below/small: a file is in the way of a directory");
    put(&small, "/below/small/new", "/below/small/new: a file is in the way of a directory");
    fs::create_dir_all(folder.path("to/other/small")).unwrap();
    put(&small, "/other", "/other/small: a directory is in the way of a file");
}

#[test]
fn an_upload_makes_missing_folders() {
    let folder = Folder::new();
    file(&folder.path("source/below/a"), "a");
    fs::create_dir(folder.path("to")).unwrap();
    let (_server, endpoint) = serve_by(&folder, "files", &[&folder.text("to"), "--writable"]);
    let (a, content) = (folder.text("source/below/a"), format!("{}/", folder.text("source/below")));
    for (from, path, made) in [
        (&a, "/one/two/new", "one/two/new"),
        (&a, "/three/four/", "three/four/a"),
        (&content, "/five/six/", "five/six/a"),
        (&content, "/seven/eight", "seven/eight/a"),
        (&folder.text("source/below"), "/nine/ten", "nine/ten/below/a"),
    ] {
        let dry = files(&["put", "-s", &endpoint, from, path, "--dry-run"], 0);
        assert!(dry.out.starts_with("would send /"), "{dry:?}");
        assert!(!folder.path("to").join(made.split('/').next().unwrap()).exists());
        files(&["put", "-s", &endpoint, from, path], 0);
        assert_eq!(fs::read(folder.path("to").join(made)).unwrap(), b"a");
    }
    let none = folder.text("none");
    files(&["put", "-s", &endpoint, &none, "/eleven/twelve"], 1);
    assert!(!folder.path("to/eleven").exists(), "nothing came");
}

/// At the root of the transfer as below it.
#[test]
fn a_file_in_the_way_of_the_folder_itself() {
    let folder = Folder::new();
    file(&folder.path("source/below/a"), "a");
    let (_server, endpoint) = serve(&folder, &folder.text("source"));
    let (to, into) = (folder.text("to"), folder.text("into"));
    for (path, to, in_the_way) in
        [("/below/", to.clone(), to.clone()), ("/below", into.clone(), format!("{into}/below"))]
    {
        file(Path::new(&in_the_way), "a file");
        for more in [&[][..], &["--dry-run"]] {
            let got = files(&[&["get", "-s", &endpoint, path, &to], more].concat(), 4);
            assert_eq!(said(&got)[1], format!("{in_the_way}: a file is in the way of a directory"));
        }
        files(&["sync", "-s", &endpoint, path, &to, "--max-delete", "0"], 1);
        files(&["sync", "-s", &endpoint, path, &to, "--dry-run"], 0);
        assert!(Path::new(&in_the_way).is_file());
        files(&["sync", "-s", &endpoint, path, &to], 0);
        assert!(same(&folder.path("source/below"), Path::new(&in_the_way)));
    }
    // What is not the folder's counterpart stays, and so does the folder that a file goes into.
    let other = folder.text("other");
    file(Path::new(&other), "a file");
    files(&["sync", "-s", &endpoint, "/below", &other], 4);
    assert!(folder.path("other").is_file());
    fs::create_dir_all(folder.path("new/a")).unwrap();
    let new = folder.text("new");
    let got = files(&["get", "-s", &endpoint, "/below/a", &new], 4);
    assert_eq!(said(&got)[1], format!("{new}/a: a directory is in the way of a file"));
    files(&["sync", "-s", &endpoint, "/below/a", &new], 0);
    assert!(folder.path("new/a").is_file());
    let got = files(&["get", "-s", &endpoint, "/below/a", &format!("{new}/a/a")], 4);
    assert!(got.err.contains(&format!("{new}/a: a file is in the way of a directory")), "{got:?}");
}

/// The user id of `nobody`. The kernel checks file permissions for it, and not for root.
const USER: u32 = 65534;

/// `pinnace files`, as the user `USER` if the tests run as root, otherwise as their own user.
fn as_user(words: &[&str]) -> Command {
    let mut command = match rustix::process::geteuid().is_root() {
        true => Command::new("setpriv"),
        false => Command::new("env"),
    };
    if rustix::process::geteuid().is_root() {
        command.args([format!("--reuid={USER}"), "--clear-groups".to_owned()]);
    }
    command.arg(PINNACE).arg("files").args(words);
    command
}

/// A server with a folder and files that it may not read.
fn serve_unreadable(folder: &Folder) -> (Serving, String) {
    for name in ["closed/a", "hidden", "open/a", "open/hidden"] {
        file(&folder.path("source").join(name), "a");
    }
    for name in ["closed", "hidden", "open/hidden"] {
        fs::set_permissions(folder.path("source").join(name), fs::Permissions::from_mode(0o000)).unwrap();
    }
    let words = ["serve", &folder.text("source"), "--bind", "tcp://127.0.0.1:*", "--verbose"];
    let mut server = start_command(&mut as_user(&words));
    let endpoint = server.said_after("listening at ");
    (Serving::of(server), endpoint)
}

/// The same exit code from every command, and once a line for each failure.
#[test]
fn an_unreadable_source() {
    let folder = Folder::new();
    let (_server, endpoint) = serve_unreadable(&folder);
    let to = folder.text("to");
    fs::create_dir(folder.path("to")).unwrap();
    for command in ["get", "sync", "verify"] {
        for path in ["/closed", "/closed/", "/hidden"] {
            let done = files(&[command, "-s", &endpoint, path, &to], 4);
            assert!(done.err.contains(&format!("{path}: Permission denied")), "{command}: {done:?}");
            assert!(done.err.ends_with("pinnace: 1 file failed\n"), "{command}: {done:?}");
        }
    }
    for command in ["get", "sync", "verify"] {
        let done = files(&[command, "-s", &endpoint, "/open/", &to], 1);
        assert!(done.err.contains("pinnace: /open/hidden: Permission denied"), "{command}: {done:?}");
    }
    let list = files(&["ls", "-s", &endpoint, "/closed"], 4);
    assert!(list.err.contains("/closed: Permission denied"), "{list:?}");
    fs::set_permissions(folder.path("source/closed"), fs::Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn what_fails_here_is_named_by_its_path_here() {
    let folder = Folder::new();
    file(&folder.path("source/below/a"), "a");
    file(&folder.path("source/more/b"), "b");
    let words = [&folder.text("source")[..], "--writable", "--bind", "tcp://127.0.0.1:*"];
    let (_server, endpoint) = serve_by_tcp(&words);
    let to = folder.text("to");
    for name in ["to", "to/below"] {
        fs::create_dir(folder.path(name)).unwrap();
        fs::set_permissions(folder.path(name), fs::Permissions::from_mode(0o555)).unwrap();
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(folder.path(name), Some(USER), Some(USER)).unwrap();
        }
    }
    let get = |path: &str, more: &[&str], code| {
        let words = [&["get", "-s", &endpoint, path, &to], more].concat();
        start_command(&mut as_user(&words)).end().expect(code)
    };
    let denied = |name: &str| format!("{to}/{name}: Permission denied (os error 13)");
    let done = get("/", &[], 1);
    assert_eq!(
        said(&done),
        ["0 files, 0 bytes".to_owned(), denied("below/a"), denied("more"), "2 files failed".to_owned()]
    );
    assert_eq!(said(&get("/more", &[], 4))[1], denied("more"));
    assert_eq!(said(&get("/more/b", &[], 4))[1], denied("b"));
    // The path is the server's, also as JSON; beside it there is the one here.
    let lines = get("/more/b", &["--json"], 4).out;
    assert!(
        lines.contains("\"path\":\"/more/b\"") && lines.contains(&format!("\"local\":\"{to}/b\"")),
        "{lines}"
    );
    // Of an upload that cannot be read here.
    let source = folder.text("none");
    let put = files(&["put", "-s", &endpoint, &source, "/new", "--json"], 1);
    assert!(put.out.contains("\"path\":\"/new\"") && put.out.contains(&source), "{put:?}");
}

fn serve_by_tcp(words: &[&str]) -> (Serving, String) {
    let mut server = start_command(Command::new(PINNACE).args(["files", "serve", "--verbose"]).args(words));
    let endpoint = server.said_after("listening at ");
    (Serving::of(server), endpoint)
}

/// `/` is in no folder: the error names the folders below it.
#[test]
fn a_path_above_the_folders() {
    let folder = Folder::new();
    fs::create_dir(folder.path("source")).unwrap();
    let (one, two) = (format!("{}=/one", folder.text("source")), format!("{}=/two/b", folder.text("source")));
    let (_server, endpoint) = serve_by(&folder, "one", &[&one, "--writable"]);
    let (_other, endpoint_of_two) = serve_by(&folder, "two", &[&one, &two, "--writable"]);
    let to = folder.text("to");
    for command in ["get", "sync", "verify", "watch"] {
        for (endpoint, names) in [(&endpoint, "/one"), (&endpoint_of_two, "/one, /two/b")] {
            let done = files(&[command, "-s", endpoint, "/", &to, "-q"], 1);
            let expected = format!("pinnace: /: no folder is served at this path, but below it: {names}\n");
            assert_eq!(done.err, format!("{expected}pinnace: 1 file failed\n"), "{command}");
        }
    }
    let put = files(&["put", "-s", &endpoint_of_two, &folder.text("source"), "/two"], 1);
    assert!(put.err.contains("/two: no folder is served at this path, but below it: /two/b\n"), "{put:?}");
    let get = files(&["get", "-s", &endpoint_of_two, "/three", &to], 1);
    assert!(get.err.contains("/three: no folder is served at this path\n"), "{get:?}");
}

/// A failure of `watch` is told when it happens, and not again at the end.
#[test]
fn a_failure_of_a_watch_is_told_once() {
    let folder = Folder::new();
    file(&folder.path("source/a"), "a");
    let (_server, endpoint) = serve(&folder, &folder.text("source"));
    let done = files(&["watch", "-s", &endpoint, "/a", &folder.text("to")], 1);
    assert_eq!(done.err, "pinnace: /a: only directories can be followed\npinnace: 1 file failed\n");
    let done = files(&["watch", "-s", &endpoint, "/a", &folder.text("to"), "--json"], 1);
    assert_eq!(done.out.matches("only directories can be followed").count(), 1);
}
