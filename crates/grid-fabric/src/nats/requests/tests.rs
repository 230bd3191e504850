use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::{HeaderMap, Message, Subscriber};
use grid_testkit::Nats;
use grid_types::Code;
use serde_json::{Value, json};
use tokio::sync::{Notify, mpsc};
use tokio_stream::StreamExt;

use super::answer::{REPLY_TO, refusal};
use super::{KEY, consume};
use crate::intake::{Intake, JobRefusal, JobRequest};
use crate::nats::client::{Client, Settings};
use crate::nats::streams;

const LIMIT: Duration = Duration::from_secs(60);

/// Answers as scripted, then accepts.
struct Script {
    answers: Mutex<VecDeque<Code>>,
    asked: mpsc::UnboundedSender<JobRequest>,
    room: Notify,
}

impl Intake for Script {
    async fn submit(&self, request: JobRequest) -> Result<Value, JobRefusal> {
        let key = request.key.clone();
        self.asked.send(request).unwrap();
        let refused = self.answers.lock().unwrap().pop_front();
        match refused {
            Some(code) => Err(refusal(code, "as scripted".to_owned())),
            None => Ok(json!({"id": key, "status": "pending"})),
        }
    }

    async fn room(&self) {
        self.room.notified().await;
    }
}

struct Scene {
    nats: Nats,
    client: Client,
    script: Arc<Script>,
    asked: mpsc::UnboundedReceiver<JobRequest>,
    leader: Option<tokio::task::JoinHandle<()>>,
}

impl Scene {
    async fn new(refusals: &[Code]) -> Self {
        let nats = Nats::start();
        let settings = Settings { urls: vec![nats.url()], name: "c1".to_owned(), credentials: None, ca: None };
        let client = Client::connect(&settings).await.unwrap();
        client.connected().wait_for(|connected| *connected).await.unwrap();
        streams::ensure(&async_nats::jetstream::new(client.nats().clone()), 1).await.unwrap();
        let (ask, asked) = mpsc::unbounded_channel();
        let script =
            Script { answers: Mutex::new(refusals.iter().copied().collect()), asked: ask, room: Notify::new() };
        let mut scene = Self { nats, client, script: Arc::new(script), asked, leader: None };
        scene.lead();
        scene
    }

    /// The term ends, and another one begins.
    fn lead(&mut self) {
        if let Some(before) = self.leader.take() {
            before.abort();
        }
        let (client, script) = (self.client.clone(), Arc::clone(&self.script));
        self.leader = Some(tokio::spawn(async move {
            // As `leading` does, after a pause.
            loop {
                let ended = consume(&client, Arc::clone(&script)).await;
                tokio::task::yield_now().await;
                drop(ended);
            }
        }));
    }

    async fn inbox(&self) -> (String, Subscriber) {
        let inbox = self.client.nats().new_inbox();
        let subscriber = self.client.nats().subscribe(inbox.clone()).await.unwrap();
        (inbox, subscriber)
    }

    async fn request(&self, subject: &str, headers: &[(&str, &str)], body: &str) {
        let mut map = HeaderMap::new();
        headers.iter().for_each(|(name, value)| map.insert(*name, *value));
        let jetstream = async_nats::jetstream::new(self.client.nats().clone());
        let publish = async || {
            let sent = jetstream.publish_with_headers(subject.to_owned(), map.clone(), body.to_owned().into()).await;
            sent.unwrap().await
        };
        // As a client does whose server is away: its key makes that harmless.
        while publish().await.is_err() {}
    }

    async fn asked(&mut self) -> JobRequest {
        tokio::time::timeout(LIMIT, self.asked.recv()).await.expect("a submit").unwrap()
    }

    /// Waits until the stream has so many messages.
    async fn left(&self, wanted: u64) {
        let jetstream = async_nats::jetstream::new(self.client.nats().clone());
        let counted = async {
            while jetstream.get_stream(streams::REQUESTS).await.unwrap().cached_info().state.messages != wanted {}
        };
        tokio::time::timeout(LIMIT, counted).await.expect("the stream has other messages");
    }
}

async fn next(subscriber: &mut Subscriber) -> Message {
    tokio::time::timeout(LIMIT, subscriber.next()).await.expect("an answer").unwrap()
}

fn header(message: &Message, name: &str) -> Option<String> {
    Some(message.headers.as_ref()?.get(name)?.to_string())
}

#[tokio::test]
async fn n3_a_request_is_answered_on_its_own_subject_and_acked() {
    let mut scene = Scene::new(&[]).await;
    let (inbox, mut answers) = scene.inbox().await;
    scene.request("request.job", &[(KEY, "k-1"), (REPLY_TO, &inbox)], "{\"target\":\"all\"}").await;
    let asked = scene.asked().await;
    assert_eq!((asked.key.as_str(), asked.body.as_slice()), ("k-1", &b"{\"target\":\"all\"}"[..]));
    let answer = next(&mut answers).await;
    let document: Value = serde_json::from_slice(&answer.payload).unwrap();
    assert_eq!((header(&answer, "Grid-Answer").as_deref(), &document["id"]), (Some("accepted"), &json!("k-1")));
    scene.left(0).await;
}

