//! Requests that no ordinary client sends: paths, queries, headers, lengths, bodies that never end. Each is answered by a 4xx
//! or closed cleanly; the client can always read the answer, and the server continues to serve others.

use grid_testkit::spec::{echo, job};
use grid_testkit::{Cluster, LIMIT, Method, Raw, ensure, wait_until};
use serde_json::json;

use crate::bad_input::{assert_unharmed, details, one_node};

fn good() -> String {
    job("all", [echo()]).to_string()
}

/// Sends one request on its own connection; a reset fails the test.
fn ask(cluster: &Cluster, request: &[u8]) -> String {
    let shown = String::from_utf8_lossy(&request[..request.len().min(80)]).into_owned();
    let mut client = Raw::connect(cluster.server.api_port());
    client.write(request).unwrap_or_else(|e| panic!("{shown}: {e}"));
    client.read_to_end().unwrap_or_else(|e| panic!("{shown}: {e}"))
}

fn post(headers: &str, body: &str) -> Vec<u8> {
    let length = body.len();
    format!(
        "POST /job HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{headers}content-length: {length}\r\n\r\n{body}"
    )
    .into()
}

#[test]
fn bad_queries_are_400_that_name_each_parameter() {
    let mut cluster = one_node();
    let api = cluster.api();
    let cases: &[(&str, &[&str])] = &[
        ("limit=0", &["limit"]),
        ("limit=-1", &["limit"]),
        ("limit=1e9", &["limit"]),
        ("limit=1000000000", &["limit"]),
        ("limit=18446744073709551616", &["limit"]),
        ("limit=", &["limit"]),
        ("limit=%31%zz", &["limit"]),
        ("limit=1&limit=2", &["limit"]),
        ("after=GARBAGE", &["after"]),
        ("after=%00", &["after"]),
        ("after=%F0%9F%92%A5", &["after"]),
        ("limit=x&after=_&status=z&w=1", &["limit", "after", "w"]),
        ("nonsense", &["nonsense"]),
    ];
    let lists = ["/jobs", "/v1/jobs", "/api/v1/namespaces/default/jobs", "/nodes", "/v1/agents", "/api/v1/nodes"];
    for path in lists {
        for (query, expected) in cases {
            let answer = api.get(&format!("{path}?{query}"));
            assert_eq!((answer.status, answer.error()), (400, "BAD_REQUEST".to_owned()), "{path}?{query}: {answer:?}");
            let named = details(&answer);
            for field in *expected {
                assert!(named.iter().any(|(name, _)| name == field), "{field} for {path}?{query}: {answer:?}");
            }
        }
    }
    let rows = "/job/job-0c5t9v3k2m7qa/results?limit=0&after=x&step=-1&status=no&x=1";
    let named: Vec<_> = details(&api.get(rows)).into_iter().map(|(field, _)| field).collect();
    assert_eq!(named, ["limit", "after", "step", "status", "x"]);
    let events = api.get("/v1/events?limit=0&after=x&before=-1&w=1");
    let named: Vec<_> = details(&events).into_iter().map(|(field, _)| field).collect();
    assert_eq!((events.status, named), (400, ["limit", "after", "before", "w"].map(str::to_owned).to_vec()));
    let last = api.request(Method::GET, "/v1/events", &[("last-event-id", "yesterday")], None).expect("answered");
    assert_eq!(last.status, 400, "{last:?}");
    for (path, field) in [("/job?plan=xyz", "plan"), ("/job?dry=1", "dry"), ("/job/plan?plan=1", "plan")] {
        let answer = api.post(path, &job("all", [echo()]));
        assert_eq!((answer.status, details(&answer)[0].0.as_str()), (400, field), "{path}: {answer:?}");
    }
    assert_unharmed(&mut cluster);
}

