//! Certificates for TLS, generated in each process.

use std::sync::OnceLock;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

use crate::Socket;
use crate::consts::*;

/// The name in the server's certificate, besides 127.0.0.1.
pub const NAME: &str = "pinnace.test";

/// The listener's certificate and key, and the authority to trust; each as PEM.
pub struct Certificates {
    pub authority: String,
    pub certificate: String,
    pub key: String,
}

/// Makes an authority, and a certificate signed by it for [`NAME`] and 127.0.0.1.
pub fn make() -> Certificates {
    make_for(vec![NAME.into(), "127.0.0.1".into()])
}

/// The same with other alternative names. The common name is [`NAME`] in any case.
pub fn make_for(alternative_names: Vec<String>) -> Certificates {
    let authority_key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(Vec::new()).expect("no names");
    params.distinguished_name.push(DnType::CommonName, "the authority of a test");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&authority_key).expect("a certificate").pem();
    let issuer = Issuer::new(params, authority_key);
    let key = KeyPair::generate().expect("a key");
    let mut params = CertificateParams::new(alternative_names).expect("names");
    params.distinguished_name.push(DnType::CommonName, NAME);
    let certificate = params.signed_by(&key, &issuer).expect("a certificate").pem();
    Certificates { authority, certificate, key: key.serialize_pem() }
}

/// The certificates of this process, made once.
pub fn ours() -> &'static Certificates {
    static OURS: OnceLock<Certificates> = OnceLock::new();
    OURS.get_or_init(make)
}

impl Socket {
    /// Presents our certificate as a TLS server, and trusts our authority as a TLS client.
    #[track_caller]
    pub fn secured(self) -> Socket {
        let ours = ours();
        for (option, text) in
            [(WSS_CERT_PEM, &ours.certificate), (WSS_KEY_PEM, &ours.key), (WSS_TRUST_PEM, &ours.authority)]
        {
            self.set_bytes(option, text.as_bytes()).expect("an option of TLS");
        }
        self
    }
}
