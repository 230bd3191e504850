//! Tests on real folders. Those that need a second user run as root only, which is how tests usually run.

use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, symlink};
use std::path::{Path, PathBuf};

use super::{Kind, LockError, Refused};

fn folder() -> (tempfile::TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let folder = dir.path().join("data");
    super::enter(&folder, Kind::WORKER).unwrap();
    (dir, folder)
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

fn refusal(folder: &Path) -> String {
    match super::enter(folder, Kind::WORKER) {
        Err(Refused::Unsafe(problem)) => problem,
        other => panic!("{other:?}"),
    }
}

#[test]
fn issue14_6_a_folder_that_others_may_write_is_refused_and_left_as_it_is() {
    let (_dir, folder) = folder();
    for bad in [0o777, 0o770, 0o702, 0o2770] {
        set_mode(&folder, bad);
        let refused = refusal(&folder);
        assert!(refused.contains(&format!("chmod -R go-rwx {}", folder.display())), "{refused}");
        // As Kubernetes' fsGroup leaves it.
        let sub_folder = format!("use a sub-folder, --data-dir {}/grid", folder.display());
        assert_eq!(refused.contains(&sub_folder), bad == 0o2770, "{refused}");
        assert_eq!(mode(&folder), bad, "nothing is changed");
    }
}

#[test]
fn issue14_6_what_others_may_read_is_closed_to_them() {
    let (_dir, folder) = folder();
    let file = folder.join("journal");
    fs::write(&file, "x").unwrap();
    set_mode(&file, 0o644);
    set_mode(&folder, 0o755);
    super::enter(&folder, Kind::WORKER).unwrap();
    assert_eq!((mode(&folder), mode(&file)), (0o700, 0o600));
}

#[test]
fn issue14_6_a_file_that_others_may_write_is_refused_if_they_could_reach_it() {
    let (_dir, folder) = folder();
    let file = folder.join("journal");
    fs::write(&file, "x").unwrap();
    set_mode(&file, 0o666);
    set_mode(&folder, 0o755);
    let refused = refusal(&folder);
    assert!(refused.contains(&format!("chmod go-rwx {}", file.display())), "{refused}");
    set_mode(&folder, 0o700);
    super::enter(&folder, Kind::WORKER).unwrap();
    assert_eq!(mode(&file), 0o600);
}

#[test]
fn issue14_6_links_second_names_and_pipes_are_refused_by_name() {
    let (dir, folder) = folder();
    let victim = dir.path().join("victim");
    fs::write(&victim, "precious").unwrap();
    let planted = folder.join("output/planted");
    super::make_dir(&folder.join("output")).unwrap();
    symlink(&victim, &planted).unwrap();
    assert!(refusal(&folder).contains(&format!("rm {}", planted.display())));
    fs::remove_file(&planted).unwrap();
    fs::hard_link(&victim, &planted).unwrap();
    assert!(refusal(&folder).contains("hard link"));
    fs::remove_file(&planted).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(&planted).unwrap();
    assert!(refusal(&folder).contains("neither a file nor a folder"));
    fs::remove_file(&planted).unwrap();
    super::enter(&folder, Kind::WORKER).unwrap();
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
}

#[test]
fn issue14_6_a_folder_that_was_named_by_mistake_is_left_as_it_is() {
    let (_dir, folder) = folder();
    let file = folder.join("thesis.txt");
    fs::write(&file, "x").unwrap();
    for path in [&file, &folder] {
        set_mode(path, 0o755);
    }
    let refused = refusal(&folder);
    assert!(refused.contains("thesis.txt") && refused.contains("not a worker's folder"), "{refused}");
    assert_eq!((mode(&folder), mode(&file)), (0o755, 0o755));
    // A worker's folder may have further files.
    fs::write(folder.join("identity"), "x").unwrap();
    super::enter(&folder, Kind::WORKER).unwrap();
}

#[test]
fn what_tasks_leave_in_their_working_folders_is_not_looked_at() {
    let (dir, folder) = folder();
    let work = folder.join(super::TASKS);
    super::make_dir(&work.join("job")).unwrap();
    symlink(dir.path(), work.join("job/link")).unwrap();
    super::enter(&folder, Kind::WORKER).unwrap();
    fs::remove_dir_all(&work).unwrap();
    symlink(dir.path(), &work).unwrap();
    assert!(refusal(&folder).contains("symbolic link"));
}

#[test]
fn issue14_6_a_file_that_cannot_be_closed_to_others_is_refused() {
    let path = Path::new("/proc/self/stat");
    match super::guard::close(path, vec![(path.to_owned(), 0o400)]) {
        Err(Refused::Unsafe(problem)) => {
            assert!(
                problem.contains("may read /proc/self/stat") && problem.contains("does not keep modes"),
                "{problem}"
            );
        }
        other => panic!("{other:?}"),
    }
}

/// A worker whose supervisor was killed still prunes its outputs while the next supervisor looks at the folder.
#[test]
fn e8_what_vanishes_during_the_walk_is_no_fault() {
    let (_dir, folder) = folder();
    let output = folder.join("output");
    super::make_dir(&output).unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let done = || is_over.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !done() {
                for job in 0..50 {
                    super::make_dir(&output.join(job.to_string())).unwrap();
                    fs::write(output.join(format!("{job}/0-1")), "x").unwrap();
                }
                for job in 0..50 {
                    fs::remove_dir_all(output.join(job.to_string())).unwrap();
                }
            }
        });
        let entered: Vec<_> = (0..200).map(|_| super::enter(&folder, Kind::WORKER)).collect();
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        for result in entered {
            result.unwrap();
        }
    });
}

