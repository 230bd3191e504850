//! Serves workers over NATS: subscribes while this controller leads, and hands everything to the hub.
//!
//! ```text
//!   STANDBY: connected, subscribed to nothing --a term is won--> subscribed, announced --the term ends--> Closing to all, STANDBY
//! ```
//!
//! N5: nothing is said twice by two leaders, because only one subscribes; a deposed one that still does is recognized by its epoch. A
//! connection that comes back begins nothing anew: subscriptions are renewed by the client, and the hub hears of it (`broker_is_up`).

use std::convert::Infallible;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_nats::{HeaderMap, Message, Subscriber};
use bytes::Bytes;
use grid_proto::refusals::{Kind, Port, refuse};
use grid_tasks::Tasks;
use grid_types::LeaderEpoch;
use tokio_stream::StreamExt;

use super::broadcast::NatsBroadcaster;
use super::calls::{self, Shares};
use super::client::{Client, PublishError};
use super::subjects::{self, Call};
use super::term::{Saying, Term};
use crate::closing::CloseReason;
use crate::hub::Hub;

/// How long sessions have to be told that the controller stops.
const SHUTDOWN_LIMIT: Duration = Duration::from_secs(2);
const RETRY_AFTER: Duration = Duration::from_millis(200);
/// In the announcement of a leader, and in commands.
pub(super) const LEADER_EPOCH: &str = "leader-epoch";
const CLUSTER_ID: &str = "cluster-id";
const ANNOUNCE_AGAIN: Duration = Duration::from_secs(1);

/// Serves workers until `shutdown`.
pub async fn serve<H: Hub>(client: Client, hub: Arc<H>, tasks: Tasks, shutdown: impl Future<Output = ()> + Send) {
    let mut shutdown = std::pin::pin!(shutdown);
    let leading = lead(&client, &hub, &tasks, shutdown.as_mut());
    tokio::select! {
        () = leading => {}
        never = report_connection(&client, &*hub) => match never {},
    }
}

async fn report_connection<H: Hub>(client: &Client, hub: &H) -> Infallible {
    let (mut connected, mut ups) = (client.connected(), client.ups());
    loop {
        ups.mark_unchanged();
        let is_up = *connected.borrow_and_update();
        if is_up {
            hub.broker_carries(client.max_payload());
        }
        hub.broker_is_up(is_up);
        tokio::select! {
            Ok(()) = connected.changed() => {}
            // An interruption that was over before it was seen.
            Ok(()) = ups.changed() => hub.broker_is_up(false),
            else => std::future::pending().await,
        }
    }
}

/// Returns at the shutdown.
async fn lead<H: Hub>(
    client: &Client,
    hub: &Arc<H>,
    tasks: &Tasks,
    mut shutdown: std::pin::Pin<&mut impl Future<Output = ()>>,
) {
    let mut epoch = None;
    loop {
        let Some(current) = epoch else {
            tokio::select! {
                next = hub.next_epoch(None) => epoch = next,
                () = shutdown.as_mut() => return,
            }
            continue;
        };
        let (term, saying) = Term::new(Arc::clone(hub), client.clone(), current, tasks.clone());
        let is_over = tokio::select! {
            next = hub.next_epoch(epoch) => {
                epoch = next;
                false
            }
            () = run(&term, saying) => false,
            () = shutdown.as_mut() => true,
        };
        // The hub closes its streams, too; a session that was opened meanwhile is caught here.
        term.sessions().close_all(if is_over { CloseReason::Shutdown } else { CloseReason::NotLeader });
        if is_over {
            let told = async {
                term.sessions().all_ended().await;
                client.nats().flush().await
            };
            // Sessions that nobody could be told about are noticed by their workers.
            let _ = tokio::time::timeout(SHUTDOWN_LIMIT, told).await;
            return;
        }
    }
}

/// Never returns while the connection's task lives.
async fn run<H: Hub>(term: &Arc<Term<H>>, saying: Saying) {
    let Subscriptions { ups, results, calls, leaders } = Subscriptions::new(&term.client).await;
    let [register, drain, leave, log] = calls;
    let shares = Arc::new(Shares::default());
    let (_while_leading, publishing) = Broadcasting::start(term);
    tokio::select! {
        () = term.route(ups, results) => {}
        () = calls::answer(term, Call::Register, register, &shares) => {}
        () = calls::answer(term, Call::Drain, drain, &shares) => {}
        () = calls::answer(term, Call::Leave, leave, &shares) => {}
        () = calls::answer(term, Call::Log, log, &shares) => {}
        () = term.keep_saying(saying) => {}
        () = announce(term, leaders) => {}
        () = publishing => {}
    }
    tracing::warn!("a subscription has ended: subscribing again");
    tokio::time::sleep(RETRY_AFTER).await;
}

