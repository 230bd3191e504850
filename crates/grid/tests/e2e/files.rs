//! `file`, `script`, `http` and `wait` on real workers: what the lists allow works and says whether it changed anything, what they do not
//! allow is refused by the setting that would allow it.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt;

use grid_testkit::spec::{job, task, with};
use grid_testkit::{Cluster, Job, LIMIT, ensure, free_port, wait_until};
use serde_json::{Value, json};

fn cluster(backends: &str, flags: &str) -> Cluster {
    let enabled: String = backends.split(' ').map(|name| format!("--enable-backend {name} ")).collect();
    Cluster::start(&[("web-01", &format!("{enabled}{flags}"))])
}

/// A cluster whose worker may work in `dir`.
fn with_folder(dir: &std::path::Path, access: &str) -> Cluster {
    cluster("file wait", &format!("--allow-path {}{access}", dir.display()))
}

fn run(cluster: &Cluster, backend: &str, action: &str, params: &Value) -> Job {
    let api = cluster.api();
    api.wait_ended(&api.submit(&job("all", [task(backend, action, params)])))
}

/// As bytes, which the kit's client has not.
fn output(cluster: &Cluster, job: &Job) -> Vec<u8> {
    let base = cluster.api().base().trim_start_matches("http://").to_owned();
    let mut stream = std::net::TcpStream::connect(&base).expect("the API");
    let request = format!("GET /job/{}/output/0/web-01 HTTP/1.0\r\nHost: {base}\r\n\r\n", job.id());
    stream.write_all(request.as_bytes()).expect("request");
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).expect("answer");
    let head = answer.windows(4).position(|window| window == b"\r\n\r\n").expect("a head") + 4;
    answer.split_off(head)
}

fn changed(job: &Job) -> &Value {
    &job.result(0, "web-01")["changed"]
}

#[test]
fn a_file_is_put_where_it_differs_fetched_byte_for_byte_and_deleted() {
    let dir = tempfile::tempdir().expect("temp dir");
    let cluster = with_folder(dir.path(), "");
    let file = dir.path().join("app.conf");
    let put = json!({"path": file, "content": "port=1\n", "mode": "640"});
    let ended = run(&cluster, "file", "put", &put);
    assert_eq!((ended.status(), changed(&ended)), ("completed", &json!(true)), "{ended}");
    assert_eq!(fs::metadata(&file).expect("file").permissions().mode() & 0o7777, 0o640);
    assert_eq!(changed(&run(&cluster, "file", "put", &put)), &json!(false));

    let bytes: Vec<u8> = (0..60_000_u32).flat_map(u32::to_le_bytes).collect();
    fs::write(&file, &bytes).expect("write");
    let fetched = run(&cluster, "file", "fetch", &json!({"path": file}));
    assert_eq!(fetched.status(), "completed", "{fetched}");
    assert!(output(&cluster, &fetched) == bytes, "byte for byte, longer than a result carries");

    let looked = run(&cluster, "file", "stat", &json!({"path": file}));
    let seen: Value = serde_json::from_slice(&output(&cluster, &looked)).expect("one line of JSON");
    assert_eq!((&seen["kind"], &seen["size"]), (&json!("file"), &json!(240_000)), "{seen}");
    for want in [true, false] {
        let ended = run(&cluster, "file", "delete", &json!({"path": file}));
        assert_eq!((ended.status(), changed(&ended)), ("completed", &json!(want)), "{ended}");
    }
    assert!(!file.exists());
}

#[test]
fn paths_that_are_not_allowed_are_refused_by_their_setting() {
    let (dir, outside) = (tempfile::tempdir().expect("temp dir"), tempfile::tempdir().expect("temp dir"));
    let cluster = with_folder(dir.path(), ":ro");
    fs::write(outside.path().join("f"), "secret").expect("write");
    std::os::unix::fs::symlink(outside.path(), dir.path().join("link")).expect("link");
    let (inside, beyond) = (dir.path().join("f"), outside.path().join("f"));
    for (action, params, want) in [
        ("put", json!({"path": inside, "content": "x"}), format!("--allow-path {}:rw", dir.path().display())),
        ("delete", json!({"path": inside}), format!("--allow-path {}:rw", dir.path().display())),
        ("fetch", json!({"path": beyond}), format!("--allow-path {}:ro", outside.path().display())),
        ("fetch", json!({"path": dir.path().join("link/f")}), "links are not followed".to_owned()),
        ("stat", json!({"path": format!("{}/../x", dir.path().display())}), "without . and ..".to_owned()),
    ] {
        let ended = run(&cluster, "file", action, &params);
        let error = ended.error(0, "web-01");
        assert_eq!(ended.status(), "failed", "{params}: {ended}");
        assert!(error.starts_with("refused by this worker: ") && error.contains(&want), "{params}: {error}");
    }
    let big = fs::File::create(dir.path().join("big")).expect("file");
    big.set_len(1 << 30).expect("sparse");
    let ended = run(&cluster, "file", "fetch", &json!({"path": dir.path().join("big")}));
    assert!(ended.error(0, "web-01").contains("at most 67108864 can be fetched"), "{ended}");
}