#[test]
fn issue14_6_the_way_to_the_folder_is_closed_to_others() {
    let (dir, folder) = folder();
    set_mode(dir.path(), 0o777);
    assert!(refusal(&folder).contains(&format!("chmod +t {}", dir.path().display())));
    assert!(refusal(&dir.path().join("new/data")).contains("chmod +t"));
    assert!(!dir.path().join("new").exists());
    set_mode(dir.path(), 0o1777);
    super::enter(&folder, Kind::WORKER).unwrap();
    // A link that the operator made.
    let link = dir.path().join("link");
    symlink(&folder, &link).unwrap();
    super::enter(&link, Kind::WORKER).unwrap();
}

#[test]
fn issue14_6_a_folder_of_another_user_is_refused() {
    if !rustix::process::geteuid().is_root() {
        println!("left out: only root can give files away");
        return;
    }
    let (dir, folder) = folder();
    let inner = folder.join("journal o'clock");
    fs::write(&inner, "").unwrap();
    chown(&inner, Some(1000), None).unwrap();
    let refused = refusal(&folder);
    assert!(refused.contains("belongs to user 1000") && refused.contains(r"o'\''clock'"), "{refused}");
    assert!(!refused.contains("sudo"), "the folder is not that user's: {refused}");
    chown(&inner, Some(0), None).unwrap();
    chown(&folder, Some(1000), None).unwrap();
    let refused = refusal(&folder);
    let (first, second) = ("sudo -u '#1000'", format!("chown -hR 0 {}", folder.display()));
    let places = (refused.find(first), refused.find(&second));
    assert!(places.0.is_some() && places.0 < places.1, "{refused}");
    chown(&folder, Some(0), None).unwrap();
    let link = dir.path().join("link");
    symlink(&folder, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(1000), None).unwrap();
    assert!(refusal(&link).contains("symbolic link of user 1000"));
}

#[test]
fn issue14_6_no_open_follows_a_link_or_waits_for_a_pipe() {
    let (dir, folder) = folder();
    let (victim, planted) = (dir.path().join("victim"), folder.join("file"));
    fs::write(&victim, "precious").unwrap();
    let all: [fn(&Path) -> std::io::Result<fs::File>; 5] =
        [super::open, super::create, super::create_new, super::update, super::append];
    symlink(&victim, &planted).unwrap();
    for open in all {
        assert!(open(&planted).is_err());
    }
    assert!(matches!(super::lock(&planted), Err(LockError::Io(_))));
    assert!(super::create(&planted).unwrap_err().to_string().contains("file is a symbolic link"));
    fs::remove_file(&planted).unwrap();
    fs::hard_link(&victim, &planted).unwrap();
    for open in &all[1..] {
        assert!(open(&planted).is_err());
    }
    fs::remove_file(&planted).unwrap();
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &planted,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .unwrap();
    for open in all {
        assert!(open(&planted).is_err());
    }
    assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
    symlink(dir.path(), folder.join("sub")).unwrap();
    assert!(super::make_dir(&folder.join("sub")).is_err());
}

#[test]
fn issue14_6_a_lock_is_not_cut_and_names_its_holder() {
    let (_dir, folder) = folder();
    let path = folder.join("lock");
    fs::write(&path, "x".repeat(40)).unwrap();
    let held = super::lock(&path).unwrap();
    assert_eq!(fs::metadata(&path).unwrap().len(), 40);
    match super::lock(&path) {
        Err(LockError::Held { holder }) => assert_eq!(holder, Some(std::process::id())),
        other => panic!("{other:?}"),
    }
    drop(held);
    super::lock(&path).unwrap();
}

