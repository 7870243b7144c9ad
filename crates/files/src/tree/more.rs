//! Owner and extended attributes of files on this host.
//!
//! Of extended attributes only those of the namespace `user.` are read and written. They are kept encoded, sorted by
//! name:
//!
//! ```text
//! xattrs = *( name-len:1 name value-len:4 value )
//! ```

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

use rustix::fs::{self, Gid, Uid, XattrFlags};
use rustix::io::Errno;

use crate::error::{Code, FileError};
use crate::wire::{MoreAttributes, Owner};

/// The most octets of a file's extended attributes, encoded.
pub const XATTRS_MAX: usize = 64 << 10;

/// The namespace of programs without privileges.
const NAMESPACE: &[u8] = b"user.";

type Xattrs = BTreeMap<Vec<u8>, Vec<u8>>;

fn limit() -> FileError {
    FileError::new(Code::Limit, "more than 64 KiB of extended attributes")
}

/// The extended attributes of a file, encoded. Error: Limit, there are more than `XATTRS_MAX`.
pub fn xattrs_of(file: &OwnedFd) -> Result<Vec<u8>, FileError> {
    Ok(encode(&read(file)?))
}

fn read(file: &OwnedFd) -> Result<Xattrs, FileError> {
    // The kernel's limit of a list is the same (XATTR_LIST_MAX of limits.h).
    let (mut names, mut found, mut len) = (vec![0; XATTRS_MAX], Xattrs::new(), 0);
    match fs::flistxattr(file, &mut names[..]) {
        Ok(len) => names.truncate(len),
        // The file system has none.
        Err(Errno::OPNOTSUPP) => return Ok(found),
        Err(errno) => return Err(errno.into()),
    }
    for name in names.split(|octet| *octet == 0).filter(|name| name.starts_with(NAMESPACE)) {
        let mut value = vec![0; XATTRS_MAX];
        match fs::fgetxattr(file, name, &mut value[..]) {
            Ok(len) => value.truncate(len),
            // It was removed since it was listed.
            Err(Errno::NODATA) => continue,
            Err(errno) => return Err(errno.into()),
        }
        len += 5 + name.len() + value.len();
        if len > XATTRS_MAX {
            return Err(limit());
        }
        found.insert(name.to_vec(), value);
    }
    Ok(found)
}

fn encode(xattrs: &Xattrs) -> Vec<u8> {
    let mut encoded = Vec::new();
    for (name, value) in xattrs {
        // The kernel's limit of a name is 255 octets.
        encoded.push(name.len() as u8);
        encoded.extend_from_slice(name);
        encoded.extend_from_slice(&(value.len() as u32).to_be_bytes());
        encoded.extend_from_slice(value);
    }
    encoded
}

/// Errors: Limit; Invalid, it is malformed, or has a name of another namespace.
fn decode(mut encoded: &[u8]) -> Result<Xattrs, FileError> {
    let next = |encoded: &mut &[u8]| {
        let (len, rest) = encoded.split_first()?;
        let (name, rest) = rest.split_at_checked(usize::from(*len))?;
        let (len, rest) = rest.split_first_chunk::<4>()?;
        let (value, rest) = rest.split_at_checked(usize::try_from(u32::from_be_bytes(*len)).ok()?)?;
        *encoded = rest;
        let is_valid = name.len() > NAMESPACE.len() && name.starts_with(NAMESPACE) && !name.contains(&0);
        is_valid.then(|| (name.to_vec(), value.to_vec()))
    };
    if encoded.len() > XATTRS_MAX {
        return Err(limit());
    }
    let mut found = Xattrs::new();
    while !encoded.is_empty() {
        let invalid = || FileError::new(Code::Invalid, "extended attributes that are invalid");
        let (name, value) = next(&mut encoded).ok_or_else(invalid)?;
        found.insert(name, value);
    }
    Ok(found)
}

