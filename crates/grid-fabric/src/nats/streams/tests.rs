use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, RetentionPolicy, StorageType};
use async_nats::jetstream::{self, Context};
use grid_testkit::{LIMIT, Nats, NatsTrio};

use super::{COMMANDS, REQUESTS, RESULTS, SHORTEST_WINDOW, StreamsError, ensure};

async fn connect(urls: &str) -> Context {
    let urls: Vec<String> = urls.split(',').map(str::to_owned).collect();
    jetstream::new(async_nats::connect(urls).await.unwrap())
}

async fn config(jetstream: &Context, name: &str) -> Config {
    jetstream.get_stream(name).await.unwrap().cached_info().config.clone()
}

#[tokio::test]
async fn n1_results_and_commands_are_never_acknowledged_by_jetstream() {
    let nats = Nats::start();
    let jetstream = connect(&nats.url()).await;
    ensure(&jetstream, 1).await.unwrap();
    for (name, subject) in [(COMMANDS, "cmd.>"), (RESULTS, "result.>")] {
        let found = config(&jetstream, name).await;
        assert!(found.no_ack && found.subjects == [subject] && found.discard == DiscardPolicy::Old, "{found:?}");
        assert_eq!((found.retention, found.max_age), (RetentionPolicy::Limits, Duration::from_secs(3600)));
    }
    // A request on a captured subject, without a subscriber: only JetStream could answer it.
    let client = jetstream.client();
    let inbox = client.new_inbox();
    let mut answers = client.subscribe(inbox.clone()).await.unwrap();
    client.publish_with_reply("result.job-1.0.w-01", inbox.clone(), "{}".into()).await.unwrap();
    while jetstream.get_stream(RESULTS).await.unwrap().cached_info().state.messages == 0 {
        tokio::task::yield_now().await;
    }
    client.publish(inbox, "end".into()).await.unwrap();
    let first = tokio_stream::StreamExt::next(&mut answers).await.unwrap();
    assert_eq!(&first.payload[..], b"end", "the first message in the inbox is the test's own");
}

#[tokio::test]
async fn n6_requests_are_a_work_queue_that_refuses_new_messages_and_forgets_none() {
    let nats = Nats::start();
    let jetstream = connect(&nats.url()).await;
    ensure(&jetstream, 1).await.unwrap();
    let found = config(&jetstream, REQUESTS).await;
    assert_eq!(
        (found.retention, found.discard, found.max_age),
        (RetentionPolicy::WorkQueue, DiscardPolicy::New, Duration::ZERO)
    );
    assert!(!found.no_ack && found.duplicate_window == SHORTEST_WINDOW, "{found:?}");
}

#[tokio::test]
async fn wrong_settings_are_corrected_and_an_operators_limits_stay() {
    let nats = Nats::start();
    let jetstream = connect(&nats.url()).await;
    let results = Config {
        name: RESULTS.to_owned(),
        subjects: vec!["result.>".to_owned(), "more.>".to_owned()],
        max_age: Duration::from_secs(60),
        max_bytes: 5_000_000,
        ..Config::default()
    };
    jetstream.create_stream(results).await.unwrap();
    let requests = Config {
        name: REQUESTS.to_owned(),
        subjects: vec!["request.>".to_owned()],
        retention: RetentionPolicy::WorkQueue,
        max_age: Duration::from_secs(60),
        ..Config::default()
    };
    jetstream.create_stream(requests).await.unwrap();
    ensure(&jetstream, 1).await.unwrap();
    let found = config(&jetstream, RESULTS).await;
    assert!(found.no_ack && found.subjects == ["result.>"], "{found:?}");
    assert_eq!((found.max_age, found.max_bytes), (Duration::from_secs(60), 5_000_000));
    let found = config(&jetstream, REQUESTS).await;
    assert_eq!(
        (found.discard, found.max_age, found.duplicate_window),
        (DiscardPolicy::New, Duration::ZERO, SHORTEST_WINDOW)
    );
    ensure(&jetstream, 1).await.unwrap();
}

#[tokio::test]
async fn what_cannot_be_corrected_is_refused_with_the_way_out() {
    let nats = Nats::start();
    let jetstream = connect(&nats.url()).await;
    let refused = async |config: Config, expected: &str| {
        let name = config.name.clone();
        jetstream.create_stream(config).await.unwrap();
        match ensure(&jetstream, 1).await {
            Err(StreamsError::Unusable(problem)) => assert!(problem.contains(expected), "{problem}"),
            other => panic!("{name}: {other:?}"),
        }
        // Those that Grid created before it met this one, too.
        for name in [name.as_str(), COMMANDS, RESULTS, REQUESTS] {
            let _ = jetstream.delete_stream(name).await;
        }
    };
    let named = |name: &str, subject: &str| Config {
        name: name.to_owned(),
        subjects: vec![subject.to_owned()],
        ..Config::default()
    };
    refused(named(REQUESTS, "request.>"), "nats stream rm requests").await;
    let in_memory =
        Config { retention: RetentionPolicy::WorkQueue, storage: StorageType::Memory, ..named(REQUESTS, "request.>") };
    refused(in_memory, "in memory only").await;
    refused(named("everything", "cmd.>"), "a NATS account of its own").await;
    refused(named("sessions", "node.*.up"), "`sessions` captures `node.>`").await;
    ensure(&jetstream, 1).await.unwrap();
}

#[tokio::test]
async fn in_a_cluster_streams_have_their_replicas_and_never_lose_some() {
    let trio = NatsTrio::start();
    let jetstream = connect(&trio.urls()).await;
    ensure(&jetstream, 1).await.unwrap();
    let begun = std::time::Instant::now();
    while let Err(error) = ensure(&jetstream, 3).await {
        assert!(begun.elapsed() < LIMIT, "{error}");
    }
    ensure(&jetstream, 1).await.unwrap();
    for name in [COMMANDS, RESULTS, REQUESTS] {
        assert_eq!(config(&jetstream, name).await.num_replicas, 3, "{name}");
    }
}
