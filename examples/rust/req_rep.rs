//! Questions and answers, with a client that does not wait for ever and asks again.
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

/// Asks until there is an answer; `late` is called whenever there is none yet.
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
    // Relaxed: it may ask again, and answers to what it asked before are not taken for answers to this.
    let req = Req::builder(&context).relaxed(true).connect(&endpoint)?;
    let (mut rep, mut server) = (Some(rep), None);
    for question in ["hello", "are you there"] {
        let answer = ask(&req, question, || {
            println!("no answer to {question:?} yet: asking again");
            // Only now somebody looks after the questions.
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
