//! A folder with one name of a directory, so that a side which may read it can read nothing else.

use std::sync::Arc;

use super::{Attributes, Directory, Folder, Names, Source, TreePath};
use crate::error::{Code, FileError};

/// The folder.
pub struct Single {
    folder: Arc<dyn Folder>,
    name: Vec<u8>,
}

impl Single {
    /// `name`: of a file or directory in the root of `folder`.
    pub fn new(folder: Arc<dyn Folder>, name: &[u8]) -> Single {
        Single { folder, name: name.to_vec() }
    }
}

impl Folder for Single {
    fn directory(&self, path: &TreePath) -> Result<Box<dyn Directory>, FileError> {
        if path.is_empty() {
            let inner = self.folder.directory(path)?;
            return Ok(Box::new(SingleDirectory { inner, name: self.name.clone() }));
        }
        match path.as_bytes().split(|octet| *octet == b'/').next() {
            Some(first) if first == self.name => self.folder.directory(path),
            _ => Err(not_there()),
        }
    }
}

fn not_there() -> FileError {
    FileError::new(Code::NotFound, "only one name is offered")
}

struct SingleDirectory {
    inner: Box<dyn Directory>,
    name: Vec<u8>,
}

impl SingleDirectory {
    fn checked(&self, name: &[u8]) -> Result<&dyn Directory, FileError> {
        if name == self.name { Ok(&*self.inner) } else { Err(not_there()) }
    }
}

impl Directory for SingleDirectory {
    fn names(&self) -> Result<Names, FileError> {
        Ok(Box::new(std::iter::once(Ok(self.name.clone()))))
    }

    fn attributes(&self, name: &[u8]) -> Result<Attributes, FileError> {
        self.checked(name)?.attributes(name)
    }

    fn directory(&self, name: &[u8]) -> Result<Box<dyn Directory>, FileError> {
        self.checked(name)?.directory(name)
    }

    fn open(&self, name: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
        self.checked(name)?.open(name)
    }

    fn xattrs(&self, name: &[u8]) -> Result<Vec<u8>, FileError> {
        self.checked(name)?.xattrs(name)
    }

    fn read_link(&self, name: &[u8]) -> Result<Vec<u8>, FileError> {
        self.checked(name)?.read_link(name)
    }
}
