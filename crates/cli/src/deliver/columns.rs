//! Rows of words as columns. Names from other clients are printed without control characters.

/// One line per row; each column is as wide as its widest word, the last one is not padded.
pub fn columns(rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> =
        rows.iter().map(|row| row.iter().map(|word| printable(word)).collect()).collect();
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for row in &rows {
        let mut line = String::new();
        for (column, word) in row.iter().enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            line += &format!("{gap}{word:width$}", width = width(column));
        }
        text += line.trim_end();
        text.push('\n');
    }
    text
}

/// A word without control characters; an empty word becomes `-`.
pub fn printable(word: &str) -> String {
    match word {
        "" => "-".to_owned(),
        word => word.chars().map(|c| if c.is_control() { '.' } else { c }).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_have_to_be() {
        let row = |words: [&str; 2]| words.map(str::to_owned).to_vec();
        let text = columns(&[row(["A", "B"]), row(["", "x\u{1b}[2J"]), row(["\u{e4}ther", "y"])]);
        assert_eq!(text, "A      B\n-      x.[2J\n\u{e4}ther  y\n");
    }
}
