//! Every file of a member's folder, damaged all over: what was acknowledged is there afterwards, or the start is refused
//! with the name of what is damaged. The machine of these members is made anew at every start, as a controller's is
//! after a crash.

mod file_machine;

use std::fs;
use std::path::{Path, PathBuf};

use file_machine::{FileMachine, Home, Receipt, block_on, propose};
use grid_raft::{CheckedFolder, Config, MachineKnown, OpenError, Raft, Start};

/// As a controller starts: what the machine had is thrown away once the folder is known to be sound.
async fn open_anew(dir: &Path, config: Config) -> Result<Raft<Receipt>, OpenError> {
    let machine = dir.join("machine.json");
    let applied = || {
        let text = fs::read(&machine).ok()?;
        let content: file_machine::Content = serde_json::from_slice(&text).ok()?;
        content.applied.map(|applied| applied.index)
    };
    let folder = CheckedFolder::open(config, Start::Existing, MachineKnown { is_sound: false, applied: &applied })?;
    if machine.exists() {
        fs::remove_file(&machine).expect("removed");
    }
    Raft::run(folder, FileMachine::open(&machine), &grid_tasks::Tasks::default()).await
}

/// Several chunks, two snapshots with entries before, between and after them, and no orderly end.
fn home() -> (Home, Vec<String>) {
    let mut home = Home::new();
    home.config.log_chunk_bytes = 300;
    let acknowledged: Vec<String> = (0..30).map(|n| format!("payload {n}")).collect();
    home.run(Start::Bootstrap, async |raft| {
        for (n, payload) in acknowledged.iter().enumerate() {
            propose(&raft, payload.clone()).await;
            if [9, 19].contains(&n) {
                raft.trigger_snapshot().await.expect("snapshot");
            }
        }
    });
    (home, acknowledged)
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("folder") {
        let path = entry.expect("entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort();
    found
}

fn copy_all(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("inside"));
        fs::create_dir_all(target.parent().expect("parent")).expect("folder");
        fs::copy(&file, target).expect("copied");
    }
}

#[derive(Debug, Clone, Copy)]
enum Damage {
    Flip(usize),
    Cut(usize),
    Zeros(usize),
    Gone,
}

impl Damage {
    fn of(len: usize) -> Vec<Self> {
        let stride = (len / 60).max(1);
        let mut all = vec![Self::Gone];
        for at in (0..len).step_by(stride) {
            all.push(Self::Flip(at));
            if at % 3 == 0 {
                all.extend([Self::Cut(at), Self::Zeros(at)]);
            }
        }
        all
    }

    fn inflict(self, path: &Path) {
        let mut bytes = fs::read(path).expect("read");
        match self {
            Self::Flip(at) => bytes[at] ^= 1 << (at % 8),
            Self::Cut(at) => bytes.truncate(at),
            Self::Zeros(at) => bytes[at..].fill(0),
            Self::Gone => return fs::remove_file(path).expect("removed"),
        }
        fs::write(path, bytes).expect("written");
    }
}

/// Whether it started, with everything; a refusal must name the folder and something in it.
fn outcome(home: &Home, file: &Path, damage: Damage, acknowledged: &[String]) -> bool {
    let copy = tempfile::tempdir().expect("dir");
    copy_all(home.path(), copy.path());
    let name = file.strip_prefix(home.path()).expect("inside");
    damage.inflict(&copy.path().join(name));
    let mut config = home.config.clone();
    config.data_dir = copy.path().to_path_buf();
    let what = format!("{}: {damage:?}", name.display());
    let opened = block_on(async {
        let raft = open_anew(copy.path(), config).await?;
        propose(&raft, "end").await;
        raft.shutdown().await;
        Ok::<(), OpenError>(())
    });
    match opened {
        Ok(()) => {
            let mut payloads = file_machine::content(&copy.path().join("machine.json")).payloads;
            assert_eq!(payloads.pop().as_deref(), Some("end"), "{what}");
            assert_eq!(payloads, acknowledged, "{what}");
            true
        }
        Err(e) => {
            let text = e.to_string();
            assert!(text.contains(&copy.path().display().to_string()), "{what}: {text}");
            assert!(
                ["raft-log", "raft.json", "member.json", "snapshots"].iter().any(|name| text.contains(name)),
                "{what}: {text}"
            );
            let machine = file_machine::content(&copy.path().join("machine.json")).payloads;
            assert_eq!(machine, acknowledged, "{what}: a refused start costs nothing");
            false
        }
    }
}

#[test]
fn l3_a_folder_damaged_anywhere_is_recovered_whole_or_refused() {
    let (home, acknowledged) = home();
    let all = files(home.path());
    let relevant = |path: &&PathBuf| !path.ends_with("machine.json") && !path.to_string_lossy().ends_with("LOCK");
    let cases: Vec<(&PathBuf, Damage)> = all
        .iter()
        .filter(relevant)
        .flat_map(|file| {
            let len = fs::metadata(file).expect("file").len();
            Damage::of(usize::try_from(len).expect("small")).into_iter().map(move |damage| (file, damage))
        })
        .collect();
    // Most of a case is waiting for a disk.
    let recovered: usize = std::thread::scope(|scope| {
        let parts = cases.chunks(cases.len().div_ceil(4)).map(|part| {
            let judge = |(file, damage): &&(&PathBuf, Damage)| outcome(&home, file, *damage, &acknowledged);
            scope.spawn(move || part.iter().filter(judge).count())
        });
        parts.collect::<Vec<_>>().into_iter().map(|part| part.join().expect("no case failed")).sum()
    });
    let refused = cases.len() - recovered;
    println!("{recovered} recovered, {refused} refused");
    assert!(recovered > 100 && refused > 100, "{recovered} recovered, {refused} refused: the sweep shows something");
}
