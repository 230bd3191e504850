//! Starts the controllers under test: real `grid server` processes with their data in a temporary folder.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow, bail};
use grid_client::{Client, Options, ServerUrl};
use tempfile::TempDir;

use crate::args::Output;
use crate::process::Process;

/// Limit of running and waiting jobs: high enough that no submit is refused.
const ANY_PORT: &str = "127.0.0.1:0";
const ADMITTED: &str = "100000";
const POLL: Duration = Duration::from_millis(50);
const PATIENCE: Duration = Duration::from_secs(120);

pub struct Cluster {
    folder: TempDir,
    pub members: Vec<Member>,
    /// Of every controller.
    flags: Vec<String>,
}

pub struct Member {
    name: String,
    pub process: Process,
    pub api_url: String,
}

impl Cluster {
    pub async fn start(controllers: u32, output: &Output) -> anyhow::Result<Self> {
        Self::start_with(controllers, scratch(output)?, &[]).await
    }

    /// In this folder, with further flags for each controller.
    pub async fn start_with(controllers: u32, folder: TempDir, flags: &[String]) -> anyhow::Result<Self> {
        let mut cluster = Self { folder, members: Vec::new(), flags: flags.to_vec() };
        for number in 1..=controllers {
            let name = format!("c{number}");
            let how = match cluster.members.first() {
                None => vec!["--bootstrap".to_owned()],
                Some(first) => vec!["--join".to_owned(), first.api_url.clone()],
            };
            let how = [how, cluster.flags.clone()].concat();
            let member = start_member(cluster.folder.path(), &name, ANY_PORT, &how).await?;
            cluster.members.push(member);
        }
        cluster.settled(controllers).await?;
        Ok(cluster)
    }

    /// Waits until every controller votes and has caught up.
    pub async fn settled(&self, controllers: u32) -> anyhow::Result<()> {
        let client = self.client()?;
        let began = Instant::now();
        loop {
            let doc = client.cluster().await;
            if let Ok(doc) = &doc
                && doc.leader_id.is_some()
                && doc.voters == controllers
                && doc.members.iter().all(|member| member.lag.is_some_and(|lag| lag < 100))
            {
                return Ok(());
            }
            if began.elapsed() > PATIENCE {
                bail!("the controllers have not formed a cluster within {PATIENCE:?}: {doc:?}");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    pub fn client(&self) -> anyhow::Result<Client> {
        let servers: Result<Vec<ServerUrl>, _> = self.members.iter().map(|member| member.api_url.parse()).collect();
        Ok(Client::new(servers?, Options { patience: PATIENCE })?)
    }

    pub fn api_urls(&self) -> String {
        self.members.iter().map(|member| member.api_url.as_str()).collect::<Vec<_>>().join(",")
    }

    /// The index of the leader.
    pub async fn leader(&self) -> anyhow::Result<usize> {
        let client = self.client()?;
        let began = Instant::now();
        loop {
            let leader = client.role().await?.leader_id;
            if let Some(at) = self.members.iter().position(|member| Some(&member.name) == leader.as_ref()) {
                return Ok(at);
            }
            if began.elapsed() > PATIENCE {
                bail!("no leader after {PATIENCE:?}");
            }
            tokio::time::sleep(POLL).await;
        }
    }

    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn data_dir(&self, member: usize) -> PathBuf {
        self.folder.path().join(&self.members[member].name)
    }

    /// Restarts a member that was stopped or killed; returns when it serves.
    pub async fn restart(&mut self, member: usize) -> anyhow::Result<()> {
        let Member { name, api_url, .. } = &self.members[member];
        // At the same address: a swarm looks for the leader at the addresses it was given.
        let (name, api) = (name.clone(), api_url.trim_start_matches("http://").to_owned());
        self.members[member] = start_member(self.folder.path(), &name, &api, &self.flags).await?;
        Ok(())
    }
}

/// A folder that is removed at the end of the benchmark.
pub fn scratch(output: &Output) -> anyhow::Result<TempDir> {
    let mut named = tempfile::Builder::new();
    named.prefix("grid-bench-");
    let made = match &output.dir {
        Some(dir) => std::fs::create_dir_all(dir).and_then(|()| named.tempdir_in(dir)),
        None => named.tempdir(),
    };
    made.context("cannot make a folder for the data of the controllers")
}

async fn start_member(folder: &Path, name: &str, api: &str, how: &[String]) -> anyhow::Result<Member> {
    let data_dir = folder.join(name).display().to_string();
    let mut args: Vec<String> = ["server", "--node-id", name, "--data-dir", &data_dir].map(str::to_owned).into();
    for (listener, address) in [("--api", api), ("--grpc", ANY_PORT), ("--raft", ANY_PORT)] {
        args.extend([listener.to_owned(), address.to_owned()]);
    }
    args.extend(["--max-concurrent", ADMITTED, "--max-pending", ADMITTED].map(str::to_owned));
    args.extend_from_slice(how);
    let mut process = Process::start(name, &args, folder)?;
    let ready = process.says("grid ready").await?;
    let api_url = ready.split(' ').find_map(|word| word.strip_prefix("api="));
    let api_url = api_url.ok_or_else(|| anyhow!("{name} did not print the address of its API: {ready}"))?.to_owned();
    Ok(Member { name: name.to_owned(), process, api_url })
}
