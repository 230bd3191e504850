//! `gridc job status`: facts, steps, runs, and what happened on each node, failures first.
//!
//! Without a filter the rows are a sample of at most [`MAX_SHOWN`]; with one they are what was asked for, up to
//! [`MAX_FILTERED`]. Rows of a job whose document has none are asked for by filter, so that a job of 100,000 nodes costs a page.

use grid_client::{Client, Error, ResultsQuery};
use grid_types::api::{JobDoc, ResultDoc, ResultRowDoc};
use grid_types::{JobId, NodeId, Outcome, StepIndex};
use jiff::Timestamp;

use super::{Results, every_result};
use crate::cli::{Format, Global, StatusArgs};
use crate::connect::connect;
use crate::failure::Failure;
use crate::input::job_id;
use crate::out;
use crate::paint::{Style, Tone};
use crate::safe::Safe;
use crate::table::{Cell, Table, painted_facts};
use crate::text::{aim, count, counts_line, message, one_line, progress};
use crate::when::ago;

const MAX_SHOWN: usize = 50;
const MAX_FILTERED: usize = 1_000;

pub async fn status(global: &Global, args: &StatusArgs) -> Result<u8, Failure> {
    let (client, namespace, job) = (connect(global)?, global.namespace.as_str(), job_id(&args.id)?);
    let doc = client.job_in(namespace, job, args.run).await?;
    let filter = Filter::of(args);
    filter.check(job, &doc)?;
    print(&client, global, job, doc, &filter).await
}

/// Which results are shown; empty lists mean all of them.
#[derive(Debug, Default)]
pub struct Filter {
    outcomes: Vec<Outcome>,
    nodes: Vec<NodeId>,
    step: Option<u32>,
}

impl Filter {
    fn of(args: &StatusArgs) -> Self {
        let outcomes = if args.failed {
            Outcome::ALL.into_iter().filter(|outcome| outcome.is_failure()).collect()
        } else {
            args.statuses.iter().map(|word| word.0).collect()
        };
        Self { outcomes, nodes: args.nodes.clone(), step: args.step }
    }

    fn is_set(&self) -> bool {
        !self.outcomes.is_empty() || !self.nodes.is_empty() || self.step.is_some()
    }

    /// A name that nobody has is no empty answer.
    fn check(&self, job: JobId, doc: &JobDoc) -> Result<(), Failure> {
        if let Some(step) = self.step.filter(|step| !doc.steps.iter().any(|known| known.step == *step)) {
            return Err(Failure::NotFound(format!("{job} has no step {step}: it has {}", doc.steps.len())));
        }
        let unknown = |expected: &Vec<String>| self.nodes.iter().find(|node| !expected.contains(&node.to_string()));
        match doc.expected.as_ref().filter(|_| doc.status.is_ended() || doc.node_count() > 0).and_then(unknown) {
            Some(node) => Err(Failure::NotFound(format!(
                "{job} does not run on {node}; gridc job status {job} shows where it does"
            ))),
            None => Ok(()),
        }
    }

    fn takes(&self, step: u32, node: &str, result: &ResultDoc) -> bool {
        (self.outcomes.is_empty() || self.outcomes.contains(&result.status))
            && (self.nodes.is_empty() || self.nodes.iter().any(|known| known.as_str() == node))
            && self.step.is_none_or(|only| only == step)
    }

    /// One for each node and outcome that is asked for; outcomes that the job does not have are left out.
    fn queries(&self, doc: &JobDoc) -> Vec<ResultsQuery> {
        let outcomes: Vec<_> = match self.outcomes[..] {
            [] => vec![None],
            ref some => some.iter().filter(|o| count(&doc.counts, **o) > 0).map(|o| Some(*o)).collect(),
        };
        let nodes: Vec<_> = match self.nodes[..] {
            [] => vec![None],
            ref some => some.iter().map(|node| Some(node.to_string())).collect(),
        };
        let (step, run) = (self.step.map(StepIndex), shown_run(doc));
        let of_node = |node: &Option<String>| {
            let of = |status| ResultsQuery { step, status, node: node.clone(), run, ..ResultsQuery::default() };
            outcomes.iter().copied().map(of).collect::<Vec<_>>()
        };
        nodes.iter().flat_map(of_node).collect()
    }
}

pub async fn print(
    client: &Client,
    global: &Global,
    job: JobId,
    mut doc: JobDoc,
    filter: &Filter,
) -> Result<u8, Failure> {
    let (namespace, format) = (global.namespace.as_str(), global.output.unwrap_or(Format::Table));
    if format != Format::Table {
        if filter.is_set() {
            doc.results = Some(matching(client, namespace, job, &doc, filter).await?);
        }
        out::print(format, &doc, |_| String::new())?;
        return Ok(0);
    }
    let rows = shown_rows(client, namespace, job, &doc, filter).await?;
    // Only a word more: without it the rest still holds.
    let why = if doc.status.is_ended() { None } else { client.why(namespace, job).await.ok().map(|now| now.why) };
    out::print(format, &doc, |terminal| {
        let look = Look { style: global.color.style(terminal), now: client.now() };
        status_text(&doc, why.as_deref(), &rows, filter, &look)
    })?;
    Ok(0)
}

