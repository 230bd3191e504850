//! `test`: behaves and misbehaves on demand.
//!
//! `record` is the witness of the promise that a `once` attempt runs at most once: one line, written by one `write` with
//! O_APPEND and fsynced, never split, never retried. Only into a regular file, opened with O_NONBLOCK: a pipe without a
//! reader would hang in the kernel, where neither a timeout nor a cancel reaches it.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::Arc;
use std::time::Duration;

use grid_types::LeaseKey;
use grid_types::decl::Params;
use rustix::fs::OFlags;
use rustix::io::Errno;

use super::{Backend, Run, params};
use crate::machine::SystemRandom;
use crate::run::lease::{EffectGate, LeaseContext};
use crate::seams::Random;

/// The duration is its argument and never part of the script. Ignored signals stay ignored in the programs it starts.
const TREE: &str = r#"trap '' TERM; sleep "$1" & sleep "$1"; wait"#;

/// Lines written between two chances for others to run.
const OUTPUT_CHUNK_BYTES: usize = 64 * 1024;

pub(super) struct Test;

impl Backend for Test {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        Box::pin(async move {
            match action.as_str() {
                "succeed" => succeed(&context, &given).await,
                "fail" => fail(&given).await,
                "sleep" => {
                    let seconds = seconds(params::required_duration(&given, "duration")?);
                    context.run("sleep", vec![seconds]).await
                }
                "flaky" => flaky(params::integer(&given, "rate")?),
                "output" => output(&context, &given).await,
                "record" => record(&context, &given).await,
                "tree" => {
                    let seconds = seconds(params::required_duration(&given, "duration")?);
                    let args = ["-c", TREE, "sh", &seconds].map(str::to_owned);
                    context.run("/bin/sh", args.to_vec()).await
                }
                other => Err(format!("test has no action {other}")),
            }
        })
    }
}

async fn succeed(context: &LeaseContext, given: &Params) -> Result<(), String> {
    tokio::time::sleep(params::duration(given, "delay")).await;
    if let Some(message) = params::text(given, "message") {
        context.write(format!("{message}\n").as_bytes());
    }
    Ok(())
}

async fn fail(given: &Params) -> Result<(), String> {
    tokio::time::sleep(params::duration(given, "delay")).await;
    Err(params::text(given, "message").unwrap_or("failed as asked").to_owned())
}

fn flaky(rate: u64) -> Result<(), String> {
    let drawn = SystemRandom.number().map_err(|error| error.to_string())? % 100;
    if drawn < rate { Err(format!("failed by chance ({rate}% do)")) } else { Ok(()) }
}

async fn output(context: &LeaseContext, given: &Params) -> Result<(), String> {
    let lines = params::integer(given, "lines")?;
    let width = usize::try_from(params::integer(given, "width")?).unwrap_or(usize::MAX);
    let pause = params::duration(given, "pause");
    let mut chunk = String::new();
    for number in 1..=lines {
        let begin = chunk.len();
        chunk.push_str(&number.to_string());
        let filler = width.saturating_sub(chunk.len() - begin);
        chunk.extend(std::iter::repeat_n('.', filler));
        chunk.push('\n');
        if !pause.is_zero() {
            context.write(chunk.as_bytes());
            chunk.clear();
            tokio::time::sleep(pause).await;
        } else if chunk.len() >= OUTPUT_CHUNK_BYTES {
            context.write(chunk.as_bytes());
            chunk.clear();
            tokio::task::yield_now().await;
        }
    }
    context.write(chunk.as_bytes());
    Ok(())
}

async fn record(context: &LeaseContext, given: &Params) -> Result<(), String> {
    let path = params::required_text(given, "path")?.to_owned();
    let LeaseKey { job, step, attempt, .. } = context.lease();
    let line = format!("{job} {step} {} {attempt}\n", context.node_id());
    let append = move |gate: &EffectGate| {
        let _entered = gate.enter()?;
        append(&path, &line).map_err(|error| format!("cannot record: {path}: {error}"))
    };
    context.block(append).await??;
    tokio::time::sleep(params::duration(given, "delay")).await;
    Ok(())
}

fn append(path: &str, line: &str) -> io::Result<()> {
    let special = || io::Error::other("not a regular file");
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let flags = i32::try_from(flags.bits()).map_err(io::Error::other)?;
    let opened = OpenOptions::new().create(true).append(true).custom_flags(flags).open(path);
    let no_reader = |error: &io::Error| error.raw_os_error() == Some(Errno::NXIO.raw_os_error());
    let mut file = opened.map_err(|error| if no_reader(&error) { special() } else { error })?;
    if !file.metadata()?.is_file() {
        return Err(special());
    }
    let written = file.write(line.as_bytes())?;
    file.sync_all()?;
    if written < line.len() { Err(io::ErrorKind::WriteZero.into()) } else { Ok(()) }
}

fn seconds(duration: Duration) -> String {
    format!("{}.{:03}", duration.as_secs(), duration.subsec_millis())
}
