//! `gridc cluster backup`: the whole state of the cluster, as one file that is there whole or not at all.
//!
//! It has everything that was acknowledged before, or no controller can confirm that and it is refused; `--stale` takes
//! what one controller has. Received under another name, checked against the controller's hash, fsynced, and only then named.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use grid_client::{BackupHead, BackupScope, BackupStream};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::io::Errno;
use serde::Serialize;

use crate::cli::{BackupArgs, Format, Global};
use crate::connect::connect;
use crate::failure::Failure;
use crate::out::{self, tell};
use crate::table::facts;
use crate::text::one_line;

const TELL_EVERY: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct BackupDoc<'a> {
    file: String,
    bytes: u64,
    index: u64,
    leader_epoch: u64,
    jobs: u64,
    taken_at: &'a str,
    stale: bool,
    blake3: &'a str,
}

pub async fn backup(global: &Global, args: &BackupArgs) -> Result<u8, Failure> {
    let to = args.to.as_path();
    check(to, args.force)?;
    let scope = if args.stale { BackupScope::AppliedHere } else { BackupScope::Acknowledged };
    let mut stream = connect(global)?.backup(scope).await?;
    let part = part_of(to)?;
    let written = receive(&mut stream, &part).await;
    let written = written.and_then(|()| publish(&part, to, args.force));
    if let Err(failure) = written {
        // What is there is no backup; the failure is what matters.
        let _ = std::fs::remove_file(&part);
        return Err(failure);
    }
    show(global, to, &stream.head)?;
    Ok(0)
}

fn show(global: &Global, to: &Path, head: &BackupHead) -> Result<(), Failure> {
    let BackupHead { bytes, blake3, index, leader_epoch, jobs, taken_at, stale } = head;
    let doc = BackupDoc {
        file: to.display().to_string(),
        bytes: *bytes,
        index: *index,
        leader_epoch: *leader_epoch,
        jobs: *jobs,
        taken_at,
        stale: *stale,
        blake3,
    };
    if *stale {
        tell(&format!("warning: stale backup: it may lack what was acknowledged after {}", one_line(taken_at)));
    }
    out::print(global.output.unwrap_or(Format::Table), &doc, |_| {
        facts(&[
            ("file", one_line(&doc.file)),
            ("size", size(*bytes)),
            ("state of", one_line(taken_at)),
            ("stale", if *stale { "yes" } else { "no" }.to_owned()),
            ("log index", index.to_string()),
            ("leader epoch", leader_epoch.to_string()),
            ("jobs", jobs.to_string()),
            ("blake3", one_line(blake3)),
        ])
    })
}

fn check(to: &Path, force: bool) -> Result<(), Failure> {
    let named = to.display();
    if to.is_dir() {
        return Err(Failure::usage(format!("{named} is a folder; name a file in it"), None));
    }
    if to.symlink_metadata().is_ok() && !force {
        return Err(Failure::usage(format!("{named} is there already"), Some("--force replaces it".to_owned())));
    }
    Ok(())
}

/// In the same folder, so that it can take the name in one step.
fn part_of(to: &Path) -> Result<PathBuf, Failure> {
    let name = to.file_name().ok_or_else(|| Failure::usage(format!("{} names no file", to.display()), None))?;
    let mut part = name.to_owned();
    part.push(format!(".{}.part", std::process::id()));
    Ok(to.with_file_name(part))
}

async fn receive(stream: &mut BackupStream, part: &Path) -> Result<(), Failure> {
    let unwritable = |e: io::Error| Failure::usage(format!("cannot write {}: {e}", part.display()), None);
    // A backup holds the parameters of every job.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part).map_err(unwritable)?;
    // Whatever the umask.
    file.set_permissions(std::fs::Permissions::from_mode(0o600)).map_err(unwritable)?;
    let (mut told, mut received, all) = (Instant::now(), 0u64, stream.head.bytes);
    while let Some(piece) = stream.next().await? {
        file.write_all(&piece).map_err(unwritable)?;
        received += u64::try_from(piece.len()).unwrap_or(u64::MAX);
        if told.elapsed() >= TELL_EVERY {
            told = Instant::now();
            tell(&format!("{} of {}", size(received), size(all)));
        }
    }
    file.sync_all().map_err(unwritable)
}

fn publish(part: &Path, to: &Path, force: bool) -> Result<(), Failure> {
    let failed = |e: io::Error| Failure::usage(format!("cannot write {}: {e}", to.display()), None);
    // Somebody else may have been quicker.
    check(to, force)?;
    let replaces = to.symlink_metadata().is_ok();
    if force {
        // A link is replaced, not what it leads to.
        std::fs::rename(part, to).map_err(failed)?;
    } else {
        name_new(part, to).map_err(failed)?;
    }
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
    if replaces {
        tell(&format!("{} was there and is replaced", one_line(&to.display().to_string())));
    }
    Ok(())
}

/// Fails if `to` is there by now.
fn name_new(part: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, part, CWD, to, RenameFlags::NOREPLACE) {
        // Not every file system can; a second name for a moment does the same.
        Err(Errno::INVAL | Errno::NOSYS) => {
            std::fs::hard_link(part, to)?;
            std::fs::remove_file(part)
        }
        named => Ok(named?),
    }
}

fn size(bytes: u64) -> String {
    const MIB: u64 = 1024 * 1024;
    if bytes < MIB {
        format!("{} KiB", bytes.div_ceil(1024))
    } else {
        format!("{}.{} MiB", bytes / MIB, bytes % MIB * 10 / MIB)
    }
}
