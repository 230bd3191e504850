//! Pages and streams of events.

use grid_store::{EventFilter, Page, Reader};
use grid_types::Code;
use grid_types::api::{EventDoc, ListDoc};
use tokio::sync::mpsc;

use crate::control::{Caller, EventQuery, Events, Introspect, Permit, Refusal, Right, Scope};
use crate::controller::Controller;
use crate::documents;

impl Events for Controller {
    async fn listen(
        &self,
        caller: &Caller,
        filter: EventFilter,
        after: Option<u64>,
    ) -> Result<mpsc::Receiver<EventDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Cluster)?;
        self.check_event(permit, after).await?;
        self.shared.reading.events.subscribe(filter, after).await
    }

    async fn events(
        &self,
        caller: &Caller,
        filter: EventFilter,
        query: EventQuery,
    ) -> Result<ListDoc<EventDoc>, Refusal> {
        let permit = caller.permit(Right::View, Scope::Cluster)?;
        let limit = usize::try_from(query.limit).unwrap_or(usize::MAX);
        self.check_event(permit, query.after).await?;
        let read = move |reader: &Reader| {
            let page = match query.after {
                None => reader.events_before(&filter, query.before, limit)?,
                Some(after) => {
                    let (items, reached) = reader.events_after(&filter, after, limit)?;
                    Page { items, next: (reached > after).then_some(reached) }
                }
            };
            Ok(documents::list(page, documents::event))
        };
        self.read(permit, read).await
    }
}

impl Controller {
    /// Refuses the number of an event that this cluster never recorded: nothing would follow it for a long time. A member
    /// that lags behind the leader may not have an event yet that another one has shown, so it catches up first.
    async fn check_event(&self, permit: Permit, after: Option<u64>) -> Result<(), Refusal> {
        let Some(after) = after else { return Ok(()) };
        if after <= self.read(permit, Reader::newest_event).await? {
            return Ok(());
        }
        self.read_barrier().await?;
        let newest = self.read(permit, Reader::newest_event).await?;
        if after <= newest {
            return Ok(());
        }
        let why = format!("event {after} is not of this cluster: its newest event is {newest}; ask without a number");
        Err(Refusal::new(Code::BadRequest, why))
    }
}
