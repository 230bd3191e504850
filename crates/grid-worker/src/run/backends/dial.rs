//! Connects to a host of the caller's choice (`http check`, `wait port`).
//!
//! A name may have several addresses, of which the first may be one that nothing answers (IPv6 in a network that drops it). Each gets its
//! share of the time, so that the others are tried, too.
//! Not here: whether the worker may connect there (`allow::hosts`).

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use rustix::io::Errno;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;

/// Of one try, all addresses together.
const LIMIT: Duration = Duration::from_secs(10);
const MAX_ADDRESSES: usize = 8;

/// # Errors
/// What the last address answered, or that none did in time.
pub(super) async fn dial(host: &str, port: u16) -> Result<TcpStream, String> {
    let found = timeout(LIMIT, lookup_host((host, port))).await;
    let found = found.map_err(|_| format!("no address within {} s", LIMIT.as_secs()))?;
    let addresses: Vec<SocketAddr> = found.map_err(|error| error.to_string())?.take(MAX_ADDRESSES).collect();
    first_of(&addresses, LIMIT).await
}

async fn first_of(addresses: &[SocketAddr], limit: Duration) -> Result<TcpStream, String> {
    let share = limit / u32::try_from(addresses.len().max(1)).unwrap_or(u32::MAX);
    let mut problem = "the name has no address".to_owned();
    for address in addresses {
        problem = match timeout(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) if is_own(&stream) => {
                // A service may be about to take the port: best effort to leave nothing of the connection behind.
                let _ = stream.set_zero_linger();
                io::Error::from(Errno::CONNREFUSED).to_string()
            }
            Ok(Ok(stream)) => return Ok(stream),
            Ok(Err(error)) => error.to_string(),
            Err(_) => format!("no answer within {} s", limit.as_secs()),
        };
    }
    Err(problem)
}

/// Whether it is connected to itself: while nobody listens on a port of this machine, the kernel may choose that very port for the
/// connecting end.
fn is_own(stream: &TcpStream) -> bool {
    matches!((stream.local_addr(), stream.peer_addr()), (Ok(local), Ok(peer)) if local == peer)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::net::{TcpListener, TcpSocket, TcpStream};

    use super::{dial, first_of, is_own};

    #[tokio::test]
    async fn a_connection_to_itself_is_not_taken_for_a_service() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let own = socket.local_addr().unwrap();
        let stream = socket.connect(own).await.expect("the kernel connects a socket to itself");
        assert!(is_own(&stream));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        assert!(!is_own(&stream));
    }

    #[tokio::test]
    async fn an_address_that_answers_nothing_does_not_keep_the_next_one_from_being_tried() {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        // Its queue is full, and nobody accepts: the kernel drops what comes.
        let full = socket.listen(1).unwrap();
        let mut waiting = Vec::new();
        let silent = full.local_addr().unwrap();
        while let Ok(Ok(stream)) = tokio::time::timeout(Duration::from_secs(2), TcpStream::connect(silent)).await {
            waiting.push(stream);
            assert!(waiting.len() < 100, "the queue is never full");
        }
        let limit = Duration::from_secs(1);
        assert_eq!(first_of(&[silent], limit).await.map(drop), Err("no answer within 1 s".to_owned()));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let answers = listener.local_addr().unwrap();
        let stream = first_of(&[silent, answers], limit).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), answers);
    }

    #[tokio::test]
    async fn what_refuses_says_so() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        dial("127.0.0.1", port).await.unwrap();
        let bound = TcpSocket::new_v4().unwrap();
        bound.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let port = bound.local_addr().unwrap().port();
        assert_eq!(dial("127.0.0.1", port).await.map(drop), Err("Connection refused (os error 111)".to_owned()));
        assert_eq!(first_of(&[], Duration::from_secs(1)).await.map(drop), Err("the name has no address".to_owned()));
    }
}
