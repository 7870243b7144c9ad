//! Many files, and many clients.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;

use pinnace::files::client::Client;

use crate::common::Folder;
use crate::process::{Process, Server, run};
use crate::proxy::{Proxy, Way};
use crate::support::{MIB, Random, is_long, mib, report, short_or_long};

/// Files of each directory.
const FANOUT: u32 = 1000;

/// A folder with room for so many files and their copies; None: there is none.
fn place(files: u64) -> Option<PathBuf> {
    let places = [PathBuf::from("/dev/shm"), std::env::temp_dir()];
    places.into_iter().find(|place| {
        rustix::fs::statvfs(place).is_ok_and(|known| {
            let room = known.f_bavail.saturating_mul(known.f_frsize);
            known.f_favail > 2 * files + 10_000 && room > 2 * files * 1024
        })
    })
}

/// A directory that is removed with the test.
struct Removed(PathBuf);

impl Drop for Removed {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn count(tree: &Path) -> u64 {
    let entries = fs::read_dir(tree).unwrap().map(Result::unwrap);
    entries.map(|entry| if entry.file_type().unwrap().is_dir() { count(&entry.path()) } else { 1 }).sum()
}

#[test]
fn a_million_files() {
    let files = short_or_long(10_000_u32, 1_000_000);
    let Some(place) = place(files.into()) else {
        return println!("{files} files: not tested: neither /dev/shm nor the temporary folder has room");
    };
    let place = Removed(place.join(format!("pinnace-crowds-{}", std::process::id())));
    let text = |name: &str| place.0.join(name).display().to_string();
    for directory in 0..files.div_ceil(FANOUT) {
        let directory = place.0.join(format!("source/{directory}"));
        fs::create_dir_all(&directory).unwrap();
        for number in 0..FANOUT {
            File::create(directory.join(number.to_string())).unwrap();
        }
    }
    let server = Server::start(&[&format!("{}=/data", text("source"))]);
    let proxy = Proxy::new(&server.endpoint);
    let line = ["files", "get", "-s", &proxy.endpoint, "/data/", &text("copy")];
    let began = std::time::Instant::now();
    let (done, peak) = Process::start(&line).end_with_peak();
    let took = began.elapsed();
    assert_eq!(done.expect(0).err, format!("pinnace: {files} files, 0 bytes\n"));
    assert_eq!(count(&place.0.join("copy")), u64::from(files));
    assert!(peak > 0 && peak < 128 * MIB, "the client had {}", mib(peak));
    let first = proxy.passed(Way::Down);
    assert_eq!(run(&line).expect(0).err, "pinnace: 0 files, 0 bytes\n");
    let second = proxy.passed(Way::Down) - first;
    // The listing alone.
    assert!(second < first / 2, "{second} bytes passed again, and {first} before");
    report(&format!(
        "{files} empty files: all in {:.1} s, {} at the client, {} at the server; {second} bytes the second time",
        took.as_secs_f64(),
        mib(peak),
        mib(server.peak())
    ));
}

#[test]
fn many_clients_of_one_file() {
    let (clients, size) = (short_or_long(40, 400), short_or_long(MIB, 64 * MIB));
    let folder = Folder::new();
    fs::write(folder.path("file"), Random::new().octets(size)).unwrap();
    let server = Server::start(&[&format!("{}=/data", folder.text(""))]);
    let before = server.peak();
    let patience = Duration::from_secs(if is_long() { 300 } else { 60 });
    let connect = |_| Client::builder(&server.tcp).patience(patience).connect().unwrap();
    let all: Vec<Client> = (0..clients).map(connect).collect();
    let began = std::time::Instant::now();
    thread::scope(|scope| {
        let transfers: Vec<_> =
            all.iter().map(|client| scope.spawn(|| client.discard("/data/file").wait())).collect();
        for transfer in transfers {
            let report = transfer.join().unwrap().unwrap();
            assert_eq!((report.files, report.bytes, report.failed), (1, size, vec![]));
        }
    });
    let (took, more) = (began.elapsed().as_secs_f64(), server.peak() - before);
    // Each client's window, at most.
    let most = clients as u64 * 16 * MIB;
    assert!(more < most, "the server had {} more", mib(more));
    report(&format!(
        "{clients} clients of a file of {}: all whole in {took:.1} s, {} more at the server",
        mib(size),
        mib(more)
    ));
}
