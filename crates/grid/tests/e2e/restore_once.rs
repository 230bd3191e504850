//! E2: a restore never runs a finished `once` step again, whatever happened to the workers' journals.
//!
//! Each scenario runs on one controller and on three: the backup is restored into an empty folder at the address of the
//! first controller, and the others join it with empty folders.

use std::path::{Path, PathBuf};

use grid_testkit::spec::{job, record, record_slowly, task, with};
use grid_testkit::{Api, Gridc, Job, LIMIT, Record, ServerOptions, Trio, ensure, wait_until};
use serde_json::{Value, json};

/// A cluster that loses all of its controllers and is restored.
struct Site {
    trio: Trio,
    restores: usize,
}

impl Site {
    fn start(controllers: usize, workers: &[(&str, &str)]) -> Self {
        let mut trio = Trio::start_alone();
        for id in ["c2", "c3"].iter().take(controllers - 1) {
            trio.add_server(id);
        }
        for (id, flags) in workers {
            let worker = trio.worker_options(id).flags(flags).start();
            trio.workers.insert((*id).to_owned(), worker);
        }
        Self { trio, restores: 0 }
    }

    fn gridc(&self) -> Gridc {
        self.trio.gridc()
    }

    fn api(&self) -> Api {
        self.trio.api(&self.trio.wait_leader())
    }

    fn backup(&self) -> PathBuf {
        let file = self.trio.path("grid.backup");
        self.gridc().run(&["cluster", "backup", "--force", "-o", file.to_str().expect("a plain path")]).exits(0);
        file
    }

    fn lose_controllers(&mut self) {
        for server in self.trio.servers.values_mut() {
            server.kill9();
        }
    }

    fn restore(&mut self, backup: &Path) {
        self.restores += 1;
        let ids: Vec<String> = self.trio.servers.keys().cloned().collect();
        let first = self.trio.api("c1");
        for id in &ids {
            let ports = self.trio.server(id).ports();
            let folder = self.trio.path(&format!("{id}-restored-{}", self.restores));
            let options = ServerOptions::new(id, folder).flags(&self.trio.fabric.server_flags());
            let options =
                if id == "c1" { options.restore(backup) } else { options.join(&self.trio.servers["c1"].url()) };
            let mut server = options.spawn_at(ports);
            server.wait_ready();
            self.trio.servers.insert(id.clone(), server);
        }
        wait_until("it leads", LIMIT, || {
            let role = first.try_get("/role")?.json();
            ensure(role["role"] == "LEADER", role.to_string())
        });
    }

    fn damage(&mut self, worker: &str, how: &str, copy: &Path) {
        let worker = self.trio.workers.get_mut(worker).expect("a worker");
        worker.kill9_tree();
        let data = worker.data_dir();
        let journal = data.join("journal");
        match how {
            "truncated" => {
                let bytes = std::fs::read(&journal).expect("a journal");
                std::fs::write(&journal, &bytes[..bytes.len() / 2]).expect("cut");
            }
            "lost" => std::fs::remove_file(&journal).expect("removed"),
            "older" => {
                std::fs::remove_dir_all(&data).expect("removed");
                copy_folder(copy, &data);
            }
            "intact" => {}
            other => panic!("{other}"),
        }
    }

    fn restart(&mut self, worker: &str) {
        self.trio.workers.get_mut(worker).expect("a worker").restart();
    }
}

fn copy_folder(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("listed").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("copied");
        }
    }
}

fn gated(record_to: &Record) -> Value {
    with(record(record_to), json!({"confirm": true}))
}

/// Confirms a phase that waits for its confirmation.
fn confirm_phase(site: &Site, id: &str, phase: &str) {
    wait_until("its gate asks", LIMIT, || {
        let ran = site.gridc().run(&["job", "confirm", id, "--phase", phase]);
        ensure(ran.code == 0, format!("{ran:?}"))
    });
}

const DAMAGES: [(&str, &str); 4] =
    [("web-01", "truncated"), ("web-02", "lost"), ("web-03", "older"), ("web-04", "intact")];

