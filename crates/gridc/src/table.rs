//! Tables: columns two spaces apart, one line a row, and `-` for an empty cell, so that the n-th word of a line is the
//! n-th column as long as only the last column holds spaces.
//!
//! On a terminal a table is made to fit: the widest columns are cut until it does, the first one (the name of the thing)
//! last of all, and those that [`Table::keep`] names never. On a pipe nothing is cut: a script wants it whole.
//! Not `comfy-table`: it folds a cell that does not fit, and a folded list of a thousand nodes is unreadable.

use grid_types::visible::visible;

use crate::fit::{cut, cut_middle, width};
use crate::out;
use crate::paint::{Style, Tone};
use crate::safe::Safe;

const GAP: usize = 2;
/// A column is not cut below this, or below its header.
const NARROWEST: usize = 6;

pub struct Table {
    header: Vec<&'static str>,
    kept: Vec<&'static str>,
    spare: Option<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// A text with its colour.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cell {
    text: String,
    tone: Tone,
}

impl Cell {
    pub fn toned(text: impl Into<String>, tone: Tone) -> Self {
        Self { tone, ..text.into().into() }
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        // What is escaped is wider: columns are measured behind it.
        let text = if text.is_empty() { "-".to_owned() } else { visible(&text).into_owned() };
        Self { text, tone: Tone::Plain }
    }
}

impl Table {
    pub fn new(header: &[&'static str]) -> Self {
        Self { header: header.to_vec(), kept: Vec::new(), spare: None, rows: Vec::new() }
    }

    /// Columns that are never cut.
    pub fn keep(mut self, columns: &[&'static str]) -> Self {
        self.kept.extend(columns);
        self
    }

    /// A column that is left out where the table does not fit.
    pub fn spare(self, column: &'static str) -> Self {
        Self { spare: Some(column), ..self }
    }

    pub fn row<C: Into<Cell>>(&mut self, cells: impl IntoIterator<Item = C>) {
        self.rows.push(cells.into_iter().map(Into::into).collect());
    }

    /// For a terminal: as wide as it is. Otherwise as wide as it has to be.
    pub fn render(&self, terminal: bool) -> String {
        self.painted(Style { terminal, colour: false }).as_str().to_owned()
    }

    /// As [`Table::render`], with the colours of its cells if the style has them.
    pub fn painted(&self, style: Style) -> Safe {
        self.fitted(out::columns().filter(|_| style.terminal), style.colour)
    }

    fn fitted(&self, room: Option<usize>, colour: bool) -> Safe {
        let spare = self.spare.and_then(|spare| self.header.iter().position(|column| *column == spare));
        match (spare, room) {
            (Some(at), Some(room)) if self.width() > room => self.without(at).cut_to(Some(room), colour),
            _ => self.cut_to(room, colour),
        }
    }

    fn width(&self) -> usize {
        let header = self.header.iter().map(|h| Cell::from((*h).to_owned())).collect();
        let rows: Vec<Vec<Cell>> = std::iter::once(header).chain(self.rows.iter().cloned()).collect();
        let widths = natural(&rows);
        widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
    }

    fn without(&self, column: usize) -> Self {
        let left =
            |row: &Vec<Cell>| row.iter().enumerate().filter(|(i, _)| *i != column).map(|(_, c)| c.clone()).collect();
        let header = self.header.iter().enumerate().filter(|(i, _)| *i != column).map(|(_, h)| *h).collect();
        Self { header, kept: self.kept.clone(), spare: None, rows: self.rows.iter().map(left).collect() }
    }

    fn cut_to(&self, room: Option<usize>, colour: bool) -> Safe {
        let header = self.header.iter().map(|h| Cell::toned(*h, Tone::Bold)).collect();
        let mut rows: Vec<Vec<Cell>> = std::iter::once(header).chain(self.rows.iter().cloned()).collect();
        let mut widths = natural(&rows);
        if let Some(room) = room {
            self.narrow(&mut widths, room);
        }
        let last = widths.len().saturating_sub(1);
        for row in &mut rows {
            for ((i, cell), most) in row.iter_mut().enumerate().zip(&widths) {
                // What comes last is text, which is read from its beginning; names differ at their ends.
                cell.text = if i == last { cut(&cell.text, *most) } else { cut_middle(&cell.text, *most) };
            }
        }
        let text = columns(&rows, colour);
        match room {
            // A terminal that is narrower than the narrowest table.
            Some(room) if columns(&rows, false).as_str().lines().any(|line| width(line) > room) => Safe::lines(
                &columns(&rows, false).as_str().lines().map(|line| cut(line, room) + "\n").collect::<String>(),
            ),
            _ => text,
        }
    }

    fn narrow(&self, widths: &mut [usize], room: usize) {
        let least: Vec<usize> = self.header.iter().map(|h| width(h).max(NARROWEST)).collect();
        let may_cut: Vec<bool> = self.header.iter().map(|h| !self.kept.contains(h)).collect();
        for from in [1, 0] {
            while widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1) > room {
                let wide = (from..widths.len()).filter(|i| may_cut[*i] && widths[*i] > least[*i]);
                let Some(wide) = wide.max_by_key(|i| widths[*i]) else { break };
                widths[wide] -= 1;
            }
        }
    }
}

/// Names and what they stand for, one a line.
pub fn facts(facts: &[(&str, String)]) -> String {
    let facts: Vec<_> = facts.iter().map(|(name, value)| (*name, value.clone().into())).collect();
    painted_facts(&facts, false).as_str().to_owned()
}

/// As [`facts`], with the colours of the values if `colour`.
pub fn painted_facts(facts: &[(&str, Cell)], colour: bool) -> Safe {
    let rows: Vec<_> = facts.iter().map(|(name, value)| vec![(*name).to_owned().into(), value.clone()]).collect();
    columns(&rows, colour)
}

fn columns(rows: &[Vec<Cell>], colour: bool) -> Safe {
    let widths = natural(rows);
    let mut text = Safe::default();
    for row in rows {
        let last = row.len().saturating_sub(1);
        for (i, (cell, wide)) in row.iter().zip(&widths).enumerate() {
            text.push(&cell.tone.paint(&cell.text, colour));
            let gap = wide.saturating_sub(width(&cell.text)) + GAP;
            text.push(&Safe::part(&" ".repeat(if i == last { 0 } else { gap })));
        }
        text.push(&Safe::code("\n"));
    }
    text
}

fn natural(rows: &[Vec<Cell>]) -> Vec<usize> {
    let mut widths: Vec<usize> = Vec::new();
    for row in rows {
        widths.resize(widths.len().max(row.len()), 0);
        for (most, cell) in widths.iter_mut().zip(row) {
            *most = (*most).max(width(&cell.text));
        }
    }
    widths
}

#[cfg(test)]
mod tests {
    use super::{Cell, Table, facts};
    use crate::fit::width;
    use crate::paint::{Style, Tone};

