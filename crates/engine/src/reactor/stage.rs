//! The stages that a connection goes through before it carries messages.
//!
//! ```text
//! descriptor -> [Proxy] -> [Tls] -> [Upgrade] -> Zmtp -> Link
//! ```
//!
//! A stage consumes the stream's input and produces output until it is done. Input after its end belongs to the next
//! stage. [`Refusal`] says which stage failed, and why.

use pinnace_crypto::SecretBytes;
use pinnace_sys::{Errno, OwnedFd, random};
use pinnace_zmtp::{AuthorizationRequest, Config, Decision, Handshake, socks, ws};

use crate::events::Event;
use crate::link::{Codec, Stream, tls_errno};
use crate::mailbox::Mailbox;
use crate::monitor::{self, At};
use crate::transports::{Layers, TlsError, Web, WebSide};

/// Maximum number of bytes that a peer can make one handshake hold.
pub(super) const HANDSHAKE_BYTES: usize = 16 * 1024;
/// The same including WebSocket's framing: PINGs and headers of fragments count, too.
const WEB_BYTES: usize = 2 * HANDSHAKE_BYTES;

/// The stage that a connection is in.
pub(super) enum Stage {
    /// The request to a SOCKS5 proxy.
    Proxy(Box<socks::Client>),
    /// TLS's handshake, which the stream performs.
    Tls,
    /// The upgrade from HTTP to WebSocket.
    Upgrade(Box<ws::Upgrade>, Box<Web>),
    /// ZMTP's handshake, the last stage.
    Zmtp(Box<Handshake>),
    /// The same in WebSocket messages.
    ZmtpOverWeb(Box<OverWeb>),
}

/// ZMTP's handshake over WebSocket.
pub(super) struct OverWeb {
    handshake: Handshake,
    encoder: ws::Encoder,
    decoder: ws::Decoder,
    max_body: u64,
    /// What the decoder made of the last input.
    frames: Vec<u8>,
    /// Output to be written, perhaps with a password; and how much of it was written.
    output: SecretBytes,
    sent: usize,
    /// Input bytes so far, including WebSocket's own frames and headers.
    taken: usize,
}

/// Why a stage ends the connection.
pub(super) enum Refusal {
    /// The proxy does not make the connection.
    Proxy,
    Zmtp(pinnace_zmtp::Error),
    Tls(TlsError),
    Web(ws::Error),
    /// The ZAP handler's answer could not be read; libzmq's error code.
    Handler(u32),
    /// An error of the system.
    System(Errno),
}

/// Input that came after the end of a stage.
#[derive(Default)]
pub(super) struct Behind {
    /// Bytes as the stream brought them.
    pub(super) bytes: Vec<u8>,
    /// A descriptor that was passed along with them.
    pub(super) passed: Option<OwnedFd>,
}

