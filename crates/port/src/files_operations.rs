//! The operations of file transfer.

use std::sync::Arc;

use pinnace_crypto::{KeyPair, SecretBytes, SecretKey};
use pinnace_files::access::Right;
use pinnace_files::rules::{Pattern, Rules};
use pinnace_interface::{ClientOptions, Folder, ServerOptions, TransferRules};
use rustix::io::Errno;

use crate::answers::{Answer, Desk, Started, start};
use crate::arguments::{each_option, own_keys, path_of, public_key, text_of};
use crate::credit::Credit;
use crate::files::{Begin, To};
use crate::refusal::Refusal;
use crate::session::Session;
use crate::wire::Fields;

const START_SERVER: u16 = 70;
const STOP_SERVER: u16 = 71;
const SENT: u16 = 72;
const CONNECT: u16 = 73;
const CLOSE_CLIENT: u16 = 74;
const GET: u16 = 75;
const PUT: u16 = 76;
const FOLLOW: u16 = 77;
const LIST: u16 = 78;
const DISCARD: u16 = 79;
const CANCEL: u16 = 80;

/// Carries an operation out. None: the answer comes later.
pub fn handle(
    session: &mut Session,
    id: u32,
    operation: u16,
    mut of: Fields<'_>,
) -> Result<Option<Vec<u8>>, Refusal> {
    let number = of.u32()?;
    match operation {
        START_SERVER => launch(session, id, number, of, server)?,
        CONNECT => launch(session, id, number, of, client)?,
        GET | PUT | FOLLOW | LIST | DISCARD => transfer(session, id, operation, number, of)?,
        STOP_SERVER => {
            of.end()?;
            let desk = session.desk().clone();
            session.files.stop_server(id, number, &desk)?;
        }
        SENT => {
            of.end()?;
            return Ok(Some(session.files.server(number)?.sent_bytes().to_be_bytes().to_vec()));
        }
        CLOSE_CLIENT => {
            of.end()?;
            let desk = session.desk().clone();
            session.files.close_client(id, number, &mut session.output, &desk)?;
        }
        CANCEL => {
            of.end()?;
            session.files.cancel(number)?;
            session.tell_events(number);
            return Ok(Some(Vec::new()));
        }
        _ => return Err(Refusal::Other(Errno::NOSYS, "unknown operation")),
    }
    Ok(None)
}