#[test]
fn bad_paths_and_methods_are_4xx_with_a_body() {
    let mut cluster = one_node();
    let long = "a".repeat(30_000);
    let paths = [
        "/job/nope",
        "/job/%ff%fe",
        "/job/%00",
        "/job/..%2f..%2f..%2fetc%2fpasswd",
        "/job/%2e%2e",
        "/job/job-0c5t9v3k2m7qa",
        "/job/JOB-0C5T9V3K2M7QA",
        "/job/job-0c5t9v3k2m7qa/output/-1/web-01",
        "/job/job-0c5t9v3k2m7qa/output/99999999999/web-01",
        "/job/job-0c5t9v3k2m7qa/output/0/UP",
        "/node/UPPER",
        "/node/%E2%80%AE",
        &format!("/job/{long}"),
        &format!("/node/{}", "%41".repeat(10_000)),
        &format!("/{}", "a/".repeat(10_000)),
        "/api/v1/namespaces/NOPE/jobs",
        "/api/v1/namespaces/%2e%2e/jobs",
        &format!("/api/v1/namespaces/{long}/jobs"),
        "//jobs",
        "/jobs/",
        "/%",
        "/job/\u{1F4A5}",
        "*",
    ];
    for path in paths {
        let shown: String = path.chars().take(60).collect();
        let answer =
            ask(&cluster, format!("GET {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes());
        let status = answer.get(9..12).unwrap_or_default();
        assert!(["400", "404"].contains(&status), "{shown}: {answer}");
        assert!(answer.contains("{\"error\":\"") && answer.contains("x-grid-node: n1"), "{shown}: {answer}");
        assert!(answer.len() < 2_000, "{shown}: an answer of {} bytes", answer.len());
    }
    let api = cluster.api();
    for (method, path) in [
        (Method::DELETE, "/jobs"),
        (Method::PUT, "/job"),
        (Method::GET, "/job/plan"),
        (Method::PATCH, "/role"),
        (Method::from_bytes(b"DANCE").expect("a token"), "/jobs"),
    ] {
        let answer = api.request(method.clone(), path, &[], Some("{".to_owned())).expect("answered");
        assert_eq!((answer.status, answer.error()), (405, "METHOD_NOT_ALLOWED".to_owned()), "{method} {path}");
    }
    assert_unharmed(&mut cluster);
}

#[test]
fn bad_headers_are_4xx_and_nothing_is_stored() {
    let mut cluster = one_node();
    let key = |value: &str| format!("Idempotency-Key: {value}\r\n");
    let epoch = |value: &str| format!("X-Grid-Leader-Epoch: {value}\r\n");
    let cases: Vec<(String, &str, &str)> = vec![
        (key(""), "400", "Idempotency-Key"),
        (key("two words"), "400", "Idempotency-Key"),
        (key(&"k".repeat(129)), "400", "Idempotency-Key"),
        (key("\u{e9}"), "400", "Idempotency-Key"),
        (key("a") + &key("b"), "400", "Idempotency-Key"),
        (epoch("x"), "400", "X-Grid-Leader-Epoch"),
        (epoch("-1"), "400", "X-Grid-Leader-Epoch"),
        (epoch("1.5"), "400", "X-Grid-Leader-Epoch"),
        (epoch("18446744073709551616"), "400", "X-Grid-Leader-Epoch"),
        (epoch("1") + &epoch("1"), "400", "X-Grid-Leader-Epoch"),
        (epoch("18446744073709551615"), "409", "STALE_EPOCH"),
        ("Content-Type: text/yaml\r\n".to_owned(), "415", "Content-Type"),
        ("Content-Type: \r\n".to_owned(), "415", "Content-Type"),
        ("Content-Type: application/x-www-form-urlencoded\r\n".to_owned(), "415", "Content-Type"),
        ("Content-Encoding: gzip\r\n".to_owned(), "415", "Content-Encoding"),
        (format!("x: {}\r\n", "a".repeat(200_000)), "431", ""),
        ((0..500).map(|i| format!("x{i}: y\r\n")).collect(), "431", ""),
        ("no colon\r\n".to_owned(), "400", ""),
        ("x\0y: z\r\n".to_owned(), "400", ""),
        ("x: a\0b\r\n".to_owned(), "400", ""),
        (" folded: x\r\n".to_owned(), "400", ""),
    ];
    for (headers, status, word) in cases {
        let shown: String = headers.chars().take(60).collect();
        let answer = ask(&cluster, &post(&headers, &good()));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{shown}: {answer}");
        assert!(answer.contains(word), "{shown}: {answer}");
    }
    assert_unharmed(&mut cluster);
}

#[test]
fn wrong_lengths_are_400_or_413_and_nothing_is_stored() {
    let mut cluster = one_node();
    let body = good();
    let head = |length: &str| format!("POST /job HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n{length}\r\n\r\n");
    let too_long = body.len() + 1;
    let cases = [
        ("too small", head("content-length: 10"), "400"),
        ("none", head("x: y"), "400"),
        ("no number", head("content-length: abc"), "400"),
        ("negative", head("content-length: -5"), "400"),
        ("beyond 64 bits", head("content-length: 99999999999999999999999"), "400"),
        ("exabytes", head("content-length: 9223372036854775807"), "413"),
        ("two that differ", head("content-length: 5\r\ncontent-length: 6"), "400"),
        ("too large, then the end", head(&format!("content-length: {too_long}")), "400"),
        ("chunked that is not", head("transfer-encoding: chunked"), "400"),
        ("an unknown coding", head("transfer-encoding: gzip"), "400"),
        ("both", head("transfer-encoding: chunked\r\ncontent-length: 5"), "400"),
    ];
    for (what, head, status) in cases {
        let mut client = Raw::connect(cluster.server.api_port());
        client.write(format!("{head}{body}").as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}"));
        client.end();
        let answer = client.read_to_end().unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
    }
    let garbage: [&[u8]; 5] = [
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 is this TLS?\r\n\r\n",
        b"hello there\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\0\0\0\0\0\0\0\0\r\n\r\n",
    ];
    for bytes in garbage {
        let mut client = Raw::connect(cluster.server.api_port());
        client.write(bytes).expect("it reads");
        client.end();
        let answer = client.read_to_end().unwrap_or_else(|e| panic!("{bytes:?}: {e}"));
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 4"), "{bytes:?}: {answer}");
    }
    assert_unharmed(&mut cluster);
}

#[test]
fn a_client_still_writing_a_refused_body_reads_the_refusal() {
    let mut cluster = one_node();
    let chunk = [b' '; 64 * 1024];
    let huge = "POST /job HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20971520\r\n\r\n";
    let chunked = "POST /job HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n";
    let elsewhere = "POST /job/nope/cancel HTTP/1.1\r\nhost: localhost\r\ncontent-length: 20971520\r\n\r\n";
    let foreign =
        "POST /job HTTP/1.1\r\nhost: localhost\r\ncontent-type: text/plain\r\ncontent-length: 20971520\r\n\r\n";
    for (head, status) in [(huge, "413"), (chunked, "413"), (elsewhere, "404"), (foreign, "415")] {
        let mut client = Raw::connect(cluster.server.api_port());
        client.write(head.as_bytes()).expect("it reads");
        // 20 MiB, all of it written before a byte is read, as simple clients do.
        for _ in 0..320 {
            let framed = if head == chunked { [b"10000\r\n", &chunk[..], b"\r\n"].concat() } else { chunk.to_vec() };
            client.write(&framed).unwrap_or_else(|e| panic!("{head}: the rest of a refused body is taken: {e}"));
        }
        let answer = client.read_to_end().unwrap_or_else(|e| panic!("{head}: {e}"));
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{head}: {answer}");
    }
    // curl, where there is one: with and without asking first.
    let file = cluster.path("large");
    std::fs::write(&file, vec![b' '; 3 << 20]).expect("a large body");
    for expect in ["Expect: 100-continue", "Expect:"] {
        let curl = std::process::Command::new("curl")
            .args(["-sS", "-w", " %{http_code}", "-H", expect, "-H", "content-type: application/json"])
            .args(["--data-binary", &format!("@{}", file.display()), &format!("{}/job", cluster.server.url())])
            .output();
        if let Ok(ran) = curl {
            let said = String::from_utf8_lossy(&ran.stdout).into_owned();
            assert!(ran.status.success() && said.ends_with(" 413"), "{ran:?}");
        }
    }
    assert_unharmed(&mut cluster);
}

#[test]
fn many_clients_that_never_finish_hold_up_nobody_and_no_memory() {
    let mut cluster = one_node();
    let port = cluster.server.api_port();
    let megabyte = vec![b' '; (1 << 20) - 1];
    let mut stuck = Vec::new();
    // Headers that never end, bodies that never end, large bodies that lack their last byte.
    for i in 0..150 {
        let mut client = Raw::connect(port);
        client.write(b"POST /job HTTP/1.1\r\nhost: localhost\r\n").expect("taken");
        match i % 3 {
            0 => client.write(b"x: y").expect("taken"),
            1 => client.write(b"transfer-encoding: chunked\r\n\r\n1\r\n \r\n").expect("taken"),
            // Beyond the limit of large bodies the sockets fill up, so that the server may not read all of it.
            _ => client
                .write(b"content-length: 1048576\r\n\r\n")
                .and_then(|()| client.write(&megabyte[..400_000]))
                .expect("taken"),
        }
        stuck.push(client);
    }
    let api = cluster.api();
    let ids: Vec<_> = (0..5).map(|_| api.submit(&job("all", [echo()]))).collect();
    for id in ids {
        assert_eq!(api.wait_ended(&id).status(), "completed");
    }
    // The server closes each of them in the end, those with bodies after an answer.
    let mut last = stuck.swap_remove(1);
    let answer = last.read_to_end().expect("in order");
    assert!(answer.starts_with("HTTP/1.1 400 ") && answer.contains("did not arrive within"), "{answer}");
    let pid = cluster.server.process().pid();
    let sockets = || {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).expect("a running server").flatten();
        fds.filter(|fd| std::fs::read_link(fd.path()).is_ok_and(|to| to.to_string_lossy().starts_with("socket:")))
            .count()
    };
    wait_until("the stuck connections' end", LIMIT, || ensure(sockets() < 50, sockets()));
    let peak_kib = cluster.server.process().peak_memory_kib();
    assert!(peak_kib < 200 * 1024, "the server held {peak_kib} KiB");
    assert_eq!(api.get("/status").json()["jobs"]["completed"], json!(5), "and nothing else was stored");
}
