//! Finds where a program is on this machine.
//!
//! Looked up by hand, since nothing is run only to see whether it is there.

use std::ffi::OsStr;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// `program` in the folders of `path`, then in `further` ones.
pub(crate) fn locate(program: &str, path: &OsStr, further: &[&str]) -> Option<PathBuf> {
    // An empty or relative one is the working folder of the process that looks.
    let folders = std::env::split_paths(path).filter(|folder| folder.is_absolute());
    let all = folders.chain(further.iter().map(PathBuf::from));
    all.map(|folder| folder.join(program)).find(|file| is_program(file))
}

fn is_program(file: &Path) -> bool {
    file.metadata().is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::locate;

    #[test]
    fn only_files_that_can_be_run_are_programs() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().to_str().unwrap();
        let file = dir.path().join("grid-no-such-program");
        let look = || locate("grid-no-such-program", "".as_ref(), &[folder]);
        assert_eq!(look(), None);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(look(), None);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(look(), Some(file.clone()));
        assert_eq!(locate("grid-no-such-program", folder.as_ref(), &[]), Some(file));
        assert!(locate("sh", "/usr/bin:/bin".as_ref(), &[]).is_some());
    }
}
