//! The text of an endpoint, for binding and for connecting: refused, or parsed to a value that prints as text which
//! parses to the same value.

use pinnace_engine::fuzzing::{Endpoint, Role};

pub fn run(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else { return };
    for role in [Role::Bind, Role::Connect] {
        match Endpoint::parse(text, role) {
            Ok(endpoint) => {
                let again = endpoint.to_string();
                assert_eq!(Endpoint::parse(&again, role).as_ref(), Ok(&endpoint), "{again}");
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
}
