//! Workers under test: in this process, or as a process that can be killed.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use grid_worker::{Shutdown, ShutdownHandle, WorkerConfig, WorkerError};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::{LIMIT, TestLeader};

pub struct TestWorker {
    pub handle: ShutdownHandle,
    task: JoinHandle<Result<(), WorkerError>>,
    ready: Option<oneshot::Receiver<grid_worker::Ready>>,
}

pub fn config(leader: &TestLeader, dir: &Path) -> WorkerConfig {
    let mut config = WorkerConfig::new(vec![leader.url.clone()], dir.join("data"));
    config.node_id = Some("web-01".parse().unwrap());
    config.enable_backends = vec!["test".to_owned()];
    // The same on every machine, whatever is installed there.
    config.disable_backends = ["apt", "systemd", "rke2"].map(str::to_owned).to_vec();
    config
}

impl TestWorker {
    pub fn spawn(config: WorkerConfig) -> Self {
        let (handle, shutdown) = Shutdown::new();
        let (sender, ready) = oneshot::channel();
        let task = tokio::spawn(grid_worker::run(config, shutdown, |ready| {
            let _ = sender.send(ready);
        }));
        Self { handle, task, ready: Some(ready) }
    }

    /// Started, and its session is open.
    pub async fn start(leader: &TestLeader, dir: &Path) -> Self {
        Self::start_with(leader, config(leader, dir)).await
    }

    pub async fn start_with(leader: &TestLeader, config: WorkerConfig) -> Self {
        let mut worker = Self::spawn(config);
        let ready = tokio::time::timeout(LIMIT, worker.ready.take().unwrap()).await.expect("not ready");
        assert_eq!(ready.expect("the worker ended").session.0, leader.seen().session);
        leader.until_open().await;
        worker
    }

    pub async fn end(self) -> Result<(), WorkerError> {
        tokio::time::timeout(LIMIT, self.task).await.expect("the worker does not end").unwrap()
    }

    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

/// A worker that dies with `kill -9`.
pub struct WorkerProcess {
    child: Child,
}

impl WorkerProcess {
    pub async fn start(leader: &TestLeader, dir: &Path) -> Self {
        let sessions = leader.seen().session;
        let child = Command::new(example("bare_worker"))
            .args([&leader.url, "web-01"])
            .arg(dir.join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .expect("the example is built together with the tests");
        let open = |seen: &mut super::Seen| (seen.session > sessions && seen.outbox.is_some()).then_some(());
        leader.until("a session of the process", open).await;
        Self { child }
    }

    pub fn kill9(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for WorkerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `target/debug/deps/test-…` → `target/debug/examples/…`.
fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().unwrap();
    own.parent().and_then(Path::parent).unwrap().join("examples").join(name)
}
