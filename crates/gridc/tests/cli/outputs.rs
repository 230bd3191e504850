//! `job outputs`: a file for each node, and never a changed one.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::fake::{Fake, JOB, job, job_line, refusal};
use crate::{end, gridc};

async fn server(rows: Vec<Value>) -> Fake {
    Fake::start(move |_, seen| match seen.line.as_str() {
        line if line == job_line() => (200, job("completed", &[("success", 2)], None)),
        line if line.contains("/results?step=0&limit=1000") => (200, json!({"items": rows, "next": null})),
        line if line.ends_with("/output/0/web-01") => (200, json!("one\u{0}\r\n")),
        line if line.ends_with("/output/0/web-02") => (200, json!("two")),
        _ => refusal(404, "NOT_FOUND", "no such path"),
    })
    .await
}

fn row(node: &str, status: &str) -> Value {
    json!({"step": 0, "node": node, "status": status, "attempts": 1, "error": if status == "failed" { Some("boom") } else { None }})
}

async fn stored(server: &Fake, dir: &Path) -> crate::Ran {
    end(gridc(&server.url(), &format!("job outputs {JOB} --dir")).arg(dir)).await
}

#[tokio::test]
async fn each_node_has_a_file_with_its_bytes() {
    let (server, dir) =
        (server(vec![row("web-01", "success"), row("web-02", "success")]).await, tempfile::tempdir().unwrap());
    let to = dir.path().join("new/folder");
    let ran = stored(&server, &to).await.exits(0);
    assert_eq!(fs::read(to.join("web-01")).unwrap(), b"one\0\r\n");
    assert_eq!(fs::read(to.join("web-02")).unwrap(), b"two");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
    let shown: Vec<_> =
        ran.stdout.lines().skip(1).map(|line| line.split_whitespace().take(2).collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(shown, ["web-01 6", "web-02 3"]);
}

#[tokio::test]
async fn what_is_there_already_is_not_changed_and_failures_have_no_file() {
    let rows =
        vec![row("web-01", "success"), row("web-02", "failed"), row("../evil", "success"), row("a/b", "success")];
    let (server, dir) = (server(rows).await, tempfile::tempdir().unwrap());
    let to = dir.path().join("to");
    fs::create_dir(&to).unwrap();
    fs::write(dir.path().join("precious"), "precious").unwrap();
    std::os::unix::fs::symlink(dir.path().join("precious"), to.join("web-01")).unwrap();
    let ran = stored(&server, &to).await.exits(1);
    assert_eq!(fs::read_to_string(dir.path().join("precious")).unwrap(), "precious");
    assert_eq!(fs::read_dir(&to).unwrap().count(), 1, "only what was there");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2, "nothing beside the folder");
    for told in [
        "is there already and is not changed",
        "web-02: failed: boom",
        "../evil: not the name of a node",
        "4 nodes without a file",
    ] {
        assert!(ran.stderr.contains(told), "{told}: {ran:?}");
    }
}

#[tokio::test]
async fn a_file_that_cannot_be_written_is_named() {
    let (server, dir) = (server(vec![row("web-01", "success")]).await, tempfile::tempdir().unwrap());
    fs::create_dir(dir.path().join(".web-01.part")).unwrap();
    let ran = stored(&server, dir.path()).await.exits(74);
    let named = format!("cannot write the answer: {}/web-01: ", dir.path().display());
    assert!(ran.stderr.contains(&named), "{ran:?}");
}

#[tokio::test]
async fn a_step_that_is_not_there_is_not_found() {
    let server = server(Vec::new()).await;
    let dir = tempfile::tempdir().unwrap();
    let ran = end(gridc(&server.url(), &format!("job outputs {JOB} --step 9 --dir")).arg(dir.path())).await.exits(4);
    assert!(ran.stderr.contains("has no step 9"), "{ran:?}");
    crate::run(&server.url(), &format!("job outputs {JOB}")).await.exits(2);
}