#[tokio::test]
async fn n3_without_a_key_the_message_itself_is_the_key_also_when_it_comes_again() {
    let mut scene = Scene::new(&[Code::NotLeader, Code::OutcomeUnknown]).await;
    scene.request("request.job", &[], "{}").await;
    let first = scene.asked().await;
    assert!(first.key.starts_with("nats-") && first.key.ends_with("-1"), "{}", first.key);
    assert_eq!(scene.asked().await, first, "NOT_LEADER: delivered again");
    assert_eq!(scene.asked().await, first, "its outcome was unknown");
    scene.left(0).await;
    scene.request("request.job", &[], "{}").await;
    assert_ne!(scene.asked().await.key, first.key);
}

#[tokio::test]
async fn n6_what_is_invalid_or_in_conflict_is_terminated_and_answered() {
    let mut scene = Scene::new(&[Code::Invalid, Code::Conflict]).await;
    let advisories = "$JS.EVENT.ADVISORY.CONSUMER.MSG_TERMINATED.requests.>".to_owned();
    let mut advisories = scene.client.nats().subscribe(advisories).await.unwrap();
    for code in ["INVALID", "CONFLICT"] {
        let (inbox, mut answers) = scene.inbox().await;
        scene.request("request.job", &[(REPLY_TO, &inbox)], "{}").await;
        scene.asked().await;
        let answer = next(&mut answers).await;
        let document: Value = serde_json::from_slice(&answer.payload).unwrap();
        assert_eq!((header(&answer, "Grid-Code").as_deref(), &document["error"]), (Some(code), &json!(code)));
        let advisory: Value = serde_json::from_slice(&next(&mut advisories).await.payload).unwrap();
        assert_eq!(advisory["reason"], format!("{code}: as scripted"), "{advisory}");
    }
    scene.left(0).await;
}

#[tokio::test]
async fn n6_what_no_leader_would_accept_is_refused_without_asking_it() {
    let mut scene = Scene::new(&[]).await;
    let (inbox, mut answers) = scene.inbox().await;
    let long = "k".repeat(129);
    let refused = [
        ("request.nodes", "key", "NOT_FOUND"),
        ("request.job", long.as_str(), "INVALID"),
        ("request.job", "white space", "INVALID"),
    ];
    for (subject, key, code) in refused {
        scene.request(subject, &[(REPLY_TO, &inbox), (KEY, key)], "{}").await;
        assert_eq!(header(&next(&mut answers).await, "Grid-Code").as_deref(), Some(code));
    }
    // An answer there would be a command, a result, or worse.
    let mut forbidden = scene.client.nats().subscribe("node.>").await.unwrap();
    for to in
        ["cmd.all.ping.echo", "result.job-1.0.w-1", "request.job", "node.w-1.down.1", "$JS.API.INFO", "a.*", "a b"]
    {
        scene.request("request.job", &[(REPLY_TO, to)], "{}").await;
    }
    scene.left(0).await;
    scene.client.nats().publish("node.end", "".into()).await.unwrap();
    assert_eq!(next(&mut forbidden).await.subject.as_str(), "node.end");
    assert!(scene.asked.try_recv().is_err(), "the leader was not asked");
}

#[tokio::test]
async fn n6_while_the_queue_is_full_the_leader_pulls_nothing() {
    let mut scene = Scene::new(&[Code::QueueFull]).await;
    scene.request("request.job", &[(KEY, "first")], "{}").await;
    assert_eq!(scene.asked().await.key, "first");
    scene.request("request.job", &[(KEY, "second")], "{}").await;
    scene.left(2).await;
    // Until there is room, nobody has an open pull.
    let path = "/jsz?consumers=1&streams=1";
    let consumer = || {
        let jsz = scene.nats.monitor(path);
        let streams = jsz["account_details"][0]["stream_detail"].as_array().cloned().unwrap_or_default();
        streams
            .iter()
            .find(|stream| stream["name"] == "requests")
            .map(|stream| stream["consumer_detail"][0].clone())
            .unwrap()
    };
    let found = consumer();
    assert_eq!((found["num_waiting"].as_u64(), found["num_pending"].as_u64()), (Some(0), Some(1)), "{found}");
    scene.script.room.notify_one();
    let mut keys = vec![scene.asked().await.key, scene.asked().await.key];
    keys.sort();
    assert_eq!(keys, ["first", "second"]);
    scene.left(0).await;
}

#[tokio::test]
async fn n3_a_request_that_a_dead_leader_had_taken_reaches_the_next_one() {
    let mut scene = Scene::new(&[]).await;
    scene.request("request.job", &[(KEY, "before")], "{}").await;
    assert_eq!(scene.asked().await.key, "before");
    scene.nats.kill9();
    scene.nats.restart();
    scene.client.connected().wait_for(|connected| *connected).await.unwrap();
    scene.lead();
    scene.request("request.job", &[(KEY, "after")], "{}").await;
    // The first one too, if its ack was lost: its key makes that harmless.
    while scene.asked().await.key != "after" {}
    scene.left(0).await;
}
