//! Shows what changed between two texts, as `diff -u` does.
//!
//! The common beginning and end are left out first; in what is left the longest common lines are found, if that is not too much work.
//! Otherwise everything in between counts as replaced: a diff is for people, and bounded.

/// Cells of the table of common lines.
const MAX_CELLS: usize = 4_000_000;
/// Unchanged lines around a change.
const CONTEXT: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Line<'a> {
    Same(&'a str),
    Old(&'a str),
    New(&'a str),
}

/// Empty if they are equal.
pub(super) fn unified(path: &str, old: &str, new: &str) -> String {
    let lines = compare(&split(old), &split(new));
    let mut text = String::new();
    for (begin, end) in hunks(&lines) {
        if text.is_empty() {
            text = format!("--- {path}\n+++ {path}\n");
        }
        let (old_at, new_at) = position(&lines[..begin]);
        let (old_count, new_count) = position(&lines[begin..end]);
        text.push_str(&format!("@@ -{} +{} @@\n", range(old_at, old_count), range(new_at, new_count)));
        for line in &lines[begin..end] {
            let (sign, line) = match line {
                Line::Same(line) => (' ', line),
                Line::Old(line) => ('-', line),
                Line::New(line) => ('+', line),
            };
            text.push(sign);
            text.push_str(line);
            if !line.ends_with('\n') {
                text.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    text
}

fn split(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

fn compare<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let before = old.iter().zip(new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[before..], &new[before..]);
    let after = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_middle, new_middle) = (&old_rest[..old_rest.len() - after], &new_rest[..new_rest.len() - after]);
    let same = |lines: &[&'a str]| lines.iter().map(|line| Line::Same(line)).collect::<Vec<_>>();
    let mut lines = same(&old[..before]);
    lines.extend(middle(old_middle, new_middle));
    lines.extend(same(&old_rest[old_rest.len() - after..]));
    lines
}

fn middle<'a>(old: &[&'a str], new: &[&'a str]) -> Vec<Line<'a>> {
    let width = new.len() + 1;
    if (old.len() + 1).saturating_mul(width) > MAX_CELLS {
        return old.iter().map(|line| Line::Old(line)).chain(new.iter().map(|line| Line::New(line))).collect();
    }
    // common[i][j]: how many lines old[i..] and new[j..] can have in common.
    let mut common = vec![0_u32; (old.len() + 1) * width];
    for i in (0..old.len()).rev() {
        for j in (0..new.len()).rev() {
            common[i * width + j] = if old[i] == new[j] {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j, mut lines) = (0, 0, Vec::new());
    while i < old.len() || j < new.len() {
        if i < old.len() && j < new.len() && old[i] == new[j] {
            lines.push(Line::Same(old[i]));
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[(i + 1) * width + j] >= common[i * width + j + 1]) {
            lines.push(Line::Old(old[i]));
            i += 1;
        } else {
            lines.push(Line::New(new[j]));
            j += 1;
        }
    }
    lines
}

/// Changes with the lines around them; those that touch are one.
fn hunks(lines: &[Line<'_>]) -> Vec<(usize, usize)> {
    let mut hunks: Vec<(usize, usize)> = Vec::new();
    for (at, _) in lines.iter().enumerate().filter(|(_, line)| !matches!(line, Line::Same(_))) {
        let (begin, end) = (at.saturating_sub(CONTEXT), (at + CONTEXT + 1).min(lines.len()));
        match hunks.last_mut() {
            Some(last) if begin <= last.1 => last.1 = end,
            _ => hunks.push((begin, end)),
        }
    }
    hunks
}

/// Lines of the old and of the new text.
fn position(lines: &[Line<'_>]) -> (usize, usize) {
    let old = lines.iter().filter(|line| !matches!(line, Line::New(_))).count();
    let new = lines.iter().filter(|line| !matches!(line, Line::Old(_))).count();
    (old, new)
}

fn range(before: usize, count: usize) -> String {
    match count {
        0 => format!("{before},0"),
        1 => (before + 1).to_string(),
        _ => format!("{},{count}", before + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn it_reads_like_diff_u() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n12\n";
        let new = old.replace("2\n3\n", "2\nthree\n").replace("11\n", "");
        assert_eq!(
            unified("/f", old, &new),
            "--- /f\n+++ /f\n@@ -1,6 +1,6 @@\n 1\n 2\n-3\n+three\n 4\n 5\n 6\n@@ -8,5 +8,4 @@\n 8\n 9\n 10\n-11\n 12\n"
        );
        assert_eq!(unified("/f", "a\n", "a\n"), "");
        assert_eq!(unified("/f", "", "a\n"), "--- /f\n+++ /f\n@@ -0,0 +1 @@\n+a\n");
        assert_eq!(unified("/f", "a", "a\n"), "--- /f\n+++ /f\n@@ -1 +1 @@\n-a\n\\ No newline at end of file\n+a\n");
    }

    #[test]
    fn what_is_too_much_to_compare_counts_as_replaced() {
        let many = |word: &str| (0..3_000).map(|i| format!("{word}{i}\n")).collect::<String>();
        let text = unified("/f", &many("a"), &many("b"));
        assert_eq!(text.lines().filter(|line| line.starts_with("-a")).count(), 3_000);
        assert_eq!(text.lines().filter(|line| line.starts_with("+b")).count(), 3_000);
    }
}
