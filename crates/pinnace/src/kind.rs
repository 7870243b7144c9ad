//! The socket types and what each can do. A call that a pattern does not support does not compile.

use pinnace_engine::SocketType;

use crate::Socket;

mod sealed {
    pub trait Sealed {}
}

/// A socket's type, either a concrete one or [any](kinds::Any).
pub trait Kind: sealed::Sealed + 'static {}

/// A socket type that is known at compile time.
pub trait Typed: Kind {
    /// The engine's value for it, with libzmq's number and name.
    const TYPE: SocketType;
}

/// Types that send.
pub trait Sends: Kind {}

/// Types that receive.
pub trait Receives: Kind {}

/// Types that subscribe to topics: SUB, XSUB.
pub trait Subscribes: Kind {}

/// Types that publish to subscriptions of their peers: PUB and XPUB (topics), RADIO (groups).
pub trait Publishes: Kind {}

/// Types that join groups: DISH.
pub trait Joins: Kind {}

/// Types that learn a peer's routing id when they connect: PEER.
pub trait Dials: Kind {}

/// Types that send each message to the peer with the routing id that it carries: SERVER, PEER.
pub trait Addresses: Kind {}

macro_rules! kinds {
    ($($(#[doc = $doc:literal])* $name:ident: $($ability:ident)*;)*) => {
        /// Marks for the socket types, the parameter of [`Socket`].
        pub mod kinds {
            /// Marks an [`AnySocket`](crate::AnySocket).
            #[derive(Debug)]
            pub enum Any {}
            impl super::sealed::Sealed for Any {}
            impl super::Kind for Any {}
            impl super::Sends for Any {}
            impl super::Receives for Any {}
            impl super::Subscribes for Any {}
            impl super::Publishes for Any {}
            impl super::Joins for Any {}
            impl super::Dials for Any {}
            impl super::Addresses for Any {}
            $(
                #[doc = concat!("Marks a [`", stringify!($name), "`](crate::", stringify!($name), ").")]
                #[derive(Debug)]
                pub enum $name {}
                impl super::sealed::Sealed for $name {}
                impl super::Kind for $name {}
                impl super::Typed for $name {
                    const TYPE: pinnace_engine::SocketType = pinnace_engine::SocketType::$name;
                }
                $(impl super::$ability for $name {})*
            )*
        }
        $($(#[doc = $doc])* pub type $name = Socket<kinds::$name>;)*
    };
}

/// A socket with a type known only at run time, for example from user input. It has every call. A call that its type
/// does not support returns an error (NotSupported, Invalid) instead of failing to compile.
///
/// ```
/// use pinnace::{AnySocket, Context, Error, Invalid, SocketType};
/// let context = Context::new()?;
/// let wanted = SocketType::from_name(b"PULL").ok_or(Error::Invalid(Invalid::SocketType))?;
/// let pull = AnySocket::of_type(&context, wanted)?;
/// assert_eq!(pull.socket_type(), SocketType::Pull);
/// assert_eq!(pull.send("hello").unwrap_err().error, Error::NotSupported);
/// # Ok::<(), Error>(())
/// ```
pub type AnySocket = Socket<kinds::Any>;

kinds! {
    /// One end of a pipeline. Each message goes to one of the connected [`Pull`]s, in turn. `send` waits while there is
    /// none.
    ///
    /// ```
    /// # use pinnace::{Context, Pull, Push};
    /// # let context = Context::new()?;
    /// let push = Push::new(&context)?;
    /// push.bind("inproc://tasks")?;
    /// # let pull = Pull::new(&context)?;
    /// # pull.connect("inproc://tasks")?;
    /// push.send("a task")?;
    /// # assert_eq!(pull.recv()?, "a task");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// It does not receive:
    /// ```compile_fail,E0599
    /// # use pinnace::{Context, Push};
    /// # let context = Context::new()?;
    /// Push::new(&context)?.recv()?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Push: Sends;
    /// The other end of a pipeline. Messages are received from all [`Push`]es in turn.
    ///
    /// ```
    /// # use pinnace::{Context, Pull, Push};
    /// # let context = Context::new()?;
    /// let pull = Pull::new(&context)?;
    /// let endpoint = pull.bind("tcp://127.0.0.1:*")?;
    /// # let push = Push::new(&context)?;
    /// # push.connect(&endpoint)?;
    /// # push.send("a task")?;
    /// println!("{:?}", pull.recv()?);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// It does not send:
    /// ```compile_fail,E0599
    /// # use pinnace::{Context, Pull};
    /// # let context = Context::new()?;
    /// Pull::new(&context)?.send("a result")?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Pull: Receives;
    /// Publishes: each message goes to all [`Sub`]s that have subscribed to a prefix of it. It never waits. A
    /// subscriber that is too slow misses messages, and they are counted.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pinnace::{Context, Pub, Sub};
    /// # let context = Context::new()?;
    /// let publisher = Pub::new(&context)?;
    /// publisher.bind("inproc://news")?;
    /// # let subscriber = Sub::new(&context)?;
    /// # subscriber.connect("inproc://news")?;
    /// # subscriber.subscribe("weather")?;
    /// publisher.wait_subscribers("weather", 1, Duration::from_secs(10))?;
    /// publisher.send(["weather", "rainy"])?;
    /// # assert_eq!(subscriber.recv()?, ["weather", "rainy"]);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// ```compile_fail,E0599
    /// # use pinnace::{Context, Pub};
    /// # let context = Context::new()?;
    /// Pub::new(&context)?.subscribe("weather")?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Pub: Sends Publishes;
    /// Subscribes: it receives the messages that begin with one of its topics.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pinnace::{Context, Pub, Sub};
    /// # let context = Context::new()?;
    /// # let publisher = Pub::new(&context)?;
    /// # publisher.bind("inproc://news")?;
    /// let subscriber = Sub::new(&context)?;
    /// subscriber.subscribe("weather")?;
    /// subscriber.connect("inproc://news")?;
    /// subscriber.wait_subscribed(Duration::from_secs(10))?;
    /// # publisher.send(["weather", "rainy"])?;
    /// println!("{:?}", subscriber.recv()?);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    /// ```compile_fail,E0599
    /// # use pinnace::{Context, Sub};
    /// # let context = Context::new()?;
    /// Sub::new(&context)?.send("weather")?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Sub: Receives Subscribes;
    /// A [`Pub`] that receives its peers' subscriptions: a byte 1 (subscribe) or 0 (unsubscribe), then the topic.
    ///
    /// ```
    /// # use pinnace::{Context, Sub, XPub};
    /// # let context = Context::new()?;
    /// let publisher = XPub::new(&context)?;
    /// publisher.bind("inproc://news")?;
    /// let subscriber = Sub::new(&context)?;
    /// subscriber.connect("inproc://news")?;
    /// subscriber.subscribe("weather")?;
    /// assert_eq!(publisher.recv()?, b"\x01weather");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    XPub: Sends Receives Publishes;
    /// A [`Sub`] that also sends: subscriptions as an [`XPub`] receives them, and messages of its own.
    ///
    /// ```
    /// # use pinnace::{Context, XPub, XSub};
    /// # let context = Context::new()?;
    /// # let publisher = XPub::new(&context)?;
    /// # publisher.bind("inproc://news")?;
    /// let subscriber = XSub::new(&context)?;
    /// subscriber.connect("inproc://news")?;
    /// subscriber.subscribe("weather")?;
    /// assert_eq!(publisher.recv()?, b"\x01weather");
    /// publisher.send("weather: rainy")?;
    /// assert_eq!(subscriber.recv()?, "weather: rainy");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    XSub: Sends Receives Subscribes;
    /// Sends a request, then receives the reply, then may send the next request. Any other order is an error (State).
    ///
    /// ```
    /// # use pinnace::{Context, Error, Rep, Req};
    /// # let context = Context::new()?;
    /// # let rep = Rep::new(&context)?;
    /// # rep.bind("inproc://service")?;
    /// let req = Req::new(&context)?;
    /// req.connect("inproc://service")?;
    /// req.send("what time is it?")?;
    /// # rep.recv()?;
    /// # rep.send("late")?;
    /// println!("{:?}", req.recv()?);
    /// assert_eq!(req.try_recv(), Err(Error::State), "there is no question yet");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Req: Sends Receives;
    /// Receives a request, then sends the reply to its sender.
    ///
    /// ```
    /// # use pinnace::{Context, Rep, Req};
    /// # let context = Context::new()?;
    /// let rep = Rep::new(&context)?;
    /// rep.bind("inproc://service")?;
    /// # let req = Req::new(&context)?;
    /// # req.connect("inproc://service")?;
    /// # req.send("what time is it?")?;
    /// let question = rep.recv()?;
    /// rep.send("late")?;
    /// # assert_eq!(req.recv()?, "late");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Rep: Sends Receives;
    /// Sends to its peers in turn, and receives from all: a [`Req`] that may have several requests outstanding.
    ///
    /// ```
    /// # use pinnace::{Context, Dealer, Rep};
    /// # let context = Context::new()?;
    /// # let rep = Rep::new(&context)?;
    /// # rep.bind("inproc://service")?;
    /// let dealer = Dealer::new(&context)?;
    /// dealer.connect("inproc://service")?;
    /// dealer.send(["", "first question"])?; // The empty frame is a Req's envelope.
    /// dealer.send(["", "second question"])?;
    /// # rep.recv()?;
    /// # rep.send("an answer")?;
    /// assert_eq!(dealer.recv()?, ["", "an answer"]);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Dealer: Sends Receives;
    /// Sends to the peer named by the routing id in the first frame, and prepends the sender's routing id to what it
    /// receives.
    ///
    /// ```
    /// # use pinnace::{Context, Dealer, Router};
    /// # let context = Context::new()?;
    /// let router = Router::new(&context)?;
    /// router.bind("inproc://service")?;
    /// let dealer = Dealer::builder(&context).routing_id("worker 1").connect("inproc://service")?;
    /// dealer.send("ready")?;
    /// assert_eq!(router.recv()?, ["worker 1", "ready"]);
    /// router.send(["worker 1", "a task"])?;
    /// assert_eq!(dealer.recv()?, "a task");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Router: Sends Receives;
    /// Speaks to exactly one peer.
    ///
    /// ```
    /// # use pinnace::{Context, Pair};
    /// # let context = Context::new()?;
    /// let (here, there) = (Pair::new(&context)?, Pair::new(&context)?);
    /// here.bind("inproc://line")?;
    /// there.connect("inproc://line")?;
    /// here.send("hello")?;
    /// assert_eq!(there.recv()?, "hello");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Pair: Sends Receives;
    /// Speaks to raw TCP peers that do not know ZMTP. The first frame is the routing id of the peer, the second its
    /// bytes. An empty second frame reports that a peer connected or disconnected; sending one closes the connection.
    ///
    /// ```
    /// # use std::io::Write;
    /// # use pinnace::{Context, Stream};
    /// # let context = Context::new()?;
    /// let stream = Stream::new(&context)?;
    /// let endpoint = stream.bind("tcp://127.0.0.1:*")?;
    /// # let mut client = std::net::TcpStream::connect(endpoint.trim_start_matches("tcp://")).unwrap();
    /// # client.write_all(b"bare bytes").unwrap();
    /// let arrival = stream.recv()?;
    /// assert_eq!(arrival[1], "");
    /// assert_eq!(stream.recv()?, [&arrival[0][..], b"bare bytes"]);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Stream: Sends Receives;
    /// Receives from many [`Client`]s and replies to each by the routing id of the received message
    /// ([`Message::routing_id`](crate::Message::routing_id)). Like all types below, it sends messages of one frame
    /// only.
    ///
    /// ```
    /// # use pinnace::{Client, Context, Message, Server};
    /// # let context = Context::new()?;
    /// let server = Server::new(&context)?;
    /// server.bind("inproc://server")?;
    /// # let client = Client::new(&context)?;
    /// # client.connect("inproc://server")?;
    /// # client.send("a question")?;
    /// let question = server.recv()?;
    /// server.send(Message::from("an answer").to_peer(question.routing_id()))?;
    /// # assert_eq!(client.recv()?, "an answer");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Server: Sends Receives Addresses;
    /// Speaks to a [`Server`]; any number of requests may be outstanding.
    ///
    /// ```
    /// # use pinnace::{Client, Context, Message, Server};
    /// # let context = Context::new()?;
    /// # let server = Server::new(&context)?;
    /// # server.bind("inproc://server")?;
    /// let client = Client::new(&context)?;
    /// client.connect("inproc://server")?;
    /// client.send("a question")?;
    /// # server.send(Message::from("an answer").to_peer(server.recv()?.routing_id()))?;
    /// assert_eq!(client.recv()?, "an answer");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Client: Sends Receives;
    /// Publishes to groups ([`Message::to_group`](crate::Message::to_group)), also over UDP. It never waits. A peer
    /// that is too slow misses messages, and they are counted; datagrams that the network loses are not.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pinnace::{Context, Dish, Message, Radio};
    /// # let context = Context::new()?;
    /// let radio = Radio::new(&context)?;
    /// radio.bind("inproc://radio")?;
    /// # let dish = Dish::builder(&context).join("news").connect("inproc://radio")?;
    /// radio.wait_subscribers("news", 1, Duration::from_secs(10))?;
    /// radio.send(Message::from("rain").to_group("news"))?;
    /// # assert_eq!(dish.recv()?, "rain");
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Radio: Sends Publishes;
    /// Receives the messages that a [`Radio`] sends to the groups it has joined.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use pinnace::{Context, Dish, Message, Radio};
    /// # let context = Context::new()?;
    /// # let radio = Radio::new(&context)?;
    /// # radio.bind("inproc://radio")?;
    /// let dish = Dish::new(&context)?;
    /// dish.join("news")?;
    /// dish.connect("inproc://radio")?;
    /// # dish.wait_joined(Duration::from_secs(10))?;
    /// # radio.send(Message::from("rain").to_group("news"))?;
    /// let message = dish.recv()?;
    /// assert_eq!((message.group(), message.text()), (&b"news"[..], Some("rain")));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Dish: Receives Joins;
    /// A [`Pull`] for messages of one frame; its peers are [`Scatter`]s.
    Gather: Receives;
    /// A [`Push`] for messages of one frame; its peers are [`Gather`]s.
    ///
    /// ```
    /// # use pinnace::{Context, Error, Gather, Invalid, Scatter};
    /// # let context = Context::new()?;
    /// let (scatter, gather) = (Scatter::new(&context)?, Gather::new(&context)?);
    /// gather.bind("inproc://tasks")?;
    /// scatter.connect("inproc://tasks")?;
    /// scatter.send("a task")?;
    /// assert_eq!(gather.recv()?, "a task");
    /// assert_eq!(scatter.send(["two", "frames"]).unwrap_err().error, Error::Invalid(Invalid::MultipartMessage));
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Scatter: Sends;
    /// Datagrams over UDP. A message has two frames: the peer's address and the body. Delivery is not guaranteed.
    ///
    /// ```no_run
    /// # use pinnace::{Context, Dgram};
    /// # let context = Context::new()?;
    /// let dgram = Dgram::new(&context)?;
    /// dgram.bind("udp://127.0.0.1:5556")?;
    /// let datagram = dgram.recv()?;
    /// dgram.send([datagram[0].clone(), "thank you".into()])?;
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Dgram: Sends Receives;
    /// Speaks to many PEERs, each addressed by its routing id. It learns the routing id of a peer it connects to at
    /// once ([`Peer::connect_peer`]), and of other peers from the messages that they send.
    ///
    /// ```
    /// # use pinnace::{Context, Message, Peer};
    /// # let context = Context::new()?;
    /// let (here, there) = (Peer::new(&context)?, Peer::new(&context)?);
    /// there.bind("inproc://peer")?;
    /// let id = here.connect_peer("inproc://peer")?;
    /// here.send(Message::from("hello").to_peer(id))?;
    /// let hello = there.recv()?;
    /// there.send(Message::from("hello yourself").to_peer(hello.routing_id()))?;
    /// assert_eq!(here.recv()?.routing_id(), id);
    /// # Ok::<(), pinnace::Error>(())
    /// ```
    Peer: Sends Receives Dials Addresses;
    /// A [`Pair`] for messages of one frame.
    Channel: Sends Receives;
}
