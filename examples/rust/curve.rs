//! Encryption: both sides have a certificate in a file, and the client has the server's public certificate.
//!
//! cargo run --example curve

use pinnace::certificate::Certificate;
use pinnace::{Context, Rep, Req};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let directory = tempfile::tempdir()?;
    for name in ["server", "client"] {
        let mut certificate = Certificate::generate()?;
        certificate.set_metadata("name", name)?;
        // Writes two files: NAME is public, NAME_secret must stay secret.
        certificate.save(directory.path().join(name))?;
    }
    let context = Context::new()?;
    let own = Certificate::load(directory.path().join("server"))?;
    let server = Rep::builder(&context).certified_server(&own).build()?;
    let endpoint = server.bind("tcp://127.0.0.1:*")?;

    let own = Certificate::load(directory.path().join("client"))?;
    let known = Certificate::load_public(directory.path().join("server"))?;
    let client = Req::builder(&context).certified_client(&own, &known).connect(&endpoint)?;
    client.send("nobody else reads this")?;
    let question = server.recv()?;
    server.send(["answer", question.text().unwrap_or_default()])?;
    let answer = client.recv()?;
    println!("{answer:?}, by {}", server.stats()?.peers[0].mechanism);
    assert_eq!(server.stats()?.peers[0].mechanism, "CURVE");
    Ok(())
}
