//! A folder that discards what is written into it: for measuring, and for verifying without a copy.

use super::{
    Attributes, Directory, Folder, Hint, Kind, MoreAttributes, Names, Source, Tag, Target, TreePath, Watch,
};
use crate::error::{Code, FileError};

/// The folder, its directories and its files.
pub struct Discard;

fn nothing<T>() -> Result<T, FileError> {
    Err(FileError::new(Code::NotFound, "nothing is kept here"))
}

impl Folder for Discard {
    fn directory(&self, _: &TreePath) -> Result<Box<dyn Directory>, FileError> {
        Ok(Box::new(Discard))
    }

    fn rename(&self, _: &TreePath, _: &TreePath) -> Result<(), FileError> {
        Ok(())
    }

    fn watch(&self, _: Box<dyn Fn(Hint) + Send>) -> Result<Box<dyn Watch>, FileError> {
        nothing()
    }
}

impl Directory for Discard {
    fn names(&self) -> Result<Names, FileError> {
        Ok(Box::new(std::iter::empty()))
    }

    fn attributes(&self, _: &[u8]) -> Result<Attributes, FileError> {
        nothing()
    }

    fn directory(&self, _: &[u8]) -> Result<Box<dyn Directory>, FileError> {
        Ok(Box::new(Discard))
    }

    fn open(&self, _: &[u8]) -> Result<(Box<dyn Source>, Attributes), FileError> {
        nothing()
    }

    fn read_link(&self, _: &[u8]) -> Result<Vec<u8>, FileError> {
        nothing()
    }

    fn make_directory(&self, _: &[u8], _: u32) -> Result<(), FileError> {
        Ok(())
    }

    fn make_link(&self, _: &[u8], _: &[u8]) -> Result<(), FileError> {
        Ok(())
    }

    fn create(&self, _: &[u8]) -> Result<Box<dyn Target>, FileError> {
        Ok(Box::new(Discard))
    }

    fn is_named(&self, _: &[u8], _: &dyn Target) -> Result<bool, FileError> {
        Ok(true)
    }

    fn create_new(&self, _: &[u8]) -> Result<Option<Box<dyn Target>>, FileError> {
        Ok(Some(Box::new(Discard)))
    }

    fn rename(&self, _: &[u8], _: &[u8]) -> Result<(), FileError> {
        Ok(())
    }

    fn remove_file(&self, _: &[u8]) -> Result<(), FileError> {
        Ok(())
    }

    fn remove_directory(&self, _: &[u8]) -> Result<(), FileError> {
        Ok(())
    }

    fn set_more(&self, _: &[u8], _: &MoreAttributes) -> Result<(), FileError> {
        Ok(())
    }

    fn set_attributes(&self, _: &[u8], _: i64, _: u32) -> Result<(), FileError> {
        Ok(())
    }

    fn sync(&self) -> Result<(), FileError> {
        Ok(())
    }
}

impl Source for Discard {
    fn attributes(&self) -> Result<Attributes, FileError> {
        Ok(Attributes {
            kind: Kind::File,
            size: 0,
            mtime_ns: 0,
            ctime_ns: 0,
            mode: 0o600,
            tag: Tag::default(),
            shared: None,
            owner: (0, 0),
        })
    }

    fn read(&self, _: u64, _: &mut [u8]) -> Result<usize, FileError> {
        Ok(0)
    }
}

impl Target for Discard {
    fn allocate(&self, _: u64) -> Result<(), FileError> {
        Ok(())
    }

    fn write(&self, _: u64, _: &[u8]) -> Result<(), FileError> {
        Ok(())
    }

    fn set_len(&self, _: u64) -> Result<(), FileError> {
        Ok(())
    }

    fn set_more(&self, _: &MoreAttributes) -> Result<(), FileError> {
        Ok(())
    }

    fn set_attributes(&self, _: i64, _: u32) -> Result<(), FileError> {
        Ok(())
    }

    fn sync(&self) -> Result<(), FileError> {
        Ok(())
    }

    fn try_lock(&self) -> Result<bool, FileError> {
        Ok(true)
    }
}
