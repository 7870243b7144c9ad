//! The links of a socket, found by pipe, or by the token that the poll set knows.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinnace_sys::Errno;

use super::Mailbox;
use crate::link::Link;
use crate::pipe::PipeId;

/// The links of a socket, indexed by pipe id.
#[derive(Default)]
pub(super) struct Links {
    list: Vec<Option<(u64, Arc<Link>)>>,
    count: u32,
    /// Distinguishes a link from earlier links of the same pipe.
    serial: u32,
}

impl Links {
    fn add(&mut self, link: &Arc<Link>) -> u64 {
        let index = link.pipe.0 as usize;
        if self.list.len() <= index {
            self.list.resize(index + 1, None);
        }
        self.serial = self.serial.wrapping_add(1);
        let token = u64::from(self.serial) << 32 | u64::from(link.pipe.0);
        if self.list[index].replace((token, link.clone())).is_none() {
            self.count += 1;
        }
        token
    }

    fn take(&mut self, token: u64) -> Option<Arc<Link>> {
        let (_, link) = self.list.get_mut(token as u32 as usize)?.take_if(|(other, _)| *other == token)?;
        self.count -= 1;
        Some(link)
    }

    fn by_token(&self, token: u64) -> Option<&Arc<Link>> {
        let (other, link) = self.list.get(token as u32 as usize)?.as_ref()?;
        (*other == token).then_some(link)
    }

    fn all(&self) -> impl Iterator<Item = &Arc<Link>> {
        self.list.iter().flatten().map(|(_, link)| link)
    }
}

impl Mailbox {
    /// Adds a link; it is served from now on. Errors: those of its registration for polling.
    pub(crate) fn add_link(&self, link: &Arc<Link>) -> Result<(), Errno> {
        let token = {
            let mut links = self.links.lock();
            let token = links.add(link);
            self.link_count.store(links.count, Ordering::Relaxed);
            token
        };
        link.register(token)?;
        self.wake_leader(); // The leader may be polling only the previous link.
        Ok(())
    }

    pub(crate) fn remove_link(&self, link: &Link) {
        if let Some(token) = link.token() {
            let mut links = self.links.lock();
            let taken = links.take(token);
            self.link_count.store(links.count, Ordering::Relaxed);
            drop(links);
            drop(taken); // The link must not be destroyed with the lock held.
        }
    }

    /// True if the link was added and not removed since.
    pub(crate) fn has_link(&self, link: &Link) -> bool {
        link.token().is_some_and(|token| self.links.lock().by_token(token).is_some())
    }

    pub(super) fn link_by_token(&self, token: u64) -> Option<Arc<Link>> {
        self.links.lock().by_token(token).cloned()
    }

    pub(crate) fn link_of(&self, pipe: PipeId) -> Option<Arc<Link>> {
        let links = self.links.lock();
        links.list.get(pipe.0 as usize)?.as_ref().map(|(_, link)| link.clone())
    }

    /// Number of links.
    pub(crate) fn links(&self) -> u32 {
        self.link_count.load(Ordering::Relaxed)
    }

    pub(crate) fn all_links(&self) -> Vec<Arc<Link>> {
        self.links.lock().all().cloned().collect()
    }

    /// All links, if there are at most `max` and all of them use shared memory; else none.
    pub(crate) fn links_in_memory(&self, max: u32) -> Vec<Arc<Link>> {
        if self.links() > max {
            return Vec::new();
        }
        let links = self.links.lock();
        if links.all().all(|link| link.is_shared()) { links.all().cloned().collect() } else { Vec::new() }
    }

    /// The link, if there is exactly one.
    pub(crate) fn only_link(&self) -> Option<Arc<Link>> {
        let links = self.links.lock();
        if links.count == 1 { links.all().next().cloned() } else { None }
    }

    pub(crate) fn for_each_link(&self, mut visit: impl FnMut(&Link)) {
        if self.links() == 0 {
            return;
        }
        if let Some(link) = self.only_link() {
            return visit(&link);
        }
        for link in self.all_links() {
            visit(&link);
        }
    }
}
