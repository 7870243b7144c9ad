//! A server that speaks TLS.

use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

use pinnace_delivery::registry::{Entry, Registry, RegistryError, open};

use crate::place::{entry, id, until};
use crate::redis::all_unreachable;
use crate::server::Server;

/// Makes a self-signed certificate for this host, and its key.
fn certificate(server: &Server, name: &str) {
    let made = Command::new("openssl")
        .args([
            "req",
            "-x509",
            "-newkey",
            "ec",
            "-pkeyopt",
            "ec_paramgen_curve:prime256v1",
            "-nodes",
            "-days",
            "2",
        ])
        .args(["-subj", "/CN=registry", "-addext", "subjectAltName=IP:127.0.0.1,DNS:localhost"])
        .args(["-addext", "basicConstraints=critical,CA:FALSE"])
        .args(["-keyout", &format!("{name}.key"), "-out", &format!("{name}.pem")])
        .current_dir(server.dir())
        .output()
        .expect("openssl is missing: tools/setup test installs it");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}

/// A server that speaks TLS on its port.
fn secure(asks_for_certificates: bool) -> Server {
    let asks = if asks_for_certificates { "yes" } else { "no" };
    let files =
        ["--tls-cert-file", "ours.pem", "--tls-key-file", "ours.key", "--tls-ca-cert-file", "client.pem"];
    let mut server = Server::absent(&[&["--tls-auth-clients", asks], &files[..]].concat()).with_tls();
    certificate(&server, "ours");
    certificate(&server, "client");
    server.revive();
    server
}

fn over_tls(server: &Server, parameters: &str) -> Result<Box<dyn Registry>, RegistryError> {
    let path = |name| server.dir().join(name).display().to_string();
    let parameters = parameters.replace("OURS", &path("ours")).replace("CLIENT", &path("client"));
    open(&format!("rediss://127.0.0.1:{}/?{parameters}", server.port()))
}

#[test]
fn over_tls_to_who_is_trusted() {
    let mut server = secure(false);
    let mut registry = over_tls(&server, "ca=OURS.pem").unwrap();
    registry.claim(&entry("one", 1)).unwrap();
    let topics: Vec<String> = (0..10_000).map(|number| format!("topic {number:05}")).collect();
    registry.claim(&Entry { topics: topics.clone(), ..entry("many", 2) }).unwrap();
    assert_eq!(registry.members().unwrap().unwrap().get("many").unwrap().topics, topics);
    // Neither the system's authorities nor another certificate vouch for it.
    for stranger in ["", "ca=CLIENT.pem"] {
        let refused = over_tls(&server, stranger).unwrap().members();
        let invalid = matches!(refused, Err(RegistryError::Io { kind: ErrorKind::InvalidData, .. }));
        assert!(invalid, "{stranger}: {refused:?}");
    }
    // Nor does it accept unencrypted connections.
    assert!(open(&server.url()).unwrap().members().is_err());
    server.hang();
    assert!(all_unreachable(&mut *registry) < Duration::from_secs(5));
    let mut late = over_tls(&server, "ca=OURS.pem").unwrap();
    assert!(all_unreachable(&mut *late) < Duration::from_secs(5));
    server.go_on();
    until("an answer", || late.renew("one", &id(1)).is_ok());
    server.kill();
    server.revive();
    until("the server", || registry.claim(&entry("one", 1)).is_ok());
}

#[test]
fn over_tls_with_a_certificate() {
    let server = secure(true);
    let refused = over_tls(&server, "ca=OURS.pem").unwrap().members();
    assert!(matches!(refused, Err(RegistryError::Io { kind: ErrorKind::InvalidData, .. })), "{refused:?}");
    let mut registry = over_tls(&server, "ca=OURS.pem&cert=CLIENT.pem&key=CLIENT.key").unwrap();
    registry.claim(&entry("one", 1)).unwrap();
    for missing in ["ca=OURS.none", "ca=OURS.pem&cert=CLIENT.none&key=CLIENT.key"] {
        let refused = over_tls(&server, missing).err();
        assert!(matches!(refused, Some(RegistryError::Io { kind: ErrorKind::NotFound, .. })), "{refused:?}");
    }
    for spoiled in ["ca=OURS.key", "ca=OURS.pem&cert=CLIENT.pem&key=CLIENT.pem"] {
        let refused = over_tls(&server, spoiled).err();
        assert!(
            matches!(refused, Some(RegistryError::Io { kind: ErrorKind::InvalidData, .. })),
            "{refused:?}"
        );
    }
}
