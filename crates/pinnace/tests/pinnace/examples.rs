//! Runs the programs of `examples/rust` to completion; the programs check what they print.

use std::path::PathBuf;
use std::process::Command;

/// Cargo puts examples beside the directory of this test.
fn example(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    let profile = test.ancestors().nth(2).expect("target/PROFILE/deps/TEST");
    profile.join("examples").join(name)
}

#[test]
fn all_run() {
    for name in ["push_pull", "pub_sub", "req_rep", "async", "curve"] {
        let path = example(name);
        let output = Command::new(&path).output();
        let output =
            output.unwrap_or_else(|error| panic!("{}: {error}; cargo build --examples", path.display()));
        let text = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !text.is_empty(), "{name}: {text}{errors}");
    }
}
