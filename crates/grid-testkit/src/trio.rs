//! Three controllers (or more) and their workers in one temporary folder.
//!
//! Each server keeps its folder, its ports and its command line over restarts, as a service manager would.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::api::{Answer, Api};
use crate::fabric::Fabric;
use crate::gridc::Gridc;
use crate::netns::Lan;
use crate::record::Record;
use crate::server::{Server, ServerOptions};
use crate::wait::{LIMIT, ensure, wait_until};
use crate::worker::{Worker, WorkerOptions};

const THREE: [&str; 3] = ["c1", "c2", "c3"];

/// Dropped in this order: workers first, so that none of them logs a lost server.
pub struct Trio {
    pub workers: BTreeMap<String, Worker>,
    pub servers: BTreeMap<String, Server>,
    flags: String,
    is_supervised: bool,
    dir: TempDir,
    pub fabric: Fabric,
    /// Dropped last, after all processes in it.
    lan: Option<Lan>,
}

impl Trio {
    /// Controllers `c1`, `c2`, `c3` and these workers: `(id, "--groups web")`.
    pub fn start(workers: &[(&str, &str)]) -> Self {
        Self::start_with("", workers)
    }

    /// Only `c1`; others join later ([`Self::add_server`]).
    pub fn start_alone() -> Self {
        Self::start_on(Fabric::of_test(), &["c1"], None, false, "", &[])
    }

    /// The same with flags for every server.
    pub fn start_with(flags: &str, workers: &[(&str, &str)]) -> Self {
        Self::start_over(Fabric::of_test(), flags, workers)
    }

    /// The same on a fabric of the test's choice.
    pub fn start_over(fabric: Fabric, flags: &str, workers: &[(&str, &str)]) -> Self {
        Self::start_on(fabric, &THREE, None, false, flags, workers)
    }

    /// This many controllers, three at most, with these flags.
    pub fn start_of(controllers: usize, flags: &str, workers: &[(&str, &str)]) -> Self {
        Self::start_on(Fabric::of_test(), &THREE[..controllers], None, false, flags, workers)
    }

    /// The controllers each in its own network namespace: `c1` on host 0 and so on; the workers in the test's namespace.
    pub fn start_apart(lan: Lan, workers: &[(&str, &str)]) -> Self {
        Self::start_on(Fabric::Grpc, &THREE, Some(lan), false, "--insecure", workers)
    }

    /// Each controller under `grid node`, with these flags.
    pub fn start_nodes(flags: &str) -> Self {
        Self::start_on(Fabric::of_test(), &THREE, None, true, flags, &[])
    }

    fn start_on(
        fabric: Fabric,
        ids: &[&str],
        lan: Option<Lan>,
        is_supervised: bool,
        flags: &str,
        workers: &[(&str, &str)],
    ) -> Self {
        let dir = tempfile::tempdir().expect("temp dir");
        let (workers_of, servers) = (BTreeMap::new(), BTreeMap::new());
        let mut trio = Self { workers: workers_of, servers, flags: flags.to_owned(), is_supervised, dir, fabric, lan };
        for id in ids {
            trio.add_server(id);
        }
        for (id, flags) in workers {
            let worker = trio.worker_options(id).flags(flags).spawn();
            trio.workers.insert((*id).to_owned(), worker);
        }
        for worker in trio.workers.values_mut() {
            worker.wait_ready();
        }
        trio
    }

    /// One more controller, which votes when this returns.
    pub fn add_server(&mut self, id: &str) {
        let server = self.server_options(id).start();
        self.servers.insert(id.to_owned(), server);
    }

    /// Options for a controller of this cluster, in its own folder.
    pub fn server_options(&self, id: &str) -> ServerOptions {
        let options = ServerOptions::new(id, self.path(id)).flags(&self.flags).flags(&self.fabric.server_flags());
        let options = if self.servers.is_empty() { options } else { options.join(&self.urls()) };
        let options = if self.is_supervised { options.supervised() } else { options };
        match &self.lan {
            Some(lan) => options.on(lan, self.servers.len()),
            None => options,
        }
    }

    /// Drops what the controllers `from` send to the controllers `to`, or (`cut` false) lets it through again.
    ///
    /// # Panics
    /// When they are not in network namespaces.
    pub fn set_cut(&self, from: &[&str], to: &[&str], cut: bool) {
        let lan = self.lan.as_ref().expect("controllers in network namespaces");
        let host = |id: &str| self.servers.keys().position(|known| known == id).expect("a controller");
        for (from, to) in from.iter().flat_map(|from| to.iter().map(move |to| (host(from), host(to)))) {
            if cut { lan.cut(from, to) } else { lan.heal(from, to) }
        }
    }

    pub fn worker_options(&self, id: &str) -> WorkerOptions {
        WorkerOptions::over(&self.fabric, id, &self.urls(), self.path(id))
    }

