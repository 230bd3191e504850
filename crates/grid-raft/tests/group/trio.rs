//! Members that can be started, killed, and cut off from each other.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use grid_raft::{Config, LocalMember, Member, Namesake, OpenError, ProposeError, Raft, Start};
use tokio::net::TcpListener;
use tokio::runtime::Runtime;

use crate::file_machine::{Content, FileMachine, Receipt, content};

pub const LIMIT: Duration = Duration::from_secs(60);

/// One member: its folder, its port, and its process if it runs.
pub struct Node {
    pub name: String,
    pub dir: tempfile::TempDir,
    pub address: SocketAddr,
    pub config: Config,
    pub running: Option<(Runtime, Raft<Receipt>)>,
}

impl Node {
    pub fn new(name: &str) -> Self {
        let address = {
            let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
            listener.local_addr().expect("bound")
        };
        let dir = tempfile::tempdir().expect("folder");
        let member = Member { address: address.to_string(), node_id: name.to_owned(), ..Member::default() };
        let mut config = Config::of_folder(member, dir.path().join("raft"));
        config.log_chunk_bytes = 16 << 10;
        Self { name: name.to_owned(), dir, address, config, running: None }
    }

    pub fn content(&self) -> Content {
        content(&self.dir.path().join("machine.json"))
    }

    pub fn raft(&self) -> &Raft<Receipt> {
        &self.running.as_ref().expect("runs").1
    }

    pub fn start(&mut self, start: Start) {
        self.try_start(start).expect("starts");
    }

    pub fn try_start(&mut self, start: Start) -> Result<(), OpenError> {
        let runtime = Runtime::new().expect("runtime");
        let (config, path, address) = (self.config.clone(), self.dir.path().join("machine.json"), self.address);
        let raft = runtime.block_on(async move {
            let begun = Instant::now();
            let raft = loop {
                match Raft::open(config.clone(), start, FileMachine::open(&path)).await {
                    // The run before may hold the folder a moment longer.
                    Err(OpenError::Locked { .. }) if begun.elapsed() < LIMIT => {
                        tokio::time::sleep(Duration::from_millis(10)).await;
                    }
                    opened => break opened?,
                }
            };
            let listener = loop {
                match TcpListener::bind(address).await {
                    Ok(listener) => break listener,
                    Err(_) => tokio::time::sleep(Duration::from_millis(10)).await,
                }
            };
            let serving = raft.clone();
            tokio::spawn(async move { serving.serve_peers(listener, 64).await });
            Ok::<_, OpenError>(raft)
        })?;
        self.running = Some((runtime, raft));
        Ok(())
    }

    /// As `kill -9`: nothing is said, nothing is finished.
    pub fn kill(&mut self) {
        if let Some((runtime, raft)) = self.running.take() {
            drop(raft);
            runtime.shutdown_background();
        }
    }

    pub fn is_leader(&self) -> bool {
        self.running.as_ref().is_some_and(|(_, raft)| raft.leadership().borrow().is_leader && raft.has_majority())
    }

    /// Proposes on this member and waits for the outcome, on the member's own runtime.
    pub fn propose(&self, payload: &str) -> Result<Receipt, ProposeError> {
        let (runtime, raft) = self.running.as_ref().expect("runs");
        let payload = payload.to_owned();
        runtime.block_on(async {
            let proposed = tokio::time::timeout(Duration::from_secs(3), raft.propose(payload.into())).await;
            proposed.unwrap_or_else(|_| Err(ProposeError::OutcomeUnknown { reason: "no answer in time".into() }))
        })
    }

    pub fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        self.running.as_ref().expect("runs").0.block_on(work)
    }
}

/// Some members, by name.
pub struct Trio {
    pub nodes: BTreeMap<String, Node>,
}

impl Trio {
    /// `a` bootstraps, the others join.
    pub fn start(names: &[&str]) -> Self {
        Self::start_with(names, |_| {})
    }

