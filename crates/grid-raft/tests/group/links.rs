//! A proxy for each ordered pair of members: what one dials to reach the other.
//!
//! Cut, it closes what is open and takes nothing new; so a link can be cut in
//! one direction of dialling only.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;

pub struct Link {
    pub address: SocketAddr,
    cut: Arc<AtomicBool>,
    changed: Arc<Notify>,
}

impl Link {
    /// Towards `target`, on the runtime of the test.
    pub async fn to(target: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let (cut, changed) = (Arc::new(AtomicBool::new(false)), Arc::new(Notify::new()));
        let (is_cut, on_change) = (cut.clone(), changed.clone());
        tokio::spawn(async move {
            while let Ok((mut inner, _)) = listener.accept().await {
                let (is_cut, on_change) = (is_cut.clone(), on_change.clone());
                tokio::spawn(async move {
                    let told = on_change.notified();
                    if is_cut.load(Ordering::SeqCst) {
                        return;
                    }
                    let Ok(mut outer) = TcpStream::connect(target).await else { return };
                    let _ = (inner.set_nodelay(true), outer.set_nodelay(true));
                    tokio::select! {
                        _ = copy_bidirectional(&mut inner, &mut outer) => {}
                        () = told => {}
                    }
                });
            }
        });
        Self { address, cut, changed }
    }

    pub fn set_cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::SeqCst);
        if cut {
            self.changed.notify_waiters();
        }
    }
}
