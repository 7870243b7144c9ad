//! A metric family in Prometheus' text format, version 0.0.4 ("Exposition formats").

use std::fmt::{self, Display, Write};

/// One metric family: its name, type and help text, and its samples.
#[derive(Debug, Clone)]
pub struct Family {
    name: &'static str,
    kind: &'static str,
    help: &'static str,
    samples: String,
}

impl Family {
    /// A family without samples. `kind`: `counter` or `gauge`. `help` has neither backslashes nor line feeds.
    pub fn new(name: &'static str, kind: &'static str, help: &'static str) -> Family {
        Family { name, kind, help, samples: String::new() }
    }

    /// Adds a sample. Label values may have any characters.
    pub fn add(&mut self, labels: &[(&str, &str)], value: impl Display) {
        let to = &mut self.samples;
        to.push_str(self.name);
        for (index, (label, value)) in labels.iter().enumerate() {
            let separator = if index == 0 { '{' } else { ',' };
            // Writing to a String does not fail.
            let _ = write!(to, "{separator}{label}=\"{}\"", Escaped(value));
        }
        let end = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(to, "{end} {value}");
    }
}

/// The help text, the type and all samples, each on a line.
impl Display for Family {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Family { name, kind, help, samples } = self;
        write!(f, "# HELP {name} {help}\n# TYPE {name} {kind}\n{samples}")
    }
}

/// A label value with backslashes, quotes and line feeds escaped.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\\' | '"' => write!(f, "\\{c}"),
            '\n' => f.write_str("\\n"),
            c => f.write_char(c),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_have_escaped_labels() {
        let mut family = Family::new("pinnace_test", "gauge", "A test.");
        family.add(&[], 1);
        family.add(&[("topic", "a\"b\\c\nd"), ("peer", "")], 0.5);
        let text = "# HELP pinnace_test A test.\n# TYPE pinnace_test gauge\npinnace_test 1\n\
                    pinnace_test{topic=\"a\\\"b\\\\c\\nd\",peer=\"\"} 0.5\n";
        assert_eq!(family.to_string(), text);
    }
}
