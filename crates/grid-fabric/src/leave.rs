//! Defines what a worker that leaves reports about its leases.

use grid_proto::v1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// It has no lease: those that the leader counts as outstanding never reached it.
    NothingOutstanding,
    /// It may have begun some of them.
    LeasesOutstanding,
}

impl Leave {
    /// As a request says.
    #[must_use]
    pub fn of(request: &v1::NodeSession) -> Self {
        if request.nothing_outstanding { Self::NothingOutstanding } else { Self::LeasesOutstanding }
    }
}