#[test]
fn issue14_6_modes_do_not_depend_on_what_was_there() {
    let (_dir, folder) = folder();
    let path = folder.join("file");
    fs::write(&path, "old").unwrap();
    set_mode(&path, 0o666);
    super::create(&path).unwrap().write_all(b"new").unwrap();
    assert_eq!((mode(&path), fs::read_to_string(&path).unwrap().as_str()), (0o600, "new"));
    super::make_dir(&folder.join("a/b")).unwrap();
    assert_eq!((mode(&folder.join("a")), mode(&folder.join("a/b"))), (0o700, 0o700));
    super::copy(&path, &folder.join("copy")).unwrap();
    assert_eq!(super::read_if_there(&folder.join("copy")).unwrap().as_deref(), Some(b"new".as_slice()));
    assert_eq!(super::read_if_there(&folder.join("none")).unwrap(), None);
}

#[test]
fn issue14_8_a_tree_is_removed_without_following_links_at_any_depth() {
    let (dir, folder) = folder();
    let victim = dir.path().join("victim");
    fs::create_dir(&victim).unwrap();
    fs::write(victim.join("file"), "precious").unwrap();
    let tree = folder.join("tree");
    // Deeper than a process may have open files, and than a path may be long.
    fs::create_dir(&tree).unwrap();
    let mut at = fs::File::open(&tree).unwrap();
    for _ in 0..3000 {
        rustix::fs::mkdirat(&at, "deeper", rustix::fs::Mode::from_raw_mode(0o700)).unwrap();
        let flags = rustix::fs::OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, "deeper", flags, rustix::fs::Mode::empty()).unwrap().into();
    }
    rustix::fs::symlinkat(&victim, &at, "link").unwrap();
    for inner in 0..20 {
        fs::create_dir_all(tree.join(format!("{inner}/a/b"))).unwrap();
        fs::write(tree.join(format!("{inner}/a/file")), "x").unwrap();
        symlink(&victim, tree.join(format!("{inner}/a/link"))).unwrap();
        set_mode(&tree.join(format!("{inner}/a/b")), 0o500);
        set_mode(&tree.join(format!("{inner}/a")), 0);
    }
    super::remove_tree(&tree).unwrap();
    assert!(!tree.exists());
    super::remove_tree(&tree).unwrap();
    symlink(&victim, &tree).unwrap();
    super::remove_tree(&tree).unwrap();
    assert!(fs::symlink_metadata(&tree).is_err());
    assert_eq!(fs::read_to_string(victim.join("file")).unwrap(), "precious");
}

/// Runs the test again in its own mount namespace.
#[test]
fn issue14_8_what_is_mounted_in_a_tree_is_left_alone() {
    const INSIDE: &str = "GRID_TEST_IN_MOUNT_NAMESPACE";
    let name = "tests::issue14_8_what_is_mounted_in_a_tree_is_left_alone";
    if std::env::var_os(INSIDE).is_none() {
        let unshare = || std::process::Command::new("unshare");
        if !unshare().args(["-m", "true"]).status().is_ok_and(|status| status.success()) {
            println!("left out: mounts are not allowed here");
            return;
        }
        let mut again = unshare();
        again.arg("-m").arg(std::env::current_exe().unwrap()).args([name, "--exact", "--nocapture"]).env(INSIDE, "1");
        let out = again.output().unwrap();
        assert!(
            out.status.success(),
            "{}",
            String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr)
        );
        return;
    }
    let (dir, folder) = folder();
    let victim = dir.path().join("victim");
    fs::create_dir_all(victim.join("inner")).unwrap();
    fs::write(victim.join("inner/file"), "precious").unwrap();
    let mount = |arguments: &[&str], at: &Path| {
        fs::create_dir_all(at).unwrap();
        let mut mount = std::process::Command::new("mount");
        assert!(mount.args(arguments).arg(at).status().unwrap().success());
    };
    let tree = folder.join("tree");
    let bind = ["--bind", victim.to_str().unwrap()];
    mount(&bind, &tree.join("a/b/same-file-system"));
    mount(&bind, &tree.join("top"));
    mount(&["-t", "tmpfs", "none"], &tree.join("a/other"));
    fs::write(tree.join("a/other/file"), "precious").unwrap();
    fs::write(tree.join("a/b/own"), "x").unwrap();
    let problem = super::remove_tree(&tree).unwrap_err().to_string();
    assert!(problem.contains("mounted at"), "{problem}");
    assert_eq!(fs::read_to_string(victim.join("inner/file")).unwrap(), "precious");
    let mut left = Vec::new();
    let mut waiting = vec![tree.clone()];
    while let Some(at) = waiting.pop() {
        for entry in fs::read_dir(at).unwrap().map(Result::unwrap) {
            let path = entry.path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                left.push(path.file_name().unwrap().to_owned());
            }
        }
    }
    assert_eq!(left, ["file"; 3], "two views of the victim and the other file system");
    let whole = folder.join("whole");
    mount(&bind, &whole);
    assert!(super::remove_tree(&whole).is_err());
    assert_eq!(fs::read_to_string(victim.join("inner/file")).unwrap(), "precious");
}
