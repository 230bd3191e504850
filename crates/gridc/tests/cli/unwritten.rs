//! An answer that cannot be written is reported, and never by one of the exit codes that say how the command went.

use std::fs::File;

use serde_json::json;

use crate::fake::{Fake, JOB, boom, job};
use crate::{Ran, gridc};

/// Runs it with a stdout that is full.
async fn into_full(server: &str, line: &str) -> Ran {
    let full = File::options().write(true).open("/dev/full").unwrap();
    let child = gridc(server, line).stdout(full).spawn().unwrap();
    let output = tokio::time::timeout(crate::LIMIT, child.wait_with_output()).await.expect("gridc hangs").unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    Ran { code: output.status.code().unwrap_or(-1), stdout: String::new(), stderr }
}

#[tokio::test]
async fn issue13_an_answer_that_cannot_be_written_exits_74_and_says_so() {
    let results =
        json!({"0": {"web-01": {"status": "success", "attempts": 1}, "web-02": {"status": "success", "attempts": 1}}});
    let done = Fake::job(vec![job("completed", &[("success", 2)], Some(results))]).await;
    for line in [
        "--help",
        "--version",
        "job run --help",
        "completion bash",
        &format!("job get {JOB}"),
        &format!("job status {JOB} -o yaml"),
        "job run -t group:web ping echo --wait",
        "job run -t group:web ping echo",
    ] {
        let ran = into_full(&done.url(), line).await.exits(74);
        assert!(ran.stderr.contains("error: cannot write the answer: No space left on device"), "{line}: {ran:?}");
    }
    let ran = into_full(&done.url(), "job run -t group:web ping echo").await.exits(74);
    assert!(ran.stderr.contains(&format!("{JOB} submitted\n")), "its id is not lost: {ran:?}");
}

#[tokio::test]
async fn issue13_how_the_job_ended_counts_for_more_than_what_cannot_be_written() {
    let results = json!({"0": {"web-01": {"status": "success", "attempts": 1}, "web-02": boom()}});
    let failed = Fake::job(vec![job("failed", &[("success", 1), ("failed", 1)], Some(results))]).await;
    let ran = into_full(&failed.url(), "job run -t group:web test fail --message boom --wait").await.exits(1);
    assert!(ran.stderr.contains("error: cannot write the answer"), "{ran:?}");
    // A reader that has seen enough is no error.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = gridc(&failed.url(), &format!("job get {JOB}"));
    let child = command.stdout(writer).spawn().unwrap();
    drop(command);
    let output = child.wait_with_output().await.unwrap();
    assert_eq!((output.status.code(), output.stderr), (Some(0), Vec::new()));
}
