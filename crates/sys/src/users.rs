//! The users of the system.

use std::ffi::CStr;

/// Bytes that a user's entry may have.
const ENTRY_MAX: usize = 16 * 1024;
/// Groups that a user may be in.
const GROUPS_MAX: usize = 1024;

/// The groups that a user belongs to, by the system's databases (getgrouplist(3)); none where there is no such
/// user. It may ask the network: not for threads that others wait for.
pub fn groups_of(uid: u32) -> Vec<u32> {
    let mut buffer = vec![0; ENTRY_MAX];
    let mut entry = std::mem::MaybeUninit::<libc::passwd>::uninit();
    let mut found = std::ptr::null_mut();
    // SAFETY: the entry and the buffer, of the length given, are ours for the call.
    let error =
        unsafe { libc::getpwuid_r(uid, entry.as_mut_ptr(), buffer.as_mut_ptr(), buffer.len(), &mut found) };
    if error != 0 || found.is_null() {
        return Vec::new();
    }
    // SAFETY: it was found, so that it was written; its name is a C string in the buffer.
    let (name, gid) = unsafe { (CStr::from_ptr((*found).pw_name), (*found).pw_gid) };
    let mut groups = vec![0; GROUPS_MAX];
    let mut count = GROUPS_MAX as libc::c_int;
    // SAFETY: there is room for so many groups.
    let result = unsafe { libc::getgrouplist(name.as_ptr(), gid, groups.as_mut_ptr(), &mut count) };
    let known = if result < 0 { GROUPS_MAX } else { count as usize };
    groups.truncate(known);
    groups
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn root_is_in_its_group_and_nobody_is_not_there() {
        assert!(groups_of(0).contains(&0));
        assert!(groups_of(u32::MAX - 7).is_empty());
    }
}
