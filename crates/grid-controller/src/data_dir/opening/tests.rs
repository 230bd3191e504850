//! Whole data folders, damaged all over.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use crate::data_dir::OpenError;
use crate::data_dir::{Restoring, restore};
use crate::life::{Acknowledged, acknowledged, copy_all, files, lived, opening, started};

fn block_on<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap().block_on(work)
}

/// Starts on a copy of `image` after `damage`, and tells what it serves.
fn served_after(image: &Path, damage: impl FnOnce(&Path)) -> Result<Acknowledged, (TempDir, OpenError)> {
    let copy = TempDir::new().unwrap();
    copy_all(image, copy.path());
    damage(copy.path());
    let served = block_on(async {
        let controller = started(opening(copy.path(), "c1", false)).await?;
        let served = acknowledged(&controller);
        controller.shutdown().await;
        Ok::<_, OpenError>(served)
    });
    served.map_err(|e| (copy, e))
}

#[test]
fn l5_a_killed_and_a_closed_folder_serve_what_was_acknowledged() {
    let (killed, closed, told) = block_on(lived());
    assert!(!grid_store::is_sealed(&killed.path().join("state.sqlite")).unwrap());
    assert!(grid_store::is_sealed(&closed.path().join("state.sqlite")).unwrap());
    for image in [&killed, &closed] {
        assert_eq!(served_after(image.path(), |_| ()).unwrap(), told);
        // The store is only a cache, and so are all but one of the snapshots, and the file for people.
        let lost = |name: &'static str| move |dir: &Path| fs::remove_file(dir.join(name)).unwrap();
        assert_eq!(served_after(image.path(), lost("state.sqlite")).unwrap(), told);
        assert_eq!(served_after(image.path(), lost("node-id")).unwrap(), told);
        assert_eq!(served_after(image.path(), lost("raft/raft-log.mark")).unwrap(), told);
    }
}

#[test]
fn l3_a_folder_damaged_anywhere_serves_everything_or_says_what_to_do() {
    let (killed, closed, told) = block_on(lived());
    let mut cases = Vec::new();
    for (image, most) in [(&killed, 24), (&closed, 8)] {
        for file in files(image.path()) {
            let name = file.strip_prefix(image.path()).unwrap().to_path_buf();
            let len = usize::try_from(fs::metadata(&file).unwrap().len()).unwrap();
            // Locks are empty, and nothing reads shared memory that another process left.
            if len == 0 || name.to_string_lossy().ends_with("-shm") {
                continue;
            }
            for at in (0..len).step_by((len / most).max(1)) {
                cases.push((image, name.clone(), at, at % 2 == 0));
                cases.push((image, name.clone(), at, at % 2 != 0));
            }
        }
    }
    let judge = |(image, name, at, cut): &(&TempDir, std::path::PathBuf, usize, bool)| {
        let what = format!("{} {} at {at}", name.display(), if *cut { "cut" } else { "flipped" });
        let served = served_after(image.path(), |dir| {
            let mut bytes = fs::read(dir.join(name)).unwrap();
            if *cut {
                bytes.truncate(*at);
            } else {
                bytes[*at] ^= 1 << (at % 7);
            }
            fs::write(dir.join(name), bytes).unwrap();
        });
        match served {
            Ok(served) => assert_eq!(served, told, "{what}"),
            Err((dir, e)) => {
                let text = e.to_string();
                assert!(text.contains(&dir.path().display().to_string()), "{what}: {text}");
                let ways = ["--restore", "move it away and start again"];
                assert!(ways.iter().any(|way| text.contains(way)), "{what}: {text}");
                let named = ["raft-log", "raft.json", "member.json", "state.sqlite", "snapshots"];
                assert!(named.iter().any(|name| text.contains(name)), "{what}: {text}");
            }
        }
    };
    std::thread::scope(|scope| {
        for part in cases.chunks(cases.len().div_ceil(4)) {
            scope.spawn(move || part.iter().for_each(judge));
        }
    });
}

#[test]
fn a_refusal_names_the_state_that_is_left_and_a_restore_takes_it() {
    let (killed, closed, told) = block_on(lived());
    for image in [&killed, &closed] {
        let cut_log = |dir: &Path| {
            let chunk = files(&dir.join("raft/raft-log")).into_iter().find(|path| path.extension().is_some()).unwrap();
            let bytes = fs::read(&chunk).unwrap();
            fs::write(&chunk, &bytes[..bytes.len() / 2]).unwrap();
        };
        let (dir, error) = served_after(image.path(), cut_log).unwrap_err();
        let text = error.to_string();
        let state = dir.path().join("state.sqlite");
        assert!(text.contains(&format!("--restore {}", state.display())), "{text}");
        for source in [state, dir.path().to_path_buf()] {
            let fresh = TempDir::new().unwrap();
            let (data_dir, raft_addr) = (fresh.path().join("data"), "127.0.0.1:3".to_owned());
            let restoring = Restoring { data_dir: data_dir.clone(), node_id: "c2".parse().unwrap(), raft_addr, source };
            let served = block_on(async {
                restore(&restoring).await.unwrap().unwrap();
                let controller = started(opening(&data_dir, "c2", false)).await.unwrap();
                let served = acknowledged(&controller);
                controller.shutdown().await;
                served
            });
            // E2: what had not ended is held now, and says so.
            assert_eq!(served.ended(), told.ended());
            assert_eq!(served.jobs.len(), told.jobs.len());
        }
    }
}

#[test]
fn a_folder_that_cannot_be_used_is_refused_and_left_as_it_is() {
    let dir = TempDir::new().unwrap();
    let file = dir.path().join("file");
    fs::write(&file, "a file").unwrap();
    let refused = |path: &Path| block_on(async { started(opening(path, "c1", true)).await.err().unwrap().to_string() });
    let text = refused(&file);
    assert!(text.contains("a folder that this user can read and write"), "{text}");
    assert_eq!(fs::read(&file).unwrap(), b"a file");

    let (killed, ..) = block_on(lived());
    fs::remove_file(killed.path().join("state.sqlite")).unwrap();
    fs::write(killed.path().join("state.sqlite"), "somebody's").unwrap();
    let text = refused(killed.path());
    assert!(text.contains("state.sqlite is not a store of grid"), "{text}");
    assert_eq!(fs::read(killed.path().join("state.sqlite")).unwrap(), b"somebody's");
}
