//! Names below a path that are to be fetched: many go into one request.

/// The most names in a request, and their octets.
pub const NAMES_MAX: usize = 1024;
const NAMES_BYTES_MAX: usize = 64 << 10;

/// The names that no request has asked for yet.
#[derive(Default)]
pub struct WantedNames {
    names: Vec<Vec<u8>>,
    bytes: usize,
}

impl WantedNames {
    pub fn add(&mut self, name: &[u8]) {
        self.bytes += name.len();
        self.names.push(name.to_vec());
    }

    /// Takes those of the next request, if there are `least`, or many octets of them.
    pub fn take(&mut self, least: usize) -> Option<Vec<Vec<u8>>> {
        let are_enough = self.names.len() >= least || self.bytes >= NAMES_BYTES_MAX;
        if self.names.is_empty() || !are_enough {
            return None;
        }
        let names: Vec<Vec<u8>> = self.names.drain(..self.names.len().min(NAMES_MAX)).collect();
        self.bytes -= names.iter().map(Vec::len).sum::<usize>();
        Some(names)
    }

    pub fn clear(&mut self) {
        *self = WantedNames::default();
    }
}
