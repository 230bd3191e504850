//! Lets a test of the real program panic in a chosen task. Debug builds only.
//!
//! `GRID_TEST_TASKS` names a folder: each task creates a file of its name there at its start, and panics when the file is
//! written to.

use std::future::Future;

const FOLDER: &str = "GRID_TEST_TASKS";

pub async fn or_panic<T>(name: &'static str, task: impl Future<Output = T>) -> T {
    match std::env::var_os(FOLDER).filter(|_| cfg!(debug_assertions)) {
        None => task.await,
        Some(folder) => {
            let file = std::path::Path::new(&folder).join(name);
            tokio::select! {
                ended = task => ended,
                never = panic_when_written(&file) => match never {},
            }
        }
    }
}

/// Panics in the middle of the task: what the task owns is dropped after the panic, not before.
async fn panic_when_written(file: &std::path::Path) -> std::convert::Infallible {
    // A missing folder means that the test asks for nothing.
    let _ = std::fs::write(file, "");
    while !std::fs::metadata(file).is_ok_and(|seen| seen.len() > 0) {
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("planted by a test");
}
