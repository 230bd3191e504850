use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::jetstream::Context;
use async_nats::jetstream::kv::Store;
use grid_testkit::Nats;
use grid_types::LeaderEpoch;
use serde_json::{Value, json};
use tokio::sync::Notify;

use super::{MirrorError, STATUS, mirror};
use crate::mirrored::{Changed, Collection, Mirrored, Shown};
use crate::nats::client::{Client, Settings};

const LIMIT: Duration = Duration::from_secs(60);

/// A state of documents.
struct Source {
    epoch: LeaderEpoch,
    documents: Mutex<BTreeMap<(Collection, String), (Value, bool)>>,
    changed: Mutex<Changed>,
    bell: Notify,
}

impl Source {
    fn new(epoch: u64) -> Arc<Self> {
        Arc::new(Self {
            epoch: LeaderEpoch::from_wire(epoch),
            documents: Mutex::default(),
            changed: Mutex::default(),
            bell: Notify::new(),
        })
    }

    fn set(&self, collection: Collection, key: &str, document: Option<(Value, bool)>) {
        let mut documents = self.documents.lock().unwrap();
        match document {
            Some(document) => drop(documents.insert((collection, key.to_owned()), document)),
            None => drop(documents.remove(&(collection, key.to_owned()))),
        }
        let mut changed = self.changed.lock().unwrap();
        let keys = if collection == Collection::Jobs { &mut changed.jobs } else { &mut changed.nodes };
        keys.insert(key.to_owned());
        self.bell.notify_one();
    }
}

impl Mirrored for Source {
    fn epoch(&self) -> Option<LeaderEpoch> {
        Some(self.epoch)
    }

    async fn changed(&self) -> Changed {
        loop {
            let changed = std::mem::take(&mut *self.changed.lock().unwrap());
            if changed != Changed::default() {
                return changed;
            }
            self.bell.notified().await;
        }
    }

    async fn keys(&self, collection: Collection) -> Result<BTreeSet<String>, String> {
        let documents = self.documents.lock().unwrap();
        let live = documents.iter().filter(|((of, _), (_, is_final))| *of == collection && !is_final);
        Ok(live.map(|((_, key), _)| key.clone()).collect())
    }

    async fn show(&self, collection: Collection, key: &str) -> Result<Option<Shown>, String> {
        let found = self.documents.lock().unwrap().get(&(collection, key.to_owned())).cloned();
        Ok(found.map(|(document, is_final)| Shown { document, index: 7, is_final }))
    }
}

struct Scene {
    _nats: Nats,
    client: Client,
    jetstream: Context,
}

impl Scene {
    async fn new() -> Self {
        let nats = Nats::start();
        let settings = Settings { urls: vec![nats.url()], name: "c1".to_owned(), credentials: None, ca: None };
        let client = Client::connect(&settings).await.unwrap();
        client.connected().wait_for(|connected| *connected).await.unwrap();
        let jetstream = async_nats::jetstream::new(client.nats().clone());
        Self { _nats: nats, client, jetstream }
    }

    fn lead(&self, source: &Arc<Source>) -> tokio::task::JoinHandle<Result<(), MirrorError>> {
        let (client, source) = (self.client.clone(), Arc::clone(source));
        tokio::spawn(async move { mirror(&client, 1, source).await })
    }

    async fn bucket(&self, name: &str) -> Store {
        let found = async {
            loop {
                if let Ok(store) = self.jetstream.get_key_value(name).await {
                    return store;
                }
            }
        };
        tokio::time::timeout(LIMIT, found).await.expect("the bucket is created")
    }

    /// Waits until a key has such a value; `None`: none.
    async fn shows(&self, bucket: &str, key: &str, wanted: impl Fn(Option<&Value>) -> bool) {
        let store = self.bucket(bucket).await;
        let shown = async {
            loop {
                let value = store.get(key).await.unwrap();
                let value = value.map(|bytes| serde_json::from_slice::<Value>(&bytes).unwrap());
                if wanted(value.as_ref()) {
                    return;
                }
            }
        };
        tokio::time::timeout(LIMIT, shown).await.unwrap_or_else(|_| panic!("{bucket}/{key} shows something else"));
    }
}

