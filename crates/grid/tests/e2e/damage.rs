//! Damaged data folders, on the real binaries: a controller either serves everything that was acknowledged, or reports the
//! damage and how to continue, and the suggested way works.
//!
//! Not here: every position in every file; the sweeps of `grid-raft`, `grid-controller` and `grid-worker` cover them.

use std::fs;
use std::path::{Path, PathBuf};

use grid_testkit::spec::{echo, job, record};
use grid_testkit::{LIMIT, Server, ServerOptions, ensure, wait_until};

use crate::staging::two_web_nodes;

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir_all(to).expect("folder");
    for entry in fs::read_dir(from).expect("folder") {
        let path = entry.expect("entry").path();
        let target = to.join(path.file_name().expect("name"));
        if path.is_dir() {
            copy_all(&path, &target);
        } else {
            fs::copy(&path, target).expect("copied");
        }
    }
}

fn flip(path: &Path, at: impl Fn(usize) -> usize) {
    let mut bytes = fs::read(path).expect("read");
    let at = at(bytes.len());
    bytes[at] ^= 4;
    fs::write(path, bytes).expect("written");
}

fn log_of(data: &Path) -> PathBuf {
    let files = fs::read_dir(data.join("raft/raft-log")).expect("the log");
    let mut chunks: Vec<PathBuf> = files.map(|entry| entry.expect("entry").path()).collect();
    chunks.retain(|path| path.extension().is_some_and(|extension| extension == "wal"));
    chunks.pop().expect("a chunk")
}

/// Returns the stderr of a server that does not start.
fn refusal(server: &mut Server) -> String {
    server.respawn();
    let status = server.process().wait_exit(LIMIT);
    assert!(!status.success(), "{status}");
    server.process().log_text()
}

#[test]
fn l3_a_damaged_folder_is_served_whole_or_refused_with_a_way_out_that_works() {
    let mut cluster = two_web_nodes();
    let api = cluster.api();
    let lines = cluster.record("lines");
    let ids: Vec<String> = (0..6).map(|_| api.submit(&job("group:web", [echo(), record(&lines)]))).collect();
    let told: Vec<String> = ids.iter().map(|id| api.wait_ended(id).to_string()).collect();
    cluster.server.kill9();
    let image = cluster.path("image");
    copy_all(&cluster.path("n1/data"), &image);
    let data = cluster.path("n1/data");
    let back = |damage: &dyn Fn(&Path)| {
        fs::remove_dir_all(&data).expect("removed");
        copy_all(&image, &data);
        damage(&data);
    };

    // The store is a cache: it is rebuilt whatever happens to it.
    let of_state: [&dyn Fn(&Path); 3] = [
        &|data| flip(&data.join("state.sqlite"), |len| len - 100),
        &|data| fs::write(data.join("state.sqlite-wal"), b"rubbish").expect("written"),
        &|data| fs::remove_file(data.join("state.sqlite")).expect("removed"),
    ];
    for damage in of_state {
        back(damage);
        cluster.server.restart();
        let served: Vec<String> = ids.iter().map(|id| api.job(id).to_string()).collect();
        assert_eq!(served, told);
        cluster.server.kill9();
    }

    // Acknowledged entries are missing, whatever the files look like.
    let of_log: [&dyn Fn(&Path); 3] =
        [&|data| flip(&log_of(data), |len| len / 2), &|data| flip(&log_of(data), |len| len - 30), &|data| {
            let bytes = fs::read(log_of(data)).expect("read");
            fs::write(log_of(data), &bytes[..bytes.len() * 2 / 3]).expect("cut");
        }];
    for damage in of_log {
        back(damage);
        let text = refusal(&mut cluster.server);
        for said in ["raft-log/r-", "nothing was overwritten", "--restore", "state.sqlite"] {
            assert!(text.contains(said), "{said}: {text}");
        }
    }

    // Follows the way out that the message names.
    let options = ServerOptions::new("c9", cluster.path("fresh"));
    let mut fresh = options.restore(data.join("state.sqlite")).start();
    let api = fresh.api();
    let served: Vec<String> = ids.iter().map(|id| api.job(id).to_string()).collect();
    assert_eq!(served, told);
    assert_eq!(lines.duplicates(), []);
    fresh.kill9();
    fresh.restart();
    wait_until("the restored cluster after a kill", LIMIT, || ensure(api.try_job(&ids[0]).is_ok(), "not yet"));
}
