//! Which clients a server admits, and what each of them may do.

use pinnace_crypto::{KeyPair, PublicKey, SecretBytes, equal};
use pinnace_engine::AdmissionRequest;

/// What a grant allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// To list, fetch and follow.
    Read,
    /// To upload, to folders that are writable.
    Write,
}

/// Any user, in a grant.
pub const ANYBODY: &str = "*";

/// how a client proves its user.
pub enum Credential {
    /// By its CURVE key.
    Key(PublicKey),
    Password(SecretBytes),
}

struct Grant {
    user: String,
    /// A virtual path, without a slash at its end.
    path: Vec<u8>,
    right: Right,
    /// The path began with a slash.
    is_virtual: bool,
}

impl Credential {
    fn is(&self, other: &Credential) -> bool {
        match (self, other) {
            (Credential::Key(one), Credential::Key(other)) => one == other,
            (Credential::Password(one), Credential::Password(other)) => equal(one, other),
            _ => false,
        }
    }
}

/// The users of a server, and their rights.
#[derive(Default)]
pub struct Access {
    /// The keys of the server, if connections are secured by CURVE.
    pub keys: Option<KeyPair>,
    pub users: Vec<(String, Credential)>,
    grants: Vec<Grant>,
    /// Clients have to name it; empty: none.
    pub domain: String,
}

impl Access {
    /// Adds a right. Without any, every user has all.
    pub fn grant(&mut self, user: &str, path: &str, right: Right) {
        let is_virtual = path.starts_with('/');
        let path = path.strip_suffix('/').unwrap_or(path).as_bytes().to_vec();
        self.grants.push(Grant { user: user.to_owned(), path, right, is_virtual });
    }

    /// Checks users and rights. `is_served`: whether a folder has a virtual path, or is below it. Error: what is wrong.
    pub fn check(&self, is_served: impl Fn(&[u8]) -> bool) -> Result<(), String> {
        for (index, (user, credential)) in self.users.iter().enumerate() {
            for (other, known) in &self.users[..index] {
                match (user == other, credential.is(known)) {
                    (true, false) => {
                        return Err(format!(
                            "the user {user} is given twice, and not with the same password or key"
                        ));
                    }
                    (false, true) if matches!(credential, Credential::Key(_)) => {
                        return Err(format!("the users {other} and {user} have the same key"));
                    }
                    _ => {}
                }
            }
        }
        for Grant { user, path, is_virtual, .. } in &self.grants {
            let path = String::from_utf8_lossy(path);
            if !is_virtual {
                return Err(format!("a right to \"{path}\": a virtual path begins with a slash"));
            }
            if user != ANYBODY && !self.users.iter().any(|(known, _)| known == user) {
                return Err(format!("a right of {user}: there is no such user"));
            }
            if !is_served(path.as_bytes()) {
                return Err(format!("a right to {path}: no folder is served there"));
            }
        }
        Ok(())
    }

    /// The virtual paths that a user was granted a right to read.
    pub fn readable(&self, user: Option<&str>) -> impl Iterator<Item = &[u8]> {
        let is_of = move |grant: &&Grant| grant.user == ANYBODY || user == Some(&grant.user);
        let readable = self.grants.iter().filter(|grant| grant.right == Right::Read).filter(is_of);
        readable.map(|grant| &grant.path[..])
    }

    /// Returns true if users give names and passwords.
    pub fn has_passwords(&self) -> bool {
        self.users.iter().any(|(_, credential)| matches!(credential, Credential::Password(_)))
    }

    /// Returns true if users show keys.
    pub fn has_keys(&self) -> bool {
        self.users.iter().any(|(_, credential)| matches!(credential, Credential::Key(_)))
    }

    /// Decides on a peer that asks to be admitted. Returns its user's name; an empty one if only the server has a key.
    pub fn admit(&self, request: &AdmissionRequest) -> Option<String> {
        let user = match request.mechanism() {
            b"CURVE" if self.has_keys() => self.user_of_key(request.credential(0)),
            // The peer knows the server's key, and that is all that is asked for.
            b"CURVE" => Some(""),
            b"PLAIN" => self.user_of_password(request.credential(0), request.credential(1)),
            _ => None,
        };
        user.map(str::to_owned)
    }

    /// The user with a key.
    fn user_of_key(&self, key: &[u8]) -> Option<&str> {
        self.user_by(|_, credential| matches!(credential, Credential::Key(known) if equal(known, key)))
    }

    /// The user with a name and password.
    fn user_of_password(&self, name: &[u8], password: &[u8]) -> Option<&str> {
        self.user_by(|user, credential| {
            user.as_bytes() == name
                && matches!(credential, Credential::Password(known) if equal(known, password))
        })
    }

    fn user_by(&self, is: impl Fn(&str, &Credential) -> bool) -> Option<&str> {
        self.users.iter().find(|(user, credential)| is(user, credential)).map(|(user, _)| &user[..])
    }

    /// Returns true if a user has a right to a virtual path and all below it. None: the user is not known by name.
    pub fn allows(&self, user: Option<&str>, path: &[u8], right: Right) -> bool {
        let is_below = |above: &[u8]| match path.strip_prefix(above) {
            Some(rest) => rest.is_empty() || rest[0] == b'/',
            None => false,
        };
        self.grants.is_empty()
            || self.grants.iter().any(|grant| {
                grant.right == right
                    && (grant.user == ANYBODY || user == Some(&grant.user))
                    && is_below(&grant.path)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_those_of_a_path_and_all_below_it() {
        let mut access = Access::default();
        assert!(access.allows(None, b"/any", Right::Write), "no grants");
        access.grant("a", "/x/", Right::Read);
        access.grant("a", "/x/in", Right::Write);
        access.grant(ANYBODY, "/public", Right::Read);
        for (user, path, right, expected) in [
            (Some("a"), "/x", Right::Read, true),
            (Some("a"), "/x/y/z", Right::Read, true),
            (Some("a"), "/xy", Right::Read, false),
            (Some("a"), "/", Right::Read, false),
            (Some("a"), "/x", Right::Write, false),
            (Some("a"), "/x/in/file", Right::Write, true),
            (Some("b"), "/x", Right::Read, false),
            (None, "/x", Right::Read, false),
            (None, "/public/file", Right::Read, true),
            (Some("b"), "/public/", Right::Write, false),
        ] {
            assert_eq!(access.allows(user, path.as_bytes(), right), expected, "{user:?} {path} {right:?}");
        }
        let readable: Vec<&[u8]> = access.readable(Some("a")).collect();
        assert_eq!(readable, [&b"/x"[..], b"/public"]);
        let mut all = Access::default();
        all.grant("a", "/", Right::Read);
        assert!(all.allows(Some("a"), b"/x", Right::Read));
    }

    #[test]
    fn users_are_told_apart() {
        let mut access = Access::default();
        access.users.push(("a".to_owned(), Credential::Password(SecretBytes::from(&b"secret"[..]))));
        access.users.push(("k".to_owned(), Credential::Key([7; 32])));
        assert_eq!(access.user_of_password(b"a", b"secret"), Some("a"));
        assert_eq!(access.user_of_password(b"a", b"secre"), None);
        assert_eq!(access.user_of_password(b"b", b"secret"), None);
        assert_eq!(access.user_of_password(b"k", &[7; 32]), None);
        assert_eq!(access.user_of_key(&[7; 32]), Some("k"));
        assert_eq!(access.user_of_key(b"secret"), None);
    }
}
