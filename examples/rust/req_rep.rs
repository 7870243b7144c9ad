//! Requests and replies, with a client that repeats its request after a timeout.
//!
//! cargo run --example req_rep

use std::thread;
use std::time::Duration;

use pinnace::{Context, Error, Rep, Req};

fn serve(rep: &Rep) -> Result<(), Error> {
    for question in rep {
        rep.send(question?.text().unwrap_or_default().to_uppercase())?;
    }
    Ok(())
}

/// Asks until an answer arrives. Calls `late` after each timeout.
fn ask(req: &Req, question: &str, mut late: impl FnMut()) -> Result<String, Error> {
    loop {
        req.send(question)?;
        match req.recv_timeout(Duration::from_millis(200)) {
            Err(Error::WouldBlock) => late(),
            answer => return Ok(answer?.text().unwrap_or_default().to_owned()),
        }
    }
}

fn main() -> Result<(), Error> {
    let context = Context::new()?;
    let rep = Rep::new(&context)?;
    let endpoint = rep.bind("tcp://127.0.0.1:*")?;
    // Relaxed: the client may ask again before an answer; answers to earlier requests are discarded.
    let req = Req::builder(&context).relaxed(true).connect(&endpoint)?;
    let (mut rep, mut server) = (Some(rep), None);
    for question in ["hello", "are you there"] {
        let answer = ask(&req, question, || {
            println!("no answer to {question:?} yet: asking again");
            // Start the server only now, so that the first request times out.
            if let Some(rep) = rep.take() {
                server = Some(thread::spawn(move || serve(&rep)));
            }
        })?;
        println!("{question:?}: {answer:?}");
        assert_eq!(answer, question.to_uppercase());
    }
    drop(req);
    context.shutdown()?;
    server.expect("it was late once").join().expect("the server ends")
}
