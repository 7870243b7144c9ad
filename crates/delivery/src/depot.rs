//! What the clients of one process share that keep their messages in one place: a store, and the thread that carries.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use pinnace_engine::Context;

use crate::Error;
use crate::carrier::{self, Bell, Handle};
use crate::log::{Directory, Settings, Storage};
use crate::process::PerProcess;
use crate::store::Store;

/// A store with its carrier.
pub struct Depot {
    pub store: Arc<Store>,
    pub bell: Arc<Bell>,
    pub carrier: Handle,
    /// Names that clients have taken.
    names: Mutex<Vec<String>>,
}

/// Those that are open, by directory.
static OPEN: PerProcess<HashMap<PathBuf, Weak<Depot>>> = PerProcess::new();

static CONTEXT: PerProcess<Option<Context>> = PerProcess::new();

/// The context of all sockets that carry.
pub fn context() -> Result<Context, Error> {
    CONTEXT.with(|known| {
        if let Some(context) = known {
            return Ok(context.clone());
        }
        let context = Context::new().map_err(Error::Endpoint)?;
        // As many sockets as there are descriptors.
        const MAX_SOCKETS: i32 = 2;
        context.set(MAX_SOCKETS, 65_535).map_err(Error::Endpoint)?;
        Ok(known.insert(context).clone())
    })
}

impl Depot {
    /// The depot of a directory, which is made where it is missing.
    pub fn open(path: &Path, settings: Settings) -> Result<Arc<Depot>, Error> {
        std::fs::create_dir_all(path).map_err(|error| Error::Io(error.kind()))?;
        let path = path.canonicalize().map_err(|error| Error::Io(error.kind()))?;
        OPEN.with(|open| {
            if let Some(depot) = open.get(&path).and_then(Weak::upgrade) {
                return Ok(depot);
            }
            let directory = Directory::open(&path).map_err(crate::log::LogError::from)?;
            let depot = Arc::new(Depot::over(Arc::new(directory), settings)?);
            open.insert(path, Arc::downgrade(&depot));
            Ok(depot)
        })
    }

    /// The depot of a storage.
    pub fn over(storage: Arc<dyn Storage>, settings: Settings) -> Result<Depot, Error> {
        let bell = Arc::new(Bell::new().map_err(Error::Endpoint)?);
        let ring = bell.clone();
        let store =
            Arc::new(Store::open(storage, settings, Box::new(move |failed| ring.ring_where_wanted(failed)))?);
        let carrier = carrier::start(store.clone(), context()?, bell.clone()).map_err(Error::Endpoint)?;
        Ok(Depot { store, bell, carrier, names: Mutex::default() })
    }

    fn names(&self) -> MutexGuard<'_, Vec<String>> {
        self.names.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn take_name(&self, name: &str) -> Result<(), Error> {
        let mut names = self.names();
        if names.iter().any(|taken| taken == name) {
            return Err(Error::NameTaken);
        }
        names.push(name.to_owned());
        Ok(())
    }

    pub fn give_name_back(&self, name: &str) {
        self.names().retain(|taken| taken != name);
    }
}
