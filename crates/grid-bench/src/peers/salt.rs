//! Measures Salt: a master and as many minions on this machine, in their own folder, on loopback. The measured time is that of
//! `salt '*' test.ping`, from its start to its end, as an operator at a terminal sees it.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::process::{Child, Command};

use crate::args::PeersArgs;
use crate::cluster::scratch;
use crate::quantiles::Times;

/// How long every minion may take to get its key and answer; a minion takes about a second of CPU to start.
const PATIENCE: Duration = Duration::from_secs(600);
const SHOWN_CHARS: usize = 1_000;

/// `master`: the program `salt-master`; its siblings are beside it.
pub async fn pings(master: &Path, args: &PeersArgs) -> anyhow::Result<Times> {
    let programs = master.parent().unwrap_or(Path::new(""));
    let folder = scratch(&args.output)?;
    crate::say::err(format_args!(
        "salt: a master and {} minions are started, each a process of about 50 MB",
        args.nodes
    ));
    let (publish, back) = (free_port()?, free_port()?);
    let user = Command::new("id").arg("-un").output().await.context("cannot run id")?.stdout;
    let user = String::from_utf8_lossy(&user).trim().to_owned();
    let daemon = |name: &str, kind: &str, settings: String| {
        let dir = folder.path().join(name);
        let common = format!("root_dir: {}\nuser: {user}\nlog_level: error\n", dir.display());
        Daemon::start(&programs.join(format!("salt-{kind}")), &dir, kind, &(common + &settings))
    };
    let settings = format!("interface: 127.0.0.1\nauto_accept: True\npublish_port: {publish}\nret_port: {back}\n");
    let mut daemons = vec![daemon("m", "master", settings)?];
    for n in 0..args.nodes {
        let settings = format!("id: node{n}\nmaster: 127.0.0.1\npublish_port: {publish}\nmaster_port: {back}\n");
        daemons.push(daemon(&format!("n{n}"), "minion", settings)?);
    }
    let (salt, config) = (programs.join("salt"), folder.path().join("m"));
    let began = Instant::now();
    loop {
        let (answered, said) = ping(&salt, &config).await?;
        if answered == args.nodes {
            break;
        }
        if began.elapsed() > PATIENCE {
            let said: String = said.chars().take(SHOWN_CHARS).collect();
            bail!("salt reaches {answered} of {} minions after {PATIENCE:?}; it said: {said}", args.nodes);
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    let mut times = Times::default();
    for _ in 0..args.rounds {
        let began = Instant::now();
        let (answered, _) = ping(&salt, &config).await?;
        times.push(began.elapsed());
        if answered != args.nodes {
            bail!("salt reached {answered} of {} minions", args.nodes);
        }
    }
    for daemon in &mut daemons {
        daemon.end().await;
    }
    Ok(times)
}

/// The number of answers, and the output.
async fn ping(salt: &Path, config: &Path) -> anyhow::Result<(u32, String)> {
    let mut command = Command::new(salt);
    command.arg("-c").arg(config).args(["*", "test.ping", "--out=txt"]).stdin(Stdio::null());
    let out = command.output().await.with_context(|| format!("cannot run {}", salt.display()))?;
    let said = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
    let answered = said.lines().filter(|line| line.ends_with(": True")).count();
    Ok((u32::try_from(answered)?, said))
}

fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr())?.port())
}

/// A process with its children, which end with it.
struct Daemon {
    child: Child,
    group: Option<Pid>,
}

impl Daemon {
    fn start(program: &Path, dir: &PathBuf, kind: &str, settings: &str) -> anyhow::Result<Self> {
        std::fs::create_dir_all(dir)?;
        std::fs::write(dir.join(kind), settings)?;
        let log = std::fs::File::create(dir.join("log"))?;
        let mut command = Command::new(program);
        command.arg("-c").arg(dir).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log).process_group(0);
        let child = command.spawn().with_context(|| format!("cannot start {}", program.display()))?;
        let group = child.id().and_then(|pid| Pid::from_raw(i32::try_from(pid).ok()?));
        Ok(Self { child, group })
    }

    /// Waits for its end: its folder is removed next, and must not be written to any more.
    async fn end(&mut self) {
        self.kill();
        // It was killed, so it ends.
        let _ = self.child.wait().await;
    }

    fn kill(&mut self) {
        if let Some(group) = self.group.take() {
            // It has ended already, or ends now.
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        self.kill();
    }
}
