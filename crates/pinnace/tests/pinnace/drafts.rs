//! The types with single-frame messages: groups, routing ids, and what each type refuses.

use std::time::Duration;

use pinnace::{
    Channel, Client, Context, Dgram, Dish, Error, Gather, Message, Peer, Radio, Reason, Scatter, Server,
};

const LONG: Duration = Duration::from_secs(30);
const SHORT: Duration = Duration::from_millis(100);
const PLACES: [&str; 2] = ["inproc://drafts", "tcp://127.0.0.1:*"];

fn to_group(text: &str, group: &str) -> Message {
    Message::from(text).to_group(group)
}

#[test]
fn a_dish_receives_the_groups_it_has_joined() {
    for place in PLACES {
        let context = Context::new().unwrap();
        let radio = Radio::new(&context).unwrap();
        let endpoint = radio.bind(place).unwrap();
        let dish = Dish::builder(&context).join("news").connect(&endpoint).unwrap();
        dish.join("weather").unwrap();
        assert!(matches!(dish.join("weather"), Err(Error::Invalid(_))), "joined already");
        assert!(matches!(dish.join([b'x'; 256]), Err(Error::Invalid(_))), "a group has at most 255 bytes");
        dish.wait_joined(LONG).unwrap();
        radio.wait_subscribers("news", 1, LONG).unwrap();
        assert_eq!(radio.wait_subscribers("sports", 1, SHORT), Err(Error::WouldBlock));
        for (text, group) in [("1", "news"), ("2", "sports"), ("3", "newsreel"), ("4", "weather")] {
            radio.send(to_group(text, group)).unwrap();
        }
        for (text, group) in [("1", "news"), ("4", "weather")] {
            let message = dish.recv_timeout(LONG).unwrap();
            assert_eq!((message.text(), message.group()), (Some(text), group.as_bytes()), "{place}");
        }
        dish.leave("news").unwrap();
        assert!(matches!(dish.leave("news"), Err(Error::Invalid(_))), "left already");
        dish.wait_joined(LONG).unwrap();
        radio.send(to_group("5", "news")).unwrap();
        radio.send(to_group("6", "weather")).unwrap();
        assert_eq!(dish.recv_timeout(LONG).unwrap(), "6", "{place}");
        assert!(matches!(radio.send(["two", "frames"]).unwrap_err().error, Error::Invalid(_)));
    }
}

#[test]
fn a_server_answers_each_client_by_its_routing_id() {
    for place in PLACES {
        let context = Context::new().unwrap();
        let server = Server::new(&context).unwrap();
        let endpoint = server.bind(place).unwrap();
        let clients = [(); 3].map(|()| Client::builder(&context).connect(&endpoint).unwrap());
        for (number, client) in clients.iter().enumerate() {
            client.send(number.to_string()).unwrap();
        }
        let questions = [(); 3].map(|()| server.recv_timeout(LONG).unwrap());
        for question in &questions {
            assert_ne!(question.routing_id(), 0);
            let answer = format!("answer to {}", question.text().unwrap());
            server.send(Message::from(answer).to_peer(question.routing_id())).unwrap();
        }
        for (number, client) in clients.iter().enumerate() {
            assert_eq!(client.recv_timeout(LONG).unwrap(), format!("answer to {number}"), "{place}");
        }
        let gone = questions[0].routing_id();
        server.disconnect_peer(gone).unwrap();
        assert_eq!(server.disconnect_peer(gone), Err(Error::Unreachable));
        for (id, error) in [(gone, Error::Unreachable), (0, Error::Unreachable)] {
            let unsent = server.send(Message::from("to nobody").to_peer(id)).unwrap_err();
            assert_eq!((unsent.error, unsent.message.routing_id()), (error, id), "{place}");
        }
    }
}

