//! Serves clients of NATS that are no workers, while this controller leads: keeps the streams, consumes requests, writes the mirrors.
//!
//! ```text
//!   STANDBY --a term is won--> streams, requests, mirrors --the term ends--> all of it is dropped, STANDBY
//! ```
//!
//! Nothing here is needed for a session or a result: JetStream may be missing or broken, and the fleet works. What fails is logged once and
//! tried again with growing pauses.

use std::convert::Infallible;
use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use super::client::Client;
use super::mirrors::{self, MirrorError};
use super::{requests, streams};
use crate::hub::Hub;
use crate::intake::Intake;
use crate::mirrored::Mirrored;

const FIRST_PAUSE: Duration = Duration::from_millis(250);
const LONGEST_PAUSE: Duration = Duration::from_secs(15);

/// Runs until `shutdown`. `replicas`: of streams and buckets.
pub async fn serve_clients<H: Hub, C: Intake + Mirrored>(
    client: Client,
    replicas: usize,
    hub: Arc<H>,
    control: Arc<C>,
    shutdown: impl Future<Output = ()> + Send,
) {
    tokio::select! {
        never = follow(&client, replicas, &*hub, &control) => match never {},
        () = shutdown => {}
    }
}

async fn follow<H: Hub, C: Intake + Mirrored>(
    client: &Client,
    replicas: usize,
    hub: &H,
    control: &Arc<C>,
) -> Infallible {
    let mut epoch = None;
    loop {
        let next = hub.next_epoch(epoch);
        epoch = match epoch {
            None => next.await,
            Some(_) => tokio::select! {
                next = next => next,
                () = lead(client, replicas, control) => None,
            },
        };
    }
}

/// Never returns; dropped when the term ends.
async fn lead<C: Intake + Mirrored>(client: &Client, replicas: usize, control: &Arc<C>) {
    let jetstream = async_nats::jetstream::new(client.nats().clone());
    let requests = again(client, "requests are not consumed", || async {
        // Again after each failure: an operator may have deleted a stream that could not be corrected.
        streams::ensure(&jetstream, replicas).await.map_err(|error| error.to_string())?;
        requests::consume(client, Arc::clone(control)).await.map(|()| Next::Again).map_err(|error| error.to_string())
    });
    let mirrors = again(client, "the buckets are not written", || async {
        match mirrors::mirror(client, replicas, Arc::clone(control)).await {
            // It led no more, or not for a moment.
            Ok(()) => Ok(Next::Again),
            // N7: the loser stops; its next term begins anew.
            Err(error @ MirrorError::HigherEpoch { .. }) => {
                tracing::error!("{error}");
                Ok(Next::Done)
            }
            Err(error) => Err(error.to_string()),
        }
    });
    tokio::join!(requests, mirrors);
}

enum Next {
    Done,
    Again,
}

/// Repeats until it is done. Each problem is logged when it is new.
async fn again<F: Future<Output = Result<Next, impl Display>>>(
    client: &Client,
    what: &str,
    mut attempt: impl FnMut() -> F,
) {
    let mut connected = client.connected();
    let (mut pause, mut logged) = (FIRST_PAUSE, String::new());
    loop {
        // An ended channel is a client that is gone, and with it the task that waits here.
        if connected.wait_for(|connected| *connected).await.is_err() {
            return std::future::pending().await;
        }
        match attempt().await {
            Ok(Next::Done) => return,
            Ok(Next::Again) => (pause, logged) = (FIRST_PAUSE, String::new()),
            Err(problem) => {
                let problem = problem.to_string();
                if problem != logged {
                    tracing::warn!("{what}: {problem}");
                    logged = problem;
                }
            }
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}