    pub fn start_with(names: &[&str], configure: impl Fn(&mut Config)) -> Self {
        let mut trio = Self { nodes: BTreeMap::new() };
        for (i, name) in names.iter().enumerate() {
            let mut node = Node::new(name);
            configure(&mut node.config);
            if i == 0 {
                node.start(Start::Bootstrap);
                trio.nodes.insert((*name).to_owned(), node);
            } else {
                trio.join(node);
            }
        }
        trio
    }

    /// The way a controller joins: accepted by the leader, then it starts and asks for its vote.
    pub fn join(&mut self, node: Node) {
        self.join_without(node, &[]);
    }

    /// The same while these are away.
    pub fn join_without(&mut self, mut node: Node, away: &[&str]) {
        let dir = node.config.data_dir.clone();
        let identity = LocalMember::prepare(&dir, "x").expect("identity");
        let member = Member { folder_id: identity.folder_id.clone(), ..node.config.member.clone() };
        let cluster = self.wait("admitted", |trio| {
            let leader = trio.leader().ok_or("no leader")?;
            leader
                .block_on(leader.raft().admit(identity.raft_id, member.clone(), Namesake::Refuse))
                .map_err(|e| e.to_string())?;
            Ok(leader.raft().local_member().cluster_id.clone())
        });
        identity.accepted_by(&cluster, &dir).expect("accepted");
        let name = node.name.clone();
        node.start(Start::Join);
        self.nodes.insert(name.clone(), node);
        self.wait("a vote", |trio| {
            let raft_id = trio.nodes[&name].raft().local_member().raft_id;
            let settled = |node: &Node| node.raft().roster().is_settled_voter(raft_id);
            if trio.nodes.values().filter(|node| !away.contains(&node.name.as_str())).all(settled) {
                Ok(())
            } else {
                Err("no voter yet".into())
            }
        });
    }

    pub fn leader(&self) -> Option<&Node> {
        self.nodes.values().find(|node| node.is_leader())
    }

    pub fn wait_leader(&self) -> String {
        self.wait("a leader", |trio| trio.leader().map(|node| node.name.clone()).ok_or("none".into()))
    }

    /// Proposes on whoever leads until it is accepted.
    pub fn propose(&self, payload: &str) {
        self.wait(payload, |trio| {
            let leader = trio.leader().ok_or("no leader")?;
            leader.propose(payload).map(drop).map_err(|e| e.to_string())
        });
    }

    /// Has the leader cut its log: up to the last but one snapshot.
    pub fn cut_log(&self) {
        let leader = &self.nodes[&self.wait_leader()];
        let before = leader.raft().log_bytes();
        leader.block_on(leader.raft().trigger_snapshot()).expect("taken");
        self.propose("between the snapshots");
        leader.block_on(leader.raft().trigger_snapshot()).expect("taken");
        self.wait("the log to be cut", |_| {
            let now = leader.raft().log_bytes();
            if now < before / 2 { Ok(()) } else { Err(format!("{now} of {before} bytes")) }
        });
    }

    pub fn node(&mut self, name: &str) -> &mut Node {
        self.nodes.get_mut(name).expect("a node of that name")
    }

    /// Polls until every running member's machine holds the same, and returns it.
    pub fn wait_equal(&self) -> Content {
        self.wait("equal machines", |trio| {
            let contents: Vec<Content> =
                trio.nodes.values().filter(|n| n.running.is_some()).map(Node::content).collect();
            let first = contents.first().ok_or("nobody runs")?;
            let same = |c: &Content| c.payloads == first.payloads && c.applied == first.applied;
            if contents.iter().all(same) { Ok(first.clone()) } else { Err(format!("{contents:?}")) }
        })
    }

    pub fn wait<T>(&self, what: &str, mut probe: impl FnMut(&Self) -> Result<T, String>) -> T {
        let begun = Instant::now();
        loop {
            match probe(self) {
                Ok(value) => return value,
                Err(seen) if begun.elapsed() > LIMIT => panic!("waited for {what}; last seen: {seen}"),
                Err(_) => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }
}

impl Drop for Trio {
    fn drop(&mut self) {
        for node in self.nodes.values_mut() {
            node.kill();
        }
    }
}
