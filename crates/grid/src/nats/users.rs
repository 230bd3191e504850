//! Holds who may connect: the controllers, each worker with its groups, clients. Extends what an earlier run wrote.
//!
//! `users.json` has the public keys and no secret. A key is made once: running the command again changes none.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, bail};
use nkeys::KeyPair;
use serde::{Deserialize, Serialize};

use super::files::{self, Readers};
use crate::cli::NatsConfigArgs;

const FILE: &str = "users.json";
const CONTROLLER: &str = "controller.nk";

/// Everyone who may connect, by name.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Users {
    /// The public key of all controllers.
    pub controller: String,
    pub workers: BTreeMap<String, Worker>,
    pub clients: BTreeMap<String, Client>,
    /// Hosts of the servers; none: one server.
    pub servers: Vec<String>,
    pub tls: bool,
    pub port: u16,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Worker {
    pub key: String,
    pub groups: Vec<String>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Client {
    pub key: String,
    pub watch: bool,
}

impl Users {
    /// Those of an earlier run, with the changes of the command line. Seeds of new keys are written.
    pub fn updated(args: &NatsConfigArgs) -> anyhow::Result<Self> {
        let out = &args.out;
        let mut users = match files::read(&out.join(FILE))? {
            None => Self { controller: new_key(&out.join(CONTROLLER))?, ..Self::default() },
            Some(text) => {
                serde_json::from_str(&text).with_context(|| format!("{} is damaged", out.join(FILE).display()))?
            }
        };
        for name in &args.remove {
            users.remove(out, name)?;
        }
        for worker in &args.workers {
            let (name, groups) = (worker.id.to_string(), worker.groups.iter().map(ToString::to_string).collect());
            users.check_free(&name, users.clients.contains_key(&name), "client")?;
            match users.workers.get_mut(&name) {
                Some(known) => known.groups = groups,
                None => {
                    let key = new_key(&out.join("workers").join(format!("{name}.nk")))?;
                    users.workers.insert(name, Worker { key, groups });
                }
            }
        }
        for client in &args.clients {
            let (name, watch) = (client.name.to_string(), client.watch);
            users.check_free(&name, users.workers.contains_key(&name), "worker")?;
            match users.clients.get_mut(&name) {
                Some(known) => known.watch = watch,
                None => {
                    let key = new_key(&out.join("clients").join(format!("{name}.nk")))?;
                    users.clients.insert(name, Client { key, watch });
                }
            }
        }
        users.tls |= args.tls;
        users.port = args.port;
        if !args.servers.is_empty() {
            users.servers.clone_from(&args.servers);
        }
        Ok(users)
    }

    pub fn save(&self, out: &Path) -> anyhow::Result<()> {
        files::write(&out.join(FILE), Readers::Everyone, &format!("{}\n", serde_json::to_string_pretty(self)?))
    }

    fn remove(&mut self, out: &Path, name: &str) -> anyhow::Result<()> {
        let folder = if self.workers.remove(name).is_some() {
            "workers"
        } else if self.clients.remove(name).is_some() {
            "clients"
        } else {
            bail!("--remove: there is no worker or client {name:?} in {}", out.join(FILE).display());
        };
        let seed = out.join(folder).join(format!("{name}.nk"));
        std::fs::remove_file(&seed).with_context(|| format!("cannot remove {}", seed.display()))
    }

    /// One name, one inbox: a client that shares it reads the other's answers.
    fn check_free(&self, name: &str, is_taken: bool, by: &str) -> anyhow::Result<()> {
        if is_taken {
            bail!("there is a {by} {name:?} already; workers and clients need different names");
        }
        Ok(())
    }
}

/// Makes a key, writes its seed and returns its public part.
fn new_key(seed_file: &Path) -> anyhow::Result<String> {
    if let Some(folder) = seed_file.parent() {
        files::folder(folder)?;
    }
    let pair = match files::read(seed_file)? {
        // Of a run that was killed before it wrote the list of users.
        Some(seed) => KeyPair::from_seed(seed.trim()).map_err(|e| anyhow::anyhow!("{}: {e}", seed_file.display()))?,
        None => KeyPair::new_user(),
    };
    let seed = pair.seed().map_err(|e| anyhow::anyhow!("cannot make a key: {e}"))?;
    files::write(seed_file, Readers::Owner, &format!("{seed}\n"))?;
    Ok(pair.public_key())
}
