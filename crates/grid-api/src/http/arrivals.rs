//! Places for large bodies that are still arriving: bounded together, per client address, and by progress.
//!
//! ```text
//!   a body grows large --place left, and its address has fewer than its share--> takes one
//!                      \--a body that makes no progress has the place it needs--> that one is refused, and its place taken
//!                      \--otherwise--> waits
//! ```
//!
//! A slow body is refused only when somebody else needs its place, so a slow line alone is no fault. One address cannot take all
//! places; clients behind one proxy are one address, and share its part.
//! Not here: how long a body may take in all (`body`).

use std::net::{IpAddr, Ipv6Addr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Bodies at once, of at most `MAX_BODY_BYTES` each.
const PLACES: usize = 64;
/// Of them for one address.
const SHARE: usize = 16;
/// A body makes progress while this many bytes of it arrive within [`WINDOW`].
const STEP_BYTES: usize = 4 * 1024;
const WINDOW: Duration = Duration::from_millis(250);

/// Where large bodies arrive; one for the whole process.
#[derive(Debug, Default)]
pub struct Arrivals {
    holders: Mutex<Vec<Holder>>,
    /// A place was given back.
    freed: Notify,
}

#[derive(Debug)]
struct Holder {
    from: Option<IpAddr>,
    progress: Arc<Mutex<Progress>>,
    refused: Arc<Notify>,
}

#[derive(Debug)]
struct Progress {
    at: Instant,
    /// Bytes since then.
    bytes: usize,
}

/// A place, given back when it is dropped.
pub struct Arrival<'a> {
    arrivals: &'a Arrivals,
    progress: Arc<Mutex<Progress>>,
    refused: Arc<Notify>,
}

impl Arrivals {
    pub const fn new() -> Self {
        Self { holders: Mutex::new(Vec::new()), freed: Notify::const_new() }
    }

    /// Waits for a place for a body from `from`.
    pub async fn take(&self, from: Option<IpAddr>) -> Arrival<'_> {
        let from = from.map(network);
        loop {
            if let Some(arrival) = self.try_take(from) {
                return arrival;
            }
            // The connection that holds the place may have stopped by then.
            let _ = tokio::time::timeout(WINDOW, self.freed.notified()).await;
        }
    }

    fn try_take(&self, from: Option<IpAddr>) -> Option<Arrival<'_>> {
        let mut holders = self.lock();
        let of_address = holders.iter().filter(|holder| holder.from == from).count();
        if of_address >= SHARE {
            refuse_stalled(&mut holders, |holder| holder.from == from)?;
        } else if holders.len() >= PLACES {
            refuse_stalled(&mut holders, |_| true)?;
        }
        let progress = Arc::new(Mutex::new(Progress { at: Instant::now(), bytes: 0 }));
        let refused = Arc::new(Notify::new());
        holders.push(Holder { from, progress: Arc::clone(&progress), refused: Arc::clone(&refused) });
        Some(Arrival { arrivals: self, progress, refused })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Holder>> {
        self.holders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes the place of the body that made no progress for the longest time. None: all of them do.
fn refuse_stalled(holders: &mut Vec<Holder>, wanted: impl Fn(&Holder) -> bool) -> Option<()> {
    let stalled = holders.iter().enumerate().filter(|(_, holder)| wanted(holder));
    let (at, since) = stalled.map(|(at, holder)| (at, holder.progressed_at())).min_by_key(|(_, since)| *since)?;
    if since.elapsed() < WINDOW {
        return None;
    }
    holders.swap_remove(at).refused.notify_one();
    Some(())
}

impl Holder {
    fn progressed_at(&self) -> Instant {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner).at
    }
}

impl Arrival<'_> {
    /// So many bytes have arrived.
    pub fn progressed(&self, bytes: usize) {
        let mut progress = self.progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.bytes += bytes;
        if progress.bytes >= STEP_BYTES {
            *progress = Progress { at: Instant::now(), bytes: 0 };
        }
    }

    /// Resolves when the place is somebody else's, because too little arrived.
    pub async fn refused(&self) {
        self.refused.notified().await;
    }
}

impl Drop for Arrival<'_> {
    fn drop(&mut self) {
        // Not there any more if it was refused.
        self.arrivals.lock().retain(|holder| !Arc::ptr_eq(&holder.progress, &self.progress));
        self.arrivals.freed.notify_one();
    }
}

/// A client with one IPv6 address has all of its /64.
fn network(from: IpAddr) -> IpAddr {
    match from.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() >> 64 << 64)),
        v4 @ IpAddr::V4(_) => v4,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;
    use std::time::Duration;

    use super::{Arrivals, PLACES, SHARE, STEP_BYTES, WINDOW};

    fn address(last: u8) -> Option<IpAddr> {
        Some(IpAddr::from([10, 0, 0, last]))
    }

    #[tokio::test(start_paused = true)]
    async fn issue13_16_one_address_takes_its_share_and_no_more() {
        let arrivals = Arrivals::new();
        let mut held = Vec::new();
        for _ in 0..SHARE {
            held.push(arrivals.try_take(address(1)).expect("its share"));
        }
        assert!(arrivals.try_take(address(1)).is_none(), "all of them may still be on their way");
        assert!(arrivals.try_take(address(2)).is_some(), "others are not concerned");
        for place in &held[1..] {
            place.progressed(STEP_BYTES);
        }
        tokio::time::sleep(WINDOW / 2).await;
        for place in &held[1..] {
            place.progressed(STEP_BYTES);
        }
        tokio::time::sleep(WINDOW * 2 / 3).await;
        let taken = arrivals.take(address(1)).await;
        tokio::time::timeout(Duration::from_secs(1), held[0].refused()).await.expect("the one that stopped");
        for place in &held[1..] {
            let refused = tokio::time::timeout(Duration::ZERO, place.refused()).await;
            assert!(refused.is_err(), "those that go on keep theirs");
        }
        drop(taken);
    }

    #[tokio::test(start_paused = true)]
    async fn issue13_16_however_many_have_stopped_a_new_one_finds_a_place() {
        let arrivals = Arrivals::new();
        let mut held = Vec::new();
        for number in 0..400_u16 {
            let from = address(u8::try_from(number % 250).unwrap());
            held.push(tokio::time::timeout(Duration::from_secs(1), arrivals.take(from)).await.expect("a place"));
        }
        assert_eq!(arrivals.lock().len(), PLACES);
        drop(held);
        assert!(arrivals.lock().is_empty());
    }
}
