//! `pinnace files --json`: the events of each command.

use std::fs;
use std::time::UNIX_EPOCH;

use serde_json::{Value, json};

use crate::common::files::serve_by;
use crate::common::{Folder, run};

/// The lines of a command, without the last one if the transfer is complete.
fn events(words: &[&str], code: i32) -> Vec<Value> {
    let done = run(&[&["files"], words, &["--json"]].concat(), b"").expect(code);
    let mut lines: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.pop().is_some_and(|last| last["event"] == "ended"), "{}", done.out);
    lines.sort_by_key(|line| line["path"].to_string());
    lines
}

/// A source, and a target that has another `b`, and a name of its own.
fn different() -> Folder {
    let folder = Folder::new();
    for (name, content) in [("source/a", "a"), ("source/b", "b"), ("source/c", "c"), ("to/b", "other")] {
        fs::create_dir_all(folder.path(name).parent().unwrap()).unwrap();
        fs::write(folder.path(name), content).unwrap();
    }
    fs::create_dir(folder.path("to/own")).unwrap();
    folder
}

#[test]
fn a_comparison_tells_differences() {
    let folder = different();
    let (_server, endpoint) = serve_by(&folder, "files", &[&format!("{}=/data", folder.text("source"))]);
    let to = folder.text("to");
    // Another time is no difference.
    fs::write(folder.path("to/a"), "a").unwrap();
    fs::File::options().write(true).open(folder.path("to/a")).unwrap().set_modified(UNIX_EPOCH).unwrap();
    for (path, to) in [("/data/a", &to), ("/data/a", &folder.text("to/a"))] {
        assert_eq!(events(&["verify", "-s", &endpoint, path, to], 0), [json!(null); 0]);
    }
    let told = events(&["verify", "-s", &endpoint, "/data/", &to], 1);
    let differs = |path: &str, reason: &str| {
        let local = folder.path("to").join(path);
        json!({"event": "differs", "path": format!("/data/{path}"), "local": local, "reason": reason})
    };
    assert_eq!(told, [differs("b", "content"), differs("c", "missing"), differs("own", "not-at-source"),]);
}

/// The path is the server's, and `local` the one here.
#[test]
fn a_removal_has_its_path_here() {
    let folder = different();
    let (_server, endpoint) = serve_by(&folder, "files", &[&format!("{}=/data", folder.text("source"))]);
    let (to, own) = (folder.text("to"), folder.text("to/own"));
    let sync = ["sync", "-s", &endpoint, "/data/", &to];
    let planned = events(&[&sync[..], &["--dry-run"]].concat(), 0);
    let expected = json!({"event": "planned", "path": "/data/own", "local": own, "action": "remove"});
    assert_eq!((planned.len(), &planned[3]), (4, &expected));
    let limited = events(&[&sync[..], &["--dry-run", "--max-delete", "0"]].concat(), 1);
    assert_eq!((limited.len(), &limited[4]), (5, &expected), "it is listed all the same");
    assert!(limited[0]["error"].as_str().unwrap().contains("1 removal is due, and 0 allowed"));
    let done = events(&sync, 0);
    assert_eq!(done[3], json!({"event": "removed", "path": "/data/own", "local": own, "here": true}));
    assert_eq!((&done[0]["local"], &done[0]["event"]), (&json!(folder.text("to/a")), &json!("finished")));
    let one = events(&["get", "-s", &endpoint, "/data/a", &folder.text("one")], 0);
    assert_eq!(one[1]["local"], json!(folder.text("one")), "a file by itself");
}

/// An upload tells the events of a download, by the paths at the server.
#[test]
fn an_upload_tells_what_a_download_tells() {
    let folder = different();
    fs::write(folder.path("source/large"), vec![7; 3_000_000]).unwrap();
    fs::hard_link(folder.path("source/large"), folder.path("source/other")).unwrap();
    let (source, to) = (format!("{}/", folder.text("source")), folder.text("to"));
    let words = [&format!("{to}=/data")[..], "--writable"];
    let (_server, endpoint) = serve_by(&folder, "files", &words);
    let mut put = events(&["put", "-s", &endpoint, &source, "/data/", "-H", "--delete"], 0);
    fs::create_dir_all(folder.path("copy/own")).unwrap();
    let copy = folder.text("copy");
    let mut get = events(&["sync", "-s", &endpoint, "/data/", &copy, "-H"], 0);
    get.iter_mut().for_each(|line| drop(line.as_object_mut().unwrap().remove("local")));
    // Which of the two names is listed first is the file system's choice.
    for lines in [&mut put, &mut get] {
        let of_links = |line: &Value| line["path"] == "/data/large" || line["path"] == "/data/other";
        let kinds: Vec<Value> =
            lines.extract_if(.., |line| of_links(line)).map(|line| line["event"].clone()).collect();
        let count = |kind: &str| kinds.iter().filter(|found| **found == *kind).count();
        assert_eq!(["begun", "finished", "linked"].map(count), [1, 1, 1], "{kinds:?}");
    }
    assert_eq!(put, get);
    let kinds: Vec<&str> = put.iter().filter_map(|line| line["event"].as_str()).collect();
    assert_eq!(kinds, ["finished", "finished", "finished", "removed"]);
}
