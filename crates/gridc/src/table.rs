//! Tables: columns two spaces apart, one line a row, and `-` for an empty cell, so that the n-th word of a line is the
//! n-th column as long as only the last column holds spaces.
//!
//! On a terminal a table is made to fit: the widest columns are cut until it does, the first one (the name of the thing)
//! last of all. On a pipe nothing is cut: a script wants it whole.
//! Not `comfy-table`: it folds a cell that does not fit, and a folded list of a thousand nodes is unreadable.

use grid_types::visible::visible;

use crate::fit::{cut, cut_middle, pad, width};
use crate::out;

const GAP: usize = 2;
/// A column is not cut below this, or below its header.
const NARROWEST: usize = 6;

pub struct Table {
    header: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), rows: Vec::new() }
    }

    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|text| cell(&text)).collect());
    }

    /// For a terminal: as wide as it is. Otherwise as wide as it has to be.
    pub fn render(&self, terminal: bool) -> String {
        self.fitted(out::columns().filter(|_| terminal))
    }

    fn fitted(&self, room: Option<usize>) -> String {
        let header: Vec<String> = self.header.iter().map(|h| (*h).to_owned()).collect();
        let rows: Vec<&Vec<String>> = std::iter::once(&header).chain(&self.rows).collect();
        let mut widths = natural(&rows);
        if let Some(room) = room {
            self.narrow(&mut widths, room);
        }
        let last = widths.len().saturating_sub(1);
        let cells = |row: &Vec<String>| -> Vec<String> {
            let fit = |(i, cell): (usize, &String)| {
                let most = widths.get(i).copied().unwrap_or(0);
                // What comes last is text, which is read from its beginning; names differ at their ends.
                if i == last { cut(cell, most) } else { cut_middle(cell, most) }
            };
            row.iter().enumerate().map(fit).collect()
        };
        let rows: Vec<_> = rows.into_iter().map(cells).collect();
        let text = columns(rows.iter());
        match room {
            // A terminal that is narrower than the narrowest table.
            Some(room) => text.lines().map(|line| cut(line, room) + "\n").collect(),
            None => text,
        }
    }

    fn narrow(&self, widths: &mut [usize], room: usize) {
        let least: Vec<usize> = self.header.iter().map(|h| width(h).max(NARROWEST)).collect();
        for from in [1, 0] {
            while widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) > room {
                let wide = (from..widths.len()).filter(|i| widths[*i] > least[*i]).max_by_key(|i| widths[*i]);
                let Some(wide) = wide else { break };
                widths[wide] -= 1;
            }
        }
    }
}

/// What is escaped is wider: columns are measured behind it.
fn cell(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { visible(text).into_owned() }
}

/// Names and what they stand for, one a line.
pub fn facts(facts: &[(&str, String)]) -> String {
    let rows: Vec<_> = facts.iter().map(|(name, value)| vec![(*name).to_owned(), cell(value)]).collect();
    columns(rows.iter())
}

fn columns<'a>(rows: impl Iterator<Item = &'a Vec<String>> + Clone) -> String {
    let widths = natural(&rows.clone().collect::<Vec<_>>());
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| pad(cell, *width));
        text.push_str(cells.collect::<Vec<_>>().join(&" ".repeat(GAP)).trim_end());
        text.push('\n');
    }
    text
}

fn natural(rows: &[&Vec<String>]) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (most, cell) in widths.iter_mut().zip(*row) {
            *most = (*most).max(width(cell));
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::{Table, facts};
    use crate::fit::width;

    fn nodes() -> Table {
        let mut table = Table::new(&["ID", "STATUS", "GROUPS", "BACKENDS", "LAST-SEEN"]);
        let groups = "berlin,prod,rack-17,web,web-blue";
        table.row(
            ["rack-17-web-0001", "ready", groups, "apt,ping,systemd", "2026-02-12T10:30:00.123Z"].map(str::to_owned),
        );
        table.row(["x", "left", "", "ping", "2026-02-12T10:30:00.123Z"].map(str::to_owned));
        table
    }

    #[test]
    fn plain_columns_are_aligned_and_never_empty() {
        let mut table = Table::new(&["ID", "GROUPS", "STATUS"]);
        table.row(["web-01", "", "ready"].map(str::to_owned));
        table.row(["日本", "a,b", "left for good"].map(str::to_owned));
        assert_eq!(
            table.render(false),
            "ID      GROUPS  STATUS\nweb-01  -       ready\n日本    a,b     left for good\n"
        );
        assert_eq!(facts(&[("id", "x".to_owned()), ("leader", String::new())]), "id      x\nleader  -\n");
    }

    #[test]
    fn a_terminal_gets_one_line_a_row_that_fits_and_names_stay_whole() {
        let table = nodes();
        assert_eq!(
            table.fitted(Some(80)),
            "\
ID                STATUS  GROUPS             BACKENDS          LAST-SEEN
rack-17-web-0001  ready   berlin,p…web-blue  apt,ping,systemd  2026-02-12T10:30…
x                 left    -                  ping              2026-02-12T10:30…
"
        );
        for room in 1..140 {
            let text = table.fitted(Some(room));
            assert_eq!(text.lines().count(), 3);
            assert!(text.lines().all(|line| width(line) <= room), "{room}: {text}");
        }
        assert!(table.fitted(Some(56)).contains("rack-17-web-0001"));
        assert_eq!(table.fitted(Some(200)), table.fitted(None), "what fits is not touched");
    }
}
