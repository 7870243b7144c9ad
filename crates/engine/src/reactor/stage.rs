//! What a connection goes through before its messages travel, one stage after another.
//!
//! ```text
//! descriptor -> [Proxy] -> [Tls] -> [Upgrade] -> Zmtp -> Link
//! ```
//!
//! A stage is fed with what the stream brings and emptied by what it wants to say, until it is done. What the
//! peer sent behind its end is the next one's. [`Refusal`] says which one failed.

use pinnace_crypto::SecretBytes;
use pinnace_sys::{Errno, OwnedFd, random};
use pinnace_zmtp::{Config, Decision, Handshake, Request, socks, ws};

use crate::hub::Hub;
use crate::link::{Codec, Stream};
use crate::monitor::{self, At, Event};
use crate::transports::{Layers, Side, Web};

/// What a peer may make one handshake hold, in bytes.
pub(super) const HANDSHAKE_BYTES: usize = 16 * 1024;
/// The same with WebSocket's framing: PINGs, and headers of fragments, are bytes too.
const WEB_BYTES: usize = 2 * HANDSHAKE_BYTES;

/// The stage that a connection is in.
pub(super) enum Stage {
    /// The way through a SOCKS5 proxy.
    Proxy(Box<socks::Client>),
    /// TLS; the stream does it.
    Tls,
    /// From HTTP to WebSocket.
    Upgrade(Box<ws::Upgrade>, Box<Web>),
    /// ZMTP's own handshake, the last one.
    Zmtp(Box<Handshake>),
    /// The same in messages of WebSocket.
    ZmtpOverWeb(Box<OverWeb>),
}

/// ZMTP's handshake over WebSocket.
pub(super) struct OverWeb {
    handshake: Handshake,
    encoder: ws::Encoder,
    decoder: ws::Decoder,
    max_body: u64,
    /// What the decoder made of what came.
    frames: Vec<u8>,
    /// What is to be written, a password perhaps, and how much of it was.
    output: SecretBytes,
    sent: usize,
    /// What came, frames of WebSocket's own and headers among it.
    taken: usize,
}

/// Why a stage ends the connection.
pub(super) enum Refusal {
    /// The proxy makes no connection.
    Proxy,
    Zmtp(pinnace_zmtp::Error),
    Tls(rustls::Error),
    Web(ws::Error),
    /// The handler of ZAP gave no answer that could be read; libzmq's number of what was wrong.
    Handler(u32),
    /// The system's.
    System(Errno),
}

/// What came behind the end of a stage.
#[derive(Default)]
pub(super) struct Behind {
    /// As the stream brought it.
    pub(super) bytes: Vec<u8>,
    /// A descriptor that came along.
    pub(super) passed: Option<OwnedFd>,
}

impl Stage {
    /// The first stage. `layers` are those that are left, and of those one less then; `config` is used up by the
    /// last stage.
    pub(super) fn first(
        stream: &mut Stream,
        layers: &mut Layers,
        config: &mut Option<Config>,
    ) -> Result<Stage, Refusal> {
        if let Some(asked) = layers.proxy.take() {
            let (target, credentials) = *asked;
            let client = socks::Client::new(target, credentials).map_err(|_| Refusal::Proxy)?;
            return Ok(Stage::Proxy(Box::new(client)));
        }
        if let Some(tls) = layers.tls.take() {
            stream.secure(tls.begin().map_err(Refusal::Tls)?);
            return Ok(Stage::Tls);
        }
        if let Some(web) = layers.web.take() {
            let upgrade = match &web.side {
                Side::Client { host, path } => {
                    let target = ws::Target { host, path };
                    ws::Upgrade::client(&target, offer(config), &random::bytes()?)?
                }
                Side::Server => ws::Upgrade::server(offer(config)),
            };
            return Ok(Stage::Upgrade(Box::new(upgrade), web));
        }
        Ok(Stage::Zmtp(Box::new(Handshake::new(config.take().expect("the last stage comes once")))))
    }

    /// The stage that follows this one, which is done; None where it was the last.
    pub(super) fn next(
        &mut self,
        stream: &mut Stream,
        layers: &mut Layers,
        config: &mut Option<Config>,
    ) -> Result<Option<Stage>, Refusal> {
        match self {
            Stage::Proxy(_) | Stage::Tls => Stage::first(stream, layers, config).map(Some),
            Stage::Upgrade(upgrade, web) => {
                let subprotocol = upgrade.subprotocol().expect("the upgrade is done");
                let config = config.take().expect("the last stage comes once");
                let (role, handshake) = match web.side {
                    Side::Client { .. } => {
                        let role = ws::Role::Client { seed: random::bytes()? };
                        (role, Handshake::over_ws_to_server(config, subprotocol))
                    }
                    Side::Server => (ws::Role::Server, Handshake::over_ws(config, subprotocol)),
                };
                Ok(Some(Stage::ZmtpOverWeb(Box::new(OverWeb::new(handshake, &role, web.max_body)))))
            }
            Stage::Zmtp(_) | Stage::ZmtpOverWeb(_) => Ok(None),
        }
    }

