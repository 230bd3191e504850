//! A plain NATS client submits jobs, reads results and watches buckets; nothing in it knows Grid.

use std::time::Duration;

use async_nats::jetstream::{self, Context};
use async_nats::{Client, HeaderMap, Message, Subscriber};
use grid_testkit::{Api, Dev, LIMIT, Nats, Server, ServerOptions, Worker, WorkerOptions, procfs, wait_until};
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio_stream::StreamExt;

/// A controller and two workers that know each other over NATS alone.
struct Fleet {
    nats: Nats,
    server: Server,
    _workers: Vec<Worker>,
    client: Client,
    jetstream: Context,
    _home: TempDir,
}

impl Fleet {
    /// Blocking: called from a thread of its own.
    fn start(flags: &str) -> (TempDir, Nats, Server, Vec<Worker>) {
        let home = tempfile::tempdir().unwrap();
        let nats = Nats::start();
        let flags = format!("--fabric nats --nats {} {flags}", nats.url());
        let server = ServerOptions::new("c1", home.path().join("c1")).flags(&flags).start();
        let worker = |id: &str, group: &str| {
            WorkerOptions::nats(id, &nats.url(), home.path().join(id)).flags(&format!("--groups {group}")).start()
        };
        let workers = vec![worker("w-01", "web"), worker("w-02", "db")];
        (home, nats, server, workers)
    }

    async fn new(flags: &'static str) -> Self {
        let (home, nats, server, workers) = tokio::task::spawn_blocking(move || Self::start(flags)).await.unwrap();
        let client = async_nats::connect(nats.url()).await.unwrap();
        let jetstream = jetstream::new(client.clone());
        Self { nats, server, _workers: workers, client, jetstream, _home: home }
    }

    /// Publishes until the stream has it.
    async fn request(&self, headers: &[(&str, &str)], job: &Value) {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| map.insert(*name, *value));
        let publish = async || {
            let sent = self.jetstream.publish_with_headers("request.job", map.clone(), job.to_string().into()).await;
            sent.unwrap().await
        };
        // JetStream drops what it takes for a duplicate, and says so: within 100 ms of the first.
        let stored = async { while !publish().await.is_ok_and(|stored| !stored.duplicate) {} };
        tokio::time::timeout(LIMIT, stored).await.expect("JetStream stores the request");
    }

    /// Submits and returns the answer.
    async fn submit(&self, key: &str, job: &Value) -> Message {
        let inbox = self.client.new_inbox();
        let mut answers = self.client.subscribe(inbox.clone()).await.unwrap();
        self.request(&[("Nats-Msg-Id", key), ("Grid-Reply-To", &inbox)], job).await;
        next(&mut answers).await
    }

    /// Watches a key until its value is as wanted.
    async fn watched(&self, bucket: &str, key: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = async {
            let store = loop {
                if let Ok(store) = self.jetstream.get_key_value(bucket).await {
                    break store;
                }
            };
            let mut watch = store.watch_with_history(key).await.unwrap();
            while let Some(entry) = watch.next().await {
                let value: Value = serde_json::from_slice(&entry.unwrap().value).unwrap_or_default();
                if wanted(&value) {
                    return value;
                }
            }
            panic!("the watch of {bucket}/{key} has ended");
        };
        tokio::time::timeout(LIMIT, found).await.unwrap_or_else(|_| panic!("{bucket}/{key} has no such value"))
    }
}

async fn next(subscriber: &mut Subscriber) -> Message {
    tokio::time::timeout(LIMIT, subscriber.next()).await.expect("a message").expect("a message")
}

fn header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    Some(message.headers.as_ref()?.get(name)?.as_str())
}

fn job(message: &str) -> Value {
    json!({"target": "all", "tasks": [{"backend": "ping", "action": "echo", "params": {"message": message}}]})
}

