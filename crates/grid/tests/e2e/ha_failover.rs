//! Controllers die under load: nothing acknowledged is lost, nothing runs twice, all agree afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use grid_testkit::spec::{echo, job, pipeline, record_slowly, with};
use grid_testkit::{Api, Gridc, Job, LIMIT, Line, Process, Record, Trio, command, ensure, wait_until};
use serde_json::{Value, json};

const KILLS: usize = 20;
/// Slots of both workers below: leases of an earlier leader may still run, but no more than these.
const SLOTS: usize = 8;

#[test]
fn i2_twenty_leaders_killed_in_a_row_lose_nothing_and_run_nothing_twice() {
    let workers = [("w1", "--slots 4"), ("w2", "--slots 4")];
    let mut trio = Trio::start_with("--max-concurrent 6", &workers);
    let record = trio.record("lines");
    let apis: Vec<Api> =
        trio.servers.values().map(|server| server.api().with_timeout(Duration::from_secs(3))).collect();
    let (over, accepted) = (AtomicBool::new(false), AtomicUsize::new(0));
    let submitted = std::thread::scope(|scope| {
        let submitter = scope.spawn(|| submit_until(&over, &accepted, &apis, &record));
        let killed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            for _ in 0..KILLS {
                let leader = trio.wait_leader();
                wait_load(&accepted, &record);
                trio.server(&leader).kill9();
                trio.wait_other_leader(&leader);
                trio.server(&leader).restart();
            }
        }));
        over.store(true, Ordering::Relaxed);
        let submitted = submitter.join().expect("the submitter's own panic is above");
        if let Err(panic) = killed {
            std::panic::resume_unwind(panic);
        }
        submitted
    });
    let leader = trio.wait_leader();
    let api = trio.api(&leader);
    let ended: BTreeMap<String, Job> =
        submitted.iter().map(|id| (id.clone(), api.wait_ended_within(id, 3 * LIMIT))).collect();
    let (index, hash) = trio.wait_equal();
    println!("{} jobs, {} lines, index {index}, state {hash}", ended.len(), record.lines().len());
    assert_eq!(record.duplicates(), [], "a once attempt ran twice");
    let recorded: BTreeSet<Line> = record.lines().into_iter().collect();
    for (id, job) in &ended {
        // No worker ever died, so nothing may be unknown, and nothing fails by itself.
        assert_eq!(job.status(), "completed", "{job}");
        for step in 0..3 {
            for node in job.expected() {
                assert_eq!(job.outcome(step, node), "success", "{job}");
                let line = Line { job: id.clone(), step, node: node.to_owned(), attempt: job.attempts(step, node) };
                assert!(recorded.contains(&line), "success without a run: {line:?} of {job}");
            }
        }
    }
    let listed = api.get("/jobs?limit=1000").json();
    let listed: BTreeSet<String> = listed.as_array().expect("a list").iter().map(id_of).collect();
    assert_eq!(listed, submitted, "exactly the acknowledged jobs exist");
}

/// Waits until a submit was acknowledged and a lease dispatched and run since: the death of an idle leader proves nothing.
fn wait_load(accepted: &AtomicUsize, record: &Record) {
    let (before, lines) = (accepted.load(Ordering::Relaxed), record.lines().len());
    wait_until("a submit and a run under this leader", 2 * LIMIT, || {
        let (now, run) = (accepted.load(Ordering::Relaxed) - before, record.lines().len() - lines);
        ensure(now > 0 && run > SLOTS, format!("{now} submits, {run} lines"))
    });
}

fn id_of(job: &Value) -> String {
    job["id"].as_str().expect("an id").to_owned()
}

fn submit_until(over: &AtomicBool, accepted: &AtomicUsize, apis: &[Api], record: &Record) -> BTreeSet<String> {
    let mut ids = BTreeSet::new();
    let mut number = 0;
    while !over.load(Ordering::Relaxed) {
        number += 1;
        let step = || with(record_slowly(record, "150ms"), json!({"timeout": "60s"}));
        let body = with(job("all", [step(), pipeline([step(), step()])]), json!({"timeout": "5m"}));
        let key = format!("key-{number}");
        let id = wait_until("an acknowledged submit", 2 * LIMIT, || {
            let tries = apis.iter().map(|api| api.try_submit(&key, &body));
            let mut seen = String::new();
            for tried in tries {
                match tried {
                    Ok(id) => return Ok(id),
                    Err(e) => seen = e,
                }
            }
            Err(seen)
        });
        assert!(ids.insert(id.clone()), "two keys gave the same job {id}");
        accepted.fetch_add(1, Ordering::Relaxed);
        // A stream, not a flood: the list below must show every job.
        std::thread::sleep(Duration::from_millis(250));
    }
    ids
}

