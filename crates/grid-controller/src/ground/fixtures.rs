//! Data folders that earlier versions left: they are served whole (L2, L5).
//!
//! `fixtures/v<LEVEL>/controller` is a folder of `c1` with a snapshot and a log behind it, without the store, which is only a cache;
//! `served.json` what was acknowledged. See `crates/grid-core/tests/fixtures.rs` for when they are written.

use std::fs;
use std::path::{Path, PathBuf};

use grid_core::FEATURE_LEVEL;
use grid_types::JobId;
use tempfile::TempDir;

use super::life::{acknowledged, copy_all, opening, propose, register, report_all, started, submit};
use crate::controller::Controller;

fn folder(level: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/v{level}/controller"))
}

fn served(controller: &Controller) -> String {
    let told = acknowledged(controller);
    serde_json::to_string_pretty(&told.jobs).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_the_folders_of_every_version_are_served_whole() {
    if std::env::var_os("GRID_FIXTURES").is_some_and(|word| word == "write") {
        write(&folder(FEATURE_LEVEL)).await;
    }
    for level in 1..=FEATURE_LEVEL {
        let copy = TempDir::new().unwrap();
        copy_all(&folder(level).join("data"), copy.path());
        let controller = started(opening(copy.path(), "c1", false)).await.unwrap();
        let recorded = fs::read_to_string(folder(level).join("served.json")).unwrap();
        assert_eq!(served(&controller), recorded.trim_end(), "version {level}");
        controller.shutdown().await;
    }
}

/// Nothing that is there is touched.
async fn write(folder: &Path) {
    if folder.exists() {
        return;
    }
    let home = TempDir::new().unwrap();
    let controller = started(opening(home.path(), "c1", true)).await.unwrap();
    for node in ["n1", "n2", "n3"] {
        propose(&controller, register(node)).await;
    }
    for id in 1..=6 {
        propose(&controller, submit(JobId(id))).await;
        if id != 2 {
            report_all(&controller).await;
        }
        if id == 3 {
            controller.shared.raft.trigger_snapshot().await.unwrap();
        }
    }
    let told = served(&controller);
    controller.shutdown().await;
    for cache in ["state.sqlite", "state.sqlite.seal"] {
        fs::remove_file(home.path().join(cache)).unwrap();
    }
    copy_all(home.path(), &folder.join("data"));
    fs::write(folder.join("served.json"), told + "\n").unwrap();
}
