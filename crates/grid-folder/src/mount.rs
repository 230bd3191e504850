//! Advises what to do about modes that a mount decides: Kubernetes volumes, and file systems that keep no modes.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::shell::quoted;

const SET_GROUP_ID: u32 = 0o2000;

/// File systems that keep no modes, or only with certain mount options.
const WITHOUT_MODES: [(u64, &str); 9] = [
    (0x4d44, "vfat"),
    (0x2011_bab0, "exfat"),
    (0x5346_544e, "ntfs"),
    (0x7366_746e, "ntfs3"),
    (0x517b, "smb"),
    (0xff53_4d42, "cifs"),
    (0xfe53_4d42, "smb2"),
    (0x0102_1997, "9p"),
    (0x6573_5546, "fuse"),
];

/// What may be needed besides a `chmod`. `mode` is that of a data folder, 0 for a file in it.
pub(crate) fn advice(path: &Path, mode: u32) -> String {
    let without = without_modes(path);
    if !without.is_empty() || (mode & SET_GROUP_ID == 0 && !(mode != 0 && is_mount_point(path))) {
        return without;
    }
    format!(
        ". Where each mount sets the modes of a volume (fsGroup of Kubernetes), use a sub-folder, --data-dir {}, and \
         fsGroupChangePolicy: OnRootMismatch",
        quoted(&path.join("grid"))
    )
}

/// Empty for a file system that keeps modes.
pub(crate) fn without_modes(path: &Path) -> String {
    name(path).map_or_else(String::new, |name| format!(". If that has no effect ({name}), {}", elsewhere(path)))
}

pub(crate) fn elsewhere(path: &Path) -> String {
    let name = name(path).map(|name| format!(" ({name})")).unwrap_or_default();
    format!(
        "this file system{name} does not keep modes: mount it with modes for one user (vfat: umask=077; cifs: \
         dir_mode=0700,file_mode=0600; drvfs: metadata,umask=077), or use a folder on another one"
    )
}

fn name(path: &Path) -> Option<&'static str> {
    // Magic numbers have 32 bits; some machines extend their sign.
    let found = u64::try_from(rustix::fs::statfs(path).ok()?.f_type).ok()? & 0xffff_ffff;
    WITHOUT_MODES.iter().find(|(magic, _)| *magic == found).map(|(_, name)| *name)
}

fn is_mount_point(path: &Path) -> bool {
    let device = |path: &Path| fs::metadata(path).ok().map(|found| found.dev());
    path.parent().is_some_and(|parent| device(parent) != device(path))
}