/// Prints the median; how long it takes is a floor of the benchmark, not of this test.
#[test]
fn a_killed_leader_is_replaced_and_the_next_write_is_accepted() {
    let mut trio = Trio::start(&[("w1", "")]);
    let mut took: Vec<Duration> = Vec::new();
    for round in 0..10 {
        let leader = trio.wait_leader();
        trio.wait_equal();
        trio.server(&leader).kill9();
        let begun = Instant::now();
        trio.submit(&format!("round-{round}"), &job("all", [echo()]));
        took.push(begun.elapsed());
        trio.server(&leader).restart();
    }
    took.sort();
    println!("leader killed -> next accepted write: median {:?}, all {took:?}", took[took.len() / 2]);
}

#[test]
fn e7_step_down_hands_over_and_nothing_fails_but_not_leader() {
    let trio = Trio::start(&[("w1", "--slots 4")]);
    let (over, accepted) = (AtomicBool::new(false), AtomicUsize::new(0));
    let apis: Vec<Api> = trio.servers.values().map(grid_testkit::Server::api).collect();
    std::thread::scope(|scope| {
        let submitter = scope.spawn(|| {
            let (mut ids, mut other) = (Vec::new(), Vec::new());
            let mut number = 0;
            while !over.load(Ordering::Relaxed) {
                number += 1;
                for api in &apis {
                    let key = format!("k{number}");
                    let answer = api.post_with("/job", &[("idempotency-key", &key)], &job("all", [echo()]));
                    match answer.status {
                        200 | 201 => {
                            ids.push(id_of(&answer.json()));
                            accepted.fetch_add(1, Ordering::Relaxed);
                            break;
                        }
                        409 if answer.error() == "NOT_LEADER" => {}
                        _ => other.push(format!("{answer:?}")),
                    }
                }
                std::thread::sleep(Duration::from_millis(5));
            }
            (ids, other)
        });
        for _ in 0..3 {
            let (leader, before) = (trio.wait_leader(), accepted.load(Ordering::Relaxed));
            wait_until("a stream of submits", LIMIT, || {
                let now = accepted.load(Ordering::Relaxed);
                ensure(now >= before + 10, format!("{} since the last hand-over", now - before))
            });
            let to = trio.servers.keys().find(|id| **id != leader).expect("another").clone();
            let ran = trio.gridc().run(&["cluster", "step-down", "--to", &to]).exits(0);
            assert!(ran.stdout.contains(" leads"), "{ran:?}");
            trio.wait_other_leader(&leader);
        }
        over.store(true, Ordering::Relaxed);
        let (ids, other) = submitter.join().expect("the submitter's own panic is above");
        // 429 is the queue's answer to a flood; it has nothing to do with the hand-over.
        let other: Vec<_> = other.into_iter().filter(|answer| !answer.contains("QUEUE_FULL")).collect();
        assert_eq!(other, Vec::<String>::new(), "something failed otherwise");
        let api = trio.api(&trio.wait_leader());
        for id in &ids {
            assert_eq!(api.wait_ended(id).status(), "completed");
        }
    });
    trio.wait_equal();
}

#[test]
fn a_worker_that_was_given_one_controller_finds_the_others() {
    let mut trio = Trio::start(&[]);
    let url = trio.servers["c1"].url();
    let mut worker = grid_testkit::WorkerOptions::new("w1", &url, trio.path("w1")).start();
    if trio.wait_leader() != "c1" {
        trio.gridc().run(&["cluster", "step-down", "--to", "c1"]).exits(0);
    }
    wait_until("c1 leads", LIMIT, || ensure(trio.try_leader()? == "c1", "another"));
    trio.server("c1").kill9();
    let leader = trio.wait_other_leader("c1");
    let id = trio.submit("after", &job("all", [echo()]));
    assert_eq!(trio.api(&leader).wait_ended(&id).status(), "completed");
    assert!(worker.process().is_running());
}

#[test]
fn a_worker_learns_of_controllers_that_join_after_it() {
    let mut trio = Trio::start_alone();
    let url = trio.servers["c1"].url();
    let mut worker = grid_testkit::WorkerOptions::new("w1", &url, trio.path("w1")).start();
    for id in ["c2", "c3"] {
        trio.add_server(id);
        let url = trio.servers[id].url();
        wait_until("the worker to hear of it", LIMIT, || {
            let log = worker.process().log_text();
            ensure(log.contains(&url), log)
        });
    }
    assert_eq!(trio.wait_leader(), "c1");
    trio.server("c1").kill9();
    let leader = trio.wait_other_leader("c1");
    let id = trio.submit("after", &job("all", [echo()]));
    assert_eq!(trio.api(&leader).wait_ended(&id).status(), "completed");
}

#[test]
fn gridc_that_was_given_one_controller_watches_a_job_past_its_end() {
    let mut trio = Trio::start(&[("w1", "")]);
    let leader = trio.wait_leader();
    let mut watch = command("gridc");
    watch.args(["--server", &trio.servers[&leader].url(), "job", "run", "-t", "all", "test", "sleep"]);
    watch.args(["--duration", "10m", "--wait"]);
    let mut watch = Process::spawn("gridc", watch, &trio.path("gridc.log"));
    let told = |watch: &Process| watch.stdout_lines().join("\n") + &watch.log_text();
    wait_until("the watch", LIMIT, || ensure(told(&watch).contains("1 running"), told(&watch)));
    trio.server(&leader).kill9();
    let next = trio.wait_other_leader(&leader);
    let id = id_of(&trio.api(&next).get("/jobs").json()[0]);
    trio.gridc().run(&["job", "cancel", &id]).exits(0);
    let ended = watch.wait_exit(LIMIT);
    assert_eq!(ended.code(), Some(1), "{}", told(&watch));
    assert!(told(&watch).contains("cancelled"), "{}", told(&watch));
}

