//! Data folders that earlier versions left: they are served whole, or refused with what to do (L2, L5).
//!
//! `fixtures/v<LEVEL>/controller` is a folder of `c1` with a snapshot and a log behind it, without the store, which is only a cache;
//! `served.json` what was acknowledged. See `crates/grid-core/tests/fixtures.rs` for when they are written.

use std::fs;
use std::path::{Path, PathBuf};

use grid_core::{FEATURE_LEVEL, OLDEST_LEVEL};
use grid_types::JobId;
use tempfile::TempDir;

use crate::life::{acknowledged, copy_all, files, opening, propose, register, report_all, started, submit};
use crate::{Controller, Opening};

fn folder(level: u32) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../fixtures/v{level}/controller"))
}

fn served(controller: &Controller) -> String {
    let told = acknowledged(controller);
    let documents: Vec<_> = told.jobs.iter().cloned().map(crate::documents::job).collect();
    serde_json::to_string_pretty(&documents).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_the_folders_of_every_version_are_served_whole() {
    if std::env::var_os("GRID_FIXTURES").is_some_and(|word| word == "write") {
        write(&folder(FEATURE_LEVEL)).await;
    }
    for level in OLDEST_LEVEL..=FEATURE_LEVEL {
        if level == FEATURE_LEVEL && !folder(level).exists() {
            eprintln!("skipped: run `cargo xtask fixtures` to write {}", folder(level).display());
            return;
        }
        let copy = TempDir::new().unwrap();
        copy_all(&folder(level).join("data"), copy.path());
        let controller = started(opening(copy.path(), "c1", false)).await.unwrap();
        let recorded = fs::read_to_string(folder(level).join("served.json")).unwrap();
        assert_eq!(served(&controller), recorded.trim_end(), "version {level}");
        controller.shutdown().await;
    }
}

/// What the log of a folder is, byte for byte.
fn log_of(dir: &Path) -> Vec<Vec<u8>> {
    files(&dir.join("raft/raft-log")).iter().map(|file| fs::read(file).unwrap()).collect()
}

async fn refusal(opening: Opening) -> String {
    let Err(refused) = Controller::open(opening).await else { panic!("it was opened") };
    let mut text = refused.to_string();
    let mut cause = std::error::Error::source(&refused);
    while let Some(e) = cause {
        text.push_str(&format!(": {e}"));
        cause = e.source();
    }
    text
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_a_folder_of_level_1_is_refused_with_what_to_do() {
    let copy = TempDir::new().unwrap();
    copy_all(&folder(1).join("data"), copy.path());
    let before = log_of(copy.path());
    let text = refusal(opening(copy.path(), "c1", false)).await;
    for part in [copy.path().to_str().unwrap(), "older grid", "start the older grid on this folder"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(before, log_of(copy.path()), "the log was left as it was");
}

#[tokio::test(flavor = "multi_thread")]
async fn l2_a_folder_of_a_higher_level_is_refused_before_it_votes_or_leads() {
    let (home, killed, snapped) = (TempDir::new().unwrap(), TempDir::new().unwrap(), TempDir::new().unwrap());
    let newer = |bootstrap| Opening { feature_level: FEATURE_LEVEL + 1, ..opening(home.path(), "c1", bootstrap) };
    let controller = started(newer(true)).await.unwrap();
    assert_eq!(controller.shared.state().meta.feature_level, FEATURE_LEVEL + 1);
    propose(&controller, register("n1")).await;
    copy_all(home.path(), killed.path());
    for _ in 0..2 {
        propose(&controller, register("n1")).await;
        controller.shared.log.raft.trigger_snapshot().await.unwrap();
    }
    copy_all(home.path(), snapped.path());
    controller.shutdown().await;
    // The level is found in the store, in the log, and in a snapshot whose log is cut off before it.
    for dir in [&home, &killed, &snapped] {
        let before = log_of(dir.path());
        let text = refusal(opening(dir.path(), "c1", false)).await;
        let levels = format!("feature level {}, this one knows {FEATURE_LEVEL}", FEATURE_LEVEL + 1);
        for part in [dir.path().to_str().unwrap(), &levels, "start that grid, or a newer"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(before, log_of(dir.path()), "no vote and no entry was written");
    }
    let controller = started(newer(false)).await.unwrap();
    assert_eq!(acknowledged(&controller).jobs.len(), 0, "the newer one still serves it");
    controller.shutdown().await;
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
            controller.shared.log.raft.trigger_snapshot().await.unwrap();
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
