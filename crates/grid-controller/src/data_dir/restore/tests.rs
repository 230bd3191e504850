use std::fs;
use std::path::{Path, PathBuf};

use grid_core::State;
use grid_types::LeaderEpoch;

use super::{Restoring, restore, restored};
use crate::life::{self, opening};
use crate::{Controller, Opening};

async fn started(opening: Opening) -> Controller {
    life::started(opening).await.unwrap()
}

fn restoring(dir: &Path, node: &str, source: &Path) -> Restoring {
    Restoring {
        data_dir: dir.to_path_buf(),
        node_id: node.parse().unwrap(),
        raft_addr: "127.0.0.1:9".to_owned(),
        source: source.to_path_buf(),
    }
}

fn state(controller: &Controller) -> State {
    controller.shared.state().clone()
}

/// A folder of `c1` with a few terms in it, its backup, and the state that is in both.
async fn home(dir: &Path) -> (PathBuf, PathBuf, State) {
    let (data, backup) = (dir.join("data"), dir.join("backup"));
    for _ in 0..3 {
        started(opening(&data, "c1", true)).await.shutdown().await;
    }
    let controller = started(opening(&data, "c1", false)).await;
    controller.shared.reading.reader.write_backup(&backup, Some(1_790_000_000_000)).unwrap();
    let kept = state(&controller);
    controller.shutdown().await;
    (data, backup, kept)
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_a_restored_folder_goes_on_behind_the_backup_and_remembers_it() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, kept) = home(dir.path()).await;
    let snapshot_of = |index: u64| dir.path().join(format!("restored-{index}"));
    // The folder itself is a source as well: for when it can be started no more.
    for (n, source) in [(1, &backup), (2, &data), (3, &data.join("state.sqlite"))] {
        let fresh = snapshot_of(n);
        let made = restore(&restoring(&fresh, "c9", source)).await.unwrap().expect("made");
        assert_eq!(made.restored.generation, kept.meta.leadership.epoch.generation + 1);
        assert_eq!(restored(&fresh).unwrap(), Some(made.restored.clone()));
        assert_eq!(made.info.cluster_id, kept.meta.cluster_id);
        // The same command line again changes nothing, before and after a start.
        assert!(restore(&restoring(&fresh, "c9", source)).await.unwrap().is_none());
        for _ in 0..2 {
            let controller = started(opening(&fresh, "c9", false)).await;
            let now = state(&controller);
            assert_eq!((&now.meta.cluster_id, &now.keys), (&kept.meta.cluster_id, &kept.keys));
            assert!(now.meta.leadership.epoch > kept.meta.leadership.epoch);
            assert!(now.meta.leadership.term > kept.meta.leadership.term);
            controller.shutdown().await;
        }
        assert!(restore(&restoring(&fresh, "c9", source)).await.unwrap().is_none());
        assert_eq!(restored(&fresh).unwrap(), Some(made.restored));
    }
    assert_eq!(restored(&data).unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_is_refused_creates_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, _) = home(dir.path()).await;
    let fresh = dir.path().join("fresh");
    let mut bytes = fs::read(&backup).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 4;
    let bad = dir.path().join("bad");
    fs::write(&bad, bytes).unwrap();
    for source in [&bad, &dir.path().join("none"), &dir.path().to_path_buf()] {
        let error = restore(&restoring(&fresh, "c9", source)).await.unwrap_err();
        assert!(error.to_string().contains(&source.display().to_string()), "{error}");
        assert!(!fresh.exists(), "{error}");
    }
    // Somebody else's folder, or another controller's.
    let error = restore(&restoring(&data, "c9", &backup)).await.unwrap_err();
    assert!(error.to_string().contains("belongs to controller c1"), "{error}");
    fs::create_dir(&fresh).unwrap();
    fs::write(fresh.join("thesis.txt"), "mine").unwrap();
    let error = restore(&restoring(&fresh, "c9", &backup)).await.unwrap_err();
    assert!(error.to_string().contains("thesis.txt"), "{error}");
    assert_eq!(fs::read_dir(&fresh).unwrap().count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_cut_short_is_made_again() {
    let dir = tempfile::tempdir().unwrap();
    let (_, backup, _) = home(dir.path()).await;
    for (case, leftovers) in [&["restoring/raft/raft-log"][..], &["restoring/raft"], &[]].into_iter().enumerate() {
        let fresh = dir.path().join(format!("fresh-{case}"));
        for leftover in leftovers {
            fs::create_dir_all(fresh.join(leftover)).unwrap();
        }
        fs::create_dir_all(&fresh).unwrap();
        fs::write(fresh.join("node-id"), "c9\n").unwrap();
        restore(&restoring(&fresh, "c9", &backup)).await.unwrap().expect("made");
        started(opening(&fresh, "c9", false)).await.shutdown().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn e2_a_backup_of_a_superseded_cluster_is_restored_above_the_other_one_and_accepts_writes() {
    let dir = tempfile::tempdir().unwrap();
    let (data, backup, fresh) = (dir.path().join("data"), dir.path().join("backup"), dir.path().join("fresh"));
    let controller = started(opening(&data, "c1", true)).await;
    crate::leadership::superseded::commit(
        &controller.shared,
        LeaderEpoch { generation: 5, n: 1 },
        "worker web-01".to_owned(),
    )
    .await;
    assert!(state(&controller).meta.superseded.is_some());
    controller.shared.reading.reader.write_backup(&backup, Some(1_790_000_000_000)).unwrap();
    controller.shutdown().await;
    for (n, source) in [(1, &backup), (2, &data)] {
        let fresh = fresh.with_extension(n.to_string());
        let made = restore(&restoring(&fresh, "c9", source)).await.unwrap().expect("made");
        assert_eq!(made.restored.generation, 6);
        let controller = started(opening(&fresh, "c9", false)).await;
        let meta = state(&controller).meta;
        assert_eq!((meta.leadership.epoch.generation, meta.superseded), (6, None));
        controller.shutdown().await;
    }
}
