//! Tables: fitted to a terminal, or plain columns that scripts can read.
//!
//! Plain: two spaces between columns, no borders, no control codes, and `-` for an empty cell, so that the n-th word
//! of a line is the n-th column as long as only the last column holds spaces.

use comfy_table::{ContentArrangement, LineStyle, Table as Drawn, TableStyle};

/// One line under the header: a thousand nodes need no thousand lines between them.
const STYLE: TableStyle = TableStyle::new().header_separator(LineStyle::none().fill('─').junction('─'));

pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|c| if c.is_empty() { "-".to_owned() } else { c }).collect());
    }

    pub fn render(&self, terminal: bool) -> String {
        if terminal {
            return format!("{}\n", self.drawn().trim_fmt());
        }
        let header: Vec<_> = self.header.iter().map(|h| (*h).to_owned()).collect();
        columns(std::iter::once(&header).chain(&self.rows))
    }

    /// As wide as the terminal at most.
    fn drawn(&self) -> Drawn {
        let mut drawn = Drawn::new();
        drawn.load_style(STYLE).set_content_arrangement(ContentArrangement::Dynamic);
        drawn.set_header(self.header.iter());
        drawn.add_rows(self.rows.iter());
        drawn
    }
}

/// Names and what they stand for, one a line.
pub fn facts(facts: &[(&str, String)]) -> String {
    let rows: Vec<_> = facts
        .iter()
        .map(|(name, value)| vec![(*name).to_owned(), if value.is_empty() { "-".to_owned() } else { value.clone() }])
        .collect();
    columns(rows.iter())
}

fn columns<'a>(rows: impl Iterator<Item = &'a Vec<String>> + Clone) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows.clone() {
        widths.resize(widths.len().max(row.len()), 0);
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Table, facts};

    #[test]
    fn plain_columns_are_aligned_and_never_empty() {
        let mut table = Table::new(&["ID", "GROUPS", "STATUS"]);
        table.row(["web-01", "", "ready"].map(str::to_owned));
        table.row(["x", "a,b", "left for good"].map(str::to_owned));
        assert_eq!(
            table.render(false),
            "ID      GROUPS  STATUS\nweb-01  -       ready\nx       a,b     left for good\n"
        );
        assert_eq!(facts(&[("id", "x".to_owned()), ("leader", String::new())]), "id      x\nleader  -\n");
    }

    #[test]
    fn a_terminal_gets_a_table_that_fits() {
        let mut table = Table::new(&["NODE", "MESSAGE"]);
        table.row(["web-01", "a message that is longer than the terminal is wide"].map(str::to_owned));
        let text = table.drawn().set_width(40).trim_fmt();
        assert!(text.lines().all(|line| line.chars().count() <= 40), "{text}");
        assert!(text.lines().nth(1).is_some_and(|line| line.starts_with("───")), "{text}");
    }
}
