//! N2 with real processes: a step that begins on many nodes is one message, and nobody runs it who should not.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Write};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};

use grid_testkit::spec::{job, pipeline, record, sleep, task, with};
use grid_testkit::{Api, Nats, Record, Server, ServerOptions, Worker, WorkerOptions};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Dropped in this order.
struct Fleet {
    workers: BTreeMap<String, Worker>,
    server: Server,
    nats: Nats,
    dir: TempDir,
}

impl Fleet {
    /// w1 to w6, all in the group web but for w6.
    fn start() -> Self {
        let (nats, dir) = (Nats::start(), tempfile::tempdir().expect("temp dir"));
        let flags = format!("--fabric nats --nats {}", nats.url());
        let server = ServerOptions::new("n1", dir.path().join("n1")).flags(&flags).start();
        let mut fleet = Self { workers: BTreeMap::new(), server, nats, dir };
        for number in 1..=6 {
            fleet.add(&format!("w{number}"), if number < 6 { "web" } else { "db" });
        }
        fleet
    }

    fn add(&mut self, id: &str, group: &str) {
        let options = WorkerOptions::nats(id, &self.nats.url(), self.dir.path().join(id));
        self.workers.insert(id.to_owned(), options.flags(&format!("--groups {group}")).start());
    }

    fn api(&self) -> Api {
        self.server.api()
    }

    fn record(&self, name: &str) -> Record {
        Record::at(self.dir.path().join(name))
    }
}

/// The nodes that a record says have run a step.
fn ran(record: &Record, id: &str, step: usize) -> BTreeSet<String> {
    assert_eq!(record.duplicates(), [], "nothing runs twice");
    record.of(id).into_iter().filter(|line| line.0 == step).map(|line| line.1).collect()
}

fn names(numbers: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    numbers.into_iter().map(|number| format!("w{number}")).collect()
}

/// Everything that is published under `cmd`, as a client of the server sees it.
struct Tap {
    heard: Arc<Mutex<Vec<(String, Value)>>>,
}

impl Tap {
    fn new(nats: &Nats) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", nats.port())).expect("nats-server");
        let mut writer = stream.try_clone().expect("a second handle");
        let mut reader = BufReader::new(stream);
        let hello = "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\nSUB cmd.> 1\r\nPING\r\n";
        writer.write_all(hello.as_bytes()).expect("nats-server");
        let mut line = String::new();
        while line != "PONG\r\n" {
            line.clear();
            assert_ne!(reader.read_line(&mut line).expect("nats-server"), 0, "the connection was closed");
        }
        let heard = Arc::default();
        let into = Arc::clone(&heard);
        // It ends with the server.
        std::thread::spawn(move || while listen(&mut reader, &mut writer, &into).is_some() {});
        Self { heard }
    }

    fn of(&self, id: &str) -> Vec<(String, Value)> {
        let heard = self.heard.lock().unwrap();
        heard.iter().filter(|(_, body)| body["job_id"] == id).cloned().collect()
    }
}

/// Reads one message of the protocol. `None`: the connection has ended.
fn listen(reader: &mut impl BufRead, writer: &mut impl Write, heard: &Mutex<Vec<(String, Value)>>) -> Option<()> {
    let mut line = String::new();
    if reader.read_line(&mut line).ok()? == 0 {
        return None;
    }
    if line.starts_with("PING") {
        return writer.write_all(b"PONG\r\n").ok();
    }
    let words: Vec<&str> = line.split_whitespace().collect();
    let (head, all) = match words[..] {
        ["HMSG", .., head, all] => (head.parse().ok()?, all.parse().ok()?),
        ["MSG", .., all] => (0, all.parse().ok()?),
        _ => return Some(()),
    };
    let mut bytes = vec![0; all + 2];
    reader.read_exact(&mut bytes).ok()?;
    let body: &[u8] = &bytes[head..all];
    heard.lock().unwrap().push((words[1].to_owned(), serde_json::from_slice(body).unwrap_or(Value::Null)));
    Some(())
}

fn is_included(body: &Value, ordinals: &[u64]) -> bool {
    let include = &body["include"];
    (include["from"].as_u64(), include["to"].as_u64()) == (ordinals.first().copied(), ordinals.last().copied())
}