/// Gives an open file or directory its attributes, as far as they differ. Errors: Denied; Invalid; Limit; those of the
/// file system.
pub fn set(file: &OwnedFd, more: &MoreAttributes) -> Result<(), FileError> {
    if let Some(owner) = more.owner {
        let stat = fs::fstat(file)?;
        if (stat.st_uid, stat.st_gid) != owner {
            let (user, group) = ids(owner)?;
            fs::fchown(file, user, group).map_err(|errno| not_owned(owner, errno))?;
        }
    }
    let Some(xattrs) = &more.xattrs else { return Ok(()) };
    let (wanted, known) = (decode(xattrs)?, read(file)?);
    for name in known.keys().filter(|name| !wanted.contains_key(*name)) {
        fs::fremovexattr(file, &name[..])?;
    }
    for (name, value) in wanted.iter().filter(|(name, value)| known.get(*name) != Some(value)) {
        fs::fsetxattr(file, &name[..], value, XattrFlags::empty()).map_err(|errno| {
            let error = FileError::from(errno);
            let code = if errno == Errno::OPNOTSUPP { Code::Denied } else { error.code };
            let name = String::from_utf8_lossy(name);
            FileError::new(code, format!("the extended attribute {name} cannot be set: {error}"))
        })?;
    }
    Ok(())
}

/// Gives a symbolic link its owner.
pub fn set_owner_of_link(directory: &OwnedFd, name: &[u8], owner: Owner) -> Result<(), FileError> {
    let (user, group) = ids(owner)?;
    let outcome = fs::chownat(directory, name, user, group, fs::AtFlags::SYMLINK_NOFOLLOW);
    outcome.map_err(|errno| not_owned(owner, errno))
}

/// Error: Invalid; -1 stands for no change (chown(2)), and is no owner.
fn ids((user, group): Owner) -> Result<(Option<Uid>, Option<Gid>), FileError> {
    if user == u32::MAX || group == u32::MAX {
        return Err(FileError::new(Code::Invalid, "an owner that is none"));
    }
    Ok((Some(Uid::from_raw(user)), Some(Gid::from_raw(group))))
}

fn not_owned((user, group): Owner, errno: Errno) -> FileError {
    let error = FileError::from(errno);
    FileError::new(error.code, format!("its owner cannot be set to {user}:{group}: {error}"))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_invalid_is_refused() {
        let of = |name: &[u8], value: &[u8]| Xattrs::from([(name.to_vec(), value.to_vec())]);
        let valid = encode(&of(b"user.a", b"value"));
        assert_eq!(decode(&valid), Ok(of(b"user.a", b"value")));
        assert_eq!(decode(b""), Ok(Xattrs::new()));
        let code = |encoded: &[u8]| decode(encoded).unwrap_err().code;
        (1..valid.len()).for_each(|len| assert_eq!(code(&valid[..len]), Code::Invalid, "{len} octets"));
        for name in [
            &b"security.capability"[..],
            b"trusted.a",
            b"system.posix_acl_access",
            b"user.",
            b"",
            b"user.\0a",
        ] {
            assert_eq!(code(&encode(&of(name, b""))), Code::Invalid, "{}", name.escape_ascii());
        }
        assert_eq!(code(&encode(&of(b"user.a", &[0; XATTRS_MAX]))), Code::Limit);
    }

    proptest! {
        #[test]
        fn any_octets_are_refused_or_come_back(
            octets in prop::collection::vec(any::<u8>(), 0..200), at in 0..40_usize,
        ) {
            let _ = decode(&octets);
            // Near to what is valid.
            let xattrs = [(b"user.a".to_vec(), octets.clone()), (b"user.b".to_vec(), octets)];
            let mut near = encode(&Xattrs::from(xattrs));
            let at = at % near.len();
            near[at] ^= 1;
            if let Ok(found) = decode(&near) {
                prop_assert_eq!(decode(&encode(&found)), Ok(found));
            }
        }
    }
}
