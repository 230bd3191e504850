//! Measures ansible-core's `ping` over N hosts with local connections: without ssh, which favours Ansible.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::{Context, bail};

use crate::args::PeersArgs;
use crate::cluster::scratch;
use crate::quantiles::Times;

const FORKS: &str = "25";
const SHOWN_CHARS: usize = 1_000;

pub async fn pings(ansible: &Path, args: &PeersArgs) -> anyhow::Result<Times> {
    let folder = scratch(&args.output)?;
    // The Python that runs Ansible itself: the interpreter that it would discover may not run at all.
    let facts = "ansible_connection=local ansible_python_interpreter=\"{{ ansible_playbook_python }}\"";
    let hosts: String = (0..args.nodes).map(|n| format!("node{n} {facts}\n")).collect();
    let inventory = folder.path().join("hosts");
    std::fs::write(&inventory, format!("[all]\n{hosts}"))?;
    let mut times = Times::default();
    for _ in 0..args.rounds {
        let mut command = tokio::process::Command::new(ansible);
        command.args(["all", "-m", "ping", "-f", FORKS, "-i"]).arg(&inventory).stdin(Stdio::null());
        command.env("ANSIBLE_LOCALHOST_WARNING", "False");
        let began = Instant::now();
        let out = command.output().await.with_context(|| format!("cannot run {}", ansible.display()))?;
        times.push(began.elapsed());
        let answered = String::from_utf8_lossy(&out.stdout).matches("SUCCESS").count();
        if u32::try_from(answered)? != args.nodes {
            let said = [out.stderr, out.stdout].concat();
            let said: String = String::from_utf8_lossy(&said).chars().take(SHOWN_CHARS).collect();
            bail!("ansible reached {answered} of {} nodes; it said: {said}", args.nodes);
        }
    }
    Ok(times)
}