#[test]
fn n2_a_step_over_all_nodes_or_a_group_is_one_message_and_runs_once_on_each() {
    let fleet = Fleet::start();
    let (api, tap, lines) = (fleet.api(), Tap::new(&fleet.nats), fleet.record("lines"));
    let id = api.submit(&job("all", [record(&lines), record(&lines)]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    let heard = tap.of(&id);
    let subjects: Vec<_> = heard.iter().map(|(subject, _)| subject.as_str()).collect();
    assert_eq!(subjects, ["cmd.all.test.record"; 2], "{heard:?}");
    assert!(heard.iter().all(|(_, body)| is_included(body, &[1, 6])), "{heard:?}");
    assert_eq!((ran(&lines, &id, 0), ran(&lines, &id, 1)), (names(1..=6), names(1..=6)));

    let id = api.submit(&job("group:web", [record(&lines)]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    let heard = tap.of(&id);
    assert!(
        matches!(&heard[..], [(subject, body)] if subject == "cmd.group.web.test.record" && is_included(body, &[1, 5])),
        "{heard:?}"
    );
    assert_eq!(ran(&lines, &id, 0), names(1..=5));

    let id = api.submit(&job("node:w1,w3,w5", [record(&lines)]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    assert!(
        matches!(&tap.of(&id)[..], [(subject, body)] if subject == "cmd.all.test.record" && body["include"]["bits"] == "FQ==")
    );
    assert_eq!(ran(&lines, &id, 0), names([1, 3, 5]));
    let consumers = fleet.nats.monitor("/jsz")["consumers"].as_u64();
    assert!(consumers <= Some(1), "N8: only the requests have a consumer: {consumers:?}");
}

#[test]
fn n2_windows_single_nodes_and_later_steps_of_a_pipeline_are_no_broadcast() {
    let fleet = Fleet::start();
    let (api, tap, lines) = (fleet.api(), Tap::new(&fleet.nats), fleet.record("lines"));
    let windowed = api.submit(&with(job("all", [record(&lines)]), json!({"concurrency": 2})));
    let single = api.submit(&job("node:w2", [record(&lines)]));
    let piped = api.submit(&job("all", [pipeline([record(&lines), record(&lines)])]));
    for (id, steps, nodes, broadcasts) in
        [(&windowed, 1, names(1..=6), 0), (&single, 1, names([2]), 0), (&piped, 2, names(1..=6), 1)]
    {
        assert_eq!(api.wait_ended(id).status(), "completed");
        for step in 0..steps {
            assert_eq!(ran(&lines, id, step), nodes, "{id} step {step}");
        }
        assert_eq!(tap.of(id).len(), broadcasts, "{:?}", tap.of(id));
    }
}

#[test]
fn n2_nodes_that_failed_under_continue_do_not_run_the_next_broadcast() {
    let fleet = Fleet::start();
    let (api, tap, lines) = (fleet.api(), Tap::new(&fleet.nats), fleet.record("lines"));
    let flaky = task("test", "flaky", &json!({"rate": 50}));
    let body = with(job("all", [flaky, record(&lines)]), json!({"strategy": "continue"}));
    // Which nodes fail is left to chance, that some do and some do not is not.
    let mixed = (0..20).find_map(|_| {
        let id = api.submit(&body);
        let ended = api.wait_ended(&id);
        let succeeded: BTreeSet<String> =
            (1..=6).map(|number| format!("w{number}")).filter(|node| ended.outcome(0, node) == "success").collect();
        assert_eq!(ran(&lines, &id, 1), succeeded, "{ended}");
        (2..6).contains(&succeeded.len()).then_some(id)
    });
    let id = mixed.expect("20 rounds of one kind");
    let subjects: Vec<_> = tap.of(&id).into_iter().map(|(subject, _)| subject).collect();
    assert_eq!(subjects, ["cmd.all.test.flaky", "cmd.all.test.record"], "the second step was a broadcast, too");
}

#[test]
fn n2_nodes_that_registered_after_the_step_began_run_nothing_and_restarted_ones_run_it_once() {
    let mut fleet = Fleet::start();
    let (api, tap, lines) = (fleet.api(), Tap::new(&fleet.nats), fleet.record("lines"));
    let id = api.submit(&job("all", [sleep("4s"), record(&lines)]));
    for number in 1..=6 {
        let node = format!("w{number}");
        api.wait_job(&id, "runs everywhere", |j| j.outcome(0, &node) == "running");
    }
    fleet.add("w7", "web");
    fleet.workers.get_mut("w3").expect("a worker").kill9();
    fleet.workers.get_mut("w3").expect("a worker").restart();
    assert_eq!(api.wait_ended(&id).status(), "completed");
    assert_eq!(ran(&lines, &id, 1), names(1..=6), "w7 came too late");
    let heard = tap.of(&id);
    assert!(heard.iter().any(|(subject, _)| subject == "cmd.all.test.sleep"), "{heard:?}");
    // A job that begins now has it, and its ordinal.
    let id = api.submit(&job("all", [record(&lines)]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    assert_eq!(ran(&lines, &id, 0), names(1..=7));
    assert!(is_included(&tap.of(&id)[0].1, &[1, 7]));
}
