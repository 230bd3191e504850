//! Makes the documents of the HTTP API from the rows of the store.
//!
//! This is the one place that knows both. Rows are consumed: names and texts of large pages are moved, not copied. The
//! functions run where the rows were read, on a blocking thread.
//! Not here: documents about the controllers themselves, which have no rows (`requests`).

mod events;
mod jobs;
mod nodes;
mod results;

use grid_store::{Page, ResultPage};
use grid_types::api::{ListDoc, ResultRowDoc};

use results::result_row;

pub use events::event;
pub use jobs::{job, run};
pub use nodes::node;
pub use results::output_group;

/// A page; `next` is the text of its cursor.
pub fn list<T, N: ToString, D>(page: Page<T, N>, document: impl FnMut(T) -> D) -> ListDoc<D> {
    ListDoc { items: page.items.into_iter().map(document).collect(), next: page.next.map(|next| next.to_string()) }
}

/// A page of results; a cursor is `STEP:NODE`.
pub fn results(page: ResultPage) -> ListDoc<ResultRowDoc> {
    let next = page.next.map(|(step, node)| format!("{step}:{node}"));
    list(Page { items: page.items, next }, result_row)
}
