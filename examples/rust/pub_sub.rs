//! Publish and subscribe over tcp. The publisher waits for its subscribers, so that they miss no message.
//!
//! cargo run --example pub_sub

use std::thread;
use std::time::Duration;

use pinnace::{Context, Error, Pub, Sub};

const PATIENCE: Duration = Duration::from_secs(10);

fn listen(context: &Context, endpoint: &str, topic: &str) -> Result<Vec<String>, Error> {
    let subscriber = Sub::builder(context).subscribe(topic).subscribe("end").connect(endpoint)?;
    let mut heard = Vec::new();
    for news in &subscriber {
        let news = news?;
        if news == "end" {
            break;
        }
        heard.extend(news.iter().skip(1).filter_map(|frame| frame.text().map(str::to_owned)));
    }
    Ok(heard)
}

fn main() -> Result<(), Error> {
    let context = Context::new()?;
    let publisher = Pub::new(&context)?;
    let endpoint = publisher.bind("tcp://127.0.0.1:*")?;
    let listeners = ["weather", "sports"].map(|topic| {
        let (context, endpoint) = (context.clone(), endpoint.clone());
        thread::spawn(move || listen(&context, &endpoint, topic))
    });
    publisher.wait_subscribers("end", 2, PATIENCE)?;
    publisher.wait_subscribers("weather", 1, PATIENCE)?;
    publisher.wait_subscribers("sports", 1, PATIENCE)?;
    publisher.send(["weather", "rainy"])?;
    publisher.send(["politics", "nobody asked"])?;
    publisher.send(["sports", "2:1"])?;
    publisher.send(["weather", "sunny"])?;
    publisher.send("end")?;
    let [weather, sports] = listeners.map(|listener| listener.join().expect("a listener ends"));
    let (weather, sports) = (weather?, sports?);
    println!("weather: {weather:?}, sports: {sports:?}");
    assert_eq!((weather, sports), (vec!["rainy".into(), "sunny".into()], vec!["2:1".into()]));
    Ok(())
}