fn a_damaged_journal_runs_nothing_again(controllers: usize) {
    let workers: Vec<(&str, &str)> = DAMAGES.iter().map(|(id, _)| (*id, "--slots 9")).chain([("web-05", "")]).collect();
    let mut site = Site::start(controllers, &workers);
    let lines = site.trio.record("lines");
    let api = site.api();
    let everywhere = |tasks: Vec<Value>| with(job("all", tasks), json!({"strategy": "continue"}));
    // The backup has them before their first step, and with an outstanding step.
    let later = api.submit(&everywhere(vec![gated(&lines)]));
    let again = api.submit(&everywhere(vec![gated(&lines)]));
    let running = api.submit(&everywhere(vec![record_slowly(&lines, "2s"), gated(&lines)]));
    // One that ended before, and is resumed after the backup.
    let ended = api.submit(&everywhere(vec![gated(&lines)]));
    assert_eq!(api.cancel(&ended).status, 200);
    lines.wait_of(&running, 5);
    let file = site.backup();
    let copy = site.trio.path("web-03-copy");
    copy_folder(&site.trio.workers["web-03"].data_dir(), &copy);

    site.gridc().run(&["job", "resume", &ended]).exits(0);
    for id in [&later, &again, &ended] {
        confirm_phase(&site, id, "0");
        lines.wait_of(id, 5);
    }
    confirm_phase(&site, &running, "1");
    for id in [&later, &again, &ended, &running] {
        assert_eq!(api.wait_ended(id).status(), "completed");
    }
    site.lose_controllers();
    for (worker, how) in DAMAGES {
        site.damage(worker, how, &copy);
    }
    site.restore(&file);
    for (worker, _) in DAMAGES {
        site.restart(worker);
    }
    let api = site.api();
    let confirmed = wait_until("every journal was asked", LIMIT, || {
        let why = site.gridc().run(&["job", "why", &later, "-o", "json"]).exits(0).json();
        let doubts = why["may_have_run"].as_array().cloned().unwrap_or_default();
        ensure(doubts.iter().all(|doubt| doubt["awaited"] == false), format!("{why}"))?;
        Ok::<_, String>(why)
    });
    let doubts = confirmed["may_have_run"].as_array().map_or(0, Vec::len);
    assert_eq!(doubts, 3, "those whose journal was damaged: {confirmed}");
    let told = site.gridc().run(&["job", "confirm", &later]).exits(0);
    assert!(told.stderr.contains("may have run: step 0 on web-01") && told.stderr.contains("--rerun-once"), "{told:?}");
    confirm_phase(&site, &later, "0");
    site.gridc().run(&["job", "confirm", &running]).exits(0);
    confirm_phase(&site, &running, "1");
    for id in [&later, &running] {
        let done = api.wait_ended(id);
        for (worker, how) in DAMAGES.iter().filter(|(_, how)| *how != "intact") {
            assert_eq!(done.outcome(0, worker), "unknown", "{how}: {done}");
        }
        // W2: known although they received `Forget` before the controllers were lost.
        for worker in ["web-04", "web-05"] {
            assert_eq!(done.outcome(0, worker), "success", "{done}");
        }
    }
    let refused = site.gridc().run(&["job", "resume", &ended]).exits(5);
    assert!(refused.stderr.contains("step 0 on web-01") && refused.stderr.contains("--rerun-once"), "{refused:?}");
    assert_eq!(lines.duplicates(), [], "nothing once-only ran twice");

    site.gridc().run(&["job", "confirm", &again, "--rerun-once"]).exits(0);
    confirm_phase(&site, &again, "0");
    let done = api.wait_ended(&again);
    assert_eq!((done.status(), done.count("success")), ("completed", 5), "{done}");
    assert_eq!(lines.of(&again).len(), 8, "an operator wanted it where the journal was damaged");
    site.gridc().run(&["job", "resume", &ended, "--rerun-once"]).exits(0);
    confirm_phase(&site, &ended, "0");
    assert_eq!(api.wait_ended(&ended).status(), "completed");
    assert_eq!((lines.of(&later).len(), lines.of(&ended).len()), (5, 10));
    let new = api.submit(&everywhere(vec![record(&lines)]));
    assert_eq!(api.wait_ended(&new).status(), "completed");
}

#[test]
fn e2_a_damaged_journal_runs_nothing_again_on_one_controller() {
    a_damaged_journal_runs_nothing_again(1);
}

#[test]
fn e2_a_damaged_journal_runs_nothing_again_on_three_controllers() {
    a_damaged_journal_runs_nothing_again(3);
}

