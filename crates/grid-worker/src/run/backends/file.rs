//! `file`: files below the folders that the operator allowed (`--allow-path`).
//!
//! Everything blocks and therefore runs off the runtime, in one call each that is short: content is bounded by what a job or an output can
//! carry, and read in pieces.
//! Not here: which paths are allowed and how they are walked (`allow::paths`), how a file is replaced (`put`).

mod put;
#[cfg(test)]
mod tests;

use std::io::Read;
use std::sync::Arc;

use grid_types::decl::Params;
use grid_types::limits::OUTPUT_CAP_BYTES;
use rustix::fs::{AtFlags, FileType, Stat, fsync, unlinkat};
use serde_json::json;

use super::{Backend, Run, params};
use crate::allow::{Access, Paths, Place, kind};
use crate::run::lease::{EffectGate, LeaseContext};
use put::{Put, open_folder};

/// Read at once.
const PIECE_BYTES: usize = 64 * 1024;

pub(super) struct Files {
    paths: Arc<Paths>,
}

impl Files {
    pub(super) fn new(paths: Paths) -> Self {
        Self { paths: Arc::new(paths) }
    }
}

impl Backend for Files {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        let paths = Arc::clone(&self.paths);
        Box::pin(async move {
            let path = params::required_text(&given, "path")?.to_owned();
            match action.as_str() {
                "put" => {
                    let put = Put::read(&given, context.clock().wall_ms())?;
                    let done = context.block(move |gate| put.run(&paths.place(&path, Access::Write)?, gate)).await??;
                    context.write(done.said.as_bytes());
                    context.set_changed(done.changed);
                    Ok(())
                }
                "fetch" => {
                    let to = Arc::clone(&context);
                    context
                        .block(move |_| fetch(&paths.place(&path, Access::Read)?, |piece| to.write(piece)))
                        .await??;
                    if context.output_end().truncated {
                        return Err(
                            "the disk of this worker is short of space: the output does not have all of the file"
                                .to_owned(),
                        );
                    }
                    Ok(())
                }
                "stat" => {
                    let said = context.block(move |_| stat(&paths.place(&path, Access::Read)?)).await??;
                    context.write(said.as_bytes());
                    Ok(())
                }
                "delete" => {
                    let removed =
                        context.block(move |gate| delete(&paths.place(&path, Access::Write)?, gate)).await??;
                    context.set_changed(removed);
                    Ok(())
                }
                other => Err(format!("file has no action {other}")),
            }
        })
    }
}

/// Every byte of it, or an error: a file that is longer than an output can be is refused before anything is read.
fn fetch(place: &Place, mut to: impl FnMut(&[u8])) -> Result<(), String> {
    let (mut file, stat) = place.file()?.ok_or_else(|| place.fault("there is no such file"))?;
    let too_long = |bytes: u64| {
        place.fault(format!(
            "has {bytes} bytes; at most {OUTPUT_CAP_BYTES} can be fetched, since that is what an output can have"
        ))
    };
    let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
    if size > OUTPUT_CAP_BYTES {
        return Err(too_long(size));
    }
    let (mut piece, mut total) = (vec![0; PIECE_BYTES], 0_u64);
    loop {
        let count = file.read(&mut piece).map_err(|error| place.fault(error))?;
        if count == 0 {
            return Ok(());
        }
        total += count as u64;
        // It may grow while it is read.
        if total > OUTPUT_CAP_BYTES {
            return Err(too_long(total));
        }
        to(&piece[..count]);
    }
}

/// One line of JSON.
fn stat(place: &Place) -> Result<String, String> {
    let Some((_, stat)) = place.look()? else {
        return Ok(format!("{}\n", json!({"path": place.path, "exists": false})));
    };
    let Stat { st_uid, st_gid, st_size, st_nlink, st_mtime, .. } = stat;
    let found = json!({
        "path": place.path,
        "exists": true,
        "kind": kind(&stat).trim_start_matches("a ").trim_start_matches("symbolic "),
        "size": st_size,
        "mode": format!("{:04o}", stat.st_mode & 0o7777),
        "uid": st_uid,
        "gid": st_gid,
        "links": st_nlink,
        "modified": st_mtime,
    });
    Ok(format!("{found}\n"))
}

/// `false`: there was nothing.
fn delete(place: &Place, gate: &EffectGate) -> Result<bool, String> {
    let Some((_, stat)) = place.look()? else { return Ok(false) };
    // A link is removed itself, never what it points to.
    if !matches!(FileType::from_raw_mode(stat.st_mode), FileType::RegularFile | FileType::Symlink) {
        return Err(place.fault(format!("is {}; only files are deleted", kind(&stat))));
    }
    let _entered = gate.enter()?;
    match unlinkat(&place.folder, &place.name, AtFlags::empty()) {
        Err(rustix::io::Errno::NOENT) => return Ok(false),
        removed => removed.map_err(|error| place.fault(error))?,
    }
    fsync(open_folder(place)?).map_err(|error| place.fault(error))?;
    Ok(true)
}
