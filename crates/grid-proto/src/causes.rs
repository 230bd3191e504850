//! Names the causes behind an error of the transport, in one line.

use std::error::Error;

/// tonic's own text is often "transport error"; the reason is further down.
#[must_use]
pub fn causes(error: &(dyn Error + 'static)) -> String {
    // A status as a whole would also print its code and metadata.
    let status = error.downcast_ref::<tonic::Status>();
    let mut text = status.map_or_else(|| error.to_string(), |status| status.message().to_owned());
    let mut next = error.source();
    while let Some(cause) = next {
        text = format!("{text}: {cause}");
        next = cause.source();
    }
    text
}
