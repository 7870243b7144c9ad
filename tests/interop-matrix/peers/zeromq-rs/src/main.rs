//! The peer for the crate `zeromq`. Implements the line protocol of `../../README.md`.

use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::time::{Instant, interval, timeout};
use zeromq::util::PeerIdentity;
use zeromq::{Socket, SocketOptions, SocketRecv, SocketSend, ZmqError, ZmqMessage};

const PATIENCE: Duration = Duration::from_secs(10);
const RETRY: Duration = Duration::from_millis(2);

type Answer = Result<String, String>;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string().replace('\n', " ")
}

fn unable<T>(what: &str) -> Result<T, String> {
    Err(format!("this type of socket has no {what}"))
}

/// An enum over the crate's socket types, which have no common trait for all operations.
macro_rules! sockets {
    ($($kind:ident($name:literal, $socket:ident)),*) => {
        enum Any { $($kind(zeromq::$socket)),* }

        impl Any {
            fn open(kind: &str, options: SocketOptions) -> Result<Any, String> {
                match kind {
                    $($name => Ok(Any::$kind(zeromq::$socket::with_options(options))),)*
                    _ => Err(format!("no socket type {kind}")),
                }
            }

            async fn bind(&mut self, endpoint: &str) -> Answer {
                match self { $(Any::$kind(socket) => socket.bind(endpoint).await),* }
                    .map(|endpoint| endpoint.to_string())
                    .map_err(text)
            }

            async fn connect(&mut self, endpoint: &str) -> Answer {
                match self { $(Any::$kind(socket) => socket.connect(endpoint).await),* }
                    .map(|()| String::new())
                    .map_err(text)
            }
        }
    };
}

sockets!(
    Pub("PUB", PubSocket),
    Sub("SUB", SubSocket),
    Req("REQ", ReqSocket),
    Rep("REP", RepSocket),
    Dealer("DEALER", DealerSocket),
    Router("ROUTER", RouterSocket),
    Pull("PULL", PullSocket),
    Push("PUSH", PushSocket),
    XPub("XPUB", XPubSocket),
    XSub("XSUB", XSubSocket)
);

impl Any {
    async fn try_send(&mut self, message: ZmqMessage) -> Result<(), ZmqError> {
        match self {
            Any::Pub(socket) => socket.send(message).await,
            Any::Req(socket) => socket.send(message).await,
            Any::Rep(socket) => socket.send(message).await,
            Any::Dealer(socket) => socket.send(message).await,
            Any::Router(socket) => socket.send(message).await,
            Any::Push(socket) => socket.send(message).await,
            Any::XPub(socket) => socket.send(message).await,
            Any::XSub(socket) => socket.send(message).await,
            Any::Sub(_) | Any::Pull(_) => Err(ZmqError::Other("this type of socket does not send")),
        }
    }

    /// Without a connection the crate returns the message, and it offers no way to wait for a connection.
    async fn send(&mut self, mut message: ZmqMessage) -> Answer {
        let end = Instant::now() + PATIENCE;
        let mut again = interval(RETRY);
        loop {
            again.tick().await;
            match self.try_send(message).await {
                Err(ZmqError::ReturnToSender { message: back, .. }) if Instant::now() < end => message = back,
                done => return done.map(|()| String::new()).map_err(text),
            }
        }
    }

    async fn recv(&mut self) -> Result<ZmqMessage, String> {
        match self {
            Any::Sub(socket) => socket.recv().await,
            Any::Req(socket) => socket.recv().await,
            Any::Rep(socket) => socket.recv().await,
            Any::Dealer(socket) => socket.recv().await,
            Any::Router(socket) => socket.recv().await,
            Any::Pull(socket) => socket.recv().await,
            Any::XPub(socket) => socket.recv().await,
            Any::XSub(socket) => socket.recv().await,
            Any::Pub(_) | Any::Push(_) => return unable("recv"),
        }
        .map_err(text)
    }

    async fn subscribe(&mut self, topic: &str) -> Answer {
        match self {
            Any::Sub(socket) => socket.subscribe(topic).await.map(|()| String::new()).map_err(text),
            _ => unable("subscribe"),
        }
    }

    async fn unsubscribe(&mut self, topic: &str) -> Answer {
        match self {
            Any::Sub(socket) => socket.unsubscribe(topic).await.map(|()| String::new()).map_err(text),
            _ => unable("unsubscribe"),
        }
    }
}

fn bytes_of(word: &str) -> Result<Vec<u8>, String> {
    let digits = word.trim_matches('-');
    let byte = |at| {
        let pair = digits.get(at..at + 2).ok_or("half a byte")?;
        u8::from_str_radix(pair, 16).map_err(text)
    };
    (0..digits.len()).step_by(2).map(byte).collect()
}

fn word_of(frame: &Bytes) -> String {
    if frame.is_empty() {
        return "-".to_owned();
    }
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| char::from(DIGITS[usize::from(value)]);
    frame.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

fn topic_of(word: &str) -> Result<String, String> {
    String::from_utf8(bytes_of(word)?).map_err(text)
}

fn message_of(words: &[&str]) -> Result<ZmqMessage, String> {
    let frames: Result<Vec<Bytes>, String> = words.iter().map(|word| Ok(bytes_of(word)?.into())).collect();
    ZmqMessage::try_from(frames?).map_err(text)
}

fn options_of(settings: &[&str]) -> Result<SocketOptions, String> {
    let mut options = SocketOptions::default();
    for (key, value) in settings.iter().filter_map(|setting| setting.split_once('=')) {
        match (key, value) {
            ("id", id) => {
                let id: Bytes = bytes_of(id)?.into();
                options.peer_identity(PeerIdentity::try_from(id).map_err(text)?);
            }
            ("mechanism", "NULL") | ("role", _) => {}
            _ => return Err(format!("no {key}={value}")),
        }
    }
    Ok(options)
}

/// A command's answer; `None` for a `recv` that timed out.
async fn obey(open: &mut Option<Any>, words: &[&str]) -> Result<Option<String>, String> {
    let Some(socket) = open.as_mut().filter(|_| words[0] != "open") else {
        *open = Some(Any::open(words[1], options_of(&words[2..])?)?);
        return Ok(Some(String::new()));
    };
    let answer = match words[0] {
        "bind" => socket.bind(words[1]).await,
        "connect" => socket.connect(words[1]).await,
        "subscribe" => socket.subscribe(&topic_of(words[1])?).await,
        "unsubscribe" => socket.unsubscribe(&topic_of(words[1])?).await,
        "send" => socket.send(message_of(&words[1..])?).await,
        "recv" => {
            let milliseconds = words[1].parse().map_err(text)?;
            let Ok(message) = timeout(Duration::from_millis(milliseconds), socket.recv()).await else {
                return Ok(None);
            };
            Ok(message?.iter().map(word_of).collect::<Vec<_>>().join(" "))
        }
        "close" => {
            *open = None;
            Ok(String::new())
        }
        other => Err(format!("no such command: {other}")),
    };
    answer.map(Some)
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut open = None;
    while let Some(line) = lines.next_line().await? {
        let words: Vec<&str> = line.split(' ').collect();
        match obey(&mut open, &words).await {
            Ok(Some(answer)) => println!("ok {answer}"),
            Ok(None) => println!("late"),
            Err(problem) => println!("error {problem}"),
        }
    }
    Ok(())
}
