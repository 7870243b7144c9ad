//! What lies between a connection's descriptor and ZMTP.

use pinnace_zmtp::socks::{Credentials, Target};

use super::tls::TlsSide;
use crate::endpoint::{Endpoint, Host, TcpEndpoint, WebEndpoint};
use crate::error::Error;
use crate::options::Options;

/// The layers of a connection, from the outside in. None are there by default, and take no room then.
#[derive(Clone, Default)]
pub(crate) struct Layers {
    /// What a SOCKS5 proxy is asked for, and by whom.
    pub(crate) proxy: Option<Box<(Target, Option<Credentials>)>>,
    pub(crate) tls: Option<TlsSide>,
    /// WebSocket.
    pub(crate) web: Option<Box<Web>>,
}

/// One end of WebSocket.
#[derive(Clone)]
pub(crate) struct Web {
    pub(crate) side: Side,
    /// The largest frame that is taken, in bytes.
    pub(crate) max_body: u64,
}

/// Which end of a connection this is.
#[derive(Clone)]
pub(crate) enum Side {
    /// It asks this host, as it stands in the URL, for this path.
    Client {
        host: String,
        path: String,
    },
    Server,
}

impl Layers {
    /// Of connections that come in at `endpoint`.
    pub(super) fn of_server(endpoint: &Endpoint, options: &Options) -> Result<Layers, Error> {
        let max_body = options.max_body();
        let web =
            matches!(endpoint, Endpoint::Web(_)).then(|| Box::new(Web { side: Side::Server, max_body }));
        let tls = match endpoint {
            Endpoint::Tls(_) | Endpoint::Web(WebEndpoint { secure: true, .. }) => {
                Some(TlsSide::server(options)?)
            }
            _ => None,
        };
        Ok(Layers { proxy: None, tls, web })
    }

    /// Of a connection to `endpoint`.
    pub(super) fn of_client(endpoint: &Endpoint, options: &Options) -> Result<Layers, Error> {
        let web = match endpoint {
            Endpoint::Web(web) => {
                let side = Side::Client { host: web.authority(), path: web.path.clone() };
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

/// The proxy that a connection has to go through, and what to ask it for. None: there is no proxy.
pub(super) fn proxy(
    endpoint: &TcpEndpoint,
    options: &Options,
) -> Result<Option<(TcpEndpoint, Target, Option<Credentials>)>, Error> {
    if options.socks.proxy.is_empty() {
        return Ok(None);
    }
    let mut to = TcpEndpoint::parse_target(&options.socks.proxy)?;
    to.source.clone_from(&endpoint.source);
    let host = match &endpoint.host {
        Host::Any => return Err(Error::Invalid),
        Host::Ip(ip, _) => ip.to_string(),
        Host::Name(name) => name.clone(),
    };
    let credentials = (!options.socks.username.is_empty()).then(|| Credentials {
        user_name: options.socks.username.clone().into_bytes(),
        password: options.socks.password.bytes().clone(),
    });
    Ok(Some((to, Target::new(&host, endpoint.port), credentials)))
}
