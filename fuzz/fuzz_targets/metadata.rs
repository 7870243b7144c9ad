//! A list of properties: parsed whole or not at all; re-encoding gives the same bytes.
//!
//! The first byte is the limit.

use pinnace_zmtp::metadata;

pub fn run(data: &[u8]) {
    let Some((&limit, bytes)) = data.split_first() else { return };
    let limit = usize::from(limit);
    let Ok(properties) = metadata::parse(bytes, limit) else { return };
    assert!(properties.len() <= limit);
    let mut again = Vec::new();
    for (name, value) in &properties {
        metadata::encode(name, value, &mut again).expect("a name that was accepted");
        assert!(metadata::find(&properties, &name.to_uppercase()).is_some());
    }
    assert_eq!(again, bytes);
}
