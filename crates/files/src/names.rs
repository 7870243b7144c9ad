//! Tables of the names by which values are sent.

/// The name of a value.
pub fn name_of<T: Copy + PartialEq>(table: &[(&'static [u8], T)], value: T) -> Option<&'static [u8]> {
    table.iter().find(|(_, known)| *known == value).map(|(name, _)| *name)
}

/// The value that has a name.
pub fn value_of<T: Copy>(table: &[(&'static [u8], T)], name: &[u8]) -> Option<T> {
    table.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
}