/// Starts a server or a client in a thread, which reads files and binds.
fn launch(
    session: &Session,
    id: u32,
    channel: u32,
    mut of: Fields<'_>,
    what: fn(Fields<'_>) -> Result<Started, Refusal>,
) -> Result<(), Refusal> {
    if session.has_channel(channel) {
        return Err(Refusal::Other(Errno::EXIST, "the channel is in use"));
    }
    let (arguments, desk): (_, Desk) = (SecretBytes::from(of.rest()), session.desk().clone());
    Ok(start("port-start", move || {
        let outcome = what(Fields::new(&arguments));
        desk.put(Answer::Started { id, channel, outcome });
    })?)
}

/// Arguments: options.
fn server(of: Fields<'_>) -> Result<Started, Refusal> {
    let mut options = ServerOptions::default();
    each_option(of, |key, value| set_server(&mut options, key, value))?;
    let server = options.builder().and_then(|builder| builder.start()).map_err(Refusal::Files)?;
    Ok(Started::FilesServer(server))
}

fn set_server(options: &mut ServerOptions, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
    let mut of = Fields::new(value);
    match key {
        b"folder" => {
            let (alias, path, is_writable) = (of.text()?.to_owned(), of.bytes()?, of.bool()?);
            options.folders.push(Folder { alias, path: path_of(path).to_owned(), is_writable });
        }
        b"user" => options.keys.push((of.text()?.to_owned(), of.key()?)),
        b"user_file" => options.keys.push((of.text()?.to_owned(), public_key(of.bytes()?)?)),
        b"password" => {
            let (name, password) = (of.text()?.to_owned(), of.text()?);
            options.passwords.push((name, SecretBytes::from(password.as_bytes())));
        }
        b"grant" => {
            let (user, path) = (of.text()?.to_owned(), of.text()?.to_owned());
            let right = if of.bool()? { Right::Write } else { Right::Read };
            options.grants.push((user, path, right));
        }
        b"curve" => options.curve = Some(KeyPair::from_secret(SecretKey::copy_of(&of.key()?))),
        b"bind" => options.endpoints.push(text_of(of.rest())?.to_owned()),
        b"cert" => options.curve = Some(own_keys(of.rest())?),
        key => options.set(key, of.rest()).map_err(Refusal::Unset)?,
    }
    Ok(of.end()?)
}

/// Arguments: endpoint, options.
fn client(mut of: Fields<'_>) -> Result<Started, Refusal> {
    let mut options = ClientOptions::new(of.text()?);
    each_option(of, |key, value| set_client(&mut options, key, value))?;
    Ok(Started::FilesClient(Arc::new(options.builder().connect().map_err(Refusal::Files)?)))
}

fn set_client(options: &mut ClientOptions, key: &[u8], value: &[u8]) -> Result<(), Refusal> {
    let mut of = Fields::new(value);
    match key {
        b"curve" => {
            let own = KeyPair::from_secret(SecretKey::copy_of(&of.key()?));
            options.curve = Some((own, of.key()?));
        }
        b"cert" => {
            let (own, server) = (own_keys(of.bytes()?)?, public_key(of.bytes()?)?);
            options.curve = Some((own, server));
        }
        b"password" => {
            let (user, password) = (of.text()?.to_owned(), of.text()?);
            options.password = Some((user, SecretBytes::from(password.as_bytes())));
        }
        key => options.set(key, of.rest()).map_err(Refusal::Unset)?,
    }
    Ok(of.end()?)
}

/// Arguments: the transfer's channel, the kinds of events, credit for them, then what is to be transferred.
fn transfer(
    session: &mut Session,
    id: u32,
    operation: u16,
    client: u32,
    mut of: Fields<'_>,
) -> Result<(), Refusal> {
    let (channel, wanted, messages, octets) = (of.u32()?, of.u32()?, of.u32()?, of.u32()?);
    let mut credit = Credit::default();
    credit.grant(messages, octets);
    let begin = what(operation, of)?;
    if session.has_channel(channel) {
        return Err(Refusal::Other(Errno::EXIST, "the channel is in use"));
    }
    let desk = session.desk().clone();
    session.files.begin(id, To { client, channel, wanted, credit }, begin, &desk)
}

fn what(operation: u16, mut of: Fields<'_>) -> Result<Begin, Refusal> {
    Ok(match operation {
        PUT => {
            let (from, path) = (path_of(of.bytes()?).to_owned(), of.text()?.to_owned());
            let rules = rules(of)?;
            Box::new(move |client| client.put_by(&from, &path, rules))
        }
        GET | FOLLOW => {
            let (path, to) = (of.text()?.to_owned(), path_of(of.bytes()?).to_owned());
            let rules = rules(of)?;
            Box::new(move |client| match operation {
                GET => client.get_by(&path, &to, rules),
                _ => client.follow(&path, &to, rules),
            })
        }
        _ => {
            let path = of.text()?.to_owned();
            of.end()?;
            Box::new(move |client| if operation == LIST { client.list(&path) } else { client.discard(&path) })
        }
    })
}

fn rules(of: Fields<'_>) -> Result<Rules, Refusal> {
    let mut rules = TransferRules::default();
    each_option(of, |key, value| {
        match key {
            b"exclude" => rules.filter.push(Pattern::exclude(text_of(value)?)),
            b"include" => rules.filter.push(Pattern::include(text_of(value)?)),
            key => rules.set(key, value).map_err(Refusal::Unset)?,
        }
        Ok(())
    })?;
    Ok(rules.rules())
}
