//! What a message carries besides its bytes, packed into one word: nothing, the sender's properties, or these and a
//! group name.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use pinnace_engine::About;

/// The word: 0, an `Arc<About>` as a pointer, or a `Box<Grouped>` as a pointer with its lowest bit set.
#[derive(Default)]
pub(super) struct Properties(usize);

/// The rarer case: a message with a group.
#[derive(Clone, Default)]
struct Grouped {
    about: Option<Arc<About>>,
    group: CString,
}

const GROUPED: usize = 1;
const _: () = assert!(align_of::<About>() > GROUPED && align_of::<Grouped>() > GROUPED);

impl Properties {
    #[inline(always)]
    pub(super) fn of(about: Option<Arc<About>>, group: &[u8]) -> Properties {
        if !group.is_empty() {
            let group = CString::new(group).unwrap_or_default();
            return Properties::grouped(Grouped { about, group });
        }
        Properties(about.map_or(0, |about| Arc::into_raw(about).expose_provenance()))
    }

    fn grouped(grouped: Grouped) -> Properties {
        Properties(Box::into_raw(Box::new(grouped)).expose_provenance() | GROUPED)
    }

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.0 == 0
    }

    fn as_grouped(&self) -> Option<&Grouped> {
        // SAFETY: a word with the bit was made by `grouped`, and is valid as long as `self`.
        (self.0 & GROUPED != 0)
            .then(|| unsafe { &*std::ptr::with_exposed_provenance::<Grouped>(self.0 & !GROUPED) })
    }

    pub(super) fn about(&self) -> Option<&About> {
        if let Some(grouped) = self.as_grouped() {
            return grouped.about.as_deref();
        }
        // SAFETY: a word that is not 0 and has no bit set was made by `of`, and is valid as long as `self`.
        (self.0 != 0).then(|| unsafe { &*std::ptr::with_exposed_provenance::<About>(self.0) })
    }

    fn cloned_about(&self) -> Option<Arc<About>> {
        if let Some(grouped) = self.as_grouped() {
            return grouped.about.clone();
        }
        let about: *const About = self.about()?;
        // SAFETY: the word owns one reference; the count is incremented before a second one is made.
        Some(unsafe {
            Arc::increment_strong_count(about);
            Arc::from_raw(about)
        })
    }

    /// The group's name; empty if none.
    pub(super) fn group(&self) -> &CStr {
        self.as_grouped().map_or(c"", |grouped| &grouped.group)
    }

    pub(super) fn set_group(&mut self, group: CString) {
        let about = self.cloned_about();
        *self = Properties::grouped(Grouped { about, group });
    }
}

impl Clone for Properties {
    fn clone(&self) -> Properties {
        match self.as_grouped() {
            Some(grouped) => Properties::grouped(grouped.clone()),
            None => Properties::of(self.cloned_about(), b""),
        }
    }
}

impl Drop for Properties {
    #[inline(always)]
    fn drop(&mut self) {
        if self.0 != 0 {
            release(self.0);
        }
    }
}

fn release(word: usize) {
    // SAFETY: as in `as_grouped` and `about`; the word is not used again.
    unsafe {
        if word & GROUPED != 0 {
            drop(Box::from_raw(std::ptr::with_exposed_provenance_mut::<Grouped>(word & !GROUPED)));
        } else {
            drop(Arc::from_raw(std::ptr::with_exposed_provenance::<About>(word)));
        }
    }
}
