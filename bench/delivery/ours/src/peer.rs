//! The other process: a client that receives, checks that no message is missing, duplicated or out of order, and
//! reports the times at which it has handled certain numbers of messages.

use std::error::Error;
use std::io::{BufRead, BufReader, Lines};
use std::process::{Child, ChildStdout, Command, Stdio};

use pinnace::delivery::Client;

use crate::Outcome;
use crate::words::{now_ns, number, text};

/// A child process of this program in a role. Dropping this kills it.
pub struct Peer {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Peer {
    /// Starts a `role`, and returns once the child reports that it is ready.
    pub fn start(role: &str, words: &[String]) -> Result<Peer, Box<dyn Error>> {
        let mut child =
            Command::new(std::env::current_exe()?).arg(role).args(words).stdout(Stdio::piped()).spawn()?;
        let lines = BufReader::new(child.stdout.take().ok_or("no pipe")?).lines();
        let mut peer = Peer { child, lines };
        peer.line()?;
        Ok(peer)
    }

    /// Starts the receiver. It prints the time when it has handled the first message, and after each `every` messages.
    pub fn receiver(dir: &str, size: u64, every: u64) -> Result<Peer, Box<dyn Error>> {
        Peer::start("receiver", &[format!("dir={dir}"), format!("size={size}"), format!("every={every}")])
    }

    /// The next line that the child prints.
    pub fn line(&mut self) -> Result<String, Box<dyn Error>> {
        Ok(self.lines.next().ok_or("the receiver has ended")??)
    }

    /// The next time that the child prints, in nanoseconds.
    pub fn time(&mut self) -> Result<u64, Box<dyn Error>> {
        Ok(self.line()?.parse()?)
    }

    pub fn id(&self) -> rustix::process::Pid {
        rustix::process::Pid::from_child(&self.child)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The child may have ended by itself.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A client of the benchmark: `sender` or `receiver`.
pub fn client(dir: &str, name: &str) -> Result<Client, pinnace::delivery::Error> {
    let registry = format!("dir://{dir}/registry");
    let builder = Client::builder(name, &format!("to-{name}")).data_dir(format!("{dir}/{name}"));
    // A case may have more on the disk than the default limit.
    builder.registry(&registry).disk_limit(u64::MAX).start()
}

pub const TOPIC: &str = "to-receiver";

/// Checks the numbers and body sizes of messages: all must arrive, in order.
pub struct Check {
    size: usize,
    last: u64,
}

impl Check {
    pub fn new(size: u64) -> Check {
        Check { size: size as usize, last: 0 }
    }

    /// Checks a message. Returns the number of messages so far, this one included.
    pub fn count(&mut self, body: &[u8]) -> u64 {
        let number = body.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        assert_eq!(
            (number, body.len()),
            (self.last + 1, self.size),
            "none is missing, twice or out of order"
        );
        self.last = number;
        number
    }
}

/// The role `receiver dir=D size=N every=N`.
pub fn receiver() -> Outcome {
    let (every, mut check) = (number("every")?, Check::new(number("size")?));
    let client = client(&text("dir")?, "receiver")?;
    println!("ready");
    loop {
        let delivery = client.recv(None)?;
        let count = check.count(delivery.body());
        delivery.ack();
        if count == 1 || count % every == 0 {
            println!("{}", now_ns());
        }
    }
}