    /// Takes what the peer sent; what belongs to the next stage is left `behind`.
    pub(super) fn input(&mut self, bytes: &[u8], behind: &mut Behind) -> Result<(), Refusal> {
        let taken = match self {
            Stage::Proxy(client) => client.input(bytes).map_err(|_| Refusal::Proxy)?,
            Stage::Tls => 0,
            Stage::Upgrade(upgrade, _) => upgrade.input(bytes)?,
            Stage::Zmtp(handshake) => handshake.input(bytes).map_err(Refusal::Zmtp)?,
            Stage::ZmtpOverWeb(over) => over.input(bytes)?,
        };
        behind.bytes.extend_from_slice(&bytes[taken..]);
        Ok(())
    }

    /// Who wants to come in, while that has to be decided; nothing more is taken in until then.
    pub(super) fn authorization(&self) -> Option<Request<'_>> {
        match self {
            Stage::Proxy(_) | Stage::Tls | Stage::Upgrade(..) => None,
            Stage::Zmtp(handshake) => handshake.authorization(),
            Stage::ZmtpOverWeb(over) => over.handshake.authorization(),
        }
    }

    /// Decides it.
    pub(super) fn authorize(&mut self, decision: Decision) -> Result<(), Refusal> {
        match self {
            Stage::Proxy(_) | Stage::Tls | Stage::Upgrade(..) => Ok(()),
            Stage::Zmtp(handshake) => handshake.authorize(decision).map_err(Refusal::Zmtp),
            Stage::ZmtpOverWeb(over) => {
                over.handshake.authorize(decision).map_err(Refusal::Zmtp)?;
                over.speak();
                Ok(())
            }
        }
    }

    /// What is to be written.
    pub(super) fn output(&self) -> &[u8] {
        match self {
            Stage::Proxy(client) => client.output(),
            Stage::Tls => &[],
            Stage::Upgrade(upgrade, _) => upgrade.output(),
            Stage::Zmtp(handshake) => handshake.output(),
            Stage::ZmtpOverWeb(over) => &over.output[over.sent..],
        }
    }

    /// So many bytes of it were written.
    pub(super) fn sent(&mut self, bytes: usize) {
        match self {
            Stage::Proxy(client) => client.sent(bytes),
            Stage::Tls => {}
            Stage::Upgrade(upgrade, _) => upgrade.sent(bytes),
            Stage::Zmtp(handshake) => handshake.sent(bytes),
            Stage::ZmtpOverWeb(over) => {
                over.sent += bytes;
                if over.sent == over.output.len() {
                    over.output.clear();
                    over.sent = 0;
                }
            }
        }
    }

    /// All that is still to be said where the connection ends for this reason.
    pub(super) fn last_words(self, refusal: &Refusal) -> SecretBytes {
        let mut words = SecretBytes::from(self.output());
        let mut reply = refusal.reply();
        if let Stage::ZmtpOverWeb(mut over) = self {
            let plain = std::mem::take(&mut reply);
            over.encoder.encode_frames(&plain, &mut reply);
        }
        words.extend_from_slice(&reply);
        words
    }

    /// Whether the peer has said all that this stage waits for.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Stage::Proxy(client) => client.bound().is_some(),
            Stage::Tls => false, // The stream tells.
            Stage::Upgrade(upgrade, _) => upgrade.subprotocol().is_some(),
            Stage::Zmtp(handshake) => handshake.peer().is_some(),
            Stage::ZmtpOverWeb(over) => over.handshake.peer().is_some(),
        }
    }

    /// Whether the connection leads to the peer itself by now.
    pub(super) fn has_reached_peer(&self) -> bool {
        !matches!(self, Stage::Proxy(_))
    }

    /// What the peer is, and how frames travel to it, once the last stage is done. None: this is not the last.
    pub(super) fn into_peer(self, subscribes: bool, max_body: u64) -> Option<(pinnace_zmtp::Peer, Codec)> {
        match self {
            Stage::Proxy(_) | Stage::Tls | Stage::Upgrade(..) => None,
            Stage::Zmtp(handshake) => {
                let (peer, traffic) = handshake.into_parts()?;
                let codec = Codec::new(peer.version, traffic, subscribes, max_body);
                Some((peer, codec))
            }
            Stage::ZmtpOverWeb(over) => {
                let OverWeb { handshake, encoder, decoder, max_body, .. } = *over;
                let (peer, traffic) = handshake.into_parts()?;
                let codec = Codec::web(peer.version, traffic, (encoder, decoder), max_body);
                Some((peer, codec))
            }
        }
    }
}

