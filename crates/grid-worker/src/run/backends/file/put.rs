//! Replaces a file by one with the wanted content, or leaves it alone if it has that already.
//!
//! ```text
//!   look at what is there --same content, mode, owner--> unchanged
//!        \--differs--> new file beside it, owner, mode, fsync --> backup (a second name of the old file) --> rename over it --> fsync of the folder
//! ```
//!
//! A reader sees the old content or the new one, never a part. Of two writers the last rename wins, whole. A crash leaves the old file, the new
//! one, and at most a file `.grid-put-*` beside it.
//! W9: the backup and the rename are refused once the lease is over. A lease that is stopped between the two leaves the backup.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;

use grid_types::decl::Params;
use nix::unistd::{Group, User};
use rustix::fs::{
    AtFlags, CWD, Gid, Mode, OFlags, Stat, Uid, fchmod, fchown, fsync, linkat, openat, renameat, unlinkat,
};
use rustix::io::Errno;

use super::super::{base64, diff, params};
use crate::allow::Place;
use crate::machine::SystemRandom;
use crate::run::lease::EffectGate;
use crate::seams::Random;

/// An old file that is longer than this is replaced without a diff, and compared piece by piece.
const DIFF_BYTES: u64 = 1024 * 1024;
/// Of a diff that is shown.
const SHOWN_BYTES: usize = 64 * 1024;
const NEW_MODE: u32 = 0o644;
const BACKUPS_A_SECOND: u32 = 100;

#[derive(Debug)]
pub(super) struct Put {
    content: Vec<u8>,
    mode: Option<u32>,
    owner: Option<String>,
    group: Option<String>,
    backup: bool,
    diff: bool,
    now_ms: u64,
}

pub(super) struct Done {
    pub(super) changed: bool,
    pub(super) said: String,
}

/// What is there.
struct Old {
    file: File,
    stat: Stat,
    /// If it is short enough to be shown.
    content: Option<Vec<u8>>,
    is_same: bool,
}

impl Put {
    pub(super) fn read(given: &Params, now_ms: u64) -> Result<Self, String> {
        let content = match (params::text(given, "content"), params::text(given, "base64")) {
            (Some(text), None) => text.as_bytes().to_vec(),
            (None, Some(text)) => base64::decode(text).map_err(|problem| format!("base64 {problem}"))?,
            (None, None) => return Err("one of content and base64 is needed".to_owned()),
            (Some(_), Some(_)) => return Err("content and base64 exclude each other".to_owned()),
        };
        let mode = params::text(given, "mode").map(|digits| u32::from_str_radix(digits, 8)).transpose();
        Ok(Self {
            content,
            mode: mode.map_err(|error| format!("mode: {error}"))?,
            owner: params::text(given, "owner").map(str::to_owned),
            group: params::text(given, "group").map(str::to_owned),
            backup: params::flag(given, "backup"),
            diff: params::flag(given, "diff"),
            now_ms,
        })
    }

    pub(super) fn run(&self, place: &Place, gate: &EffectGate) -> Result<Done, String> {
        let owner = self.owner.as_deref().map(user_id).transpose()?;
        let group = self.group.as_deref().map(group_id).transpose()?;
        let old = self.old(place)?;
        let is_owned =
            |stat: &Stat| owner.is_none_or(|id| id == stat.st_uid) && group.is_none_or(|id| id == stat.st_gid);
        let has_mode = |stat: &Stat| self.mode.is_none_or(|mode| mode == stat.st_mode & 0o7777);
        if old.as_ref().is_some_and(|old| old.is_same && is_owned(&old.stat) && has_mode(&old.stat)) {
            return Ok(Done { changed: false, said: format!("{}: unchanged\n", place.path.display()) });
        }
        let mode = self.mode.or(old.as_ref().map(|old| old.stat.st_mode & 0o777)).unwrap_or(NEW_MODE);
        let new = New::create(place)?;
        new.fill(
            place,
            &self.content,
            owner.or(old.as_ref().map(|old| old.stat.st_uid)),
            group.or(old.as_ref().map(|old| old.stat.st_gid)),
            mode,
        )?;
        let mut said = self.said(place, old.as_ref());
        if let Some(old) = old.as_ref().filter(|_| self.backup) {
            said.push_str(&format!("backup: {}\n", self.keep(place, &old.file, gate)?));
        }
        new.rename(place, gate)?;
        Ok(Done { changed: true, said })
    }

    fn old(&self, place: &Place) -> Result<Option<Old>, String> {
        let Some((mut file, stat)) = place.file()? else { return Ok(None) };
        let size = u64::try_from(stat.st_size).unwrap_or(u64::MAX);
        if size > DIFF_BYTES {
            // What a job can carry is shorter.
            return Ok(Some(Old { file, stat, content: None, is_same: false }));
        }
        let mut content = Vec::new();
        (&mut file).take(DIFF_BYTES).read_to_end(&mut content).map_err(|error| place.fault(error))?;
        let is_same = content == self.content;
        Ok(Some(Old { file, stat, content: Some(content), is_same }))
    }

