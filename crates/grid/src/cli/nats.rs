//! Defines `grid nats`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use grid_types::{Name, NodeId};

#[derive(Args)]
pub struct NatsVerbArgs {
    #[command(subcommand)]
    pub verb: NatsVerb,
}

#[derive(Subcommand)]
pub enum NatsVerb {
    /// Write the configuration of nats-server for a cluster: accounts, keys, permissions
    Config(Box<NatsConfigArgs>),
    /// Run a program that is killed when its parent ends
    #[command(hide = true)]
    Child(NatsChildArgs),
}

#[derive(Args)]
#[command(
    after_help = "Writes nats-server.conf (with --servers one file for each server), users.conf, and a key for everyone who connects: \
                  controller.nk, workers/ID.nk, clients/NAME.nk. Keys are secret: only their owner may read them.\n\
                  Run it again on the same folder to add workers, clients or servers: keys that exist stay as they are. Then copy \
                  users.conf to every server and reload it: nats-server --signal reload.\n\n\
                  Examples:\n  grid nats config --out ./nats --workers w-01:web+prod,w-02:db\n  \
                  grid nats config --out ./nats --workers w-03:web\n  \
                  grid nats config --out ./nats --tls --servers n1.example.net,n2.example.net,n3.example.net"
)]
pub struct NatsConfigArgs {
    /// Folder to write to; a folder of an earlier run is extended
    #[arg(long, value_name = "DIR")]
    pub out: PathBuf,
    /// Workers to add, each with its groups: web-01:web+prod. The groups of a worker that exists are replaced
    #[arg(long, value_name = "ID[:GROUP+GROUP]", value_delimiter = ',', value_parser = worker)]
    pub workers: Vec<WorkerUser>,
    /// Clients to add, which submit jobs and read results and buckets. NAME:watch may also watch buckets; its consumers can make
    /// JetStream publish on any subject, so give it only to trusted programs
    #[arg(long, value_name = "NAME[:watch]", value_delimiter = ',', value_parser = client)]
    pub clients: Vec<ClientUser>,
    /// Workers or clients to remove, by name; their connections end when the servers reload
    #[arg(long, value_name = "NAME", value_delimiter = ',')]
    pub remove: Vec<String>,
    /// Host names of the servers of a NATS cluster; without it, one server
    #[arg(long, value_name = "HOST[,HOST,HOST]", value_delimiter = ',', value_parser = super::host)]
    pub servers: Vec<String>,
    /// Port for clients
    #[arg(long, default_value_t = 4222)]
    pub port: u16,
    /// Encrypt connections, with a CA that is created in the folder
    #[arg(long)]
    pub tls: bool,
}

#[derive(Args)]
pub struct NatsChildArgs {
    /// Process id of the parent
    #[arg(long)]
    pub parent: u32,
    /// The program and its arguments
    #[arg(last = true, required = true)]
    pub command: Vec<std::ffi::OsString>,
}

/// A worker that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WorkerUser {
    pub id: NodeId,
    pub groups: Vec<Name>,
}

/// A client that may connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClientUser {
    pub name: Name,
    pub watch: bool,
}

fn worker(text: &str) -> Result<WorkerUser, String> {
    let (id, groups) = text.split_once(':').unwrap_or((text, ""));
    let id = id.parse().map_err(|e| format!("worker {id:?}: {e}"))?;
    let groups = groups.split('+').filter(|group| !group.is_empty());
    let group = |group: &str| group.parse().map_err(|e| format!("group {group:?}: {e}"));
    Ok(WorkerUser { id, groups: groups.map(group).collect::<Result<_, _>>()? })
}

fn client(text: &str) -> Result<ClientUser, String> {
    let (name, watch) = match text.split_once(':') {
        None => (text, false),
        Some((name, "watch")) => (name, true),
        Some((_, other)) => return Err(format!("{other:?} is unknown after a client's name; known is `watch`")),
    };
    Ok(ClientUser { name: name.parse().map_err(|e| format!("client {name:?}: {e}"))?, watch })
}

#[cfg(test)]
mod tests {
    use super::{client, worker};

    #[test]
    fn a_worker_has_groups_behind_a_colon() {
        let web = worker("web-01:web+prod").unwrap();
        assert_eq!((web.id.to_string(), web.groups.len()), ("web-01".to_owned(), 2));
        assert!(worker("db-01").unwrap().groups.is_empty());
        for bad in ["web.*", "a:b>", "", ":web"] {
            assert!(worker(bad).is_err(), "{bad}");
        }
        assert!(client("ci:watch").unwrap().watch && !client("ci").unwrap().watch);
        assert!(client("ci:admin").is_err());
    }
}