fn what_runs_is_adopted_and_what_ended_is_recorded(controllers: usize) {
    let mut site = Site::start(controllers, &[("web-01", "--slots 9"), ("web-02", "--slots 9")]);
    let lines = site.trio.record("lines");
    let api = site.api();
    let long = api.submit(&job("all", [record_slowly(&lines, "20s"), record(&lines)]));
    // Its steps end after the backup, while another phase keeps the job unfinished: the journals have them.
    let ended = api.submit(&job("all", [record_slowly(&lines, "1s"), record(&lines), gated(&lines)]));
    lines.wait_of(&long, 2);
    lines.wait_of(&ended, 2);
    let file = site.backup();
    lines.wait_of(&ended, 4);
    api.wait_job(&ended, "at its gate", |j| j.count("success") == 4);
    site.lose_controllers();
    site.restore(&file);
    let api = site.api();
    api.wait_job(&ended, "recorded from the journals", |j| j.count("success") == 4);
    let why = wait_until("both are adopted", LIMIT, || {
        let why = site.gridc().run(&["job", "why", &long]).exits(0).stdout;
        ensure(why.contains("step 0 still runs on web-01 (and 1 more)"), why.clone())?;
        Ok::<_, String>(why)
    });
    assert!(why.starts_with("held: restored from a backup of 20"), "{why}");
    let told = site.gridc().run(&["job", "confirm", &long]).exits(0);
    assert_eq!(told.stderr, "", "nothing is in doubt");
    let running = api.job(&long);
    assert_eq!((running.status(), running.count("running")), ("running", 2), "{running}");
    site.gridc().run(&["job", "confirm", &ended]).exits(0);
    confirm_phase(&site, &ended, "2");
    let all = |id: &str| -> Job { api.wait_ended(id) };
    let (long_doc, ended_doc) = (all(&long), all(&ended));
    assert_eq!((long_doc.status(), long_doc.count("success")), ("completed", 4), "{long_doc}");
    assert_eq!((ended_doc.status(), ended_doc.count("success")), ("completed", 6), "{ended_doc}");
    assert_eq!(lines.duplicates(), []);
    assert_eq!((lines.of(&long).len(), lines.of(&ended).len()), (4, 6));
}

#[test]
fn e2_what_runs_is_adopted_and_what_ended_is_recorded_on_one_controller() {
    what_runs_is_adopted_and_what_ended_is_recorded(1);
}

#[test]
fn e2_what_runs_is_adopted_and_what_ended_is_recorded_on_three_controllers() {
    what_runs_is_adopted_and_what_ended_is_recorded(3);
}

/// One node has lost its journal, which keeps the first barrier open; the other one still runs a later step.
fn a_later_step_that_runs_elsewhere_is_shown_and_finishes(controllers: usize) {
    let mut site = Site::start(controllers, &[("web-01", ""), ("web-02", "")]);
    let lines = site.trio.record("lines");
    let api = site.api();
    let printed = task("test", "output", &json!({"lines": 3, "width": 10}));
    let id = api.submit(&job("all", [record_slowly(&lines, "2s"), printed, record_slowly(&lines, "25s")]));
    lines.wait_of(&id, 2);
    let file = site.backup();
    lines.wait_of(&id, 4);
    site.lose_controllers();
    site.damage("web-02", "truncated", &file);
    site.restore(&file);
    site.restart("web-02");
    let api = site.api();
    let why = wait_until("web-01 is adopted and web-02 in doubt", LIMIT, || {
        let why = site.gridc().run(&["job", "why", &id, "-o", "json"]).exits(0).json();
        let doubts = why["may_have_run"].as_array().cloned().unwrap_or_default();
        ensure(doubts.len() == 2 && doubts.iter().all(|doubt| doubt["awaited"] == false), why.to_string())?;
        Ok::<_, String>(why)
    });
    assert!(why["why"].as_str().is_some_and(|why| why.contains("step 2 still runs on web-01;")), "{why}");
    assert!(why["may_have_run"].as_array().is_some_and(|all| all.iter().all(|one| one["node"] == "web-02")), "{why}");
    let held = api.job(&id);
    let of_first = |doc: &Job| [0, 1, 2].map(|step| doc.outcome(step, "web-01").to_owned());
    assert_eq!(of_first(&held), ["success", "success", "running"], "{held}");
    site.gridc().run(&["job", "confirm", &id]).exits(0);
    let running = api.job(&id);
    assert_eq!((running.status(), of_first(&running)[2].as_str()), ("running", "running"), "{running}");
    let done = api.wait_ended(&id);
    assert_eq!((done.status(), of_first(&done)), ("failed", ["success"; 3].map(str::to_owned)), "{done}");
    assert_eq!([0, 1, 2].map(|step| done.outcome(step, "web-02")), ["unknown", "skipped", "skipped"], "{done}");
    let refused = site.gridc().run(&["job", "resume", &id]).exits(5);
    assert!(refused.stderr.contains("step 2 on web-02") && !refused.stderr.contains("web-01"), "{refused:?}");
    assert_eq!((lines.of(&id).len(), lines.duplicates()), (4, vec![]));
}

