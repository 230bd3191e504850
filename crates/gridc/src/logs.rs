//! `gridc job logs`, and the output part of `gridc job run --follow`.

mod grouped;
mod printer;

use std::time::Instant;

use grid_client::{Client, LogsQuery, RawQuery};
use grid_types::api::{JobDoc, LogDoc};
use grid_types::{JobId, StepIndex};

use crate::cli::{Format, Global, LogsArgs};
use crate::connect::connect;
use crate::failure::Failure;
use crate::input::job_id;
use crate::out::{self, tell};
use crate::outage::Outage;
use crate::text::one_line;
use crate::watch::{Until, WatchedJob};
use printer::Printer;

pub use grouped::{Names, group_text, left_out};

pub async fn logs(global: &Global, args: &LogsArgs) -> Result<u8, Failure> {
    let (client, job) = (connect(global)?, job_id(&args.id)?);
    let doc = client.job_in(global.namespace.as_str(), job, args.run).await?;
    let step = args.step.map(StepIndex);
    if let Some(step) = args.step.filter(|step| !doc.steps.iter().any(|known| known.step == *step)) {
        return Err(Failure::NotFound(format!("{job} has no step {step}: it has {}", doc.steps.len())));
    }
    if args.grouped {
        return grouped::grouped(&client, global, job, &doc, args).await;
    }
    if args.raw {
        return raw(&client, global, job, &doc, args).await;
    }
    if args.follow {
        client.learn_controllers().await;
    }
    let query = LogsQuery {
        follow: args.follow,
        step,
        nodes: args.nodes.iter().map(ToString::to_string).collect(),
        attempt: args.attempt,
        tail: args.tail,
        run: args.run,
    };
    let strangers =
        |expected: &Vec<String>| args.nodes.iter().find(|node| !expected.contains(&node.to_string())).cloned();
    if let Some(node) = doc.expected.as_ref().and_then(strangers) {
        return Err(Failure::NotFound(format!(
            "{job} does not run on {node}; gridc job status {job} shows where it does"
        )));
    }
    let watched = WatchedJob { client: &client, namespace: global.namespace.as_str(), job };
    let lines = follow(watched, global, &doc, query, &Until::Ended.outage()).await?;
    if lines == 0 && !args.follow && global.output.is_none_or(|format| format == Format::Table) {
        tell(match doc.status.is_ended() {
            true => "hint: nothing was printed, or not by these nodes, steps and attempts",
            false => "hint: nothing was printed yet; -f waits for it",
        });
    }
    Ok(0)
}

/// Prints the outputs of a job until there are no more; returns how many records there were.
pub async fn follow(
    WatchedJob { client, namespace, job }: WatchedJob<'_>,
    global: &Global,
    doc: &JobDoc,
    query: LogsQuery,
    outage: &Outage,
) -> Result<usize, Failure> {
    let format = global.output.unwrap_or(Format::Table);
    let style = global.color.style(out::is_terminal());
    let steps = if query.step.is_some() { 1 } else { doc.steps.len() };
    let mut printer = Printer::new(doc.expected.as_deref().unwrap_or_default(), steps, style);
    let follow = query.follow;
    // A command that follows was connected: a controller sent the job's document.
    let bear = |error, connected_at| {
        if !follow {
            return Err(error);
        }
        outage.met(error, connected_at).map(|line| line.iter().for_each(|line| tell(line)))
    };
    let begun = Instant::now();
    let mut stream = loop {
        match client.logs(namespace, job, query.clone()).await {
            Ok(stream) => break stream,
            Err(error) => bear(error, begun)?,
        }
    };
    let mut count = 0;
    loop {
        let record = match stream.next().await {
            Ok(Some(record)) => record,
            Ok(None) => break,
            Err(error) => {
                bear(error, stream.connected_at())?;
                continue;
            }
        };
        let is_end = matches!(record, LogDoc::End { .. });
        let is_read = out::record(format, &record, || match &record {
            LogDoc::Output(text) => printer.text(text),
            LogDoc::Note(_) | LogDoc::End { .. } => printer.close(),
        })?;
        if let (LogDoc::Note(note), Format::Table) = (&record, format) {
            tell(&format!("{}: {}", printer.place(note.step, &note.node), one_line(&note.text)));
        } else if !is_read {
            return Ok(count + 1);
        }
        if is_end {
            break;
        }
        count += 1;
    }
    Ok(count)
}

async fn raw(client: &Client, global: &Global, job: JobId, doc: &JobDoc, args: &LogsArgs) -> Result<u8, Failure> {
    if out::is_terminal() && !args.force {
        return Err(out::refuse_raw());
    }
    let [node] = &args.nodes[..] else {
        return Err(Failure::usage("--raw prints one output: name one --node", None));
    };
    let step = match (args.step, &doc.steps[..]) {
        (Some(step), _) => step,
        (None, [only]) => only.step,
        (None, _) => return Err(Failure::usage(format!("{job} has several steps: name one with --step"), None)),
    };
    let query = RawQuery { follow: args.follow, offset: 0, attempt: args.attempt, run: args.run };
    let namespace = global.namespace.as_str();
    let mut output = client.raw_output(namespace, job, StepIndex(step), node.as_str(), query).await?;
    if output.offset > 0 {
        tell(&format!("note: the first {} bytes are not there: {node} is away, or they are too old", output.offset));
    }
    let mut at = output.offset;
    loop {
        match output.next().await {
            Ok(Some(bytes)) => {
                at += bytes.len() as u64;
                if !out::raw(&bytes, args.force)? {
                    return Ok(0);
                }
            }
            Ok(None) => return Ok(0),
            // Bytes of another run must never follow these: a reader that wants them asks again.
            Err(why) => {
                let problem = format!("it broke off after {at} bytes of the output ({why}); ask again for all of them");
                let url = "the controller".to_owned();
                return Err(grid_client::Error::BrokenOff { url, problem }.into());
            }
        }
    }
}