impl Stage {
    /// The first stage. `layers` are the layers that remain; the stage takes its own. The last stage takes `config`.
    #[cfg_attr(not(feature = "tls"), expect(unreachable_code))]
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
                WebSide::Client { host, path } => {
                    let target = ws::Target { host, path };
                    ws::Upgrade::client(&target, offer(config), &random::bytes()?)?
                }
                WebSide::Server => ws::Upgrade::server(offer(config)),
            };
            return Ok(Stage::Upgrade(Box::new(upgrade), web));
        }
        Ok(Stage::Zmtp(Box::new(Handshake::new(config.take().expect("the last stage comes once")))))
    }

    /// The stage that follows this one, which is done; None if it was the last.
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
                    WebSide::Client { .. } => {
                        let role = ws::Role::Client { seed: random::bytes()? };
                        (role, Handshake::over_ws_to_server(config, subprotocol))
                    }
                    WebSide::Server => (ws::Role::Server, Handshake::over_ws(config, subprotocol)),
                };
                Ok(Some(Stage::ZmtpOverWeb(Box::new(OverWeb::new(handshake, &role, web.max_body)))))
            }
            Stage::Zmtp(_) | Stage::ZmtpOverWeb(_) => Ok(None),
        }
    }

    /// Consumes input; bytes of the next stage are left in `behind`.
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

    /// The request for authorization, while it is pending; until the decision no more input is consumed.
    pub(super) fn authorization(&self) -> Option<AuthorizationRequest<'_>> {
        match self {
            Stage::Proxy(_) | Stage::Tls | Stage::Upgrade(..) => None,
            Stage::Zmtp(handshake) => handshake.authorization(),
            Stage::ZmtpOverWeb(over) => over.handshake.authorization(),
        }
    }

    /// Decides a pending authorization.
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

    /// The output to be written.
    pub(super) fn output(&self) -> &[u8] {
        match self {
            Stage::Proxy(client) => client.output(),
            Stage::Tls => &[],
            Stage::Upgrade(upgrade, _) => upgrade.output(),
            Stage::Zmtp(handshake) => handshake.output(),
            Stage::ZmtpOverWeb(over) => &over.output[over.sent..],
        }
    }

    /// So many bytes of the output were written.
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

    /// The last output of a connection that ends with `refusal`.
    pub(super) fn final_output(self, refusal: &Refusal) -> SecretBytes {
        let mut words = SecretBytes::from(self.output());
        let mut reply = refusal.reply();
        if let Stage::ZmtpOverWeb(mut over) = self {
            let plain = std::mem::take(&mut reply);
            over.encoder.encode_frames(&plain, &mut reply);
        }
        words.extend_from_slice(&reply);
        words
    }

    /// True if the peer has sent everything that this stage waits for.
    pub(super) fn is_done(&self) -> bool {
        match self {
            Stage::Proxy(client) => client.bound().is_some(),
            Stage::Tls => false, // The stream reports it.
            Stage::Upgrade(upgrade, _) => upgrade.subprotocol().is_some(),
            Stage::Zmtp(handshake) => handshake.peer().is_some(),
            Stage::ZmtpOverWeb(over) => over.handshake.peer().is_some(),
        }
    }

    /// True if the connection has reached the peer itself, past any proxy.
    pub(super) fn has_reached_peer(&self) -> bool {
        !matches!(self, Stage::Proxy(_))
    }

    /// The peer and the codec for its frames, once the last stage is done. None: this is not the last.
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

impl OverWeb {
    fn new(handshake: Handshake, role: &ws::Role, max_body: u64) -> OverWeb {
        let (frame_bytes, fragment_bytes) = (HANDSHAKE_BYTES as u64, HANDSHAKE_BYTES);
        let limits = ws::DecoderLimits { max_body: frame_bytes, max_fragmented: fragment_bytes };
        let (encoder, decoder) = (ws::Encoder::new(role), ws::Decoder::new(role, limits));
        let (frames, output) = (Vec::new(), SecretBytes::new());
        let mut over = OverWeb { handshake, encoder, decoder, max_body, frames, output, sent: 0, taken: 0 };
        over.speak();
        over
    }

    /// Frames the output of the handshake.
    fn speak(&mut self) {
        let mut framed = Vec::new();
        let taken = self.encoder.encode_frames(self.handshake.output(), &mut framed);
        self.output.take_from(&mut framed);
        self.handshake.sent(taken);
    }

    /// Consumes byte by byte, so that it stops at the handshake's last byte: later bytes belong to the link, with
    /// other limits.
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
    /// The frame that tells the peer, if there is one.
    fn reply(&self) -> Vec<u8> {
        match self {
            Refusal::Zmtp(error) => error.reply().unwrap_or_default(),
            // A server's answer to a bad request, and the close frame, are in the stage's output.
            _ => Vec::new(),
        }
    }

    /// Reports the refusal to the monitor.
    pub(super) fn emit(&self, mailbox: &Mailbox, at: At<'_>) {
        let errno = match self {
            Refusal::Zmtp(error) => return monitor::emit_refusal(mailbox, error, at),
            Refusal::Web(error) => {
                let code = error.protocol_code();
                return monitor::emit(mailbox, Event::HandshakeFailedProtocol, code, at);
            }
            Refusal::Handler(code) => {
                return monitor::emit(mailbox, Event::HandshakeFailedProtocol, *code, at);
            }
            Refusal::Proxy => Errno::CONNREFUSED,
            Refusal::Tls(error) => tls_errno(error),
            Refusal::System(errno) => *errno,
        };
        monitor::emit(mailbox, Event::HandshakeFailedNoDetail, errno.raw_os_error() as u32, at);
    }
}