/// Every result that the filter takes.
async fn matching(
    client: &Client,
    namespace: &str,
    job: JobId,
    doc: &JobDoc,
    filter: &Filter,
) -> Result<Results, Error> {
    let mut found = Results::new();
    if let Some(results) = &doc.results {
        for (step, nodes) in results {
            let number = step.parse().unwrap_or(0);
            let taken = nodes.iter().filter(|(node, result)| filter.takes(number, node, result));
            let taken: std::collections::BTreeMap<_, _> = taken.map(|(n, r)| (n.clone(), r.clone())).collect();
            if !taken.is_empty() {
                found.insert(step.clone(), taken);
            }
        }
        return Ok(found);
    }
    for query in filter.queries(doc) {
        for (step, nodes) in every_result(client, namespace, job, query).await? {
            found.entry(step).or_default().extend(nodes);
        }
    }
    Ok(found)
}

/// Failures first, then what runs.
async fn shown_rows(
    client: &Client,
    namespace: &str,
    job: JobId,
    doc: &JobDoc,
    filter: &Filter,
) -> Result<Vec<ResultRowDoc>, Error> {
    let most = if filter.is_set() { MAX_FILTERED } else { MAX_SHOWN };
    let mut rows = Vec::new();
    if let Some(results) = &doc.results {
        for (step, nodes) in results {
            let step = step.parse().unwrap_or(0);
            let taken = nodes.iter().filter(|(node, result)| filter.takes(step, node, result));
            rows.extend(taken.map(|(node, result)| ResultRowDoc { step, node: node.clone(), result: result.clone() }));
        }
    } else {
        let failed =
            Filter { outcomes: Outcome::ALL.into_iter().filter(|o| o.is_failure()).collect(), ..Filter::default() };
        let first = if filter.is_set() { Vec::new() } else { failed.queries(doc) };
        for query in first.into_iter().chain(filter.queries(doc)) {
            let query = ResultsQuery { limit: u32::try_from(most).ok(), ..query };
            rows.extend(client.results(namespace, job, &query).await?.items);
        }
    }
    let rank = |outcome: Outcome| match outcome {
        outcome if outcome.is_failure() => 0,
        Outcome::Running => 1,
        _ => 2,
    };
    rows.sort_by_key(|row| (rank(row.result.status), row.step, row.node.clone()));
    rows.dedup_by_key(|row| (row.step, row.node.clone()));
    rows.truncate(most);
    Ok(rows)
}

/// The run that a document shows, if it is not the newest.
fn shown_run(doc: &JobDoc) -> Option<u32> {
    let newest = doc.runs.as_ref()?.first()?.run;
    Some(doc.run).filter(|run| *run != newest)
}

/// For whom it is shown, and when.
struct Look {
    style: Style,
    now: Timestamp,
}

impl Look {
    fn table(&self, table: &Table) -> Safe {
        table.painted(self.style)
    }

    /// Both: a table has room for one of them only.
    fn time(&self, at: &str) -> Cell {
        format!("{} ({})", ago(at, self.now), one_line(at)).into()
    }
}

fn status_text(doc: &JobDoc, why: Option<&str>, rows: &[ResultRowDoc], filter: &Filter, look: &Look) -> Safe {
    let mut steps = Table::new(&["STEP", "PHASE", "TASK", "DONE", "OUTCOMES"]);
    for step in doc.steps.iter().filter(|step| filter.step.is_none_or(|only| only == step.step)) {
        let (done, all) = progress(&step.counts);
        let task = one_line(&format!("{}/{}", step.backend, step.action));
        let counts = counts_line(&step.counts);
        steps.row([step.step.to_string(), step.phase.to_string(), task, format!("{done}/{all}"), counts]);
    }
    let mut parts = vec![painted_facts(&head(doc, why, look), look.style.colour), look.table(&steps)];
    parts.extend(runs_table(doc, look).map(|runs| look.table(&runs)));
    if !rows.is_empty() {
        parts.push(look.table(&rows_table(rows)));
    }
    let gap = Safe::lines("\n");
    let mut text = Safe::joined(parts.iter().flat_map(|part| [&gap, part]).skip(1));
    text.push(&Safe::lines(&rest_text(doc, rows.len(), filter)));
    text
}

/// What is not shown.
fn rest_text(doc: &JobDoc, shown: usize, filter: &Filter) -> String {
    let id = one_line(&doc.id);
    if filter.is_set() {
        return match shown {
            0 => "\nno result matches\n".to_owned(),
            MAX_FILTERED => "… there may be more; -o json has all of them\n".to_owned(),
            _ => String::new(),
        };
    }
    let more = doc.counts.values().sum::<u64>().saturating_sub(shown as u64);
    if shown == MAX_SHOWN && more > 0 {
        format!("… {more} more; --failed, --node, --step and --status choose, gridc job get {id} has all of them\n")
    } else {
        String::new()
    }
}

