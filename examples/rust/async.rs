//! Async sockets in tokio's tasks. The futures work with any executor.
//!
//! cargo run --example async

use std::time::Duration;

use futures::StreamExt;
use pinnace::{Context, Dealer, Error, Router};

const CLIENTS: usize = 20;
const QUESTIONS: usize = 100;

/// Answers until no request arrives for a second. `recv_async` is cancel-safe: a dropped future has taken no message.
async fn serve(router: Router) -> Result<usize, Error> {
    let mut answered = 0;
    while let Ok(message) = tokio::time::timeout(Duration::from_secs(1), router.recv_async()).await {
        router.send_async(message?).await?;
        answered += 1;
    }
    Ok(answered)
}

async fn ask(context: Context, endpoint: String, client: usize) -> Result<(), Error> {
    let dealer = Dealer::builder(&context).routing_id(format!("client {client}")).connect(&endpoint)?;
    let mut answers = dealer.stream();
    for number in 0..QUESTIONS {
        dealer.send_async(number.to_string()).await?;
        let answer = answers.next().await.ok_or(Error::Terminated)??;
        assert_eq!(answer, number.to_string());
    }
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> Result<(), Error> {
    let context = Context::new()?;
    let router = Router::new(&context)?;
    let endpoint = router.bind("tcp://127.0.0.1:*")?;
    let server = tokio::spawn(serve(router));
    let clients = (0..CLIENTS).map(|client| tokio::spawn(ask(context.clone(), endpoint.clone(), client)));
    for client in clients.collect::<Vec<_>>() {
        client.await.expect("a client ends")?;
    }
    let answered = server.await.expect("the server ends")?;
    println!("{answered} questions of {CLIENTS} clients were answered");
    assert_eq!(answered, CLIENTS * QUESTIONS);
    Ok(())
}
