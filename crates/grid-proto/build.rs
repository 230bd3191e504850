//! Compiles the .proto files with `protox`: a fresh machine has no protoc.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo:rerun-if-changed=proto");
    let files = protox::compile(["proto/grid.worker.v1.proto"], ["proto"])?;
    // Ordered maps: equal messages are equal bytes.
    tonic_prost_build::configure()
        .btree_map(".grid.worker.v1")
        .skip_debug(["grid.worker.v1.Secret"])
        .compile_fds(files)?;
    let files = protox::compile(["proto/grid.peer.v1.proto"], ["proto"])?;
    // A replicated payload is passed on without a copy.
    tonic_prost_build::configure().bytes(".grid.peer.v1").compile_fds(files)?;
    Ok(())
}
