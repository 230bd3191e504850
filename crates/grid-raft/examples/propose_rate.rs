//! How fast one member takes proposals, fsync included, with a machine that
//! does nothing.
//!
//! `cargo run --release -p grid-raft --example propose_rate [DIR]`
//!
//! DIR must be on the disk to be measured; a memory file system shows only the
//! CPU cost. One line per payload size and number of proposals in flight.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use bytes::Bytes;
use grid_raft::{Committed, Config, Machine, MachineError, MachinePosition, Raft, Start, WriteCopy};

#[derive(Default)]
struct Idle(MachinePosition);

impl Machine for Idle {
    type Reply = ();

    fn position(&self) -> MachinePosition {
        self.0.clone()
    }

    fn apply(&mut self, batch: Vec<Committed>) -> Result<Vec<Option<()>>, MachineError> {
        let mut replies = Vec::with_capacity(batch.len());
        for entry in batch {
            self.0.applied = Some(entry.position);
            self.0.membership = entry.membership.or(self.0.membership.take());
            replies.push(entry.payload.map(|_| ()));
        }
        Ok(replies)
    }

    fn pin(&mut self) -> Result<WriteCopy, MachineError> {
        Err(MachineError::new("this machine has no data"))
    }

    fn install_snapshot(&mut self, _path: &Path, _position: MachinePosition) -> Result<(), MachineError> {
        Err(MachineError::new("this machine has no data"))
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = std::env::args_os().nth(1).map(PathBuf::from);
    let root = root.unwrap_or_else(std::env::temp_dir);
    let dir = root.join(format!("propose-rate-{}", std::process::id()));
    let config = Config::new(1, "127.0.0.1:8766", &dir);
    let raft = Raft::open(config, Start::Bootstrap, Idle::default()).await?;
    raft.leadership().wait_for(|l| l.is_leader).await?;

    for bytes in [100, 100 << 10] {
        for in_flight in [1, 2] {
            let payload = Bytes::from(vec![b'x'; bytes]);
            let rate = measure(&raft, &payload, in_flight).await?;
            println!("{bytes:>7} bytes, {in_flight} in flight: {rate:>8.0} proposals/s");
        }
    }
    raft.shutdown().await;
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

async fn measure(raft: &Raft<()>, payload: &Bytes, in_flight: usize) -> Result<f64, Box<dyn std::error::Error>> {
    let began = Instant::now();
    let mut submitters = tokio::task::JoinSet::new();
    for _ in 0..in_flight {
        let (raft, payload) = (raft.clone(), payload.clone());
        submitters.spawn(async move {
            let mut count = 0_u32;
            while began.elapsed() < Duration::from_secs(3) {
                raft.propose(payload.clone()).await?;
                count += 1;
            }
            Ok::<_, grid_raft::ProposeError>(count)
        });
    }
    let mut total = 0;
    while let Some(count) = submitters.join_next().await {
        total += count??;
    }
    Ok(f64::from(total) / began.elapsed().as_secs_f64())
}