/// What a WebSocket peer is offered.
fn offer(config: &Option<Config>) -> ws::Offer {
    config.as_ref().expect("the last stage comes after this one").into()
}

/// EACCES where it is about certificates, EPROTO for the rest.
fn tls_errno(error: &rustls::Error) -> Errno {
    use rustls::AlertDescription::*;
    match error {
        rustls::Error::InvalidCertificate(_) | rustls::Error::NoCertificatesPresented => Errno::ACCESS,
        rustls::Error::AlertReceived(
            BadCertificate
            | UnsupportedCertificate
            | CertificateRevoked
            | CertificateExpired
            | CertificateUnknown
            | UnknownCA
            | AccessDenied
            | CertificateRequired
            | DecryptError,
        ) => Errno::ACCESS,
        _ => Errno::PROTO,
    }
}

impl OverWeb {
    fn new(handshake: Handshake, role: &ws::Role, max_body: u64) -> OverWeb {
        let (frame_bytes, fragment_bytes) = (HANDSHAKE_BYTES as u64, HANDSHAKE_BYTES);
        let limits = ws::Limits { max_body: frame_bytes, max_fragmented: fragment_bytes };
        let (encoder, decoder) = (ws::Encoder::new(role), ws::Decoder::new(role, limits));
        let (frames, output) = (Vec::new(), SecretBytes::new());
        let mut over = OverWeb { handshake, encoder, decoder, max_body, frames, output, sent: 0, taken: 0 };
        over.speak();
        over
    }

    /// Frames what the handshake has to say.
    fn speak(&mut self) {
        let mut framed = Vec::new();
        let taken = self.encoder.encode_frames(self.handshake.output(), &mut framed);
        self.output.take_from(&mut framed);
        self.handshake.sent(taken);
    }

    /// Byte by byte, so that it ends with the handshake's last one: what comes behind is subject to other
    /// limits, and the link's.
    fn input(&mut self, bytes: &[u8]) -> Result<usize, Refusal> {
        let mut taken = 0;
        while taken < bytes.len()
            && self.handshake.peer().is_none()
            && self.handshake.authorization().is_none()
        {
            self.frames.clear();
            let piece = &bytes[taken..taken + 1];
            let mut replies = Vec::new();
            let status = self.decoder.translate(piece, &mut self.frames, &mut replies);
            self.output.extend_from_slice(&replies);
            let status = status?;
            taken += 1;
            self.taken += 1;
            if self.taken > WEB_BYTES {
                return Err(Refusal::System(Errno::MSGSIZE));
            }
            self.handshake.input(&self.frames).map_err(Refusal::Zmtp)?;
            self.speak();
            if status == ws::Status::Closed {
                return Err(Refusal::System(Errno::CONNRESET));
            }
        }
        Ok(taken)
    }
}

impl From<ws::Error> for Refusal {
    fn from(error: ws::Error) -> Refusal {
        Refusal::Web(error)
    }
}

impl From<Errno> for Refusal {
    fn from(errno: Errno) -> Refusal {
        Refusal::System(errno)
    }
}

impl Refusal {
    /// The frame that tells the peer, where there is one.
    fn reply(&self) -> Vec<u8> {
        match self {
            Refusal::Zmtp(error) => error.reply().unwrap_or_default(),
            // A server's answer to a bad request, and the close frame, are in the stage's output.
            _ => Vec::new(),
        }
    }

    /// Tells the monitor.
    pub(super) fn emit(&self, hub: &Hub, at: At<'_>) {
        let errno = match self {
            Refusal::Zmtp(error) => return monitor::emit_refusal(hub, error, at),
            Refusal::Web(error) => {
                let code = error.protocol_code();
                return monitor::emit(hub, Event::HandshakeFailedProtocol, code, at);
            }
            Refusal::Handler(code) => {
                return monitor::emit(hub, Event::HandshakeFailedProtocol, *code, at);
            }
            Refusal::Proxy => Errno::CONNREFUSED,
            Refusal::Tls(error) => tls_errno(error),
            Refusal::System(errno) => *errno,
        };
        monitor::emit(hub, Event::HandshakeFailedNoDetail, errno.raw_os_error() as u32, at);
    }
}
