//! The client and the server, as long as they live.

use std::sync::Arc;

use super::disk::SimulatedDisk;
use crate::access::Access;
use crate::client::connection::Shared;
use crate::client::task::{ClientTask, Command, Offer, Settings};
use crate::dialogue::events::Events;
use crate::dialogue::fetch::Fetch;
use crate::dialogue::mounts::Mounts;
use crate::dialogue::upload::Upload;
use crate::outbox::Outbox;
use crate::rules::Rules;
use crate::server::session::Session;
use crate::transfer::place::Place;
use crate::transfer::selection::{PART_AGE, Selection};
use crate::tree::TreePath;

/// The folder of the server that clients see, on its disk; and that of the client.
pub const SERVED: &str = "served";
pub const COPY: &str = "copy";

/// A client that runs.
pub struct ClientLife {
    pub task: ClientTask,
    pub shared: Arc<Shared>,
    pub transfer: Option<RunningTransfer>,
    last: u64,
}

/// A transfer that is under way.
pub struct RunningTransfer {
    operation: u64,
    pub events: Events,
    pub rules: Rules,
    /// Its number among all changes of the source.
    pub since: u64,
}

/// Most frames of a server that wait at the client.
const RECEIVED_MAX: usize = 64 << 20;

impl ClientLife {
    pub fn new(settings: Settings) -> ClientLife {
        let shared = Arc::new(Shared::new(RECEIVED_MAX, Arc::default(), Arc::default(), None));
        let task = ClientTask::new(shared.clone(), "simulated", settings);
        ClientLife { task, shared, transfer: None, last: 0 }
    }

    /// Begins to fetch the served folder, or to upload the copy.
    pub fn start(&mut self, disk: &SimulatedDisk, uploads: bool, rules: &Rules, since: u64) {
        use pinnace_eventloop::Task;
        self.last += 1;
        let (operation, (sender, events)) = (self.last, Events::channel());
        let command = if uploads {
            let alias = format!("/upload-{operation}");
            let source = format!("{alias}/{COPY}/").into_bytes();
            let what =
                Box::new(Upload::new(b"/data/served", &source, b"/local", rules.clone(), sender.clone()));
            let offer = Offer { alias, folder: Arc::new(disk.clone()), events: sender };
            Command::Start { operation, what, offer: Some(offer) }
        } else {
            let path = TreePath::parse(COPY.as_bytes()).unwrap();
            let place = Place::At { folder: Arc::new(disk.clone()), path, is_directory: false };
            let selection = Selection::new(rules.clone(), PART_AGE).unwrap();
            Command::Start {
                operation,
                what: Box::new(Fetch::new(b"/data/served/", place, selection, sender)),
                offer: None,
            }
        };
        self.task.on_command(command);
        self.transfer = Some(RunningTransfer { operation, events, rules: rules.clone(), since });
    }

    pub fn cancel(&mut self) {
        use pinnace_eventloop::Task;
        if let Some(running) = &self.transfer {
            self.task.on_command(Command::Cancel { operation: running.operation });
        }
    }
}

/// A server that runs: its session with the client.
pub struct ServerLife {
    pub session: Session,
    pub outbox: Outbox,
    pub mounts: Mounts,
}

impl ServerLife {
    pub fn new(disk: &SimulatedDisk) -> ServerLife {
        let mut mounts = Mounts::default();
        mounts.add(b"/data", Arc::new(disk.clone()), true).unwrap();
        let session = Session::new(Arc::new(|| {}), Arc::<Access>::default(), None, PART_AGE);
        ServerLife { session, outbox: Outbox::default(), mounts }
    }
}
