//! Hostile text from a compromised machine: none of it may control the operator's terminal.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;

use grid_testkit::spec::{echo, job, with};
use grid_testkit::{Agent, Cluster, LIMIT, Typed, command, free_port, on_terminal, wait_until};
use serde_json::json;

/// A title, a cleared screen, C1, DEL, a bidi override, an isolate, a mark, and both separators.
const EVIL: &str = "\u{1b}]0;owned\u{7}\u{1b}[2J\u{9b}5m\u{7f}\u{202e}\u{2066}\u{200f}\u{2028}\u{2029}";
/// The characters that the controller accepts in a display name.
const TURNED: &str = "night\u{202e}ly\u{2028}\u{2066}";

fn typed(cluster: &Cluster, line: &str) -> Typed {
    let mut gridc = command("gridc");
    gridc.args(["--server", &cluster.server.url()]).args(line.split(' '));
    let typed = on_terminal(gridc);
    typed.assert_harmless(line);
    typed
}

#[test]
fn issue14_7_a_machine_gone_bad_cannot_touch_the_terminal_of_an_operator() {
    let cluster = Cluster::start(&[]);
    let (api, agent) = (cluster.api(), Agent::new("edge-01"));
    let facts = json!({"hostname": TURNED, "labels": {"rack\u{202e}": TURNED}, "groups": ["edge"]});
    agent.told(&api, &facts);
    let named = with(job("all", [echo()]), json!({"name": TURNED}));
    let id = api.submit(&named);
    let lease = agent.wait_lease(&api, &id);
    // The live view shows it while it fails.
    let server = cluster.server.url();
    let waiting = std::thread::spawn({
        let (server, text) = (server.clone(), named.to_string());
        let file = cluster.path("job.json");
        move || {
            std::fs::write(&file, text).expect("written");
            let mut gridc = command("gridc");
            gridc.args(["--server", &server, "job", "run", "--wait", "-f"]).arg(file);
            on_terminal(gridc)
        }
    });
    let said = json!({"output": format!("line{EVIL}\n"), "error": format!("error{EVIL}")});
    let answer = api.post("/v1/results", &with(agent.result(&lease, "failed"), said.clone()));
    assert_eq!(answer.status, 200, "{answer:?}");
    let watched = wait_until("the second job", LIMIT, || {
        agent.leases(&api, &json!({})).into_iter().find(|l| l["job_id"] != id.as_str()).ok_or("no lease".to_owned())
    });
    api.post("/v1/results", &with(agent.result(&watched, "failed"), said));
    let view = waiting.join().expect("gridc");
    view.assert_harmless("job run --wait");
    assert!(view.code == 1 && view.text.contains("error\\u{1b}]0;owned"), "{view:?}");

    for line in [
        "node list".to_owned(),
        "node info edge-01".to_owned(),
        "job list".to_owned(),
        "events".to_owned(),
        "status".to_owned(),
        format!("job status {id}"),
        format!("job get {id}"),
        format!("job why {id}"),
        format!("job logs {id}"),
        format!("job logs {id} --grouped"),
    ] {
        for format in ["", " -o json", " -o yaml", " -o table"] {
            assert_eq!(typed(&cluster, &format!("{line}{format}")).code, 0, "{line}");
        }
    }
    let shown = typed(&cluster, &format!("job logs {id}"));
    assert!(shown.text.contains("line\\u{1b}]0;owned\\u{7}"), "{shown:?}");
    let raw = format!("job logs {id} --node edge-01 --raw");
    let refused = typed(&cluster, &raw);
    assert!(refused.code == 2 && refused.text.contains("--force"), "{refused:?}");
}

/// Answers the first request with invalid content and the others with a refusal; both contain hostile text.
fn hostile_controller() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("its address"));
    let refusal = json!({"error": "CONFLICT", "message": format!("no{EVIL}\nforged line")}).to_string();
    let answers =
        std::iter::once(("200 OK", "x".to_owned() + EVIL)).chain(std::iter::repeat(("409 Conflict", refusal)));
    // Ends with the test process.
    std::thread::spawn(move || {
        for (stream, (status, body)) in listener.incoming().zip(answers) {
            let Ok(stream) = stream else { return };
            let mut reader = BufReader::new(&stream);
            let (mut line, mut length) = (String::new(), 0);
            while reader.read_line(&mut line).is_ok_and(|n| n > 2) {
                let name = line.to_ascii_lowercase();
                length = name.strip_prefix("content-length: ").and_then(|n| n.trim().parse().ok()).unwrap_or(length);
                line.clear();
            }
            let _ = reader.read_exact(&mut vec![0; length]);
            let head = format!("HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = (&stream).write_all(format!("{head}{body}").as_bytes());
        }
    });
    url
}

#[test]
fn issue14_7_what_a_controller_answers_cannot_touch_the_terminal_of_grid() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut grid = command("grid");
    let (api, grpc, raft) = (free_port(), free_port(), free_port());
    grid.args(["server", "--node-id", "c9", "--join", &hostile_controller(), "--data-dir"])
        .arg(folder.path().join("c9"));
    for (flag, port) in [("--api", api), ("--grpc", grpc), ("--raft", raft)] {
        grid.args([flag, &format!("127.0.0.1:{port}")]);
    }
    let joined = on_terminal(grid);
    joined.assert_harmless("grid server --join");
    assert!(joined.code == 1 && joined.text.contains("no\\u{1b}]0;owned"), "{joined:?}");
    assert!(joined.text.contains("not joined yet"), "the first answer is in the log: {joined:?}");
}
