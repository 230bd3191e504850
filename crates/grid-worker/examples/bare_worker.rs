//! A worker as a process of its own, without the `grid` binary: `bare_worker SERVER NODE DATA_DIR`. Tests kill it.

use grid_worker::{Shutdown, WorkerConfig};

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [server, node, data_dir] = args.as_slice() else { panic!("usage: bare_worker SERVER NODE DATA_DIR") };
    let mut config = WorkerConfig::new(vec![server.clone()], data_dir.into());
    config.node_id = Some(node.parse().expect("a node id"));
    config.enable_backends = vec!["test".to_owned()];
    let (_handle, shutdown) = Shutdown::new();
    let ready = |ready: grid_worker::Ready| println!("ready {}", ready.session);
    if let Err(error) = grid_worker::run(config, shutdown, ready).await {
        eprintln!("{error}");
        std::process::exit(1);
    }
}
