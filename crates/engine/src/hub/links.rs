//! The links of a socket: each is found by its pipe, and by the token that the poll set knows it by.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use pinnace_sys::Errno;

use super::Hub;
use crate::link::Link;
use crate::pipe::PipeId;

/// The links of a socket, where the numbers of their pipes say.
#[derive(Default)]
pub(super) struct Links {
    list: Vec<Option<(u64, Arc<Link>)>>,
    count: u32,
    /// Tells a link from those that its pipe had before.
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

impl Hub {
    /// A link joins; it is served from now on.
    pub(crate) fn add_link(&self, link: &Arc<Link>) -> Result<(), Errno> {
        let token = {
            let mut links = self.links.lock();
            let token = links.add(link);
            self.link_count.store(links.count, Ordering::Relaxed);
            token
        };
        link.register(token)?;
        self.wake_leader(); // It may be polling the one link that there was.
        Ok(())
    }

    /// Takes a link out.
    pub(crate) fn remove_link(&self, link: &Link) {
        if let Some(token) = link.token() {
            let mut links = self.links.lock();
            let taken = links.take(token);
            self.link_count.store(links.count, Ordering::Relaxed);
            drop(links);
            drop(taken); // Its end is nothing to do with the lock held.
        }
    }

    /// Whether it has joined, and nobody has taken it out.
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

    /// How many links there are.
    pub(crate) fn links(&self) -> u32 {
        self.link_count.load(Ordering::Relaxed)
    }

    /// All links that are there.
    pub(crate) fn all_links(&self) -> Vec<Arc<Link>> {
        self.links.lock().all().cloned().collect()
    }

    /// All links, where they are `max` at most and go through memory, all of them.
    pub(crate) fn links_in_memory(&self, max: u32) -> Vec<Arc<Link>> {
        if self.links() > max {
            return Vec::new();
        }
        let links = self.links.lock();
        if links.all().all(|link| link.is_shared()) { links.all().cloned().collect() } else { Vec::new() }
    }

    /// The link, where there is just one.
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
