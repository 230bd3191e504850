//! `grid nats config`: a real nats-server enforces what it writes.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::{self, kv, stream};
use async_nats::{Client, ConnectOptions, Event, Subscriber};
use grid_testkit::{LIMIT, Nats, NatsOptions, command, ensure, wait_until};
use tokio_stream::StreamExt;

/// Runs the command and returns its stdout.
fn config(out: &Path, arguments: &[&str]) -> String {
    let ran = command("grid").args(["nats", "config", "--out"]).arg(out).args(arguments).output().expect("grid runs");
    assert!(ran.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).expect("paths")
}

fn serve(out: &Path) -> NatsOptions {
    NatsOptions::new().config(out.join("nats-server.conf"))
}

/// One user's connection, and what the server forbade it.
struct User {
    client: Client,
    violations: Arc<Mutex<Vec<String>>>,
}

impl User {
    async fn connect(nats: &Nats, seed: &Path, name: &str) -> Result<Self, async_nats::ConnectError> {
        let violations = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&violations);
        let seed = std::fs::read_to_string(seed).expect("a seed");
        let options = ConnectOptions::with_nkey(seed.trim().to_owned())
            .custom_inbox_prefix(format!("_INBOX.{name}"))
            .event_callback(move |event| {
                if let Event::ServerError(error) = event {
                    noted.lock().expect("no panic with it").push(error.to_string());
                }
                std::future::ready(())
            });
        let client = options.connect(nats.url()).await?;
        Ok(Self { client, violations })
    }

    async fn violated(&self, count: usize) {
        let seen = async {
            while self.violations.lock().expect("no panic with it").len() < count {
                tokio::task::yield_now().await;
            }
        };
        let seen = tokio::time::timeout(LIMIT, seen).await;
        seen.unwrap_or_else(|_| panic!("{count} violations wanted: {:?}", self.violations.lock()));
    }
}

/// A flush does not prove that the server knows a subscription; a message that came back does.
async fn registered(user: &User, everything: &mut Subscriber) {
    user.client.publish("marker.registered", "".into()).await.unwrap();
    assert_eq!(next(everything).await, "marker.registered");
}