/// Lets the hub broadcast for as long as it lives.
struct Broadcasting<H: Hub> {
    hub: Arc<H>,
}

impl<H: Hub> Broadcasting<H> {
    fn start(term: &Term<H>) -> (Self, impl Future<Output = ()> + Send + use<H>) {
        let (broadcaster, publishing) = NatsBroadcaster::new(term.client.clone(), term.hub.cluster_id());
        term.hub.broadcast_by(Some(broadcaster));
        (Self { hub: Arc::clone(&term.hub) }, publishing)
    }
}

impl<H: Hub> Drop for Broadcasting<H> {
    fn drop(&mut self) {
        self.hub.broadcast_by(None);
    }
}

struct Subscriptions {
    ups: Subscriber,
    results: Subscriber,
    calls: [Subscriber; 4],
    leaders: Subscriber,
}

impl Subscriptions {
    /// Tries until it succeeds: without a connection they wait for one.
    async fn new(client: &Client) -> Self {
        loop {
            match Self::attempt(client).await {
                Ok(subscribed) => return subscribed,
                Err(why) => {
                    tracing::warn!("cannot subscribe for the workers: {why}; trying again");
                    tokio::time::sleep(RETRY_AFTER).await;
                }
            }
        }
    }

    async fn attempt(client: &Client) -> Result<Self, PublishError> {
        let of = |call: Call| client.subscribe(call.of_all_nodes());
        // The sessions first: who registers speaks there next.
        let (ups, results) = (client.subscribe(subjects::UPS).await?, client.subscribe(subjects::RESULTS).await?);
        let calls = [of(Call::Register).await?, of(Call::Drain).await?, of(Call::Leave).await?, of(Call::Log).await?];
        let leaders = client.subscribe(subjects::LEADER).await?;
        Ok(Self { ups, results, calls, leaders })
    }
}

/// Tells the workers of an earlier leader, at once and after every interruption, that they have another.
///
/// E2: a leader of the same cluster that announces a lower epoch is told, too: its cluster was restored elsewhere while it was away. The
/// hub decides about a higher one.
async fn announce<H: Hub>(term: &Term<H>, mut leaders: Subscriber) {
    let (mut ups, own, cluster_id) = (term.client.ups(), term.epoch.wire(), term.hub.cluster_id());
    let mut is_due = true;
    loop {
        if std::mem::take(&mut is_due) {
            ups.mark_unchanged();
            say_that_it_leads(&term.client, own, &cluster_id).await;
        }
        tokio::select! {
            Ok(()) = ups.changed() => is_due = true,
            Some(message) = leaders.next() => match announced(&message) {
                Some((other, id)) if id == cluster_id && other < own => {
                    // However often it announces itself.
                    tokio::time::sleep(ANNOUNCE_AGAIN).await;
                    is_due = true;
                }
                Some((other, id)) if other > own => term.hub.announced(id, LeaderEpoch::from_wire(other)).await,
                Some(_) => {}
                None => refuse(Port::Nats, Kind::Malformed, format_args!("the announcement of a leader")),
            },
            else => std::future::pending().await,
        }
    }
}

async fn say_that_it_leads(client: &Client, epoch: u64, cluster_id: &str) {
    let mut headers = HeaderMap::new();
    headers.insert(LEADER_EPOCH, epoch.to_string().as_str());
    headers.insert(CLUSTER_ID, cluster_id);
    if let Err(why) = client.publish(subjects::LEADER, Some(headers), Bytes::new()).await {
        tracing::debug!("a new leader was not announced: {why}");
    }
}

/// Its epoch and its cluster.
fn announced(message: &Message) -> Option<(u64, &str)> {
    let headers = message.headers.as_ref()?;
    let epoch = headers.get(LEADER_EPOCH)?.as_str().parse().ok()?;
    Some((epoch, headers.get(CLUSTER_ID).map_or("", async_nats::HeaderValue::as_str)))
}
