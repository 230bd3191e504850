//! One server and its workers in one temporary folder: the start of most tests.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::api::Api;
use crate::fabric::Fabric;
use crate::gridc::Gridc;
use crate::record::Record;
use crate::server::{Server, ServerOptions};
use crate::worker::{Worker, WorkerOptions};

/// Dropped in this order: workers first, so that none of them logs a lost server.
pub struct Cluster {
    pub workers: BTreeMap<String, Worker>,
    pub server: Server,
    dir: TempDir,
    /// Ends after both.
    pub fabric: Fabric,
}

impl Cluster {
    /// A server with default flags and these workers: `(id, "--groups web")`.
    pub fn start(workers: &[(&str, &str)]) -> Self {
        Self::start_with("", workers)
    }

    /// The same with flags for the server: `"--dead-after 4s"`.
    pub fn start_with(server_flags: &str, workers: &[(&str, &str)]) -> Self {
        Self::start_over(Fabric::of_test(), server_flags, workers)
    }

    /// The same on a fabric of the test's choice.
    pub fn start_over(fabric: Fabric, server_flags: &str, workers: &[(&str, &str)]) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let options = ServerOptions::new("n1", dir.path().join("n1")).flags(server_flags);
        let server = options.flags(&fabric.server_flags()).start();
        let mut cluster = Self { workers: BTreeMap::new(), server, dir, fabric };
        for (id, flags) in workers {
            let worker = cluster.worker_options(id).flags(flags).spawn();
            cluster.workers.insert((*id).to_owned(), worker);
        }
        for worker in cluster.workers.values_mut() {
            worker.wait_ready();
        }
        cluster
    }

    /// One more worker, registered.
    pub fn add_worker(&mut self, id: &str, flags: &str) {
        let worker = self.worker_options(id).flags(flags).start();
        self.workers.insert(id.to_owned(), worker);
    }

    /// Options for a worker of this cluster, in its own folder.
    pub fn worker_options(&self, id: &str) -> WorkerOptions {
        WorkerOptions::over(&self.fabric, id, &self.server.url(), self.dir.path().join(id))
    }

    pub fn worker(&mut self, id: &str) -> &mut Worker {
        match self.workers.get_mut(id) {
            Some(worker) => worker,
            None => panic!("no worker {id} in this cluster"),
        }
    }

    pub fn api(&self) -> Api {
        self.server.api()
    }

    pub fn gridc(&self) -> Gridc {
        Gridc::new(&self.server.url())
    }

    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// A record file in this cluster's folder.
    pub fn record(&self, name: &str) -> Record {
        Record::at(self.path(name))
    }
}