/// The subject of the next message that is no report of JetStream about itself.
async fn next(subscriber: &mut Subscriber) -> String {
    loop {
        let message = tokio::time::timeout(LIMIT, subscriber.next()).await.expect("a message").expect("a message");
        if !message.subject.starts_with("$JS.EVENT.") {
            return message.subject.to_string();
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn n8_a_workers_credential_acts_for_that_worker_alone() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("nats");
    config(&out, &["--workers", "w-01:web,w-02:db"]);
    let nats = serve(&out).start();
    let controller = User::connect(&nats, &out.join("controller.nk"), "c1").await.unwrap();
    let jetstream = jetstream::new(controller.client.clone());
    let results =
        stream::Config { name: "results".to_owned(), subjects: vec!["result.>".to_owned()], ..Default::default() };
    jetstream.create_stream(results).await.unwrap();
    let mut everything = controller.client.subscribe(">").await.unwrap();
    registered(&controller, &mut everything).await;

    let worker = User::connect(&nats, &out.join("workers/w-01.nk"), "w-01").await.unwrap();
    let forbidden = [
        "result.job-1.0.w-02",
        "result.w-01",
        "node.w-02.up",
        "node.w-02.register",
        "node.w-01.down.7",
        "cmd.all.ping.echo",
        "request.job",
        "$JS.API.STREAM.DELETE.results",
        "$KV.jobs.job-1",
        "_INBOX.c1.x",
    ];
    for subject in forbidden {
        worker.client.publish(subject, "{}".into()).await.unwrap();
    }
    worker.client.publish("result.job-1.0.w-01", "{}".into()).await.unwrap();
    assert_eq!(next(&mut everything).await, "result.job-1.0.w-01", "the first message that gets through");
    worker.violated(forbidden.len()).await;
    assert!(jetstream.get_stream("results").await.is_ok(), "it was not deleted");

    // Known to the server when it has refused the ones after it.
    let mut own = worker.client.subscribe("cmd.group.web.>").await.unwrap();
    let foreign =
        ["cmd.node.w-02.>", "cmd.group.db.>", "node.w-02.down.>", "_INBOX.c1.>", "_INBOX.>", ">", "result.>", "$KV.>"];
    let mut subscribed = Vec::new();
    for subject in foreign {
        subscribed.push(worker.client.subscribe(subject).await.unwrap());
    }
    worker.violated(forbidden.len() + foreign.len()).await;
    for subject in [
        "cmd.node.w-02.ping.echo",
        "cmd.group.db.ping.echo",
        "node.w-02.down.1",
        "_INBOX.c1.a",
        "cmd.group.web.ping.echo",
    ] {
        controller.client.publish(subject, "{}".into()).await.unwrap();
    }
    assert_eq!(next(&mut own).await, "cmd.group.web.ping.echo");
    for mut subscriber in subscribed {
        let nothing = tokio::time::timeout(Duration::ZERO, subscriber.next()).await;
        assert!(!matches!(nothing, Ok(Some(_))), "{nothing:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_client_submits_and_reads_and_commands_nobody() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("nats");
    config(&out, &["--clients", "ci,dash:watch"]);
    let nats = serve(&out).start();
    let controller = User::connect(&nats, &out.join("controller.nk"), "c1").await.unwrap();
    let jetstream = jetstream::new(controller.client.clone());
    let bucket =
        jetstream.create_key_value(kv::Config { bucket: "jobs".to_owned(), ..Default::default() }).await.unwrap();
    bucket.put("job-1", "{}".into()).await.unwrap();
    let mut everything = controller.client.subscribe("*.>").await.unwrap();
    registered(&controller, &mut everything).await;

    let client = User::connect(&nats, &out.join("clients/ci.nk"), "ci").await.unwrap();
    for subject in ["cmd.all.ping.echo", "result.job-1.0.w-01", "node.w-01.up", "request.other", "$KV.jobs.job-1"] {
        client.client.publish(subject, "{}".into()).await.unwrap();
    }
    client.client.publish("request.job", "{}".into()).await.unwrap();
    assert_eq!(next(&mut everything).await, "request.job");
    client.violated(5).await;
    let read = jetstream::new(client.client.clone()).get_key_value("jobs").await.unwrap();
    assert_eq!(&read.get("job-1").await.unwrap().unwrap()[..], b"{}");

    let watcher = User::connect(&nats, &out.join("clients/dash.nk"), "dash").await.unwrap();
    let read = jetstream::new(watcher.client.clone()).get_key_value("jobs").await.unwrap();
    let mut watch = read.watch_with_history("job-1").await.unwrap();
    let entry = tokio::time::timeout(LIMIT, watch.next()).await.expect("an entry").unwrap().unwrap();
    assert_eq!((entry.key.as_str(), entry.revision), ("job-1", 1));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_worker_is_added_later_and_nobodys_key_changes() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("nats");
    config(&out, &["--workers", "w-01:web"]);
    let files = ["controller.nk", "workers/w-01.nk"];
    let read = |files: &[&str]| -> Vec<String> {
        files.iter().map(|file| std::fs::read_to_string(out.join(file)).unwrap()).collect()
    };
    let before = read(&files);
    let nats = serve(&out).start();
    config(&out, &["--workers", "w-02:db"]);
    assert_eq!(read(&files), before);
    for file in ["controller.nk", "workers/w-01.nk", "workers/w-02.nk", "users.conf"] {
        let mode = std::fs::metadata(out.join(file)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let second: PathBuf = out.join("workers/w-02.nk");
    assert!(User::connect(&nats, &second, "w-02").await.is_err(), "the server does not know it yet");
    nats.reload();
    let connected = async { while User::connect(&nats, &second, "w-02").await.is_err() {} };
    tokio::time::timeout(LIMIT, connected).await.expect("the server knows it after the reload");
    // Removed: its key does not open the door any more, and neither does a second one of the same name.
    config(&out, &["--remove", "w-02"]);
    assert!(!second.exists());
    let refused = command("grid").args(["nats", "config", "--clients", "w-01", "--out"]).arg(&out).output().unwrap();
    assert!(!refused.status.success(), "a client with a worker's name would read its inbox");
}

#[test]
fn three_servers_with_tls_know_each_other() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("nats");
    let written = config(&out, &["--tls", "--servers", "n1.example.net,n2.example.net,n3.example.net"]);
    assert_eq!(written.lines().count(), 3, "{written}");
    let text = std::fs::read_to_string(out.join("nats-server-n2.example.net.conf")).unwrap();
    assert!(text.contains("nats://n3.example.net:6222") && text.contains("verify: true"), "{text}");
    let ca = std::fs::read(out.join("ca.pem")).unwrap();
    // nats-server itself reads each of them.
    for host in ["n1", "n2", "n3"] {
        let file = format!("nats-server-{host}.example.net.conf");
        let mut check = std::process::Command::new(grid_testkit::nats_server());
        let checked = check.args(["-t", "-c", &file]).current_dir(&out).output().unwrap();
        assert!(checked.status.success(), "{file}: {}", String::from_utf8_lossy(&checked.stderr));
    }
    config(&out, &["--servers", "n1.example.net,n4.example.net", "--tls"]);
    assert_eq!(std::fs::read(out.join("ca.pem")).unwrap(), ca, "the CA stays");
}

#[tokio::test(flavor = "multi_thread")]
async fn with_tls_a_server_is_known_by_its_ca() {
    let home = tempfile::tempdir().unwrap();
    let out = home.path().join("nats");
    config(&out, &["--tls"]);
    // By the same CA, which is read again.
    config(&out, &["--servers", "n1.example.net"]);
    let nats = serve(&out).tls().start();
    let seed = std::fs::read_to_string(out.join("controller.nk")).unwrap();
    let options = || ConnectOptions::with_nkey(seed.trim().to_owned());
    let connected = options().add_root_certificates(out.join("ca.pem")).connect(nats.url()).await.unwrap();
    connected.flush().await.unwrap();
    assert!(options().connect(nats.url()).await.is_err(), "another CA");
    wait_until("the connection in the server's list", LIMIT, || {
        let connections = nats.monitor("/connz");
        ensure(connections["connections"][0]["tls_version"].is_string(), connections)
    });
}
