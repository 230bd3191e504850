//! `gridc job outputs`: stores the whole output of a step, a file for each node.
//!
//! A file gets its name only when it is whole, and no file that is there is ever changed: it is written under a name that no node
//! can have (`.NODE.part`) and then linked, which fails where something has the name already, a symbolic link included. A node's
//! name comes from a controller and is checked again: it has neither a slash nor a dot.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use grid_client::{Client, RawQuery, ResultsQuery};
use grid_types::api::{JobDoc, ResultRowDoc};
use grid_types::{JobId, NodeId, Outcome, StepIndex};
use serde::Serialize;

use crate::cli::{Format, Global, OutputsArgs};
use crate::connect::connect;
use crate::failure::Failure;
use crate::input::job_id;
use crate::out::{self, tell};
use crate::table::Table;
use crate::text::{message, number, one_line};

const PAGE: u32 = 1_000;

#[derive(Serialize)]
struct StoredDoc {
    step: u32,
    items: Vec<FileDoc>,
}

#[derive(Serialize)]
struct FileDoc {
    node: String,
    bytes: u64,
    file: PathBuf,
}

pub async fn store(global: &Global, args: &OutputsArgs) -> Result<u8, Failure> {
    let (client, namespace, job) = (connect(global)?, global.namespace.as_str(), job_id(&args.id)?);
    let doc = client.job_in(namespace, job, args.run).await?;
    let step = step_of(job, &doc, args.step)?;
    let unwritable = |problem: io::Error| Failure::usage(format!("--dir {}: {problem}", args.dir.display()), None);
    fs::create_dir_all(&args.dir).map_err(unwritable)?;
    let mut stored = StoredDoc { step: step.0, items: Vec::new() };
    let mut missing = 0;
    let mut query = ResultsQuery { step: Some(step), limit: Some(PAGE), run: args.run, ..ResultsQuery::default() };
    loop {
        let page = client.results(namespace, job, &query).await?;
        for row in &page.items {
            match one(&client, namespace, job, row, args).await? {
                Ok(file) => stored.items.push(file),
                Err(problem) => {
                    missing += 1;
                    tell(&format!("{}: {problem}", one_line(&row.node)));
                }
            }
        }
        query.after = page.next;
        if page.items.is_empty() || query.after.is_none() {
            break;
        }
    }
    out::print(global.output.unwrap_or(Format::Table), &stored, |terminal| {
        let mut table = Table::new(&["NODE", "BYTES", "FILE"]);
        for file in &stored.items {
            table.row([one_line(&file.node), file.bytes.to_string(), one_line(&file.file.display().to_string())]);
        }
        table.render(terminal)
    })?;
    if missing > 0 {
        tell(&format!("{} without a file", number(missing, "node")));
    }
    Ok(u8::from(missing > 0))
}

fn step_of(job: JobId, doc: &JobDoc, asked: Option<u32>) -> Result<StepIndex, Failure> {
    match (asked, &doc.steps[..]) {
        (Some(step), steps) if steps.iter().any(|known| known.step == step) => Ok(StepIndex(step)),
        (Some(step), steps) => Err(Failure::NotFound(format!("{job} has no step {step}: it has {}", steps.len()))),
        (None, [only]) => Ok(StepIndex(only.step)),
        (None, _) => Err(Failure::usage(format!("{job} has several steps: name one with --step"), None)),
    }
}

/// The outer error ends everything: no controller, no disk. The inner one is the node's own.
async fn one(
    client: &Client,
    namespace: &str,
    job: JobId,
    row: &ResultRowDoc,
    args: &OutputsArgs,
) -> Result<Result<FileDoc, String>, Failure> {
    if row.result.status != Outcome::Success {
        let why = message(&row.result).map(|why| format!(": {why}")).unwrap_or_default();
        return Ok(Err(format!("{}{why}", row.result.status)));
    }
    let Ok(node) = row.node.parse::<NodeId>() else { return Ok(Err("not the name of a node".to_owned())) };
    let file = args.dir.join(node.as_str());
    // The link at the end decides; this spares a transfer.
    if fs::symlink_metadata(&file).is_ok() {
        return Ok(Err(exists(&file)));
    }
    let query = RawQuery { run: args.run, ..RawQuery::default() };
    let mut output = client.raw_output(namespace, job, StepIndex(row.step), node.as_str(), query).await?;
    if output.offset > 0 {
        return Ok(Err(format!(
            "the first {} bytes are not there: the node is away, or they are too old",
            output.offset
        )));
    }
    let unwritten = |error| unwritten(&file, &error);
    let part = Part::create(args.dir.join(format!(".{node}.part"))).map_err(unwritten)?;
    let mut bytes = 0;
    loop {
        match output.next().await {
            Ok(Some(piece)) => {
                part.file().write_all(&piece).map_err(unwritten)?;
                bytes += piece.len() as u64;
            }
            Ok(None) => break,
            Err(why) => return Ok(Err(format!("the output broke off after {bytes} bytes: {}", one_line(&why)))),
        }
    }
    match part.finish(&file) {
        Ok(()) => Ok(Ok(FileDoc { node: node.to_string(), bytes, file })),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(Err(exists(&file))),
        Err(error) => Err(unwritten(error)),
    }
}

/// Names the file: the disk or folder that fails is the one to see to.
fn unwritten(file: &Path, error: &io::Error) -> Failure {
    Failure::Output(io::Error::new(error.kind(), format!("{}: {error}", file.display())))
}

fn exists(file: &Path) -> String {
    format!("{} is there already and is not changed", one_line(&file.display().to_string()))
}

/// A file that is not whole yet; gone when it is dropped.
struct Part {
    path: PathBuf,
    file: File,
}

impl Part {
    fn create(path: PathBuf) -> io::Result<Self> {
        // Left behind by a process that was killed. A link is removed, never followed.
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }

    fn file(&self) -> &File {
        &self.file
    }

    fn finish(self, name: &Path) -> io::Result<()> {
        self.file.sync_all()?;
        fs::hard_link(&self.path, name)
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    use super::Part;

    #[test]
    fn nothing_that_is_there_is_followed_or_changed() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        fs::write(at("precious"), "precious").unwrap();
        for taken in ["web-01", ".web-01.part"] {
            symlink(at("precious"), at(taken)).unwrap();
        }
        let part = Part::create(at(".web-01.part")).unwrap();
        part.file().write_all(b"new").unwrap();
        assert_eq!(part.finish(&at("web-01")).unwrap_err().kind(), std::io::ErrorKind::AlreadyExists);
        assert_eq!(fs::read_to_string(at("precious")).unwrap(), "precious");
        let part = Part::create(at(".web-02.part")).unwrap();
        part.file().write_all(b"new").unwrap();
        part.finish(&at("web-02")).unwrap();
        assert_eq!(fs::read_to_string(at("web-02")).unwrap(), "new");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 3, "no part is left");
    }
}
