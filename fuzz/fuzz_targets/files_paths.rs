//! Paths below a folder, as the other side gives them: refused, or none of their names leads elsewhere.

use pinnace_files::tree::TreePath;

pub fn run(data: &[u8]) {
    let (first, rest) = data.split_at(data.iter().position(|octet| *octet == b'\n').unwrap_or(data.len()));
    let Ok(path) = TreePath::parse(first) else { return };
    let Ok(joined) = path.join(rest.get(1..).unwrap_or_default()) else { return };
    for path in [path, joined] {
        assert_eq!(TreePath::parse(path.as_bytes()).as_ref(), Ok(&path));
        let names = path.as_bytes().split(|octet| *octet == b'/').filter(|_| !path.is_empty());
        for name in names {
            assert!(
                !name.is_empty() && name != b"." && name != b".." && !name.contains(&0) && name.len() <= 255
            );
        }
        if let Some((directory, name)) = path.split_last() {
            assert_eq!(directory.join(name).as_ref(), Ok(&path));
        }
    }
}
