//! What happens to a client and a server: work, and faults.

use super::contents;
use super::disk::DiskFaults;
use super::node::{ClientLife, ServerLife};
use super::world::{Interruption, World};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Act {
    StartTransfer,
    Cancel,
    CutLink,
    RestoreLink,
    KillClient,
    CutPower,
    StartClient,
    KillServer,
    StartServer,
    ChangeSource,
    ReplaceFile,
    FailDisk,
    FillDisk,
    RepairDisks,
    Corrupt,
}

/// What every run does, and how often.
pub const WORK: [(Act, u64); 4] =
    [(Act::StartTransfer, 20), (Act::RestoreLink, 8), (Act::StartClient, 8), (Act::StartServer, 8)];

/// Groups of faults, of which a run has some.
pub const FAULTS: [&[(Act, u64)]; 7] = [
    &[(Act::CutLink, 4)],
    &[(Act::KillClient, 3)],
    &[(Act::CutPower, 3)],
    &[(Act::KillServer, 3)],
    &[(Act::ChangeSource, 10)],
    &[(Act::FailDisk, 4), (Act::FillDisk, 2), (Act::RepairDisks, 6)],
    &[(Act::Corrupt, 10), (Act::Cancel, 2)],
];

impl World {
    pub fn act(&mut self, act: Act) {
        match act {
            Act::StartTransfer => self.start_transfer(),
            Act::Cancel => {
                self.note(|| "the transfer is cancelled".to_owned());
                self.client.iter_mut().for_each(ClientLife::cancel);
                self.has_cancelled = true;
            }
            Act::CutLink if self.network.is_up => {
                self.note(|| "the link is cut".to_owned());
                self.interrupt(Interruption::Link);
            }
            Act::RestoreLink => self.restore_link(),
            Act::KillClient if self.client.is_some() => {
                self.note(|| "the client is killed".to_owned());
                self.interrupt(Interruption::Client);
            }
            Act::CutPower if self.client.is_some() => {
                self.note(|| "the receiver has a power cut".to_owned());
                self.interrupt(Interruption::Power);
            }
            Act::StartClient if self.client.is_none() => {
                self.note(|| "the client starts".to_owned());
                self.client = Some(ClientLife::new(self.settings.clone()));
            }
            Act::KillServer if self.server.is_some() => {
                self.note(|| "the server is killed".to_owned());
                self.interrupt(Interruption::Server);
            }
            Act::StartServer if self.server.is_none() => {
                self.note(|| "the server starts".to_owned());
                self.server = Some(ServerLife::new(&self.served));
            }
            Act::ChangeSource => {
                let (disk, base) = self.source();
                let text = contents::change(&disk, &mut self.random, base);
                self.note(|| text);
                self.source_changed();
            }
            Act::ReplaceFile => {
                let (disk, base) = self.source();
                let octets = contents::large_file(&mut self.random);
                self.note(|| format!("there is a new file of {} octets", octets.len()));
                disk.put(format!("{base}/large").as_bytes(), octets);
                self.source_changed();
            }
            Act::FailDisk => {
                let faults =
                    DiskFaults { read: self.random.below(30), write: self.random.below(30), room: 0 };
                let disk = self.random.pick(&[&self.served, &self.local]).to_owned().clone();
                self.note(|| format!("a disk fails: {faults:?}"));
                disk.set_faults(faults);
                self.has_failed_disk = true;
            }
            Act::FillDisk => {
                let faults = DiskFaults { room: 1 + self.random.below(2_000_000), ..DiskFaults::default() };
                let (disk, _) = self.copy();
                self.note(|| format!("the receiver's disk is full: {faults:?}"));
                disk.set_faults(faults);
                self.has_failed_disk = true;
            }
            Act::RepairDisks => self.repair_disks(),
            Act::Corrupt if self.network.corrupt(&mut self.random) => {
                self.note(|| "an octet changes on its way".to_owned());
                self.has_corrupted = true;
            }
            _ => {}
        }
    }

    pub fn repair_disks(&mut self) {
        [&self.served, &self.local].into_iter().for_each(|disk| disk.set_faults(DiskFaults::default()));
    }

    fn start_transfer(&mut self) {
        let rules = self.random_rules();
        let since = self.changes;
        let (uploads, disk) = (self.uploads, self.local.clone());
        let Some(client) = self.client.as_mut().filter(|client| client.transfer.is_none()) else { return };
        client.start(&disk, uploads, &rules, since);
        self.note(|| format!("a transfer starts: {rules:?}"));
        self.note_before();
    }
}
