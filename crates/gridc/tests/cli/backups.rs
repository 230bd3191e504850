//! `cluster backup`: what is not whole gets no name.

use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::response::Response;

use crate::run;

/// A controller that announces one thing and sends another.
async fn server(body: &'static [u8], length: usize, blake3: &'static str) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let router = Router::new().fallback(move || async move {
        let builder = Response::builder().header("content-length", length).header("x-grid-backup-blake3", blake3);
        let builder = builder.header("x-grid-backup-index", "812").header("x-grid-backup-jobs", "3");
        let builder = builder.header("x-grid-backup-epoch", "4").header("x-grid-backup-stale", "false");
        builder.header("x-grid-backup-taken-at", "2026-02-12T10:30:00.000Z").body(Body::from(body)).unwrap()
    });
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

fn files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

/// Of something else.
const HASH: &str = "0000000000000000000000000000000000000000000000000000000000000000";

#[tokio::test]
async fn a_backup_with_a_wrong_checksum_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("b");
    let url = server(b"backup", 6, HASH).await;
    let ran = run(&url, &format!("cluster backup -o {}", to.display())).await.exits(3);
    assert!(ran.stderr.contains("wrong checksum after 6 of 6 bytes"), "{}", ran.stderr);
    assert!(!ran.stderr.contains("check the address"), "the address is right: {}", ran.stderr);
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn an_answer_without_a_description_is_not_a_backup() {
    let folder = tempfile::tempdir().unwrap();
    let fake = crate::fake::Fake::start(|_, _| (200, serde_json::json!({}))).await;
    let to = folder.path().join("b");
    let ran = run(&fake.url(), &format!("cluster backup --output={}", to.display())).await.exits(3);
    assert!(ran.stderr.contains("lacks the description of the backup"), "{}", ran.stderr);
    assert_eq!(files(folder.path()), Vec::<String>::new());
}

#[tokio::test]
async fn a_whole_backup_is_named_and_told() {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("b");
    let hash = Box::leak(blake3::hash(b"backup").to_hex().to_string().into_boxed_str());
    let url = server(b"backup", 6, hash).await;
    let line = format!("-o json cluster backup -o {}", to.display());
    let ran = run(&url, &line).await.exits(0);
    assert_eq!((ran.json()["index"].as_u64(), ran.json()["jobs"].as_u64()), (Some(812), Some(3)));
    assert_eq!((ran.json()["leader_epoch"].as_u64(), ran.json()["stale"].as_bool()), (Some(4), Some(false)));
    assert_eq!(std::fs::read(&to).unwrap(), b"backup");
    run(&url, &line).await.exits(2);
    let ran = run(&url, &format!("cluster backup -o {} --force", to.display())).await.exits(0);
    let want = format!(
        "file          {}\nsize          1 KiB\nstate of      2026-02-12T10:30:00.000Z\nstale         no\nlog index     812\nleader epoch  4\njobs          3\nblake3        {hash}\n",
        to.display()
    );
    assert_eq!(ran.stdout, want);
    assert_eq!(files(folder.path()), ["b"]);
}