#[test]
fn a_script_runs_in_a_private_file_with_an_allowed_interpreter_only() {
    let cluster = cluster("script", "--allow-interpreter sh");
    let text = "stat -c %a \"$0\"; stat -c %a \"$(dirname \"$0\")\"; for word; do echo \"<$word>\"; done; cat; exit 4";
    let params = json!({"script": text, "args": ["a b", "-x"], "stdin": "in\n", "exit_codes": [4]});
    let ended = run(&cluster, "script", "run", &params);
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.result(0, "web-01")["exit_code"], 4, "{ended}");
    assert_eq!(String::from_utf8_lossy(&output(&cluster, &ended)), "600\n700\n<a b>\n<-x>\nin\n");
    let ended = run(&cluster, "script", "run", &json!({"script": "x", "interpreter": "cat"}));
    assert!(ended.error(0, "web-01").contains("--allow-interpreter cat"), "{ended}");
    let ended = run(&cluster, "script", "run", &json!({"script": "x", "env": {"ENV": "/x"}}));
    assert!(ended.error(0, "web-01").contains("--allow-env ENV"), "{ended}");
}

/// Answers every connection with `answer`.
fn serve(listener: TcpListener, answer: &'static str) {
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 4096]);
            let _ = stream.write_all(answer.as_bytes());
        }
    });
}

#[test]
fn a_web_server_is_checked_and_a_port_and_a_file_are_waited_for() {
    let (dir, port) = (tempfile::tempdir().expect("temp dir"), free_port());
    let flags = format!("--allow-connect 127.0.0.1:{port} --allow-path {}:ro", dir.path().display());
    let cluster = cluster("http wait", &flags);
    let api = cluster.api();
    let url = format!("http://127.0.0.1:{port}/health");
    let port_opens = api.submit(&job("all", [task("wait", "port", &json!({"port": port, "every": "20ms"}))]));
    let file = dir.path().join("sub/ready");
    let file_comes = api.submit(&job("all", [task("wait", "file", &json!({"path": file, "every": "20ms"}))]));
    for id in [&port_opens, &file_comes] {
        api.wait_job(id, "running", |job| job.outcome(0, "web-01") == "running");
    }
    serve(TcpListener::bind(("127.0.0.1", port)).expect("port"), "HTTP/1.1 200 OK\r\n\r\nall is well");
    fs::create_dir(dir.path().join("sub")).expect("folder");
    fs::write(&file, "").expect("file");
    for id in [&port_opens, &file_comes] {
        assert_eq!(api.wait_ended(id).status(), "completed");
    }
    let check = |params: Value| run(&cluster, "http", "check", &params);
    assert_eq!(check(json!({"url": url, "contains": "well"})).status(), "completed");
    for (params, want) in [
        (json!({"url": url, "statuses": [204]}), "answered 200, and 204 is expected"),
        (json!({"url": url, "contains": "ill"}), "does not contain \"ill\""),
        (json!({"url": format!("http://127.0.0.1:{}/", port - 1)}), "--allow-connect 127.0.0.1:"),
        (json!({"url": format!("http://localhost:{port}/")}), "--allow-connect localhost:"),
    ] {
        let ended = check(params.clone());
        assert!(ended.error(0, "web-01").contains(want), "{params}: {ended}");
    }
    let short = with(task("wait", "port", &json!({"host": "127.0.0.1", "port": 1})), json!({"timeout": "1s"}));
    let refused = api.wait_ended(&api.submit(&job("all", [short])));
    assert!(refused.error(0, "web-01").contains("--allow-connect 127.0.0.1:1"), "{refused}");
    assert_eq!(run(&cluster, "wait", "duration", &json!({"duration": "10ms"})).status(), "completed");
}

#[test]
fn a_wait_ends_when_its_job_is_cancelled() {
    let dir = tempfile::tempdir().expect("temp dir");
    let cluster = with_folder(dir.path(), ":ro");
    let api = cluster.api();
    let id = api.submit(&job("all", [task("wait", "file", &json!({"path": dir.path().join("never")}))]));
    api.wait_job(&id, "running", |job| job.outcome(0, "web-01") == "running");
    api.cancel(&id);
    assert_eq!(api.wait_ended(&id).outcome(0, "web-01"), "cancelled");
}

#[test]
fn two_jobs_that_write_one_file_leave_one_of_the_two_contents_whole() {
    let dir = tempfile::tempdir().expect("temp dir");
    let cluster = with_folder(dir.path(), "");
    let api = cluster.api();
    let file = dir.path().join("f");
    let contents = ["a".repeat(60_000), "b".repeat(50_000)];
    let put = |content: &String| {
        api.submit(&job("all", [task("file", "put", &json!({"path": file, "content": content, "diff": false}))]))
    };
    for _ in 0..5 {
        let ids: Vec<_> = contents.iter().map(put).collect();
        wait_until("both writers", LIMIT, || ensure(ids.iter().all(|id| api.job(id).ended()), "one runs"));
        let found = fs::read_to_string(&file).expect("file");
        assert!(contents.contains(&found), "{} bytes", found.len());
    }
}
