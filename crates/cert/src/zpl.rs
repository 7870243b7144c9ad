//! ZPL (RFC 4), the format of CZMQ's configuration files: lines of `name = value` and `name`, nested by four
//! spaces.
//!
//! A value is unquoted up to a `#`, or enclosed in either kind of quotes. Every line is checked; an error is the
//! number of the invalid line. Nothing is copied out of the text, which may contain a secret.

/// One line: a name, its value, and the nested lines.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Node<'a> {
    pub(crate) name: &'a str,
    pub(crate) value: &'a str,
    pub(crate) children: Vec<Node<'a>>,
}

/// Maximum nesting depth of lines.
const DEPTH_MAX: usize = 16;
const INDENT: usize = 4;

impl<'a> Node<'a> {
    /// The first child of this name.
    pub(crate) fn child(&self, name: &str) -> Option<&Node<'a>> {
        self.children.iter().find(|child| child.name == name)
    }
}

/// Parses a whole file into a root node without a name. The error is the number of the invalid line.
pub(crate) fn read(text: &str) -> Result<Node<'_>, usize> {
    let mut root = Node::default();
    for (index, line) in text.lines().enumerate() {
        let Some((level, node)) = read_line(line).ok_or(index + 1)? else { continue };
        let mut parent = &mut root;
        for _ in 0..level {
            parent = parent.children.last_mut().ok_or(index + 1)?;
        }
        parent.children.push(node);
    }
    Ok(root)
}

/// A line's node and depth; `Some(None)` if it is blank or a comment, `None` if it is invalid.
fn read_line(line: &str) -> Option<Option<(usize, Node<'_>)>> {
    let line = line.trim_end();
    let content = line.trim_start_matches(' ');
    if content.is_empty() || content.starts_with('#') {
        return Some(None);
    }
    let indent = line.len() - content.len();
    if !indent.is_multiple_of(INDENT) || indent / INDENT > DEPTH_MAX {
        return None;
    }
    let end = content.find(|c| !is_name_char(c)).unwrap_or(content.len());
    let (name, rest) = content.split_at(end);
    let rest = rest.trim_start();
    let value = match rest.strip_prefix('=') {
        Some(value) => read_value(value.trim())?,
        None if rest.is_empty() || rest.starts_with('#') => "",
        None => return None,
    };
    let node = Node { name, value, children: Vec::new() };
    (!name.is_empty()).then_some(Some((indent / INDENT, node)))
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || "$-_@.&+/".contains(c)
}

fn read_value(text: &str) -> Option<&str> {
    let Some(quote) = text.chars().next().filter(|c| matches!(c, '"' | '\'')) else {
        return Some(text.split('#').next().unwrap_or_default().trim_end());
    };
    let (value, rest) = text[1..].split_once(quote)?;
    let rest = rest.trim_start();
    (rest.is_empty() || rest.starts_with('#')).then_some(value)
}

/// A value in quotes that it does not contain. `None` if it contains both kinds, or a control character.
pub(crate) fn quoted(value: &str) -> Option<String> {
    let quote = ['"', '\''].into_iter().find(|&quote| !value.contains(quote))?;
    (!value.contains(char::is_control)).then(|| format!("{quote}{value}{quote}"))
}

/// Whether this is a valid name.
pub(crate) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.chars().all(is_name_char)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_every_form() {
        let text = "# a comment\n\nmetadata\n    name = \"A # name\"\n    mail='a@b' # his\n    age = 7 # years\n\
                    curve = \n    public-key\n";
        let root = read(text).unwrap();
        let metadata = root.child("metadata").unwrap();
        let values: Vec<_> = metadata.children.iter().map(|node| (node.name, node.value)).collect();
        assert_eq!(values, [("name", "A # name"), ("mail", "a@b"), ("age", "7")]);
        assert_eq!(root.child("curve").unwrap().child("public-key").unwrap().value, "");
        assert_eq!(root.child("other"), None);
    }

    #[test]
    fn wrong_lines_are_named() {
        let wrong = [
            ("a\n   b = 1", 2),
            ("    a = 1", 1),
            ("a\n        b", 2),
            ("a = \"open", 1),
            ("a = 'b' c", 1),
            ("a b", 1),
            ("ok\n= 1", 2),
            ("\ta", 1),
        ];
        for (text, line) in wrong {
            assert_eq!(read(text), Err(line), "{text:?}");
        }
        let deep: Vec<String> = (0..20).map(|level| format!("{}a", " ".repeat(level * INDENT))).collect();
        assert_eq!(read(&deep.join("\n")), Err(DEPTH_MAX + 2));
    }

    #[test]
    fn quotes_that_a_value_does_not_hold() {
        assert_eq!(quoted("a"), Some("\"a\"".into()));
        assert_eq!(quoted("a\"b"), Some("'a\"b'".into()));
        assert_eq!(quoted("a\"b'c"), None);
        assert_eq!(quoted("a\nb = 1"), None);
    }
}