    /// The API addresses of every controller, comma-separated.
    pub fn urls(&self) -> String {
        self.servers.values().map(Server::url).collect::<Vec<_>>().join(",")
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn record(&self, name: &str) -> Record {
        Record::at(self.path(name))
    }

    pub fn gridc(&self) -> Gridc {
        Gridc::new(&self.urls())
    }

    pub fn server(&mut self, id: &str) -> &mut Server {
        self.servers.get_mut(id).unwrap_or_else(|| panic!("no controller {id}"))
    }

    pub fn api(&self, id: &str) -> Api {
        self.servers.get(id).unwrap_or_else(|| panic!("no controller {id}")).api()
    }

    /// The controller that reports LEADER, if exactly one does.
    ///
    /// # Errors
    /// What each reported instead.
    pub fn try_leader(&self) -> Result<String, String> {
        let roles = self.roles();
        let leaders: Vec<&String> =
            roles.iter().filter(|(_, role)| role["role"] == "LEADER").map(|(id, _)| id).collect();
        match leaders[..] {
            [leader] => Ok(leader.clone()),
            _ => Err(format!("{roles:?}")),
        }
    }

    pub fn wait_leader(&self) -> String {
        wait_until("one leader", LIMIT, || self.try_leader())
    }

    /// A leader other than `old`.
    pub fn wait_other_leader(&self, old: &str) -> String {
        wait_until(&format!("a leader other than {old}"), LIMIT, || {
            let leader = self.try_leader()?;
            ensure(leader != old, &leader)?;
            Ok(leader)
        })
    }

    /// Waits until `by` has had no answer of `of` for this long.
    pub fn wait_silence(&self, by: &str, of: &str, at_least: Duration) {
        wait_until(&format!("{by} to have no answer of {of} for {at_least:?}"), LIMIT + at_least, || {
            let cluster = self.api(by).get("/api/v1/cluster").json();
            let members = cluster["members"].as_array().ok_or_else(|| cluster.to_string())?;
            let member = members.iter().find(|member| member["id"] == of).ok_or_else(|| cluster.to_string())?;
            let silent = member["last_contact_ms"].as_u64().map(Duration::from_millis);
            ensure(silent.is_some_and(|silent| silent >= at_least), member)
        });
    }

    pub fn standbys(&self) -> Vec<String> {
        let leader = self.wait_leader();
        self.servers.keys().filter(|id| **id != leader).cloned().collect()
    }

    /// `/role` of every controller that answers.
    pub fn roles(&self) -> BTreeMap<String, Value> {
        let role = |server: &Server| server.api().try_get("/role").ok().map(|answer| answer.json());
        self.servers.iter().filter_map(|(id, server)| Some((id.clone(), role(server)?))).collect()
    }

    /// Submits under a key, to one controller after the other, until one acknowledges it.
    pub fn submit(&self, key: &str, job: &Value) -> String {
        wait_until("an acknowledged submit", 2 * LIMIT, || self.try_submit(key, job))
    }

    /// One round over all controllers.
    ///
    /// # Errors
    /// What the last one answered.
    pub fn try_submit(&self, key: &str, job: &Value) -> Result<String, String> {
        let mut last = String::new();
        for server in self.servers.values() {
            match server.api().with_timeout(Duration::from_secs(5)).try_submit(key, job) {
                Ok(id) => return Ok(id),
                Err(seen) => last = seen,
            }
        }
        Err(last)
    }

    /// The first successful answer of any controller.
    pub fn get(&self, path: &str) -> Answer {
        wait_until(&format!("an answer to {path}"), LIMIT, || {
            let mut seen = String::new();
            for server in self.servers.values() {
                match server.api().try_get(path) {
                    Ok(answer) if answer.status == 200 => return Ok(answer),
                    Ok(answer) => seen = format!("{answer:?}"),
                    Err(e) => seen = e,
                }
            }
            Err(seen)
        })
    }

    /// Waits until every controller is at one index with one state hash (I13), and returns the two.
    pub fn wait_equal(&self) -> (u64, String) {
        wait_until("equal state hashes", LIMIT, || {
            let states: BTreeMap<&str, (u64, String)> = self
                .servers
                .iter()
                .map(|(id, server)| Ok((id.as_str(), state(server)?)))
                .collect::<Result<_, String>>()?;
            let mut distinct: Vec<_> = states.values().cloned().collect();
            distinct.dedup();
            match distinct.len() {
                1 => Ok(distinct.remove(0)),
                _ => Err(format!("{states:?}")),
            }
        })
    }
}

fn state(server: &Server) -> Result<(u64, String), String> {
    let answer = server.api().try_get("/status?hash=true")?;
    let json = answer.json();
    match (json["applied_index"].as_u64(), json["state_hash"].as_str()) {
        (Some(index), Some(hash)) => Ok((index, hash.to_owned())),
        _ => Err(format!("{answer:?}")),
    }
}
