//! The operations on files of certificates. A certificate on the pipes is its public key, whether a secret key follows,
//! that key, then metadata as pairs of texts.

use std::path::Path;

use pinnace_cert::{Certificate, Error};
use pinnace_crypto::{KeyPair, SecretKey};
use rustix::io::Errno;

use crate::answers::Desk;
use crate::arguments::{certificate, each_option, path_of, text_of};
use crate::refusal::Refusal;
use crate::wire::Fields;

pub const LOAD: u16 = 31;
pub const SAVE: u16 = 32;

type Load = fn(&Path) -> Result<Certificate, Error>;
type Save = fn(&Certificate, &Path) -> Result<(), Error>;

/// Both keys if there are, the public one, both of this file, or both of either file.
const LOADS: [Load; 4] = [
    |path| Certificate::load(path),
    |path| Certificate::load_public(path),
    |path| Certificate::load_secret(path),
    |path| Certificate::load_own(path),
];

/// Two files, the public one, the secret one, or two that are not there.
const SAVES: [Save; 4] = [
    |cert, path| cert.save(path),
    |cert, path| cert.save_public(path),
    |cert, path| cert.save_secret(path),
    |cert, path| cert.save_new(path),
];

/// Reads or writes files in a thread, which answers.
pub fn handle(id: u32, operation: u16, mut of: Fields<'_>, desk: &Desk) -> Result<(), Refusal> {
    let (which, file) = (usize::from(of.u8()?), of.bytes()?.to_vec());
    let unknown = Refusal::Other(Errno::INVAL, "there is no such choice of files");
    if operation == LOAD {
        let load = *LOADS.get(which).ok_or(unknown)?;
        of.end()?;
        desk.run(id, move || Ok(encoded(&certificate(&file, load)?)))?;
    } else {
        let save = *SAVES.get(which).ok_or(unknown)?;
        let cert = parsed(of)?;
        desk.run(id, move || {
            let saved = save(&cert, path_of(&file));
            saved.map_err(|error| Refusal::Certificate { file: path_of(&file).to_owned(), error })?;
            Ok(Vec::new())
        })?;
    }
    Ok(())
}

fn encoded(cert: &Certificate) -> Vec<u8> {
    let mut values = cert.public_key().to_vec();
    values.push(cert.keys().is_some().into());
    cert.keys().iter().for_each(|keys| values.extend_from_slice(keys.secret.as_ref()));
    for text in cert.all_metadata().flat_map(|(name, value)| [name, value]) {
        values.extend_from_slice(&u32::try_from(text.len()).unwrap_or(u32::MAX).to_be_bytes());
        values.extend_from_slice(text.as_bytes());
    }
    values
}

fn parsed(mut of: Fields<'_>) -> Result<Certificate, Refusal> {
    let public = of.key()?;
    let mut cert = if of.bool()? {
        let keys = KeyPair::from_secret(SecretKey::copy_of(&of.key()?));
        if keys.public != public {
            return Err(Refusal::Other(Errno::KEYREJECTED, "the secret key does not match the public key"));
        }
        Certificate::from(keys)
    } else {
        Certificate::public(public)
    };
    each_option(of, |name, value| {
        let (name, value) = (text_of(name)?, text_of(value)?);
        cert.set_metadata(name, value)
            .map_err(|_| Refusal::Other(Errno::INVAL, "metadata that cannot be written"))
    })?;
    Ok(cert)
}
