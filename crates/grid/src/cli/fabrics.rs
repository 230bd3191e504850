//! Defines the flags that say how controllers and workers reach each other.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use grid_fabric::nats;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Fabric {
    Grpc,
    Nats,
}

/// How to reach NATS.
#[derive(Debug, Clone, Default, Args)]
pub struct NatsArgs {
    /// Addresses of nats-servers of one cluster, comma-separated, like nats://10.0.0.1:4222 or tls://nats.example:4222
    #[arg(long, env = "GRID_NATS", value_name = "URL[,URL]", value_delimiter = ',', value_parser = url)]
    pub nats: Vec<String>,
    /// File with the NKey seed or the .creds of this process, as `grid nats config` writes it
    #[arg(long, env = "GRID_NATS_CREDS", value_name = "FILE", requires = "nats")]
    pub nats_creds: Option<PathBuf>,
    /// File with the CA certificates of the nats-servers; the connection is encrypted then
    #[arg(long, env = "GRID_NATS_CA", value_name = "FILE", requires = "nats")]
    pub nats_ca: Option<PathBuf>,
}

impl NatsArgs {
    /// `name`: of this client. `None`: NATS is not used.
    pub fn settings(&self, name: &str) -> Option<nats::Settings> {
        if self.nats.is_empty() {
            return None;
        }
        let (urls, credentials, ca) = (self.nats.clone(), self.nats_creds.clone(), self.nats_ca.clone());
        Some(nats::Settings { urls, name: name.to_owned(), credentials, ca })
    }
}

/// The fabrics of a controller.
#[derive(Debug, Clone, Args)]
pub struct FabricArgs {
    /// How workers connect, comma-separated: grpc, nats or both; nats needs --nats
    #[arg(long, env = "GRID_FABRIC", value_name = "FABRIC[,FABRIC]", value_delimiter = ',', default_value = "grpc")]
    pub fabric: Vec<Fabric>,
    #[command(flatten)]
    pub nats: NatsArgs,
    /// Name of this controller among the clients of NATS, if it is not controller_ and --node-id: its credentials may demand another
    #[arg(long, env = "GRID_NATS_NAME", value_name = "NAME", requires = "nats", value_parser = client_name)]
    pub nats_name: Option<String>,
    /// How many nats-servers of a cluster store each stream
    #[arg(long, env = "GRID_NATS_REPLICAS", value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u8).range(1..=5))]
    pub nats_replicas: u8,
}

impl FabricArgs {
    pub fn has_grpc(&self) -> bool {
        self.fabric.contains(&Fabric::Grpc)
    }

    pub fn has_nats(&self) -> bool {
        self.fabric.contains(&Fabric::Nats)
    }

    /// What clap cannot say: a flag that would have no effect is refused.
    pub fn check(&self) -> anyhow::Result<()> {
        match (self.has_nats(), self.nats.nats.is_empty()) {
            (true, true) => anyhow::bail!("--fabric nats needs the addresses of nats-servers: --nats nats://HOST:4222"),
            (false, false) => {
                anyhow::bail!("--nats has no effect without --fabric nats, or --fabric grpc,nats for both")
            }
            _ => Ok(()),
        }
    }

    /// `None`: no worker comes over NATS.
    pub fn settings(&self, node_id: &str) -> Option<nats::Settings> {
        // No worker can have this name, and with it the permission to read what this controller is answered.
        let own = format!("controller_{node_id}");
        self.nats.settings(self.nats_name.as_deref().unwrap_or(&own)).filter(|_| self.has_nats())
    }
}

pub fn url(text: &str) -> Result<String, String> {
    let rest = text
        .split_once("://")
        .map_or(Some(text), |(scheme, rest)| ["nats", "tls", "ws", "wss"].contains(&scheme).then_some(rest));
    let is_url = rest.is_some_and(|rest| !rest.is_empty() && rest.chars().all(|c| c.is_ascii_graphic()));
    is_url
        .then(|| text.to_owned())
        .ok_or_else(|| "an address like nats://10.0.0.1:4222 or tls://nats.example:4222".to_owned())
}

/// A token of a subject: inboxes are named by it.
fn client_name(text: &str) -> Result<String, String> {
    let is_name = !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    is_name.then(|| text.to_owned()).ok_or_else(|| "letters, digits, - and _".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::FabricArgs;
    use crate::cli::{Cli, Verb};

    fn server(flags: &str) -> Result<FabricArgs, String> {
        let line = format!("grid server --node-id c1 --data-dir d --bootstrap {flags}");
        let parsed = Cli::try_parse_from(line.split_whitespace()).map_err(|e| e.to_string())?;
        let Verb::Server(server) = parsed.verb else { panic!("{flags}") };
        server.fabrics.check().map_err(|e| e.to_string())?;
        Ok(server.fabrics)
    }

    #[test]
    fn fabrics_are_chosen_by_flags_and_grpc_is_the_default() {
        let default = server("").unwrap();
        assert!(default.has_grpc() && !default.has_nats() && default.settings("c1").is_none());
        let both = server("--fabric grpc,nats --nats nats://a:1,tls://b:2 --nats-creds f").unwrap();
        let settings = both.settings("c1").unwrap();
        assert!(both.has_grpc() && both.has_nats());
        assert_eq!((settings.urls.len(), settings.name.as_str()), (2, "controller_c1"));
        let named = server("--fabric nats --nats a:4222 --nats-name ctl --nats-replicas 3").unwrap();
        assert_eq!((named.settings("c1").unwrap().name, named.nats_replicas), ("ctl".to_owned(), 3));
        assert!(!named.has_grpc());
    }

    #[test]
    fn flags_without_effect_are_refused_with_what_to_do() {
        for (flags, needle) in [
            ("--fabric nats", "--nats nats://HOST"),
            ("--nats nats://a:1", "--fabric nats"),
            ("--nats-creds f", "--nats"),
            ("--fabric nats --nats http://a:1", "nats://"),
            ("--fabric nats --nats nats://", "nats://"),
            ("--fabric mqtt", "grpc"),
            ("--fabric nats --nats a:1 --nats-name a.b", "letters"),
        ] {
            let refused = server(flags).expect_err(flags);
            assert!(refused.contains(needle), "{flags}: {refused}");
        }
    }
}
