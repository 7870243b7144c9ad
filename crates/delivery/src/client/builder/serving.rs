//! The statistics of a client that starts.

use std::sync::{Arc, Mutex};

use super::Builder;
use crate::Error;
use crate::environment::now;
use crate::inbox::Inbox;
use crate::instance::Instance;
use crate::registry::Trouble;
use crate::statistics::{ClientSource, Collector, StatisticsServer};

/// A client's server of statistics, if there is one.
pub type Server = Mutex<Option<StatisticsServer>>;

impl Builder {
    pub(super) fn collector(&self, client: u32, inbox: &Arc<Inbox>, trouble: &Trouble) -> Arc<Collector> {
        let (name, memory_limit) = (self.name.clone(), self.memory_limit);
        let (inbox, trouble) = (inbox.clone(), trouble.clone());
        Arc::new(Collector { client, name, inbox, started: now(), memory_limit, trouble })
    }

    /// Serves the statistics, if that is set.
    pub(super) fn serve(
        &self,
        collector: &Arc<Collector>,
        instance: &Arc<Instance>,
    ) -> Result<Server, Error> {
        let (collector, instance) = (collector.clone(), Arc::downgrade(instance));
        let serve = |address: &String| StatisticsServer::start(address, ClientSource { collector, instance });
        Ok(Mutex::new(self.metrics.as_ref().map(serve).transpose()?))
    }
}