#[test]
fn e2_a_later_step_that_runs_elsewhere_is_shown_and_finishes_on_one_controller() {
    a_later_step_that_runs_elsewhere_is_shown_and_finishes(1);
}

#[test]
fn e2_a_later_step_that_runs_elsewhere_is_shown_and_finishes_on_three_controllers() {
    a_later_step_that_runs_elsewhere_is_shown_and_finishes(3);
}

/// A replaced generation refuses every write, across restarts, until an operator lifts it.
#[test]
fn e2_a_superseded_controller_refuses_writes_across_a_restart_until_it_is_lifted() {
    let mut site = Site::start(1, &[("web-01", "")]);
    let lines = site.trio.record("lines");
    let file = site.backup();
    let ports = site.trio.server("c1").ports();
    site.lose_controllers();
    site.restore(&file);
    let api = site.api();
    let seen = wait_until("the worker follows", LIMIT, || api.try_submit("seen", &job("all", [record(&lines)])));
    assert_eq!(api.wait_ended(&seen).status(), "completed");
    site.lose_controllers();
    let mut old =
        ServerOptions::new("c1", site.trio.path("c1")).flags(&site.trio.fabric.server_flags()).spawn_at(ports);
    old.wait_ready();
    let refused = |api: &Api| {
        wait_until("writes are refused", LIMIT, || {
            let answer = api.post("/job", &job("all", [record(&lines)]));
            ensure(answer.status == 409 && answer.json()["error"] == "SUPERSEDED", format!("{answer:?}"))?;
            ensure(
                answer.json()["message"].as_str().is_some_and(|why| why.contains("gridc cluster lift")),
                "words".to_owned(),
            )
        });
    };
    refused(&api);
    assert_eq!(api.get("/status").json()["superseded"]["generation"], 1);
    old.kill9();
    // Without the worker that showed it.
    site.trio.workers.get_mut("web-01").expect("a worker").kill9_tree();
    old.restart();
    refused(&api);
    let gridc = Gridc::new(&old.url());
    let status = gridc.run(&["cluster", "status"]).exits(0).stdout;
    assert!(status.contains("superseded") && status.contains("worker web-01"), "{status}");
    assert!(gridc.run(&["status"]).exits(0).stdout.contains("superseded"));
    let kinds = gridc.run(&["events"]).exits(0).stdout;
    assert!(kinds.contains("ClusterSuperseded"), "{kinds}");
    gridc.run(&["cluster", "lift"]).exits(0);
    gridc.run(&["cluster", "lift"]).exits(5);
    wait_until("writes are accepted", LIMIT, || api.try_submit("lifted", &job("all", [record(&lines)])));
    // A client's number alone changes nothing.
    let claimed =
        api.post_with("/job", &[("x-grid-leader-epoch", &(9u64 << 32 | 1).to_string())], &job("all", [record(&lines)]));
    assert_eq!((claimed.status, claimed.json()["error"].clone()), (409, json!("STALE_EPOCH")));
    wait_until("it is an event", LIMIT, || {
        let kinds = gridc.run(&["events"]).exits(0).stdout;
        ensure(kinds.contains("HigherGenerationClaimed"), kinds.clone())
    });
    assert!(api.get("/status").json()["superseded"].is_null());
}

/// The members of the replaced generation learn of it from the restored controller at the address of their old peer.
#[test]
fn e2_controllers_learn_from_a_restored_peer_that_they_are_superseded() {
    let mut site = Site::start(3, &[]);
    let file = site.backup();
    let ports = site.trio.server("c1").ports();
    let raft = site.trio.server("c1").raft_port();
    site.trio.server("c1").kill9();
    let mut restored = ServerOptions::new("c1", site.trio.path("c1-restored"))
        .flags(&site.trio.fabric.server_flags())
        .restore(&file)
        .spawn_with(ports, raft);
    restored.wait_ready();
    wait_until("the other two are superseded", LIMIT, || {
        let status = site.trio.api("c2").try_get("/status")?.json();
        ensure(status["superseded"]["generation"] == 1, status.to_string())
    });
}

