//! Clients of the tests.

use std::path::Path;
use std::time::{Duration, Instant};

use pinnace_delivery::{Builder, Client};

/// A deadline that no test reaches.
pub fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

/// A client without a registry, which listens on a topic of its own.
pub fn client(name: &str, dir: &Path) -> Builder {
    Client::builder(name, &format!("{name}'s")).data_dir(dir.join(name)).registry("none")
}

/// A client that listens on a topic, in a registry that all clients below `dir` share.
pub fn member(dir: &Path, name: &str, topic: &str) -> Builder {
    let registry = format!("dir://{}", dir.join("registry").display());
    Client::builder(name, topic).data_dir(dir.join(name)).registry(&registry)
}

/// A sender that knows the receiver.
pub fn pair(dir: &Path) -> (Client, Client) {
    let receiver = client("receiver", dir).start().unwrap();
    let sender = client("sender", dir).peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    (sender, receiver)
}