fn head(doc: &JobDoc, why: Option<&str>, look: &Look) -> Vec<(&'static str, Cell)> {
    let reason = doc.reason.as_deref().map(|why| format!(": {}", one_line(why))).unwrap_or_default();
    let waits = if doc.waiting_for.is_some() { " (waiting)" } else { "" };
    let tone = if waits.is_empty() { Tone::of_job(doc.status) } else { Tone::Waits };
    let mut head: Vec<(&str, Cell)> = vec![
        ("job", one_line(&doc.id).into()),
        ("namespace", one_line(&doc.namespace).into()),
        ("status", Cell::toned(format!("{}{waits}{reason}", doc.status), tone)),
    ];
    head.extend(why.map(|why| ("why", one_line(why).into())));
    head.extend(doc.name.as_deref().map(|name| ("name", one_line(name).into())));
    if !doc.labels.is_empty() {
        let labels: Vec<_> = doc.labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
        head.push(("labels", one_line(&labels.join(",")).into()));
    }
    let newest = doc.runs.as_ref().and_then(|runs| runs.first()).map_or(1, |run| run.run);
    if newest > 1 {
        head.push(("run", format!("{} of {newest}", doc.run).into()));
    }
    head.extend([
        ("target", aim(doc).into()),
        ("nodes", doc.node_count().to_string().into()),
        ("strategy", one_line(&doc.strategy).into()),
    ]);
    // Older controllers do not say.
    let tolerates = Some(one_line(&doc.failure_tolerate)).filter(|text| !text.is_empty());
    head.extend(tolerates.map(|text| ("tolerates", text.into())));
    head.extend(doc.timeout.as_deref().map(|timeout| ("timeout", one_line(timeout).into())));
    head.extend([("created", look.time(&doc.created_at)), ("updated", look.time(&doc.updated_at))]);
    head
}

/// Runs, newest first, of a job that has had several.
fn runs_table(doc: &JobDoc, look: &Look) -> Option<Table> {
    let runs = doc.runs.as_ref().filter(|runs| runs.len() > 1)?;
    let mut table = Table::new(&["RUN", "KIND", "STATUS", "STARTED", "ENDED", "REASON"]);
    for run in runs {
        let time = |at: &Option<String>| at.as_deref().map(|at| ago(at, look.now)).unwrap_or_default().into();
        table.row::<Cell>([
            run.run.to_string().into(),
            run.kind.to_string().into(),
            Cell::toned(run.status.word(), Tone::of_job(run.status)),
            time(&run.started_at),
            time(&run.ended_at),
            one_line(run.reason.as_deref().unwrap_or_default()).into(),
        ]);
    }
    Some(table)
}

fn rows_table(rows: &[ResultRowDoc]) -> Table {
    let mut table = Table::new(&["STEP", "NODE", "STATUS", "ATTEMPTS", "DURATION", "MESSAGE"]);
    for row in rows {
        let result = &row.result;
        table.row::<Cell>([
            row.step.to_string().into(),
            one_line(&row.node).into(),
            Cell::toned(result.status.word(), Tone::of_outcome(result.status)),
            result.attempts.to_string().into(),
            one_line(result.duration.as_deref().unwrap_or_default()).into(),
            message(result).unwrap_or_default().into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::{Filter, Look, status_text};
    use crate::paint::Style;
    use crate::samples::job;
    use grid_types::Outcome;
    use grid_types::api::{ResultDoc, ResultRowDoc};

    #[test]
    fn status_reads_as_facts_steps_and_nodes() {
        let mut doc = job("failed", &[("success", 2), ("failed", 1)]);
        doc.reason = Some("too many failures".to_owned());
        let result = ResultDoc {
            status: Outcome::Failed,
            duration: Some("0.2s".to_owned()),
            attempts: 2,
            error: Some("boom\nand more".to_owned()),
            reason: None,
            started_at: None,
            exit_code: None,
            signal: None,
            changed: None,
        };
        doc.failure_tolerate = "10%".to_owned();
        let rows = [ResultRowDoc { step: 0, node: "web-02".to_owned(), result }];
        let mut look = Look { style: Style::default(), now: "2026-02-12T10:33:10Z".parse().unwrap() };
        let text = status_text(&doc, None, &rows, &Filter::default(), &look);
        let want = "\
job        job-0c5t9v3k2m7qa
namespace  default
status     failed: too many failures
target     all
nodes      3
strategy   fail-fast
tolerates  10%
created    3m ago (2026-02-12T10:30:00Z)
updated    3m ago (2026-02-12T10:30:01Z)

STEP  PHASE  TASK       DONE  OUTCOMES
0     0      ping/echo  3/3   2 success, 1 failed

STEP  NODE    STATUS  ATTEMPTS  DURATION  MESSAGE
0     web-02  failed  2         0.2s      boom\\nand more
";
        assert_eq!(text.as_str(), want);
        look.style.colour = true;
        let text = status_text(&doc, None, &rows, &Filter::default(), &look);
        assert!(text.as_str().contains("web-02  \u{1b}[31mfailed\u{1b}[0m  2"), "{text:?}");
    }
}
