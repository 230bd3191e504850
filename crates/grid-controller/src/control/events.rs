//! Defines requests for events: pages of those that are stored, and a stream of those that follow.

use std::future::Future;

use grid_store::EventFilter;
use grid_types::api::{EventDoc, ListDoc};
use tokio::sync::mpsc;

use super::{Caller, Introspect, Refusal};

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct EventQuery {
    pub limit: u32,
    pub after: Option<u64>,
    pub before: Option<u64>,
}

pub trait Events: Introspect {
    /// Events after `after` as they are recorded; without it, those from now on.
    fn listen(
        &self,
        caller: &Caller,
        filter: EventFilter,
        after: Option<u64>,
    ) -> impl Future<Output = Result<mpsc::Receiver<EventDoc>, Refusal>> + Send;
    /// A page of events: after `after`, oldest first, or else older than `before`, newest first.
    fn events(
        &self,
        caller: &Caller,
        filter: EventFilter,
        query: EventQuery,
    ) -> impl Future<Output = Result<ListDoc<EventDoc>, Refusal>> + Send;
}
