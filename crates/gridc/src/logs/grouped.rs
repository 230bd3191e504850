//! Prints equal outputs once: what 5,000 nodes printed, on a page.

use grid_client::Client;
use grid_types::api::{Counts, JobDoc, OutputGroupDoc};
use grid_types::visible::visible_lines;
use grid_types::{JobId, Outcome, StepIndex};
use serde::Serialize;

use crate::cli::{Format, Global, LogsArgs};
use crate::failure::Failure;
use crate::out;
use crate::text::{count, named, one_line, step_name};

#[derive(Serialize)]
struct GroupsDoc {
    steps: Vec<StepGroupsDoc>,
}

#[derive(Serialize)]
struct StepGroupsDoc {
    step: u32,
    groups: Vec<OutputGroupDoc>,
}

pub async fn grouped(
    client: &Client,
    global: &Global,
    job: JobId,
    doc: &JobDoc,
    args: &LogsArgs,
) -> Result<u8, Failure> {
    let names = if args.names { Names::All } else { Names::Few };
    let mut groups = GroupsDoc { steps: Vec::new() };
    for known in doc.steps.iter().filter(|known| args.step.is_none_or(|step| step == known.step)) {
        let list = client.outputs(global.namespace.as_str(), job, StepIndex(known.step), args.run).await?;
        groups.steps.push(StepGroupsDoc { step: known.step, groups: list.items });
    }
    let text = |_| {
        let shown = groups.steps.iter().filter(|step| !step.groups.is_empty());
        shown.map(|step| step_text(doc, step, names)).collect::<Vec<_>>().join("\n")
    };
    out::print(global.output.unwrap_or(Format::Table), &groups, text)?;
    for step in &groups.steps {
        let known = doc.steps.iter().find(|known| known.step == step.step);
        if let Some(hint) = known.and_then(|known| left_out(job, &known.counts, &step.groups)) {
            out::tell(&hint);
        }
    }
    Ok(0)
}

/// How many nodes have an output that is in no group: a controller answers with the largest groups only.
pub fn left_out(job: JobId, counts: &Counts, groups: &[OutputGroupDoc]) -> Option<String> {
    let ran: u64 =
        [Outcome::Success, Outcome::Failed, Outcome::TimedOut].map(|outcome| count(counts, outcome)).iter().sum();
    let shown: u64 = groups.iter().map(|group| group.count).sum();
    let missing = ran.saturating_sub(shown);
    (missing > 0).then(|| {
        let kinds = thousands(groups.len() as u64);
        let nodes = if missing == 1 { "node" } else { "nodes" };
        let missing = thousands(missing);
        format!("hint: {missing} further {nodes} printed something else than these {kinds} outputs; gridc job logs {job} prints all of them")
    })
}

fn step_text(doc: &JobDoc, step: &StepGroupsDoc, names: Names) -> String {
    let name = doc.steps.iter().find(|known| known.step == step.step).map(step_name).unwrap_or_default();
    let groups = step.groups.iter().map(|group| group_text(group, names, "  "));
    format!("{name}\n{}", groups.collect::<String>())
}

/// Which nodes of a group are named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Names {
    /// All of them, if they are few.
    Few,
    /// As many as a line takes.
    Some,
    All,
}

/// How many nodes printed it, who they are, and what it was.
pub fn group_text(group: &OutputGroupDoc, names: Names, indent: &str) -> String {
    let who = match (names, group.nodes.len()) {
        (Names::All, _) => group.nodes.iter().map(|n| one_line(n)).collect::<Vec<_>>().join(", "),
        (Names::Few, 0..=3) | (Names::Some, _) => named(&group.nodes),
        (Names::Few, _) => String::new(),
    };
    let who = if who.is_empty() { who } else { format!(" ({who})") };
    let nodes = if group.count == 1 { "node" } else { "nodes" };
    let kept = group.output.len() as u64;
    let cut = if group.total_bytes > kept && kept > 0 {
        format!(", the last {} of {} bytes", thousands(kept), thousands(group.total_bytes))
    } else {
        String::new()
    };
    let silent = if kept == 0 { " nothing" } else { "" };
    let mut text = format!("{indent}{} {nodes}{who}{cut}:{silent}\n", thousands(group.count));
    for line in group.output.lines() {
        text.push_str(&format!("{indent}  {}\n", visible_lines(line)));
    }
    text
}

/// `4,980`
fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Names, StepGroupsDoc, step_text, thousands};
    use crate::samples::job;
    use grid_types::api::OutputGroupDoc;

    fn group(count: u64, nodes: &[&str], output: &str, total_bytes: u64) -> OutputGroupDoc {
        let nodes = nodes.iter().map(|name| (*name).to_owned()).collect();
        OutputGroupDoc { count, nodes, output: output.to_owned(), total_bytes }
    }

    #[test]
    fn equal_outputs_are_told_once_with_how_many_had_them() {
        let many = ["a", "b", "c", "d"];
        let groups = vec![
            group(4_980, &many, "ok\nfine\n", 8),
            group(1, &["web-01"], "", 0),
            group(2, &["x", "y"], "end", 70_000),
        ];
        let text = step_text(&job("completed", &[("success", 3)]), &StepGroupsDoc { step: 0, groups }, Names::Few);
        let want = "\
step 0 ping/echo
  4,980 nodes:
    ok
    fine
  1 node (web-01): nothing
  2 nodes (x, y), the last 3 of 70,000 bytes:
    end
";
        assert_eq!(text, want);
    }

    #[test]
    fn numbers_are_readable() {
        let shown: Vec<_> = [0, 999, 1_000, 65_536, 1_234_567].into_iter().map(thousands).collect();
        assert_eq!(shown, ["0", "999", "1,000", "65,536", "1,234,567"]);
    }
}
