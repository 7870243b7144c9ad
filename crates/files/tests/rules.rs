//! What a transfer leaves out, replaces and removes; in both directions.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use pinnace_files::client::{Client, Event, Report, Transfer};
use pinnace_files::error::Code;
use pinnace_files::rules::{Deletion, Existing, Pattern, Rules};
use pinnace_files::server::Server;
use pinnace_files::tree::parts::{blocks_name, part_name};

/// Writes files with their names as content, and makes the directories above them.
fn make(root: &Path, names: &[&str]) {
    for name in names {
        let path = root.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, name).unwrap();
    }
}

/// The files and empty directories below a directory.
fn leaves(root: &Path) -> Vec<String> {
    let (mut found, mut stack) = (Vec::new(), vec![root.to_owned()]);
    while let Some(path) = stack.pop() {
        let below: Vec<PathBuf> =
            fs::read_dir(&path).map(|all| all.map(|of| of.unwrap().path()).collect()).unwrap_or_default();
        if below.is_empty() && path != root {
            found.push(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
        }
        stack.extend(below);
    }
    found.sort();
    found
}

/// The two ways of a transfer: fetched, and uploaded.
#[derive(Debug, Clone, Copy)]
enum Way {
    Get,
    Put,
}

/// A source, a copy, and a server of one of them.
struct Pair {
    dir: tempfile::TempDir,
    way: Way,
    _server: Server,
    client: Client,
}

impl Pair {
    fn new(way: Way) -> Pair {
        let dir = tempfile::tempdir().unwrap();
        for name in ["from/tree", "to"] {
            fs::create_dir_all(dir.path().join(name)).unwrap();
        }
        let served = dir.path().join(match way {
            Way::Get => "from",
            Way::Put => "to",
        });
        let endpoint = format!("ipc://{}/socket", dir.path().display());
        let server =
            Server::builder().writable_folder("/", &served).unwrap().bind(&endpoint).start().unwrap();
        let client = Client::connect(&endpoint).unwrap();
        Pair { dir, way, _server: server, client }
    }

    fn from(&self) -> PathBuf {
        self.dir.path().join("from/tree")
    }

    fn to(&self) -> PathBuf {
        self.dir.path().join("to")
    }

    fn start(&self, from: &str, to: &str, rules: Rules) -> Transfer {
        let (here, there) = (self.dir.path().join("from"), format!("/{to}"));
        match self.way {
            Way::Get => self.client.get_by(&format!("/{from}"), &self.to().join(to), rules),
            Way::Put => self.client.put_by(&here.join(from), &there, rules),
        }
    }

    /// Transfers the content of the tree, and returns the report.
    fn run(&self, rules: Rules) -> Report {
        self.start("tree/", "", rules).wait().unwrap()
    }
}

fn for_both(test: impl Fn(&Pair)) {
    for way in [Way::Get, Way::Put] {
        println!("{way:?}");
        test(&Pair::new(way));
    }
}

#[test]
fn a_slash_at_the_end_means_what_is_in_a_directory() {
    for_both(|pair| {
        make(&pair.from(), &["a", "d/b"]);
        let mut expected: Vec<String> = Vec::new();
        for (from, to, below) in [
            ("tree", "", "tree/"),
            ("tree/", "new", "new/"),
            ("tree", "other", "other/tree/"),
            ("tree/d", "tree", "tree/d/"),
        ] {
            let report = pair.start(from, to, Rules::default()).wait().unwrap();
            assert!(report.failed.is_empty(), "{from} {to}: {report:?}");
            let names: &[&str] = if from == "tree/d" { &["b"] } else { &["a", "d/b"] };
            expected.extend(names.iter().map(|name| format!("{below}{name}")));
            expected.sort();
            expected.dedup();
            assert_eq!(leaves(&pair.to()), expected, "{from} {to}");
        }
        // Files: into a directory, or by another name.
        pair.start("tree/a", "", Rules::default()).wait().unwrap();
        pair.start("tree/a", "b", Rules::default()).wait().unwrap();
        assert_eq!(fs::read_to_string(pair.to().join("a")).unwrap(), "a");
        assert_eq!(fs::read_to_string(pair.to().join("b")).unwrap(), "a");
        // A slash at the end of the target: a directory, which is made if the file comes.
        let missing = pair.start("tree/none", "made/", Rules::default()).wait().unwrap();
        assert_eq!(missing.failed.len(), 1);
        assert!(!pair.to().join("made").exists());
        for _ in 0..2 {
            assert_eq!(pair.start("tree/a", "made/", Rules::default()).wait().unwrap().failed, []);
            assert_eq!(fs::read_to_string(pair.to().join("made/a")).unwrap(), "a");
        }
        let planned = pair.start("tree/a", "planned/", Rules { dry_run: true, ..Rules::default() });
        assert_eq!(planned.wait().unwrap().failed, []);
        assert!(!pair.to().join("planned").exists());
    });
}

#[test]
fn names_are_left_out() {
    for_both(|pair| {
        make(&pair.from(), &["a.c", "a.o", "d/b.o", "d/keep.o", "cache/x", "d/cache/y"]);
        let filter = vec![Pattern::include("keep.o"), Pattern::exclude("*.o"), Pattern::exclude("/cache/")];
        assert_eq!(pair.run(Rules { filter, ..Rules::default() }).files, 3);
        assert_eq!(leaves(&pair.to()), ["a.c", "d/cache/y", "d/keep.o"]);
        for invalid in ["[", "", "/"] {
            let filter = vec![Pattern::exclude(invalid)];
            let report = pair.run(Rules { filter, ..Rules::default() });
            assert_eq!(report.failed[0].1.code, Code::Invalid, "{invalid:?}");
        }
    });
}

#[test]
fn what_is_left_out_is_not_removed() {
    for_both(|pair| {
        make(&pair.from(), &["a"]);
        make(&pair.to(), &["b", "own.o", "d/own.o", "d/c", "e/f"]);
        let rules = Rules { filter: vec![Pattern::exclude("*.o")], ..Rules::mirror() };
        assert_eq!(pair.run(rules).failed, []);
        assert_eq!(leaves(&pair.to()), ["a", "d/own.o", "own.o"]);
    });
}

#[test]
fn files_that_are_here_are_replaced_by_the_rules() {
    let at = |path: &Path, seconds: u64| {
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
        fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
    };
    let content = |pair: &Pair| {
        let names = ["missing", "newer", "older", "same"];
        names.map(|name| fs::read_to_string(pair.to().join(name)).unwrap_or_default())
    };
    for (existing, expected) in [
        (Existing::Different, ["missing", "newer", "older", "SAME"]),
        (Existing::NotNewer, ["missing", "NEWER", "older", "SAME"]),
        (Existing::Nothing, ["missing", "NEWER", "OLDER", "SAME"]),
    ] {
        for_both(|pair| {
            make(&pair.from(), &["missing", "newer", "older", "same"]);
            for (name, seconds) in [("newer", 2000), ("older", 500), ("same", 1000)] {
                fs::write(pair.to().join(name), name.to_uppercase()).unwrap();
                at(&pair.to().join(name), seconds);
            }
            for name in ["missing", "newer", "older", "same"] {
                at(&pair.from().join(name), 1000);
            }
            let rules = Rules { existing, ..Rules::default() };
            assert_eq!(pair.run(rules.clone()).failed, []);
            assert_eq!(content(pair), expected, "{existing:?}");
            // The same, each file by itself.
            for name in ["newer", "older", "same"] {
                let report = pair.start(&format!("tree/{name}"), name, rules.clone()).wait().unwrap();
                assert_eq!((report.files, report.failed), (0, vec![]), "{name}");
            }
            assert_eq!(content(pair), expected, "{existing:?}");
        });
    }
}

#[test]
fn a_dry_run_changes_nothing_and_tells_what_would_be() {
    for_both(|pair| {
        make(&pair.from(), &["a", "d/e/b", "same"]);
        make(&pair.to(), &["own/x", "a/directory/in/the/way"]);
        pair.start("tree/same", "", Rules::default()).wait().unwrap();
        let before = leaves(&pair.to());
        let own = ["-own", "-a/directory"];
        assert_eq!(planned(pair, "tree/"), ["+a", "+d", "+d/e", "+d/e/b", own[1], own[0]]);
        let file = planned(pair, "tree/d/e/b");
        assert!(file.len() == 1 && file[0].ends_with('b'), "{file:?}");
        assert_eq!(planned(pair, "tree/same"), Vec::<String>::new());
        assert_eq!(leaves(&pair.to()), before);
    });
}

/// What a dry run would make (+) and remove (-). Names are those below the tree, whatever the source calls it.
fn planned(pair: &Pair, from: &str) -> Vec<String> {
    planned_by(pair, from, Rules { dry_run: true, ..Rules::mirror() })
}

fn planned_by(pair: &Pair, from: &str, rules: Rules) -> Vec<String> {
    let transfer = pair.start(from, "", rules);
    let mut planned = Vec::new();
    while let Some(event) = transfer.next_event() {
        match event {
            Event::Planned { path, removal } => {
                let below = path.trim_start_matches("/tree").trim_start_matches('/');
                planned.push(format!("{}{below}", if removal { "-" } else { "+" }));
            }
            Event::Progress { .. } => {}
            Event::Ended(report) => assert_eq!((report.files, report.failed), (0, vec![])),
            event => panic!("{event:?}"),
        }
    }
    planned.sort_by_key(|line| (line.starts_with('-'), line.clone()));
    planned
}

/// Events name paths at the server. An event of a file that the client cannot read names its path on this host.
#[test]
fn an_upload_tells_paths_that_its_program_knows() {
    let pair = Pair::new(Way::Put);
    make(&pair.from(), &["a", "way"]);
    make(&pair.to(), &["in/tree/own", "in/tree/way/x"]);
    assert!(Command::new("mkfifo").arg(pair.from().join("pipe")).status().unwrap().success());
    let pipe = pair.from().join("pipe").display().to_string();
    let told = |from: &str, to: &str, rules: Rules| {
        let mut told = Vec::new();
        for event in &pair.start(from, to, rules) {
            told.extend(match event {
                Event::Planned { path, .. } | Event::Removed { path, .. } | Event::Failed { path, .. } => {
                    Some(path)
                }
                Event::Ended(report) => {
                    assert!(report.failed.iter().all(|(path, _)| told.contains(path)), "{report:?}");
                    None
                }
                _ => None,
            });
        }
        told.sort();
        told
    };
    let dry = Rules { dry_run: true, ..Rules::default() };
    for (from, to, file) in
        [("tree", "in", "/in/tree/a"), ("tree/", "in/tree", "/in/tree/a"), ("tree/", "new/", "/new/a")]
    {
        let found = told(from, to, dry.clone());
        assert!(found.contains(&file.to_owned()) && found.contains(&pipe), "{from} {to}: {found:?}");
    }
    assert_eq!(told("tree/a", "in", dry.clone()), ["/in/a"]);
    assert_eq!(told("tree/a", "b", dry), ["/b"]);
    assert_eq!(told("tree", "in", Rules::default()), ["/in/tree/way".to_owned(), pipe.clone()]);
    assert_eq!(told("tree/", "in/tree/", Rules::mirror()), ["/in/tree/own".to_owned(), pipe]);
}

#[test]
fn a_directory_and_a_file_in_each_other_s_way() {
    for_both(|pair| {
        make(&pair.from(), &["a", "b/c"]);
        make(&pair.to(), &["a/x", "b"]);
        let report = pair.run(Rules::default());
        let codes: Vec<Code> = report.failed.iter().map(|(_, error)| error.code).collect();
        assert!(codes.contains(&Code::Denied), "{report:?}");
        assert_eq!(leaves(&pair.to()), ["a/x", "b"]);
        assert_eq!(pair.run(Rules::mirror()).failed, []);
        assert_eq!(leaves(&pair.to()), ["a", "b/c"]);
    });
}

/// A FIFO of the source fails, and is known to have nothing below it.
#[test]
fn a_special_file_keeps_its_name_and_no_other() {
    for_both(|pair| {
        make(&pair.from(), &["a"]);
        make(&pair.to(), &["old", "pipe"]);
        let made = Command::new("mkfifo").arg(pair.from().join("pipe")).status().unwrap();
        assert!(made.success());
        let failed = pair.run(Rules::mirror()).failed;
        assert_eq!(failed.iter().map(|(_, error)| error.code).collect::<Vec<_>>(), [Code::NotPlain]);
        assert_eq!(leaves(&pair.to()), ["a", "pipe"]);
        let rules = Rules { filter: vec![Pattern::exclude("pipe/")], ..Rules::mirror() };
        assert_eq!(pair.run(rules).failed.len(), 1, "a pattern of directories");
        let rules = Rules { filter: vec![Pattern::exclude("pipe")], ..Rules::mirror() };
        assert_eq!(pair.run(rules).failed, []);
        assert_eq!(leaves(&pair.to()), ["a", "pipe"]);
    });
}

#[test]
fn what_is_in_the_way_counts_as_removed() {
    for_both(|pair| {
        make(&pair.from(), &["a", "b"]);
        make(&pair.to(), &["a/x", "a/y.db", "c"]);
        let run = |most, exclude: &[&str]| {
            let deletion = Some(Deletion { most, force: false });
            let filter = exclude.iter().map(|text| Pattern::exclude(text)).collect();
            let failed = pair.run(Rules { deletion, filter, ..Rules::default() }).failed;
            failed.iter().map(|(_, error)| error.code).collect::<Vec<_>>()
        };
        // With the directory itself these are three names, and `c` is the fourth.
        assert!(run(Some(2), &[]).contains(&Code::Limit));
        assert_eq!(leaves(&pair.to()), ["a/x", "a/y.db", "b", "c"]);
        // `a/x` is removed as a name that the source does not have.
        assert!(run(None, &["*.db", "c"]).contains(&Code::Denied));
        assert_eq!(leaves(&pair.to()), ["a/y.db", "b", "c"]);
        make(&pair.to(), &["a/x"]);
        assert_eq!(run(Some(3), &[]), [Code::Limit]);
        assert_eq!(leaves(&pair.to()), ["a", "b", "c"]);
        assert_eq!(run(Some(4), &[]), []);
        assert_eq!(leaves(&pair.to()), ["a", "b"]);
    });
}

#[test]
fn deletion_is_limited_for_uploads_too() {
    let pair = Pair::new(Way::Put);
    make(&pair.to(), &["a", "b"]);
    let run =
        |most, force| pair.run(Rules { deletion: Some(Deletion { most, force }), ..Rules::default() }).failed;
    assert_eq!(run(None, false)[0].1.code, Code::Denied, "the source is empty");
    assert_eq!(run(Some(1), true)[0].1.code, Code::Limit);
    assert_eq!(leaves(&pair.to()), ["a", "b"]);
    assert_eq!(run(Some(2), true), []);
    assert_eq!(leaves(&pair.to()), Vec::<String>::new());
}

/// Files of the same size and time that differ, and files that have another time only.
#[test]
fn contents_are_compared_where_that_is_asked_for() {
    for_both(|pair| {
        let names = ["a", "d/b", "d/large"];
        make(&pair.from(), &names);
        fs::write(pair.from().join("d/large"), vec![7; 3_000_000]).unwrap();
        pair.run(Rules::default());
        for name in names {
            let path = pair.to().join(name);
            let (time, mut content) =
                (fs::metadata(&path).unwrap().modified().unwrap(), fs::read(&path).unwrap());
            *content.last_mut().unwrap() ^= 1;
            fs::write(&path, content).unwrap();
            fs::File::options().write(true).open(&path).unwrap().set_modified(time).unwrap();
        }
        assert_eq!(pair.run(Rules::default()).files, 0);
        let compared = Rules { checksum: true, ..Rules::default() };
        let verified = Rules { dry_run: true, ..compared.clone() };
        assert_eq!(planned_by(pair, "tree/", verified.clone()), ["+a", "+d/b", "+d/large"]);
        let report = pair.run(compared.clone());
        assert_eq!((report.files, report.failed), (3, vec![]));
        for name in names {
            assert!(fs::read(pair.to().join(name)).unwrap() == fs::read(pair.from().join(name)).unwrap());
        }
        assert_eq!(planned_by(pair, "tree/", verified.clone()), Vec::<String>::new());
        assert_eq!(pair.run(compared.clone()).files, 0);
        // Another time alone is no difference, and is set.
        let time = |root: PathBuf, name: &str| fs::metadata(root.join(name)).unwrap().modified().unwrap();
        for name in names {
            let file = fs::File::options().write(true).open(pair.to().join(name)).unwrap();
            file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        }
        assert_eq!(planned_by(pair, "tree/", verified), Vec::<String>::new());
        let kept = Rules { existing: Existing::Nothing, ..compared.clone() };
        assert_eq!(pair.run(kept).files, 0);
        assert_eq!(time(pair.to(), names[0]), SystemTime::UNIX_EPOCH);
        assert_eq!(pair.run(compared).files, 0);
        for name in names {
            assert_eq!(time(pair.to(), name), time(pair.from(), name));
        }
    });
}

/// Parts of transfers, and files of a user whose names are like theirs.
#[test]
fn old_parts_are_removed_and_no_other_files() {
    let text = |name: Vec<u8>| String::from_utf8(name).unwrap();
    let part = |name: &str| text(part_name(name.as_bytes()));
    for_both(|pair| {
        let users = [".mine.part", ".mine.part.blocks", "d/.mine.12345678.part"];
        make(&pair.from(), &["d/a"]);
        make(&pair.from(), &users);
        let kept = format!("d/{}", part("z"));
        let own = format!("own/{}", part("w"));
        let old = [part("x"), text(blocks_name(b"x")), format!("d/{}", part("y"))];
        let others =
            [own.clone(), "d/.hidden".to_owned(), ".other.part".to_owned(), "d/.x.part.blocks".to_owned()];
        let time = SystemTime::now() - Duration::from_secs(15 * 24 * 3600);
        make(&pair.to(), &[&kept]);
        for name in old.iter().chain(&others) {
            make(&pair.to(), &[name]);
            fs::File::options().write(true).open(pair.to().join(name)).unwrap().set_modified(time).unwrap();
        }
        // The name that another transfer gives a file now, before it gives it the right one.
        let name = part("v");
        fs::hard_link(pair.to().join(".other.part"), pair.to().join(&name)).unwrap();
        assert_eq!(pair.run(Rules::default()).failed, []);
        // A directory that the source does not have is left alone.
        let mut expected: Vec<String> = users.iter().map(|name| (*name).to_owned()).collect();
        expected.extend(others);
        expected.extend([kept, name, "d/a".to_owned()]);
        expected.sort();
        assert_eq!(leaves(&pair.to()), expected);
    });
}

#[test]
fn links_keep_their_times() {
    for_both(|pair| {
        std::os::unix::fs::symlink("a", pair.from().join("link")).unwrap();
        for _ in 0..2 {
            assert_eq!(pair.run(Rules::default()).failed, []);
            let time = |root: PathBuf| fs::symlink_metadata(root.join("link")).unwrap().modified().unwrap();
            assert_eq!(time(pair.to()), time(pair.from()));
            // The time is kept also if the link is here already.
            let link = pair.from().join("link");
            let touched = Command::new("touch").args(["-h", "-d", "2001-01-01"]).arg(link).status().unwrap();
            assert!(touched.success());
        }
    });
}

/// No block of it is asked for, and yet the file ends.
#[test]
fn a_large_file_that_became_empty_is_empty_in_the_copy() {
    for_both(|pair| {
        fs::create_dir_all(pair.from()).unwrap();
        let file = pair.from().join("file");
        fs::write(&file, vec![1; 3 << 20]).unwrap();
        assert_eq!(pair.run(Rules::default()).files, 1);
        fs::write(&file, b"").unwrap();
        let report = pair.run(Rules::default());
        assert_eq!((report.files, report.failed), (1, vec![]));
        assert_eq!(fs::read(pair.to().join("file")).unwrap(), b"");
    });
}
