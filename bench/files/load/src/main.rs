//! What the benchmark of file transfer needs beside the command. `serve`, `crowd`,
//! `drain` and `bare-` print one line of key=value pairs at their end. AT, TO and FROM are HOST:PORT.
//!
//! files-load serve DIR ENDPOINT              serves DIR as /data until standard input ends
//! files-load crowd ENDPOINT PATH COUNT       COUNT clients fetch PATH at the same time and discard it
//! files-load proxy AT TO DELAY_MS BYTES_PER_S   a long link over tcp; until it is killed
//! files-load send AT BYTES                   sends zeros to one tcp connection, as fast as it takes them
//! files-load drain FROM                      reads a tcp connection to its end
//! files-load bare-send AT FILE               reads a file, hashes it and sends it, without a protocol
//! files-load bare-receive FROM [FILE]        receives and hashes it, and writes or discards it

mod bare;
mod crowd;
mod plain;
mod proxy;
mod serve;

use std::error::Error;

type Outcome = Result<(), Box<dyn Error>>;

fn main() -> Outcome {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["serve", dir, endpoint] => serve::main(dir, endpoint),
        ["crowd", endpoint, path, count] => crowd::main(endpoint, path, count.parse()?),
        ["proxy", at, to, delay_ms, rate] => proxy::main(at, to, delay_ms.parse()?, rate.parse()?),
        ["send", at, bytes] => plain::send(at, bytes.parse()?),
        ["drain", from] => plain::drain(from),
        ["bare-send", at, path] => bare::send(at, path),
        ["bare-receive", from] => bare::receive(from, None),
        ["bare-receive", from, path] => bare::receive(from, Some(path)),
        _ => Err("serve DIR ENDPOINT, crowd ENDPOINT PATH COUNT, proxy AT TO DELAY_MS BYTES_PER_S, \
                  send AT BYTES, drain FROM, bare-send AT FILE or bare-receive FROM [FILE]"
            .into()),
    }
}