/// Expensive reads on every controller at once, more than they can answer, while jobs run.
#[test]
fn issue13_20_a_flood_of_expensive_reads_changes_no_leader_and_holds_up_no_commit() {
    let trio = Trio::start_with("--snapshot-after 65536", &[("w1", "--slots 4"), ("w2", "--slots 4")]);
    let first: Vec<String> = (0..20).map(|i| trio.submit(&format!("before-{i}"), &job("all", [echo()]))).collect();
    let leader = trio.wait_leader();
    let epoch = trio.roles()[&leader]["leader_epoch"].clone();
    let (over, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    let paths = ["/status?hash=true".to_owned(), "/jobs?limit=1000".to_owned(), format!("/job/{}", first[0])];
    let apis: Vec<Api> = trio.servers.values().map(grid_testkit::Server::api).collect();
    std::thread::scope(|scope| {
        for i in 0..48 {
            let (api, path, over, answered) = (&apis[i % 3], &paths[i / 3 % 3], &over, &answered);
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    if api.try_get(path).is_ok_and(|answer| answer.status == 200) {
                        answered.fetch_add(1, Ordering::Relaxed);
                    }
                }
            });
        }
        let ids: Vec<String> = (0..40).map(|i| trio.submit(&format!("during-{i}"), &job("all", [echo()]))).collect();
        for id in &ids {
            assert_eq!(trio.api(&leader).wait_ended(id).status(), "completed");
        }
        over.store(true, Ordering::Relaxed);
    });
    assert!(answered.load(Ordering::Relaxed) > 100, "the flood was answered, too");
    assert_eq!(trio.wait_leader(), leader, "no change of leader");
    assert_eq!(trio.roles()[&leader]["leader_epoch"], epoch);
    trio.wait_equal();
}

/// No term lasts as long as the job's timeout, and none writes anything but its `BeginTerm`.
#[test]
fn issue13_11_frequent_changes_of_the_leader_do_not_freeze_a_deadline() {
    let mut trio = Trio::start(&[("w1", "")]);
    trio.workers.get_mut("w1").expect("started").terminate();
    let body = with(job("node:w1", [echo()]), json!({"offline": "wait", "timeout": "8s"}));
    let id = trio.submit("waits", &body);
    let mut terms = 0;
    let ended = wait_until("its deadline", 2 * LIMIT, || {
        let leader = trio.wait_leader();
        let seen = trio.api(&leader).job(&id);
        if !seen.ended() {
            trio.gridc().run(&["cluster", "step-down"]);
            trio.wait_other_leader(&leader);
            terms += 1;
        }
        ensure(seen.ended(), format!("{seen}"))?;
        Ok(seen)
    });
    assert!(ended.status() == "failed" && terms > 1, "{terms} terms: {ended}");
}

/// One of three controllers is left. It cannot know who leads, and must not send anybody to the dead leader.
#[test]
fn without_a_majority_no_leader_is_named_and_gridc_says_so() {
    let mut trio = Trio::start(&[]);
    let leader = trio.wait_leader();
    let standbys = trio.standbys();
    let (other, left) = (standbys[0].clone(), standbys[1].clone());
    let (dead_url, url) = (trio.servers[&leader].url(), trio.servers[&left].url());
    let killed_at = Instant::now();
    trio.server(&leader).kill9();
    trio.server(&other).kill9();
    let api = trio.api(&left);
    let silent_ms = || {
        let members = api.get("/api/v1/cluster").json()["members"].as_array().cloned().unwrap_or_default();
        let member = members.into_iter().find(|member| member["id"] == leader.as_str()).unwrap_or_default();
        member["last_contact_ms"].as_u64()
    };
    // Heartbeats came until it was killed, however long ago this controller last asked it anything.
    let silent_ms = silent_ms().expect("the leader was heard");
    assert!(u128::from(silent_ms) < killed_at.elapsed().as_millis() + 5_000, "{silent_ms} ms");
    wait_until("that nobody is named", LIMIT, || {
        let role = api.get("/role").json();
        ensure(role["leader_id"].is_null() && role["leader_url"].is_null(), role)
    });
    let refused = Gridc::new(&url).run(&["job", "run", "-t", "all", "ping", "echo"]).exits(3);
    assert!(refused.stderr.contains("hears no leader: without a majority"), "{refused:?}");
    assert!(refused.stderr.contains("hint: gridc cluster status"), "{refused:?}");
    assert!(!refused.stderr.contains(&dead_url), "{refused:?}");
}