#[test]
fn a_peer_speaks_first_to_whom_it_connects_to() {
    for place in PLACES {
        let context = Context::new().unwrap();
        let [here, first, second] = [(); 3].map(|()| Peer::new(&context).unwrap());
        let at = first.bind(place).unwrap();
        let to_first = here.connect_peer(&at).unwrap();
        let at = second.bind(if place.contains('*') { place } else { "inproc://second" }).unwrap();
        let to_second = here.connect_peer(&at).unwrap();
        assert_ne!(to_first, to_second);
        here.send(Message::from("for the first").to_peer(to_first)).unwrap();
        here.send(Message::from("for the second").to_peer(to_second)).unwrap();
        let heard = first.recv_timeout(LONG).unwrap();
        assert_eq!(heard, "for the first");
        assert_eq!(second.recv_timeout(LONG).unwrap(), "for the second");
        first.send(Message::from("yes?").to_peer(heard.routing_id())).unwrap();
        let answer = here.recv_timeout(LONG).unwrap();
        assert_eq!((answer.text(), answer.routing_id()), (Some("yes?"), to_first), "{place}");
        assert!(matches!(here.connect_peer("tcp://"), Err(Error::Invalid(_))));
    }
    let context = Context::new().unwrap();
    let late = Peer::builder(&context).immediate(true).build().unwrap();
    assert_eq!(late.connect_peer("tcp://127.0.0.1:5555"), Err(Error::Fault));
}

#[test]
fn futures_and_clones_keep_what_goes_with_a_message() {
    let context = Context::new().unwrap();
    let server = Server::builder(&context).bind("inproc://echo").unwrap();
    let client = Client::builder(&context).connect("inproc://echo").unwrap();
    pollster::block_on(async {
        client.send_async("hello").await.unwrap();
        let question = server.recv_async().await.unwrap();
        server.send_async(question.clone()).await.unwrap();
        assert_eq!(client.recv_async().await.unwrap(), "hello");
    });
}

#[test]
fn scatter_gather_and_channel_take_one_frame() {
    let context = Context::new().unwrap();
    let gather = Gather::builder(&context).bind("inproc://gather").unwrap();
    let scatter = Scatter::builder(&context).connect("inproc://gather").unwrap();
    scatter.send("one").unwrap();
    assert_eq!(gather.recv_timeout(LONG).unwrap(), "one");
    let here = Channel::builder(&context).bind("inproc://channel").unwrap();
    let there = Channel::builder(&context).connect("inproc://channel").unwrap();
    here.send("one").unwrap();
    assert_eq!(there.recv_timeout(LONG).unwrap(), "one");
    assert!(matches!(there.send(["a", "b"]).unwrap_err().error, Error::Invalid(_)));
    assert!(matches!(scatter.send(["a", "b"]).unwrap_err().error, Error::Invalid(_)));
}

#[test]
fn a_datagram_has_its_senders_address() {
    let context = Context::new().unwrap();
    let here = Dgram::builder(&context).bind("udp://127.0.0.1:*").unwrap();
    let there = Dgram::builder(&context).bind("udp://127.0.0.1:*").unwrap();
    let address = here.last_endpoint().unwrap().trim_start_matches("udp://").to_owned();
    there.send([address.as_str(), "hello"]).unwrap();
    let datagram = here.recv_timeout(LONG).unwrap();
    assert_eq!(datagram[1], "hello");
    here.send([datagram[0].clone(), "thank you".into()]).unwrap();
    assert_eq!(there.recv_timeout(LONG).unwrap()[1], "thank you");
    assert!(matches!(here.send(["no address", "hello"]).unwrap_err().error, Error::Invalid(_)));
}

#[test]
fn what_a_slow_dish_misses_is_counted() {
    let context = Context::new().unwrap();
    let radio = Radio::builder(&context).send_high_water_mark(1).bind("inproc://slow").unwrap();
    let dish = Dish::builder(&context).receive_high_water_mark(1).join("g").connect("inproc://slow").unwrap();
    radio.wait_subscribers("g", 1, LONG).unwrap();
    for number in 0..10 {
        radio.send(to_group(&number.to_string(), "g")).unwrap();
    }
    let dropped = radio.stats().unwrap().drops.of(Reason::Full);
    let received = std::iter::from_fn(|| dish.try_recv().ok()).count() as u64;
    assert_eq!((dropped + received, received), (10, 2));
}