/// The leader epoch of `c1`, once it leads.
fn epoch_of_first(site: &Site) -> u64 {
    wait_until("c1 leads", LIMIT, || {
        let role = site.trio.api("c1").try_get("/role")?.json();
        ensure(role["role"] == "LEADER", role.to_string())?;
        role["leader_epoch"].as_u64().ok_or_else(|| role.to_string())
    })
}

/// Epochs of a restore begin with its time in seconds: the next one begins higher when that has passed.
fn wait_behind(epoch: u64) {
    wait_until("the clock is beyond the last epoch", LIMIT, || {
        let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("a clock");
        let seconds = since_1970.as_secs() - 1_577_836_800;
        ensure(seconds > (epoch & u64::from(u32::MAX)) + 1, seconds.to_string())
    });
}

fn is_superseded(api: &Api) {
    wait_until("it is superseded", LIMIT, || {
        let answer = api.try_get("/status")?.json();
        ensure(answer["superseded"]["generation"] == 1, answer.to_string())
    });
    let answer = api.post("/job", &job("all", [grid_testkit::spec::echo()]));
    assert_eq!((answer.status, answer.json()["error"].clone()), (409, json!("SUPERSEDED")), "{answer:?}");
}

/// Both restores of one backup have the same generation; the later one counts.
#[test]
fn e2_a_second_restore_of_one_backup_supersedes_the_first_which_learns_it_from_a_worker() {
    let mut site = Site::start(1, &[("web-01", "")]);
    let lines = site.trio.record("lines");
    let file = site.backup();
    let ports = site.trio.server("c1").ports();
    for folder in ["first", "second"] {
        site.lose_controllers();
        site.restore(&file);
        wait_behind(epoch_of_first(&site));
        let api = site.api();
        let seen = wait_until("the worker follows", LIMIT, || api.try_submit(folder, &job("all", [record(&lines)])));
        assert_eq!(api.wait_ended(&seen).status(), "completed");
    }
    site.lose_controllers();
    let mut first = ServerOptions::new("c1", site.trio.path("c1-restored-1"))
        .flags(&site.trio.fabric.server_flags())
        .spawn_at(ports);
    first.wait_ready();
    let (api, gridc) = (site.trio.api("c1"), Gridc::new(&first.url()));
    is_superseded(&api);
    let status = gridc.run(&["status"]).exits(0).stdout;
    assert!(status.starts_with("superseded"), "it comes first: {status}");
    let refused = gridc.run(&["cluster", "remove", "c1"]).exits(5).stderr;
    assert!(refused.contains("SUPERSEDED") && refused.contains("gridc cluster lift"), "{refused}");
    gridc.run(&["cluster", "lift"]).exits(0);
    wait_until("writes are accepted", LIMIT, || api.try_submit("lifted", &job("all", [record(&lines)])));
    let log = site.trio.workers.get_mut("web-01").expect("a worker");
    wait_until("the worker says what to do", LIMIT, || {
        let text = log.process().log_text();
        ensure(text.contains("--reset-journal"), text.clone())
    });
    assert!(api.get("/status").json()["superseded"].is_null(), "what was lifted is not recorded again");
}

#[test]
fn e2_a_second_restore_of_one_backup_supersedes_the_first_which_learns_it_from_a_peer() {
    let mut site = Site::start(3, &[]);
    let file = site.backup();
    site.lose_controllers();
    site.restore(&file);
    wait_until("all three vote", LIMIT, || {
        let status = site.trio.api("c1").try_get("/api/v1/cluster")?.json();
        ensure(status["voters"] == 3, status.to_string())
    });
    wait_behind(epoch_of_first(&site));
    let ports = site.trio.server("c1").ports();
    let raft = site.trio.server("c1").raft_port();
    site.trio.server("c1").kill9();
    let mut second = ServerOptions::new("c1", site.trio.path("c1-again"))
        .flags(&site.trio.fabric.server_flags())
        .restore(&file)
        .spawn_with(ports, raft);
    second.wait_ready();
    let api = site.trio.api("c2");
    wait_until("the other two are superseded", LIMIT, || {
        let status = api.try_get("/status")?.json();
        ensure(status["superseded"]["generation"] == 1, status.to_string())
    });
    let answer = site.trio.api("c1").get("/status").json();
    assert!(answer["superseded"].is_null(), "the later restore goes on: {answer}");
}
