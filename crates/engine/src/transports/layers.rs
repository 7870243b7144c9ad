//! The layers between a connection's descriptor and ZMTP.

use pinnace_zmtp::socks::{Credentials, ProxyTarget};

use super::tls::TlsSide;
use crate::endpoint::{Endpoint, Host, TcpEndpoint, WebEndpoint};
use crate::error::{Error, Invalid};
use crate::options::Options;

/// The layers of a connection, outermost first. By default there are none, and nothing is allocated.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    /// What to request from a SOCKS5 proxy, and with which credentials.
    pub(crate) proxy: Option<Box<(ProxyTarget, Option<Credentials>)>>,
    pub(crate) tls: Option<TlsSide>,
    /// WebSocket.
    pub(crate) web: Option<Box<Web>>,
}

/// One end of a WebSocket connection.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) side: WebSide,
    /// The largest accepted frame, in bytes.
    pub(crate) max_body: u64,
}

/// Which end of a connection this is.
#[derive(Clone)]
pub(crate) enum WebSide {
    /// Requests this path from this host, as in the URL.
    Client {
        host: String,
        path: String,
    },
    Server,
}

impl Layers {
    /// The layers of connections accepted at `endpoint`.
    pub(super) fn of_server(endpoint: &Endpoint, options: &Options) -> Result<Layers, Error> {
        let max_body = options.max_body();
        let web =
            matches!(endpoint, Endpoint::Web(_)).then(|| Box::new(Web { side: WebSide::Server, max_body }));
        let tls = match endpoint {
            Endpoint::Tls(_) | Endpoint::Web(WebEndpoint { secure: true, .. }) => {
                Some(TlsSide::server(options)?)
            }
            _ => None,
        };
        Ok(Layers { proxy: None, tls, web })
    }

    /// The layers of a connection to `endpoint`.
    pub(super) fn of_client(endpoint: &Endpoint, options: &Options) -> Result<Layers, Error> {
        let web = match endpoint {
            Endpoint::Web(web) => {
                let side = WebSide::Client { host: web.authority(), path: web.path.clone() };
                Some(Box::new(Web { side, max_body: options.max_body() }))
            }
            _ => None,
        };
        let tls = match endpoint {
            Endpoint::Tls(at) | Endpoint::Web(WebEndpoint { at, secure: true, .. }) => {
                Some(TlsSide::client(&at.host, options)?)
            }
            _ => None,
        };
        Ok(Layers { proxy: None, tls, web })
    }
}

/// The proxy for a connection, and what to request from it. None: no proxy is set.
pub(super) fn proxy(
    endpoint: &TcpEndpoint,
    options: &Options,
) -> Result<Option<(TcpEndpoint, ProxyTarget, Option<Credentials>)>, Error> {
    if options.socks.proxy.is_empty() {
        return Ok(None);
    }
    let mut to = TcpEndpoint::parse_target(&options.socks.proxy)?;
    to.source.clone_from(&endpoint.source);
    let host = match &endpoint.host {
        Host::Any => return Err(Error::Invalid(Invalid::Host)),
        Host::Ip(ip, _) => ip.to_string(),
        Host::Name(name) => name.clone(),
    };
    let credentials = (!options.socks.username.is_empty()).then(|| Credentials {
        user_name: options.socks.username.clone().into_bytes(),
        password: options.socks.password.bytes().clone(),
    });
    Ok(Some((to, ProxyTarget::new(&host, endpoint.port), credentials)))
}
