//! Keeps the controller of a node running, hands it the supervisor's words, and shows how it stands.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use super::backoff::Backoff;
use super::child::{Child, Next};
use crate::say;
use crate::supervised::{Standing, Word};

/// It hands over leadership (5 s) and closes its connections (10 s) before it ends.
const STOP_LIMIT: Duration = Duration::from_secs(60);
/// What it was given is refused, or it was removed from its cluster: starting it again changes nothing.
const FINAL: [i32; 2] = [2, crate::server::REMOVED as i32];

/// A controller that runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Local {
    /// Its API, once it serves.
    pub api: Option<String>,
    /// Since its last start.
    pub standing: Option<Standing>,
}

impl Local {
    pub fn leads(&self) -> bool {
        self.standing.is_some_and(|standing| standing.leads)
    }

    pub fn has_followed(&self, word: u64) -> bool {
        self.standing.is_some_and(|standing| standing.word >= word)
    }
}

/// Returns when it was stopped, or will not run again, with the supervisor's own exit code. `local` is empty while no
/// controller runs.
pub async fn keep(
    words: Vec<OsString>,
    mut word: watch::Receiver<Word>,
    local: watch::Sender<Option<Local>>,
    mut stop: watch::Receiver<bool>,
) -> ExitCode {
    let mut backoff = Backoff::default();
    loop {
        let began = Instant::now();
        let ended = match Child::spawn("controller", &words) {
            Ok(child) => {
                let ended = attend(child, &mut word, &local, &mut stop).await;
                local.send_replace(None);
                match ended {
                    Some(Ok(status)) => {
                        if let Some(code) = status.code().filter(|code| FINAL.contains(code)) {
                            return ExitCode::from(u8::try_from(code).unwrap_or(1));
                        }
                        status.to_string()
                    }
                    Some(Err(error)) => error.to_string(),
                    None => return ExitCode::SUCCESS,
                }
            }
            Err(error) => format!("{error:#}"),
        };
        let pause = backoff.after(began.elapsed());
        tracing::warn!("the controller ended ({ended}); it starts again in {pause:?}");
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = is_set(&mut stop) => return ExitCode::SUCCESS,
        }
    }
}

/// `None`: it was stopped.
async fn attend(
    mut child: Child,
    word: &mut watch::Receiver<Word>,
    local: &watch::Sender<Option<Local>>,
    stop: &mut watch::Receiver<bool>,
) -> Option<std::io::Result<std::process::ExitStatus>> {
    local.send_replace(Some(Local::default()));
    word.mark_changed();
    loop {
        tokio::select! {
            next = child.next() => match next {
                Next::Line(line) => hear(&line, local),
                Next::Ended(ended) => return Some(ended),
            },
            Ok(()) = word.changed() => {
                let said = word.borrow_and_update().clone();
                child.say(said).await;
            }
            () = is_set(stop) => {
                child.terminate();
                child.end_within(STOP_LIMIT).await;
                return None;
            }
        }
    }
}

async fn is_set(stop: &mut watch::Receiver<bool>) {
    // The sender lives as long as the supervisor.
    let _ = stop.wait_for(|stop| *stop).await;
}

fn hear(line: &str, local: &watch::Sender<Option<Local>>) {
    if let Ok(standing) = line.parse::<Standing>() {
        local.send_modify(|local| local.get_or_insert_default().standing = Some(standing));
        return;
    }
    let api =
        line.strip_prefix("grid ready ").and_then(|rest| rest.split(' ').find_map(|word| word.strip_prefix("api=")));
    if let Some(api) = api {
        local.send_modify(|local| local.get_or_insert_default().api = Some(api.to_owned()));
    }
    say::out(line);
}
