//! Clusters and busy nodes that several tests use.
//!
//! Every node runs the same task with the same parameters, so "fails here, works
//! there" needs a stage: `web-02` has one slot and is kept busy by another job
//! while `web-01` meets a folder that is not there yet.

use grid_testkit::{Api, Cluster, Record, spec};

/// Two web nodes; web-02 runs one lease at a time, so that [`Busy`] can hold it up.
pub fn two_web_nodes() -> Cluster {
    two_web_nodes_with("")
}

pub fn two_web_nodes_with(server_flags: &str) -> Cluster {
    let workers = [("web-01", "--groups web --slots 4"), ("web-02", "--groups web --slots 1")];
    Cluster::start_with(server_flags, &workers)
}

/// Liveness in seconds instead of minutes.
pub const QUICK_LIVENESS: &str = "--heartbeat-interval 200ms --warning-after 1s --unhealthy-after 2s --dead-after 4s";

/// A node whose only slot is taken by another job until it is released.
pub struct Busy {
    api: Api,
    job: String,
}

impl Busy {
    pub fn keep(api: &Api, node: &str) -> Self {
        let job = api.submit(&spec::job(&format!("node:{node}"), [spec::sleep("280s")]));
        api.wait_job(&job, "holds the slot", |j| j.outcome(0, node) == "running");
        Self { api: api.clone(), job }
    }

    pub fn release(self) {
        let answer = self.api.cancel(&self.job);
        assert_eq!(answer.status, 200, "{answer:?}");
    }
}

/// A record file whose folder does not exist: `test record` fails there until [`open`] creates it.
pub fn closed_record(cluster: &Cluster) -> Record {
    cluster.record("closed/record")
}

pub fn open(record: &Record) {
    let folder = record.path().parent().expect("a record is in a folder");
    std::fs::create_dir_all(folder).expect("the record's folder");
}

/// (step, node) of each line, in the order of writing.
pub fn places(record: &Record, job: &str) -> Vec<(usize, String)> {
    record.of(job).into_iter().map(|(step, node, _)| (step, node)).collect()
}

/// The same, sorted, for when the order is not the point.
pub fn sorted_places(record: &Record, job: &str) -> Vec<(usize, String)> {
    let mut places = places(record, job);
    places.sort();
    places
}

pub fn at(places: &[(usize, &str)]) -> Vec<(usize, String)> {
    places.iter().map(|(step, node)| (*step, (*node).to_owned())).collect()
}
