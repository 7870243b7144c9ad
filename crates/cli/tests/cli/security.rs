//! The flags for CURVE and PLAIN take effect or are refused: no message is ever sent as if they were absent.

use crate::common::{Folder, run};

const SOMEWHERE: &str = "tcp://127.0.0.1:9";

/// A public certificate and its secret one.
fn keys(folder: &Folder, name: &str) -> (String, String) {
    run(&["keygen", &folder.text(name)], b"").expect(0);
    (folder.text(name), folder.text(&format!("{name}_secret")))
}

fn refused(arguments: &[&[&str]], words: &str) {
    let done = run(&arguments.concat(), b"").expect(2);
    assert!(done.err.contains(words), "{words:?} is not in {done:?}");
}

#[test]
fn a_transport_without_security_is_refused_where_it_is_asked_for() {
    let folder = Folder::new();
    let (public, secret) = keys(&folder, "server");
    let users = folder.write("users", b"me:mine\n");
    let asked = [
        &["--curve-server-key", &public][..],
        &["--curve-server", "--cert", &secret],
        &["--plain-username", "me", "--plain-password", "mine"],
        &["--plain-users", &users],
        &["-o", "zmq_curve_server=1"],
    ];
    let commands = [
        &["send", "-t", "radio", "-g", "news", "-m", "a", "udp://127.0.0.1:9"][..],
        &["send", "-m", "a", ">inproc://here"],
        &["send", "-m", "a", "an-unknown-transport://here"],
        &["send", "-m", "a", SOMEWHERE, "epgm://lo;239.192.1.1:5555"],
        &["recv", "-t", "dish", "-g", "news", "@udp://127.0.0.1:*"],
        &["proxy", SOMEWHERE, SOMEWHERE, "--capture", "inproc://copies"],
        &["forward", "127.0.0.1:0", "inproc://here"],
        &["monitor", "inproc://here"],
        &["bench", "thr", "--self"],
    ];
    for command in commands {
        for flags in asked {
            refused(&[command, flags], "supports neither CURVE nor PLAIN");
        }
    }
}

#[test]
fn a_flag_that_needs_another_is_refused_alone() {
    let folder = Folder::new();
    let (_, secret) = keys(&folder, "own");
    let users = folder.write("users", b"me:mine\n");
    let send = ["send", SOMEWHERE, "-m", "a"];
    for password in [["--plain-password", "mine"], ["--plain-password-file", &users]] {
        refused(&[&send, &password], "--plain-username");
        refused(&[&send, &password, &["--plain-users", &users]], "cannot be used with");
        refused(&[&send, &password, &["--curve-server-key", &secret]], "cannot be used with");
    }
    refused(&[&send, &["--cert", &secret]], "--curve-server");
    refused(&[&send, &["--curve-server", "--plain-users", &users]], "cannot be used with");
}
