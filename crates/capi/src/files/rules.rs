//! The rules of a transfer.

use std::ffi::{c_char, c_int, c_void};

use parking_lot::Mutex;
use pinnace_files::rules::{Deletion, Existing, Pattern, Rules};

use super::owned::Objects;
use crate::call_error::{CallError, given, string, told_call};
use crate::settings::{BYTES, FLAG, Key, Kind, Settings};

static RULES: Objects<Mutex<Chosen>> = Objects::new("rules");

/// The rules as set.
#[derive(Default)]
struct Chosen {
    /// Those of KEYS.
    values: Settings,
    filter: Vec<Pattern>,
}

/// Rules being put together. `deletion` is collected here because several options set it.
#[derive(Default)]
struct Draft {
    rules: Rules,
    deletes: bool,
    deletion: Deletion,
}

impl Draft {
    fn with(mut self, change: impl FnOnce(&mut Rules)) -> Draft {
        change(&mut self.rules);
        self
    }
}

const EXISTING: [(&str, Existing); 3] =
    [("different", Existing::Different), ("not_newer", Existing::NotNewer), ("nothing", Existing::Nothing)];

/// All options, one per entry.
const KEYS: &[Key<Draft>] = &[
    Key("existing", Kind::OneOf(&[EXISTING[0].0, EXISTING[1].0, EXISTING[2].0]), |plan, value| {
        plan.with(|rules| rules.existing = EXISTING[value.number() as usize].1)
    }),
    Key("checksum", FLAG, |plan, value| plan.with(|rules| rules.checksum = value.number() > 0)),
    Key("whole_files", FLAG, |plan, value| plan.with(|rules| rules.whole_files = value.number() > 0)),
    Key("deletion", FLAG, |plan, value| Draft { deletes: value.number() > 0, ..plan }),
    Key("deletion_most", BYTES, |plan, value| {
        let deletion = Deletion { most: Some(value.number()), ..plan.deletion };
        Draft { deletion, ..plan }
    }),
    Key("deletion_force", FLAG, |plan, value| {
        let deletion = Deletion { force: value.number() > 0, ..plan.deletion };
        Draft { deletion, ..plan }
    }),
    Key("compress", FLAG, |plan, value| plan.with(|rules| rules.compress = value.number() > 0)),
    Key("sparse", FLAG, |plan, value| plan.with(|rules| rules.sparse = value.number() > 0)),
    Key("hard_links", FLAG, |plan, value| plan.with(|rules| rules.hard_links = value.number() > 0)),
    Key("owner", FLAG, |plan, value| plan.with(|rules| rules.owner = value.number() > 0)),
    Key("xattrs", FLAG, |plan, value| plan.with(|rules| rules.xattrs = value.number() > 0)),
    Key("fsync", FLAG, |plan, value| plan.with(|rules| rules.fsync = value.number() > 0)),
    Key("dry_run", FLAG, |plan, value| plan.with(|rules| rules.dry_run = value.number() > 0)),
];

/// The rules of a handle; null: the default.
pub(super) fn rules_of(handle: *const c_void) -> Result<Rules, CallError> {
    if handle.is_null() {
        return Ok(Rules::default());
    }
    let chosen = RULES.get(handle)?;
    let chosen = chosen.lock();
    let Draft { rules, deletes, deletion } = chosen.values.apply(KEYS, Draft::default());
    Ok(Rules { filter: chosen.filter.clone(), deletion: deletes.then_some(deletion), ..rules })
}

/// Creates the default rules; NULL on an error.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_rules_new() -> *mut c_void {
    told_call(|| Ok(RULES.insert(Mutex::default())))
}

/// Sets one rule, given as text.
///
/// # Safety
/// Both must be null or C strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_rules_set(
    handle: *mut c_void,
    key: *const c_char,
    value: *const c_char,
) -> c_int {
    told_call(|| {
        let chosen = RULES.get(handle)?;
        // SAFETY: the caller's promise.
        let (key, value) = unsafe { (given(key, "the rule")?, given(value, "the value")?) };
        chosen.lock().values.set(KEYS, key, value)?;
        Ok(0)
    })
}

/// # Safety
/// `pattern` must be null or a C string.
unsafe fn add(handle: *mut c_void, pattern: *const c_char, new: fn(&str) -> Pattern) -> c_int {
    told_call(|| {
        let chosen = RULES.get(handle)?;
        // SAFETY: the caller's promise.
        let pattern = new(unsafe { string(pattern, "the pattern") }?);
        chosen.lock().filter.push(pattern);
        Ok(0)
    })
}

/// Leaves out the names that match, unless an earlier pattern has matched.
///
/// # Safety
/// `pattern` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_rules_exclude(handle: *mut c_void, pattern: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(handle, pattern, Pattern::exclude) }
}

/// Keeps the names that match, unless an earlier pattern has matched.
///
/// # Safety
/// `pattern` must be null or a C string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn pinnace_files_rules_include(handle: *mut c_void, pattern: *const c_char) -> c_int {
    // SAFETY: the caller's promise.
    unsafe { add(handle, pattern, Pattern::include) }
}

/// Destroys rules. Transfers that have begun with them are unaffected.
#[unsafe(no_mangle)]
pub extern "C" fn pinnace_files_rules_destroy(handle: *mut c_void) -> c_int {
    told_call(|| RULES.remove(handle).map(|_| 0))
}