    impl Table {
        fn render_in(&self, room: usize) -> String {
            let painted = self.fitted(Some(room), true).as_str().to_owned();
            let plain = self.fitted(Some(room), false).as_str().to_owned();
            let bare = painted.split('\u{1b}').map(|part| part.split_once('m').filter(|_| part.starts_with('[')));
            let bare: String =
                painted.split('\u{1b}').zip(bare).map(|(part, bare)| bare.map_or(part, |b| b.1)).collect();
            assert_eq!(bare, plain, "colours change nothing else");
            plain
        }
    }

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
            table.fitted(Some(80), false).as_str(),
            "\
ID                STATUS  GROUPS             BACKENDS          LAST-SEEN
rack-17-web-0001  ready   berlin,p…web-blue  apt,ping,systemd  2026-02-12T10:30…
x                 left    -                  ping              2026-02-12T10:30…
"
        );
        for room in 1..140 {
            let text = table.render_in(room);
            assert_eq!(text.lines().count(), 3);
            assert!(text.lines().all(|line| width(line) <= room), "{room}: {text}");
        }
        assert!(table.render_in(56).contains("rack-17-web-0001"));
        assert_eq!(table.fitted(Some(200), true), table.fitted(None, true), "what fits is not touched");
    }

    #[test]
    fn columns_that_are_kept_are_never_cut() {
        let mut table = Table::new(&["ID", "TARGET", "AGE", "OUTCOMES"]).keep(&["ID", "AGE"]);
        table.row(
            ["job-0c5t9v3k2m7qa", "labels:role=web,zone=berlin-1", "12345678d ago", "1 success"].map(str::to_owned),
        );
        let text = table.render_in(56);
        assert!(text.contains("job-0c5t9v3k2m7qa") && text.contains("12345678d ago"), "{text}");
        assert!(text.lines().all(|line| width(line) <= 56), "{text}");
    }

    #[test]
    fn colours_are_around_the_text_and_not_the_space_behind_it() {
        let mut table = Table::new(&["ID", "STATUS"]);
        table.row([Cell::from("a\u{1b}[2J".to_owned()), Cell::toned("failed", Tone::Bad)]);
        let want = "\u{1b}[1mID\u{1b}[0m          \u{1b}[1mSTATUS\u{1b}[0m\na\\u{1b}[2J  \u{1b}[31mfailed\u{1b}[0m\n";
        assert_eq!(table.painted(Style { terminal: false, colour: true }).as_str(), want);
    }

    #[test]
    fn a_spare_column_is_left_out_before_anything_is_cut() {
        let mut table = Table::new(&["ID", "TARGET", "OUTCOMES"]).spare("OUTCOMES");
        table.row(["a", "labels:role=web", "1 success, 2 failed"].map(str::to_owned));
        assert_eq!(table.render_in(40), "ID  TARGET           OUTCOMES\na   labels:role=web  1 success, 2 failed\n");
        assert_eq!(table.render_in(39), "ID  TARGET\na   labels:role=web\n");
        assert_eq!(table.render_in(12), "ID  TARGET\na   labels:…\n");
    }
}
