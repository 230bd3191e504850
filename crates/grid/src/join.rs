//! `grid server --join`: adds a controller with an empty data folder to a cluster.
//!
//! ```text
//!   empty -> card -> asks any controller, follows NOT_LEADER, retries -> accepted as a learner
//!         -> starts, catches up, asks for its vote (grid-raft) -> voter
//! ```
//!
//! Repeating the request is harmless: the card is on disk before the first request.

use std::time::Duration;

use anyhow::Context;
use grid_client::{Client, Options};
use grid_controller::{Settings, accept_join, prepare_join};
use grid_types::api::JoinBody;

use crate::cli::ServerArgs;

const ROUND: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(500);

/// Returns when the cluster has accepted this controller as a learner.
pub async fn join(args: &ServerArgs, settings: &Settings, raft_addr: &str) -> anyhow::Result<()> {
    let servers = grid_client::parse_servers(&args.join.join(",")).context("--join")?;
    let card = prepare_join(&args.data_dir, &args.node_id)?;
    let body = JoinBody {
        node_id: args.node_id.to_string(),
        raft_id: card.raft_id,
        folder_id: card.folder_id.clone(),
        raft_addr: raft_addr.to_owned(),
        api_url: settings.api_url.clone(),
        grpc_addr: settings.grpc_addr.clone(),
        feature_level: args.feature_level,
        replace: args.replace,
    };
    let client = Client::new(servers, Options { patience: ROUND })?;
    loop {
        match client.join(&body).await {
            Ok(joined) => {
                tracing::info!(cluster = joined.cluster_id, "accepted as a learner");
                return Ok(accept_join(&args.data_dir, card, &joined.cluster_id)?);
            }
            // No majority, no leader yet, no controller reachable: these conditions may pass, and share this exit code.
            Err(e) if e.exit_code() != 3 => anyhow::bail!("the cluster refuses {}: {e}", args.node_id),
            Err(e) => tracing::warn!("not joined yet: {e}; trying again"),
        }
        tokio::time::sleep(PAUSE).await;
    }
}