    fn said(&self, place: &Place, old: Option<&Old>) -> String {
        let path = place.path.display().to_string();
        let Some(old) = old else { return format!("{path}: created\n") };
        let texts = old
            .content
            .as_deref()
            .and_then(|old| std::str::from_utf8(old).ok())
            .zip(std::str::from_utf8(&self.content).ok());
        match texts {
            Some((before, after)) if self.diff && before != after => {
                let mut text = diff::unified(&path, before, after);
                if text.len() > SHOWN_BYTES {
                    text.truncate(text.floor_char_boundary(SHOWN_BYTES));
                    text.push_str("\n[grid: the rest of the diff is left out]\n");
                }
                text
            }
            _ if old.is_same => format!("{path}: owner or mode changed\n"),
            _ => format!("{path}: replaced\n"),
        }
    }

    /// A second name for the old file, which keeps it when the first one is taken over. By its descriptor: it is the one that was compared.
    fn keep(&self, place: &Place, old: &File, gate: &EffectGate) -> Result<String, String> {
        let seconds = self.now_ms / 1_000;
        for number in 0..BACKUPS_A_SECOND {
            let suffix = if number == 0 { String::new() } else { format!("-{number}") };
            let mut name = place.name.clone();
            name.push(format!(".{seconds}{suffix}.bak"));
            let from = format!("/proc/self/fd/{}", old.as_raw_fd());
            let _entered = gate.enter()?;
            match linkat(CWD, from, &place.folder, &name, AtFlags::SYMLINK_FOLLOW) {
                Ok(()) => return Ok(place.path.with_file_name(&name).display().to_string()),
                Err(Errno::EXIST) => {}
                Err(error) => return Err(place.fault(format!("cannot keep a backup: {error}"))),
            }
        }
        Err(place.fault(format!("cannot keep a backup: {BACKUPS_A_SECOND} of this second are there already")))
    }
}

/// The new file while it has a name of its own; it is removed if it does not get the right one.
struct New<'a> {
    place: &'a Place,
    file: File,
    name: OsString,
    is_kept: std::cell::Cell<bool>,
}

impl<'a> New<'a> {
    fn create(place: &'a Place) -> Result<Self, String> {
        let random = SystemRandom.number().map_err(|error| place.fault(error.to_string()))?;
        let name = OsString::from(format!(".grid-put-{random:016x}"));
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let made = openat(&place.folder, &name, flags, Mode::from_raw_mode(0o600));
        let file = File::from(made.map_err(|error| place.fault(format!("cannot make a file beside it: {error}")))?);
        Ok(Self { place, file, name, is_kept: std::cell::Cell::new(false) })
    }

    /// The mode comes last: a change of owner takes bits of it away.
    fn fill(
        &self,
        place: &Place,
        content: &[u8],
        owner: Option<u32>,
        group: Option<u32>,
        mode: u32,
    ) -> Result<(), String> {
        (&self.file).write_all(content).map_err(|error| place.fault(error))?;
        let own = rustix::fs::fstat(&self.file).map_err(|error| place.fault(error))?;
        let owner = owner.filter(|id| *id != own.st_uid).map(Uid::from_raw);
        let group = group.filter(|id| *id != own.st_gid).map(Gid::from_raw);
        if owner.is_some() || group.is_some() {
            fchown(&self.file, owner, group).map_err(|error| place.fault(format!("cannot set its owner: {error}")))?;
        }
        fchmod(&self.file, Mode::from_raw_mode(mode))
            .map_err(|error| place.fault(format!("cannot set its mode: {error}")))?;
        self.file.sync_all().map_err(|error| place.fault(error))
    }

    fn rename(self, place: &Place, gate: &EffectGate) -> Result<(), String> {
        let _entered = gate.enter()?;
        renameat(&place.folder, &self.name, &place.folder, &place.name).map_err(|error| place.fault(error))?;
        self.is_kept.set(true);
        fsync(open_folder(place)?).map_err(|error| place.fault(error))
    }
}

impl Drop for New<'_> {
    fn drop(&mut self) {
        if !self.is_kept.get() {
            // The error that led here says more.
            let _ = unlinkat(&self.place.folder, &self.name, AtFlags::empty());
        }
    }
}

/// The folder of a place in a way that can be synced.
pub(super) fn open_folder(place: &Place) -> Result<std::os::fd::OwnedFd, String> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    openat(&place.folder, ".", flags, Mode::empty()).map_err(|error| place.fault(error))
}

fn user_id(name: &str) -> Result<u32, String> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    match User::from_name(name) {
        Ok(Some(user)) => Ok(user.uid.as_raw()),
        Ok(None) => Err(format!("there is no user {name} on this node")),
        Err(error) => Err(format!("user {name}: {error}")),
    }
}

fn group_id(name: &str) -> Result<u32, String> {
    if let Ok(id) = name.parse() {
        return Ok(id);
    }
    match Group::from_name(name) {
        Ok(Some(group)) => Ok(group.gid.as_raw()),
        Ok(None) => Err(format!("there is no group {name} on this node")),
        Err(error) => Err(format!("group {name}: {error}")),
    }
}
