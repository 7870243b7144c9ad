//! In place of `tls` in a build without the feature of this name. Endpoints that need TLS are refused when they are
//! parsed.

use crate::endpoint::Host;
use crate::error::Error;
use crate::options::Options;

pub(crate) enum Connection {}

pub(crate) enum TlsError {}

/// One end of a TLS connection: there is none.
#[derive(Clone)]
pub(crate) enum TlsSide {}

impl TlsSide {
    pub(super) fn server(_: &Options) -> Result<TlsSide, Error> {
        Err(Error::NoTls)
    }

    pub(super) fn client(_: &Host, _: &Options) -> Result<TlsSide, Error> {
        Err(Error::NoTls)
    }

    pub(crate) fn begin(&self) -> Result<Connection, TlsError> {
        match *self {}
    }
}
