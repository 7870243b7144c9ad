//! A faulty network: accepted messages arrive once and in order.

use pinnace_delivery::{Builder, Error, KeyPair};

use crate::checker::{Message, STRICT, Shared};
use crate::common::{Closing, client, durability, kept, short_or_long, soon};
use crate::proxy::{Proxy, Repeats};

/// Sends through a proxy until each of its faults has occurred often enough, then until all messages have arrived.
fn send_through(what: &str, repeats: Repeats) {
    let dir = tempfile::tempdir().unwrap();
    let (here, there) = (KeyPair::generate().unwrap(), KeyPair::generate().unwrap());
    let secure = |builder: Builder, keys: &KeyPair, other: &str, key: &KeyPair| match repeats {
        Repeats::Bytes => builder.curve(keys).trust(other, &key.public),
        Repeats::Frames => builder,
    };
    let receiver = client("receiver", dir.path()).listen("tcp://127.0.0.1:*");
    let receiver = secure(receiver, &there, "sender", &here).start().unwrap();
    let proxy = Proxy::start(receiver.endpoint(), repeats);
    let sender = client("sender", dir.path()).peer("receiver", &proxy.endpoint, &["news"]);
    let sender = secure(sender, &here, "receiver", &there).start().unwrap();
    let books = Shared::default();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            loop {
                match receiver.recv(None) {
                    Ok(delivery) => {
                        books.handle(0, 0, delivery.body());
                        delivery.ack();
                    }
                    Err(error) => return assert_eq!(error, Error::Closed),
                }
            }
        });
        let _closing = Closing(&receiver);
        let enough = short_or_long(3, 60);
        for number in 0.. {
            let message = Message { flow: 0, run: 0, number };
            let len = [12, 90, 1000, 12_000][number as usize / 3 % 4];
            let len = if number % 1000 == 999 { 2_500_000 } else { len };
            sender.send("news", &message.body(len), &kept(durability(number))).unwrap();
            books.accept(message);
            if number % 50 == 0 {
                sender.wait_pending(200, soon()).unwrap();
            }
            if proxy.tally().least() >= enough {
                break;
            }
        }
        proxy.behave();
        sender.wait_pending(0, soon()).unwrap();
    });
    books.lock().close(what, &STRICT, &proxy.tally().text());
}

#[test]
fn a_network_that_repeats_frames() {
    send_through("a network that cuts, stalls, delays, repeats frames", Repeats::Frames);
}

#[test]
fn a_network_that_repeats_any_bytes() {
    send_through("a network that cuts, stalls, delays, repeats bytes (CURVE)", Repeats::Bytes);
}