fn running(id: &str) -> Option<(Value, bool)> {
    Some((json!({"id": id, "status": "running"}), false))
}

#[tokio::test]
async fn n7_a_key_value_client_sees_changes_with_epoch_and_index() {
    let (scene, source) = (Scene::new().await, Source::new(5));
    source.set(Collection::Jobs, "job-1", running("job-1"));
    source.set(Collection::Cluster, STATUS, Some((json!({"nodes": 1}), false)));
    let leader = scene.lead(&source);
    let expected = json!({"id": "job-1", "status": "running", "mirror": {"leader_epoch": 5, "index": 7}});
    scene.shows("jobs", "job-1", |value| value == Some(&expected)).await;
    scene.shows("cluster", STATUS, |value| value.is_some_and(|value| value["nodes"] == 1)).await;
    source.set(Collection::Jobs, "job-1", Some((json!({"id": "job-1", "status": "completed"}), true)));
    scene.shows("jobs", "job-1", |value| value.is_some_and(|value| value["status"] == "completed")).await;
    // Resumed: its revision is not remembered any more.
    source.set(Collection::Jobs, "job-1", running("job-1"));
    scene.shows("jobs", "job-1", |value| value.is_some_and(|value| value["status"] == "running")).await;
    source.set(Collection::Nodes, "w-1", Some((json!({"id": "w-1"}), false)));
    scene.shows("nodes", "w-1", |value| value.is_some()).await;
    source.set(Collection::Nodes, "w-1", None);
    scene.shows("nodes", "w-1", |value| value.is_none()).await;
    leader.abort();
}

#[tokio::test]
async fn n7_a_new_term_removes_strays_and_leaves_what_has_ended() {
    let (scene, before) = (Scene::new().await, Source::new(5));
    before.set(Collection::Jobs, "job-lost", running("job-lost"));
    before.set(Collection::Nodes, "w-gone", Some((json!({"id": "w-gone"}), false)));
    let leader = scene.lead(&before);
    scene.shows("jobs", "job-lost", |value| value.is_some()).await;
    scene.shows("nodes", "w-gone", |value| value.is_some()).await;
    before.set(Collection::Jobs, "job-done", Some((json!({"status": "failed"}), true)));
    scene.shows("jobs", "job-done", |value| value.is_some()).await;
    leader.abort();
    let after = Source::new(6);
    after.set(Collection::Jobs, "job-new", running("job-new"));
    let leader = scene.lead(&after);
    scene.shows("jobs", "job-new", |value| value.is_some_and(|value| value["mirror"]["leader_epoch"] == 6)).await;
    scene.shows("jobs", "job-lost", |value| value.is_none()).await;
    scene.shows("nodes", "w-gone", |value| value.is_none()).await;
    scene.shows("jobs", "job-done", |value| value.is_some()).await;
    leader.abort();
    // A restored cluster does not know what ended after its backup.
    let restored = Source::new(1 << 32);
    let leader = scene.lead(&restored);
    scene.shows("jobs", "job-done", |value| value.is_none()).await;
    leader.abort();
}

#[tokio::test]
async fn n7_the_loser_to_a_higher_epoch_stops() {
    let (scene, low, high) = (Scene::new().await, Source::new(5), Source::new(6));
    low.set(Collection::Jobs, "job-1", running("of 5"));
    let loser = scene.lead(&low);
    scene.shows("jobs", "job-1", |value| value.is_some()).await;
    high.set(Collection::Jobs, "job-1", running("of 6"));
    let winner = scene.lead(&high);
    scene.shows("jobs", "job-1", |value| value.is_some_and(|value| value["id"] == "of 6")).await;
    low.set(Collection::Jobs, "job-1", running("late"));
    let ended = tokio::time::timeout(LIMIT, loser).await.expect("it stops").unwrap();
    assert!(matches!(ended, Err(MirrorError::HigherEpoch { bucket: "jobs", .. })), "{ended:?}");
    scene.shows("jobs", "job-1", |value| value.is_some_and(|value| value["id"] == "of 6")).await;
    let again = tokio::time::timeout(LIMIT, scene.lead(&low)).await.expect("it stops").unwrap();
    assert!(matches!(again, Err(MirrorError::HigherEpoch { .. })), "{again:?}");
    winner.abort();
}
