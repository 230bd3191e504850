//! Real processes: their output, their exit, and the end of everything they started.

use std::time::Duration;

use super::SystemProcesses;
use crate::engine::record::Group;
use crate::seams::{Exit, MARK, Processes, Program, Signal};

fn shell(script: &str, mark: &str) -> Program {
    let args = vec!["-c".to_owned(), script.to_owned()];
    let env = vec![("PATH".into(), "/usr/bin:/bin".into())];
    Program { program: "sh".to_owned(), args, env, mark: mark.to_owned(), folder: "/".into(), stdin: None }
}

fn own_mark(name: &str) -> String {
    format!("{name}-{}", std::process::id())
}

/// A stray may fork between the look at it and the signal, hence more than one try.
async fn kill_until_gone(processes: &SystemProcesses, group: Group, mark: &str) {
    let gone = async {
        while processes.is_alive(group, Some(mark)) {
            processes.signal(group, Some(mark), Signal::Kill);
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("something survives");
}

async fn text(mut output: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut text = String::new();
    tokio::io::AsyncReadExt::read_to_string(&mut output, &mut text).await.unwrap();
    text
}

#[tokio::test]
async fn both_outputs_arrive_in_order_and_the_exit_is_told() {
    let processes = SystemProcesses::new();
    let mark = own_mark("order");
    let spawned = processes.spawn(&shell("echo out; echo err >&2; cat; exit 7", &mark)).unwrap();
    assert_eq!(text(spawned.output).await, "out\nerr\n");
    assert_eq!(spawned.exit.await.unwrap(), Exit::Code(7));
    let missing = Program { program: "/no/such/program".to_owned(), ..shell("", &mark) };
    assert!(processes.spawn(&missing).is_err());
    let missing = Program { program: "grid-no-such-program".to_owned(), ..missing };
    assert!(processes.spawn(&missing).err().unwrap().to_string().contains("/usr/bin:/bin"));
}

#[tokio::test]
async fn a_program_reads_what_it_is_given_and_then_the_end() {
    let processes = SystemProcesses::new();
    let stdin = "line\n".repeat(13_000);
    let program = Program { stdin: Some(stdin.clone()), ..shell("cat", &own_mark("stdin")) };
    let spawned = processes.spawn(&program).unwrap();
    assert_eq!(text(spawned.output).await, stdin);
    assert_eq!(spawned.exit.await.unwrap(), Exit::Code(0));
}

#[tokio::test]
async fn w9_a_group_that_ignores_sigterm_dies_of_sigkill_with_its_children() {
    let processes = SystemProcesses::new();
    let mark = own_mark("stubborn");
    let script = "trap '' TERM; sleep 600 & echo ready; sleep 600";
    let mut spawned = processes.spawn(&shell(script, &mark)).unwrap();
    let mut ready = [0; 6];
    tokio::io::AsyncReadExt::read_exact(&mut spawned.output, &mut ready).await.unwrap();
    processes.signal(spawned.group, Some(&mark), Signal::Term);
    assert!(processes.is_alive(spawned.group, Some(&mark)));
    kill_until_gone(&processes, spawned.group, &mark).await;
    assert_eq!(spawned.exit.await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn w9_a_child_that_left_the_group_is_found_by_its_mark() {
    let processes = SystemProcesses::new();
    let mark = own_mark("stray");
    let spawned = processes.spawn(&shell("setsid sh -c 'echo away; sleep 600' & wait", &mark)).unwrap();
    let mut output = spawned.output;
    let mut away = [0; 5];
    tokio::io::AsyncReadExt::read_exact(&mut output, &mut away).await.unwrap();
    kill_until_gone(&processes, spawned.group, &mark).await;
}

#[tokio::test]
async fn w9_a_process_whose_name_is_no_text_is_not_overlooked() {
    let processes = SystemProcesses::new();
    let mark = own_mark("name");
    // Both the first process and a stray call themselves so.
    let script = "rename() { printf '\\377) Z 1' >/proc/self/comm; }; trap '' TERM; rename; \
                  setsid sh -c \"printf '\\377' >/proc/self/comm; echo ready; while :; do sleep 1; done\" & \
                  while :; do sleep 1; done";
    let mut spawned = processes.spawn(&shell(script, &mark)).unwrap();
    let mut ready = [0; 6];
    tokio::io::AsyncReadExt::read_exact(&mut spawned.output, &mut ready).await.unwrap();
    assert_ne!(spawned.group.start_ticks, 0);
    assert!(processes.is_alive(spawned.group, None));
    let strays = super::marked(&[mark.as_str()].into());
    assert!(strays.iter().any(|stat| stat.pgid != spawned.group.pgid), "{strays:?}");
    kill_until_gone(&processes, spawned.group, &mark).await;
    assert_eq!(spawned.exit.await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn w9_a_process_whose_first_thread_has_exited_is_not_overlooked() {
    let processes = SystemProcesses::new();
    let mark = own_mark("threads");
    let program = "import ctypes, signal, threading, time\n\
                   signal.signal(signal.SIGTERM, signal.SIG_IGN)\n\
                   def run():\n    print('ready', flush=True)\n    time.sleep(600)\n\
                   threading.Thread(target=run).start()\n\
                   ctypes.CDLL(None).pthread_exit(None)\n";
    let script = format!("exec python3 -c \"{program}\"");
    let mut spawned = processes.spawn(&shell(&script, &mark)).unwrap();
    let mut ready = [0; 6];
    tokio::io::AsyncReadExt::read_exact(&mut spawned.output, &mut ready).await.unwrap();
    let first_thread_exited = async {
        let state = |pid| std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        while !state(spawned.group.pgid).contains(") Z ") {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), first_thread_exited).await.expect("its first thread runs on");
    assert!(processes.is_alive(spawned.group, None));
    assert!(!super::marked(&[mark.as_str()].into()).is_empty());
    kill_until_gone(&processes, spawned.group, &mark).await;
    assert_eq!(spawned.exit.await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn w9_a_group_that_this_user_may_not_signal_is_alive() {
    // Only root can be two users.
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let processes = SystemProcesses::new();
    let mark = own_mark("privileged");
    let spawned = processes.spawn(&shell("sleep 600", &mark)).unwrap();
    assert!(!processes.is_foreign(spawned.group));
    let seen_by_another = std::thread::spawn(move || {
        // Of this thread alone.
        rustix::thread::set_thread_uid(rustix::fs::Uid::from_raw(65534)).expect("root may change its user");
        (processes.is_alive(spawned.group, None), processes.is_foreign(spawned.group))
    });
    assert_eq!(seen_by_another.join().unwrap(), (true, true));
    kill_until_gone(&processes, spawned.group, &mark).await;
}

#[tokio::test]
async fn a_group_whose_number_was_given_to_somebody_else_is_gone_and_gets_no_signal() {
    let processes = SystemProcesses::new();
    let mark = own_mark("reused");
    let somebody = processes.spawn(&shell("sleep 600", &mark)).unwrap();
    let ours = Group { start_ticks: somebody.group.start_ticks - 1, ..somebody.group };
    assert!(!processes.is_alive(ours, None));
    processes.signal(ours, None, Signal::Kill);
    assert!(processes.is_alive(somebody.group, None), "it is not ours to kill");
    kill_until_gone(&processes, somebody.group, &mark).await;
    assert_eq!(somebody.exit.await.unwrap(), Exit::Signal(9));
}

#[tokio::test]
async fn what_an_earlier_worker_left_is_killed_by_group_or_by_mark() {
    let processes = SystemProcesses::new();
    let (by_group, by_mark) = (own_mark("left-group"), own_mark("left-mark"));
    let first = processes.spawn(&shell("sleep 600 & sleep 600", &by_group)).unwrap();
    let second = processes.spawn(&shell("sleep 600", &by_mark)).unwrap();
    let other = Group { start_ticks: first.group.start_ticks + 1, ..first.group };
    assert_eq!(
        processes.kill_left_over(&[other], &|_| false),
        0,
        "a later group with the same number is somebody else's"
    );
    let is_left_over = |mark: &str| mark == by_mark;
    assert!(processes.kill_left_over(&[first.group], &is_left_over) >= 2);
    let gone = async {
        while processes.kill_left_over(&[first.group], &is_left_over) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        assert!(!processes.is_alive(second.group, Some(&by_mark)));
        // Without its mark a group is not known any more once its first process is gone; the rest has got its signal.
        while processes.is_alive(first.group, Some(&by_group)) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), gone).await.expect("something survives");
}

#[tokio::test]
async fn a_process_gets_the_mark_and_what_it_is_given() {
    let mark = own_mark("env");
    let mut program = shell("echo \"$GRID_LEASE $GRID_JOB\"", &mark);
    program.env.push(("GRID_JOB".into(), "job-1".into()));
    let spawned = SystemProcesses::new().spawn(&program).unwrap();
    assert_eq!(text(spawned.output).await, format!("{mark} job-1\n"));
    assert_eq!(MARK, "GRID_LEASE");
}

#[tokio::test]
async fn issue14_8_a_process_gets_its_own_folder_and_umask_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let mut program = shell("env | grep -vE '^(PWD|OLDPWD|SHLVL|_)=' | sort; pwd; umask; umask 0", &own_mark("clean"));
    program.folder = dir.path().to_owned();
    for _ in 0..2 {
        let spawned = SystemProcesses::new().spawn(&program).unwrap();
        let want = format!("GRID_LEASE={}\nPATH=/usr/bin:/bin\n{}\n0022\n", program.mark, dir.path().display());
        assert_eq!(text(spawned.output).await, want);
    }
}