#[tokio::test(flavor = "multi_thread")]
async fn n3_n7_a_plain_client_submits_and_watches_the_job_to_its_end() {
    let fleet = Fleet::new("").await;
    let mut results = fleet.client.subscribe("result.>").await.unwrap();
    let answer = fleet.submit("deploy-1", &job("hello")).await;
    assert_eq!(header(&answer, "Grid-Answer"), Some("accepted"), "{answer:?}");
    let document: Value = serde_json::from_slice(&answer.payload).unwrap();
    let id = document["id"].as_str().unwrap().to_owned();

    let mut nodes = std::collections::BTreeSet::new();
    while nodes.len() < 2 {
        let result = next(&mut results).await;
        assert!(result.subject.starts_with(&format!("result.{id}.0.")), "{}", result.subject);
        let told: Value = serde_json::from_slice(&result.payload).unwrap();
        assert_eq!((&told["job_id"], &told["task_index"], &told["status"]), (&json!(id), &json!(0), &json!("success")));
        assert!(told["duration"].is_u64() && told["output"].as_str().unwrap().contains("hello"), "{told}");
        nodes.insert(told["node_id"].as_str().unwrap().to_owned());
    }
    let ended = fleet.watched("jobs", &id, |job| job["status"] == "completed").await;
    assert_eq!(ended["results"]["0"]["w-01"]["status"], "success", "{ended}");
    assert!(ended["mirror"]["index"].as_u64().unwrap() > 0);

    // The same key and request: the same job. Another request: refused, and the client is told.
    let again = fleet.submit("deploy-1", &job("hello")).await;
    let again: Value = serde_json::from_slice(&again.payload).unwrap();
    assert_eq!(again["id"], id);
    assert_eq!(header(&fleet.submit("deploy-1", &job("other")).await, "Grid-Code"), Some("CONFLICT"));
    let invalid = fleet.submit("deploy-2", &json!({"target": "all", "tasks": []})).await;
    assert_eq!(header(&invalid, "Grid-Code"), Some("INVALID"));

    let node = fleet.watched("nodes", "w-02", |node| node["status"] == "online").await;
    assert_eq!((&node["groups"], &node["backends"].is_array()), (&json!(["db"]), &true), "{node}");
    fleet.watched("controllers", "c1", |controller| controller["role"] == "LEADER").await;
    fleet.watched("cluster", "status", |status| status["nodes"]["ready"] == 2).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n3_requests_of_a_client_survive_the_leader() {
    let mut fleet = Fleet::new("").await;
    assert_eq!(header(&fleet.submit("before", &job("one")).await, "Grid-Answer"), Some("accepted"));
    fleet.server.kill9();
    let inbox = fleet.client.new_inbox();
    let mut answers = fleet.client.subscribe(inbox.clone()).await.unwrap();
    for n in 0..5 {
        let key = format!("away-{n}");
        fleet.request(&[("Nats-Msg-Id", &key), ("Grid-Reply-To", &inbox)], &job(&key)).await;
    }
    let Fleet { mut server, nats, client, jetstream, _workers, _home } = fleet;
    let server = tokio::task::spawn_blocking(move || {
        server.restart();
        server
    });
    let fleet = Fleet { server: server.await.unwrap(), nats, client, jetstream, _workers, _home };
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..5 {
        let answer = next(&mut answers).await;
        assert_eq!(header(&answer, "Grid-Answer"), Some("accepted"), "{answer:?}");
        let document: Value = serde_json::from_slice(&answer.payload).unwrap();
        ids.insert(document["id"].as_str().unwrap().to_owned());
    }
    assert_eq!(ids.len(), 5);
    for id in &ids {
        fleet.watched("jobs", id, |job| job["status"] == "completed").await;
    }
    let consumers = fleet.nats.monitor("/jsz?streams=1&consumers=1");
    let streams = consumers["account_details"][0]["stream_detail"].as_array().unwrap();
    for stream in streams.iter().filter(|stream| stream["name"] == "commands" || stream["name"] == "results") {
        assert_eq!(stream["state"]["consumer_count"], 0, "N8: {stream}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n6_requests_beyond_the_queue_wait_in_the_stream_and_all_run() {
    let fleet = Fleet::new("--max-concurrent 1 --max-pending 2").await;
    let inbox = fleet.client.new_inbox();
    let mut answers = fleet.client.subscribe(inbox.clone()).await.unwrap();
    for n in 0..12 {
        let key = format!("k-{n}");
        fleet.request(&[("Nats-Msg-Id", &key), ("Grid-Reply-To", &inbox)], &job(&key)).await;
    }
    let mut ids = std::collections::BTreeSet::new();
    for _ in 0..12 {
        let answer = next(&mut answers).await;
        let document: Value = serde_json::from_slice(&answer.payload).unwrap();
        ids.insert(document["id"].as_str().unwrap_or_else(|| panic!("{document}")).to_owned());
    }
    assert_eq!(ids.len(), 12);
    for id in &ids {
        fleet.watched("jobs", id, |job| job["status"] == "completed").await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_that_jetstream_stores_is_needed() {
    let mut fleet = Fleet::new("").await;
    assert_eq!(header(&fleet.submit("before", &job("one")).await, "Grid-Answer"), Some("accepted"));
    fleet.nats.kill9();
    fleet.nats.lose_storage();
    fleet.nats.restart();
    // The controller is reached over HTTP, the workers over NATS.
    let url = fleet.server.url();
    let id = tokio::task::spawn_blocking(move || {
        let api = Api::new(&url);
        let id = api.submit(&job("meanwhile"));
        api.wait_job(&id, "completed", |job| job.0["status"] == "completed");
        id
    });
    let id = id.await.unwrap();
    assert_eq!(header(&fleet.submit("after", &job("two")).await, "Grid-Answer"), Some("accepted"));
    fleet.watched("jobs", &id, |job| job["status"] == "completed").await;
    fleet.watched("nodes", "w-01", |node| node["status"] == "online").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn n7_the_next_leader_takes_requests_and_writes_the_buckets() {
    let home = tempfile::tempdir().unwrap();
    let started = tokio::task::spawn_blocking({
        let home = home.path().to_owned();
        move || {
            let nats = Nats::start();
            let flags = format!("--fabric nats --nats {}", nats.url());
            let mut first: Option<Server> = None;
            let mut servers = Vec::new();
            for id in ["c1", "c2", "c3"] {
                let options = ServerOptions::new(id, home.join(id)).flags(&flags);
                let options = first.as_ref().map_or(options.clone(), |first| options.join(&first.url()));
                let server = options.start();
                match first {
                    None => first = Some(server),
                    Some(_) => servers.push(server),
                }
            }
            let worker = WorkerOptions::nats("w-01", &nats.url(), home.join("w-01")).start();
            (nats, first.expect("the first one"), servers, worker)
        }
    });
    let (nats, mut first, _others, worker) = started.await.unwrap();
    let client = async_nats::connect(nats.url()).await.unwrap();
    let jetstream = jetstream::new(client.clone());
    let id = first.node_id().to_owned();
    first.kill9();
    let fleet = Fleet { nats, server: first, _workers: vec![worker], client, jetstream, _home: home };
    let answer = fleet.submit("after", &job("next")).await;
    assert_eq!(header(&answer, "Grid-Answer"), Some("accepted"), "{answer:?}");
    let document: Value = serde_json::from_slice(&answer.payload).unwrap();
    let job = fleet.watched("jobs", document["id"].as_str().unwrap(), |job| job["status"] == "completed").await;
    assert!(job["mirror"]["leader_epoch"].as_u64().unwrap() > 1, "{job}");
    fleet.watched("cluster", "status", |status| status["role"]["leader_id"] != json!(id)).await;
}

#[test]
fn dev_over_nats_ends_its_server_also_when_it_is_killed() {
    let mut dev = Dev::start_with(3, &["--fabric", "nats"]);
    let beside = |dev: &mut Dev| {
        let all = dev.process().descendants();
        all.into_iter().find(|seen| seen.command.starts_with("nats-server")).expect("a nats-server beside it")
    };
    let id = dev.api().submit(&job("dev"));
    dev.api().wait_job(&id, "completed", |job| job.0["status"] == "completed");
    let server = beside(&mut dev);
    dev.process().kill9();
    wait_until("the end of nats-server", LIMIT, || if server.alive() { Err("alive".to_owned()) } else { Ok(()) });

    let mut dev = Dev::start_with(1, &["--fabric", "nats"]);
    let server = beside(&mut dev);
    dev.process().terminate();
    assert!(dev.process().wait_exit(Duration::from_secs(60)).success());
    assert!(procfs::survivors(&[server]).is_empty());
}

#[test]
fn demo_over_nats_shows_a_job() {
    let ran = grid_testkit::command("grid").args(["demo", "--fabric", "nats"]).output().unwrap();
    let (out, err) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success() && out.contains("all nodes are here"), "{out}\n{err}");
}
