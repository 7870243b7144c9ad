//! Two processes with no service between them: one sends numbered messages, the other adds them up. Either may be
//! killed and started again.
//!
//! cargo run --example delivery_demo -- receive DIR COUNT
//! cargo run --example delivery_demo -- send DIR COUNT
//!
//! The receiver's effect is a file with the last number and the sum. A message is redelivered only if the receiver was
//! killed after it wrote that file and before the acknowledgement was on its disk; the number reveals a redelivery.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::Instant;

use pinnace::delivery::{Client, Error, Options, Ticket};

const SIZE: usize = 1024;
/// Sends between two waits for the disk.
const TOGETHER: u64 = 1000;

fn client(dir: &Path, name: &str, topic: &str) -> Result<Client, Error> {
    let registry = format!("dir://{}", dir.join("registry").display());
    Client::builder(name, topic).data_dir(dir.join(name)).registry(&registry).start()
}

fn send(dir: &Path, count: u64) -> Result<(), Error> {
    let sender = client(dir, "sender", "orders-out")?;
    let (started, mut body) = (Instant::now(), vec![b'.'; SIZE]);
    let mut last: Option<Ticket> = None;
    for number in 1..=count {
        body[..8].copy_from_slice(&number.to_le_bytes());
        last = Some(sender.send_async("orders", &body, &Options::default())?);
        if number % TOGETHER == 0 {
            last.take().map_or(Ok(()), |ticket| sender.wait(ticket, None))?;
        }
    }
    last.map_or(Ok(()), |ticket| sender.wait(ticket, None))?;
    let seconds = started.elapsed().as_secs_f64();
    println!("sender: {count} messages on the disk after {seconds:.2} s; {} are pending", sender.pending());
    sender.wait_pending(0, None)?;
    println!("sender: all are acknowledged after {:.2} s", started.elapsed().as_secs_f64());
    Ok(())
}

/// The receiver's file. Values: the last number, the number of messages, their sum, and the number of redeliveries.
struct Ledger {
    file: File,
    values: [u64; 4],
}

impl Ledger {
    fn open(dir: &Path) -> std::io::Result<Ledger> {
        let path = dir.join("ledger");
        let file = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(path)?;
        let (mut bytes, mut values) = ([0; 32], [0; 4]);
        if file.read_at(&mut bytes, 0)? == bytes.len() {
            values = std::array::from_fn(|at| u64::from_le_bytes(std::array::from_fn(|i| bytes[at * 8 + i])));
        }
        Ok(Ledger { file, values })
    }

    fn add(&mut self, number: u64) -> std::io::Result<()> {
        let [last, count, sum, again] = &mut self.values;
        if number <= *last {
            *again += 1;
        } else {
            assert_eq!(number, *last + 1, "none is missing, and they come in order");
            (*last, *count, *sum) = (number, *count + 1, *sum + number);
        }
        let bytes: Vec<u8> = self.values.iter().flat_map(|value| value.to_le_bytes()).collect();
        self.file.write_all_at(&bytes, 0)
    }
}

fn receive(dir: &Path, count: u64) -> Result<(), Box<dyn std::error::Error>> {
    let receiver = client(dir, "receiver", "orders")?;
    let mut ledger = Ledger::open(dir)?;
    println!("receiver: has {} messages, and goes on", ledger.values[1]);
    while ledger.values[1] < count {
        let delivery = receiver.recv(None)?;
        let number = delivery.body().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes));
        ledger.add(number)?;
        delivery.ack();
    }
    let [_, counted, sum, again] = ledger.values;
    println!("result messages={counted} sum={sum} again={again}");
    // Keep running, so that the last acknowledgements reach the sender; the demo kills this process.
    loop {
        receiver.recv(None)?.ack();
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, dir, count] = &words[..] else { return Err("send|receive DIR COUNT".into()) };
    let (dir, count) = (Path::new(dir), count.parse()?);
    fs::create_dir_all(dir)?;
    match role.as_str() {
        "send" => Ok(send(dir, count)?),
        "receive" => receive(dir, count),
        role => Err(format!("{role} is neither send nor receive").into()),
    }
}
