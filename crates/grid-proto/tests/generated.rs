//! The generated messages and services are those of the .proto files.
//!
//! They are committed because a build that generates them compiles forty more crates. `cargo xtask proto` writes them anew.
//! Compiled by `protox`: a fresh machine has no protoc.

use std::path::Path;

#[test]
fn the_generated_code_is_that_of_the_proto_files() {
    let made = tempfile::tempdir().unwrap();
    let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto");
    // Ordered maps: equal messages are equal bytes.
    let worker = tonic_prost_build::configure().btree_map(".grid.worker.v1").skip_debug(["grid.worker.v1.Secret"]);
    // A replicated payload is passed on without a copy.
    let peer = tonic_prost_build::configure().bytes(".grid.peer.v1");
    for (name, builder) in [("grid.worker.v1", worker), ("grid.peer.v1", peer)] {
        let files = protox::compile([format!("{name}.proto")], [&proto]).unwrap();
        builder.emit_rerun_if_changed(false).out_dir(made.path()).compile_fds(files).unwrap();
        let expected = std::fs::read_to_string(made.path().join(format!("{name}.rs"))).unwrap();
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/generated").join(format!("{name}.rs"));
        if std::env::var_os("GRID_PROTO").is_some() {
            std::fs::write(&path, &expected).unwrap();
        }
        let committed = std::fs::read_to_string(&path).unwrap();
        assert!(committed == expected, "{} is not what {name}.proto says: run `cargo xtask proto`", path.display());
    }
}
