//! Where a program is on this machine.
//!
//! Looked up by hand, since nothing is run only to see whether it is there.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// `program` in `PATH`, then in `further` folders.
pub(super) fn locate(program: &str, further: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).chain(further.iter().map(PathBuf::from)).collect();
    folders.into_iter().map(|folder| folder.join(program)).find(|file| is_program(file))
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
        assert_eq!(locate("grid-no-such-program", &[folder]), None);
        std::fs::write(&file, "").unwrap();
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(locate("grid-no-such-program", &[folder]), None);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o755)).unwrap();
        assert_eq!(locate("grid-no-such-program", &[folder]), Some(file));
        assert!(locate("sh", &[]).is_some());
    }
}
