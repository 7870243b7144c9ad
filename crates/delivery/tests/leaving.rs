//! Who leaves has said what it has handled.

use std::time::{Duration, Instant};

use pinnace_delivery::Client;

fn soon() -> Option<Instant> {
    Some(Instant::now() + Duration::from_secs(20))
}

#[test]
fn the_last_acknowledgement_is_said_before_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let client = |name: &str| Client::builder(name, name).data_dir(dir.path().join(name)).registry("none");
    let receiver = client("receiver").start().unwrap();
    let sender = client("sender").peer("receiver", receiver.endpoint(), &["news"]).start().unwrap();
    sender.send_to("news", b"the last").unwrap();
    receiver.recv(soon()).unwrap().ack();
    drop(receiver);
    sender.wait_pending(0, soon()).unwrap();
}
