//! Slow links, and links that are cut again and again.

use std::fs;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use crate::common::Folder;
use crate::process::{Process, Server, run};
use crate::proxy::{Proxy, Way};
use crate::support::{MIB, Random, folder_with, is_long, mib, names, report, short_or_long};

/// A client that gets a byte for each file that another client gets.
#[test]
fn a_client_that_hardly_reads_holds_up_no_other() {
    let (folder, size) = (Folder::new(), 32 * MIB);
    fs::create_dir(folder.path("source")).unwrap();
    let content = Random::new().octets(size);
    fs::write(folder.path("source/file"), &content).unwrap();
    let server = Server::start(&[&format!("{}=/data", folder.text("source"))]);
    let (slow, fast) = (Proxy::new(&server.endpoint), Proxy::new(&server.endpoint));
    let get = |proxy: &Proxy, name: &str| {
        ["files", "get", "-s", &proxy.endpoint, "/data/file", &folder.text(name)].map(str::to_owned)
    };
    // What one client costs.
    run(&get(&fast, "before")).expect(0);
    let before = server.peak();
    let begun = slow.hold_after(Way::Down, 100_000);
    let client = Process::start(&get(&slow, "slow"));
    slow.reaches(Way::Down, begun, || client.has_ended());
    let (files, began) = (short_or_long(10, 30), Instant::now());
    for number in 0..files {
        // Its heartbeat ends the connection if this takes longer than 10 s.
        assert!(
            slow.reaches(Way::Down, slow.hold_after(Way::Down, 1), || client.has_ended()),
            "it has ended"
        );
        run(&get(&fast, &format!("{number}"))).expect(0);
        assert!(fs::read(folder.path(&number.to_string())).unwrap() == content);
        fs::remove_file(folder.path(&number.to_string())).unwrap();
    }
    let (took, more) = (began.elapsed().as_secs_f64(), server.peak() - before);
    // The slow client's window, which begins with 2 MiB and did not grow; the others' may, to 16 MiB.
    assert!(more < 20 * MIB, "the server had {} more", mib(more));
    assert!(!client.has_ended());
    slow.open(Way::Down);
    client.end().expect(0);
    assert!(fs::read(folder.path("slow")).unwrap() == content);
    report(&format!(
        "a client that gets a byte for each file of another one: {files} files of {} in {took:.1} s, {} more at the \
         server; then it got its file",
        mib(size),
        mib(more)
    ));
}

/// Cuts the link of a transfer after each MiB, or every second for a minute, and waits for the end of the transfer.
/// Returns how often it was cut.
fn cut(proxy: &Proxy, way: Way, client: Process) -> u32 {
    let (mut cuts, most) = (0, short_or_long(500, 60));
    // Nothing is sent: the channel is a clock.
    let (_sender, clock) = mpsc::channel::<()>();
    while cuts < most {
        let is_over = match is_long() {
            true => clock.recv_timeout(Duration::from_secs(1)).is_ok() || client.has_ended(),
            false => !proxy.reaches(way, proxy.hold_after(way, MIB), || client.has_ended()),
        };
        if is_over {
            break;
        }
        proxy.cut();
        cuts += 1;
    }
    assert!(cuts < most || is_long(), "it does not go on");
    proxy.open(way);
    client.end().expect(0);
    cuts
}

#[test]
fn a_link_that_is_cut_again_and_again() {
    for (what, way, size) in [("get", Way::Down, 12 * MIB), ("put", Way::Up, 4 * MIB)] {
        let size = short_or_long(size, 900 * MIB);
        let content = Random::new().octets(size);
        let folder = folder_with(&content);
        let (served, from, to) = match way {
            Way::Down => ("source", "/data/file".to_owned(), folder.text("target/file")),
            Way::Up => ("target", folder.text("source/file"), "/data/file".to_owned()),
        };
        let server = Server::start(&[&format!("{}=/data", folder.text(served))]);
        let proxy = Proxy::new(&server.endpoint);
        let rate = short_or_long("1G", "16M");
        let line = ["files", what, "-s", &proxy.endpoint, "--limit-rate", rate, &from, &to];
        let began = Instant::now();
        let cuts = cut(&proxy, way, Process::start(&line));
        assert!(fs::read(folder.path("target/file")).unwrap() == content);
        assert_eq!(names(&folder.path("target")), ["file"]);
        assert!(cuts >= short_or_long((size / MIB) as u32, 50), "only {cuts} cuts");
        report(&format!(
            "a link that is cut, {what}: {} over {cuts} cuts in {:.1} s, equal, {} passed",
            mib(size),
            began.elapsed().as_secs_f64(),
            mib(proxy.passed(way))
        ));
    }
}

/// The server hears nothing of the client's lost connection, until its heartbeat is not answered.
#[test]
fn a_link_that_hangs() {
    for (what, way) in [("get", Way::Down), ("put", Way::Up)] {
        let content = Random::new().octets(6 * MIB);
        let folder = folder_with(&content);
        let (served, from, to) = match way {
            Way::Down => ("source", "/data/file".to_owned(), folder.text("target/file")),
            Way::Up => ("target", folder.text("source/file"), "/data/file".to_owned()),
        };
        let server = Server::start(&[&format!("{}=/data", folder.text(served))]);
        let proxy = Proxy::new(&server.endpoint);
        let line = ["files", what, "-s", &proxy.endpoint, &from, &to];
        let middle = proxy.hold_after(way, 3 * MIB);
        let client = Process::start(&line);
        proxy.reaches(way, middle, || client.has_ended());
        let began = Instant::now();
        proxy.hang();
        proxy.open(way);
        client.end().expect(0);
        assert!(fs::read(folder.path("target/file")).unwrap() == content);
        let took = began.elapsed().as_secs_f64();
        report(&format!("a link that hangs in the middle of a {what}: {took:.1} s"));
    }
}
