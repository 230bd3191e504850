//! Invalid jobs, over HTTP and from files: every fault is reported by its field and all at once, nothing is stored, and the
//! server's memory stays bounded.
//!
//! One test per surface, not one per case: a case costs milliseconds, a cluster a second.

use grid_testkit::spec::{echo, job, pipeline, task, with};
use grid_testkit::{Answer, Cluster, Method, Ran};
use serde_json::{Value, json};

/// Memory of a debug server after all of these requests; before faults and bodies were bounded it was 290 MiB.
const MEMORY_KIB: u64 = 160 * 1024;
/// Address space of `gridc`, with its code, libraries and stacks.
const GRIDC_KIB: u64 = 1024 * 1024;

pub fn one_node() -> Cluster {
    Cluster::start(&[("web-01", "--groups web")])
}

/// Nothing was stored, the server answers other requests, and its memory did not grow.
pub fn assert_unharmed(cluster: &mut Cluster) {
    let api = cluster.api();
    assert_eq!(api.get("/jobs").json(), json!([]), "nothing was stored");
    assert_eq!(api.get("/api/v1/namespaces/default/jobs").json()["items"], json!([]));
    assert_eq!(api.get("/healthz").status, 200);
    let peak_kib = cluster.server.process().peak_memory_kib();
    assert!(peak_kib < MEMORY_KIB, "the server held {peak_kib} KiB");
    let good = api.submit(&job("all", [echo()]));
    assert_eq!(api.wait_ended(&good).status(), "completed", "it still works");
}

pub fn details(answer: &Answer) -> Vec<(String, String)> {
    let json = answer.json();
    let details = json["details"].as_array().unwrap_or_else(|| panic!("no details: {answer:?}")).clone();
    let text = |value: &Value| value.as_str().unwrap_or_else(|| panic!("{answer:?}")).to_owned();
    details.iter().map(|d| (text(&d["field"]), text(&d["problem"]))).collect()
}

fn names_all(named: &[(String, String)], expected: &[&str], what: &str) {
    for field in expected {
        assert!(named.iter().any(|(name, _)| name == field), "{field:?} is not named for {what}: {named:?}");
    }
}

/// Invalid jobs, each with the fields that the answer must name.
fn bad_jobs() -> Vec<(Value, Vec<&'static str>)> {
    let leaf = |fields: Value| job("all", [with(echo(), fields)]);
    let whole = |fields: Value| with(job("all", [echo()]), fields);
    let params = |params: Value| job("all", [task("test", "output", &params)]);
    vec![
        // Unknown.
        (whole(json!({"colour": "red"})), vec!["colour"]),
        (leaf(json!({"retries": 3})), vec!["tasks[0].retries"]),
        (whole(json!({"target": {"scope": "all", "why": 1}})), vec!["target.why"]),
        (job("all", [task("apt-get", "install", &json!({}))]), vec!["tasks[0].backend"]),
        (job("all", [task("ping", "pong", &json!({}))]), vec!["tasks[0].action"]),
        (job("all", [task("ping", "echo", &json!({"mesage": "x"}))]), vec!["tasks[0].params.mesage"]),
        (job("all", [task("ping", "hostname", &json!({"x": 1}))]), vec!["tasks[0].params.x"]),
        (job("everyone", [echo()]), vec!["target"]),
        (whole(json!({"target": "everything"})), vec!["target"]),
        (whole(json!({"strategy": "hope"})), vec!["strategy"]),
        (whole(json!({"offline": "later", "on_unknown": "shrug"})), vec!["offline", "on_unknown"]),
        (leaf(json!({"condition": "maybe"})), vec!["tasks[0].condition"]),
        // Missing.
        (json!({}), vec!["target", "tasks"]),
        (json!({"tasks": [{}]}), vec!["target", "tasks[0].backend", "tasks[0].action"]),
        (json!({"target": null, "tasks": null}), vec!["target", "tasks"]),
        (json!({"target": {}, "tasks": [{"backend": "ping"}]}), vec!["target", "tasks[0].action"]),
        (job("all", [task("test", "record", &json!({}))]), vec!["tasks[0].params.path"]),
        (job("group", [echo()]), vec!["target"]),
        // Shape.
        (job("all", []), vec!["tasks"]),
        (job("all", [pipeline([])]), vec!["tasks[0].tasks"]),
        (job("all", [with(echo(), json!({"tasks": [echo()]}))]), vec!["tasks[0].backend", "tasks[0].action"]),
        (job("all", [pipeline([pipeline([echo()])])]), vec!["tasks[0].tasks[0].tasks"]),
        (job("all", [pipeline([echo(), json!(7)]), json!("x")]), vec!["tasks[0].tasks[1]", "tasks[1]"]),
        (job("all", [pipeline([with(echo(), json!({"confirm": true}))])]), vec!["tasks[0].tasks[0].confirm"]),
        (json!({"target": ["all"], "tasks": {"0": 1}}), vec!["target", "tasks"]),
        (json!([]), vec![""]),
        (json!("all"), vec![""]),
        // Zero, negative, absurd.
        (leaf(json!({"max_retries": -1})), vec!["tasks[0].max_retries"]),
        (leaf(json!({"max_retries": 101})), vec!["tasks[0].max_retries"]),
        (leaf(json!({"max_retries": 1.5})), vec!["tasks[0].max_retries"]),
        (leaf(json!({"max_retries": u64::MAX})), vec!["tasks[0].max_retries"]),
        (leaf(json!({"max_retries": "3"})), vec!["tasks[0].max_retries"]),
        (leaf(json!({"concurrency": 0})), vec!["tasks[0].concurrency"]),
        (leaf(json!({"concurrency": -5})), vec!["tasks[0].concurrency"]),
        (leaf(json!({"concurrency": 99_999_999_999_u64})), vec!["tasks[0].concurrency"]),
        (leaf(json!({"timeout": "0s"})), vec!["tasks[0].timeout"]),
        (leaf(json!({"timeout": "-3s"})), vec!["tasks[0].timeout"]),
        (leaf(json!({"timeout": "soon"})), vec!["tasks[0].timeout"]),
        (leaf(json!({"timeout": 30})), vec!["tasks[0].timeout"]),
        (leaf(json!({"timeout": "8761h"})), vec!["tasks[0].timeout"]),
        (whole(json!({"timeout": "99999999999999999999999h"})), vec!["timeout"]),
        (whole(json!({"failure_tolerate": -1})), vec!["failure_tolerate"]),
        (whole(json!({"failure_tolerate": 0.1})), vec!["failure_tolerate"]),
        (whole(json!({"failure_tolerate": "101%"})), vec!["failure_tolerate"]),
        (whole(json!({"failure_tolerate": "9".repeat(1_000)})), vec!["failure_tolerate"]),
        (params(json!({"lines": -1, "width": 0})), vec!["tasks[0].params.lines", "tasks[0].params.width"]),
        (params(json!({"lines": 1e300, "width": [1]})), vec!["tasks[0].params.lines", "tasks[0].params.width"]),
        // Names.
        (job("group:Web_1", [echo()]), vec!["target"]),
        (job("node:-a", [echo()]), vec!["target"]),
        (job(&format!("node:{}", "x".repeat(64)), [echo()]), vec!["target"]),
        (job("labels:a", [echo()]), vec!["target"]),
        (job(&format!("labels:{}=x", "k".repeat(64)), [echo()]), vec!["target"]),
        (job("all:x", [echo()]), vec!["target"]),
        // Text.
        (job("all", [task("ping", "echo", &json!({"message": "a\0b"}))]), vec!["tasks[0].params.message"]),
        (job("all", [task("ping", "echo", &json!({"message": "x".repeat(70_000)}))]), vec!["tasks[0].params.message"]),
        (job("all", [task("ping", "echo", &json!({"message": {"deep": []}}))]), vec!["tasks[0].params.message"]),
        // Targets that match no node.
        (job("group:nobody", [echo()]), vec!["target"]),
        (job("node:web-99", [echo()]), vec!["target"]),
        (job("labels:rack=7", [echo()]), vec!["target"]),
        // Too much.
        (job("all", vec![echo(); 10_000]), vec!["tasks"]),
        (job("all", vec![pipeline(vec![json!(0); 900]); 100]), vec!["tasks"]),
    ]
}

/// More faults than an answer names.
fn flood() -> Value {
    let fields = (0..5_000).map(|i| (format!("f{i}"), json!(0))).collect::<serde_json::Map<_, _>>();
    with(job("all", [echo()]), Value::Object(fields))
}

#[test]
fn every_bad_job_is_422_that_names_each_field_over_http() {
    let mut cluster = one_node();
    let api = cluster.api();
    for (body, expected) in bad_jobs() {
        let shown: String = body.to_string().chars().take(300).collect();
        for path in ["/job", "/job/plan", "/api/v1/namespaces/default/jobs", "/v1/jobs"] {
            let answer = api.post(path, &body);
            assert_eq!((answer.status, answer.error()), (422, "INVALID".to_owned()), "{path} {shown}: {answer:?}");
            names_all(&details(&answer), &expected, &shown);
        }
    }
    let answer = api.post("/job", &flood());
    let named = details(&answer);
    assert_eq!((answer.status, named.len()), (422, 1_001), "the first thousand, and how many more");
    assert!(named[1_000].1.starts_with("4000 more"), "{:?}", named[1_000]);
    assert_unharmed(&mut cluster);
}

#[test]
fn every_bad_job_file_is_refused_by_gridc_in_the_servers_words() {
    let mut cluster = one_node();
    let (api, gridc) = (cluster.api(), cluster.gridc());
    for (i, (body, expected)) in bad_jobs().into_iter().enumerate() {
        let shown: String = body.to_string().chars().take(300).collect();
        // JSON is YAML, too: both readers are asked.
        let file = cluster.path(&format!("bad-{i}.{}", ["json", "yaml"][i % 2]));
        std::fs::write(&file, body.to_string()).expect("a job file");
        let ran = refused_by_gridc(&gridc.run_within_kib(GRIDC_KIB, &["job", "run", "-f", path(&file)]));
        let said = details(&api.post("/job", &body));
        names_all(&said, &expected, &shown);
        for (field, problem) in &said {
            let line = if field.is_empty() { problem.clone() } else { format!("{field}: {problem}") };
            assert!(ran.contains(&line), "{line:?} is missing for {shown}: {ran}");
        }
    }
    assert_unharmed(&mut cluster);
}

fn path(file: &std::path::Path) -> &str {
    file.to_str().expect("temp paths are UTF-8")
}

fn refused_by_gridc(ran: &Ran) -> String {
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""), "{ran:?}");
    assert!(ran.stderr.starts_with("error: "), "{ran:?}");
    ran.stderr.clone()
}

/// Bodies that are not a job document, with the status and the message that the answer must have.
fn bad_bodies() -> Vec<(&'static str, Vec<u8>, u16, &'static str)> {
    let text = |text: &str| text.as_bytes().to_vec();
    let good = job("all", [echo()]).to_string();
    let retries = |number: &str| good.replace("\"action\"", &format!("\"max_retries\":{number},\"action\""));
    let mut utf16: Vec<u8> = vec![0xff, 0xfe];
    utf16.extend(good.encode_utf16().flat_map(u16::to_le_bytes));
    let mut exact = good.clone();
    exact.push_str(&" ".repeat((1 << 20) + 1 - good.len()));
    vec![
        ("1 MiB + 1", text(&exact), 413, "1048576 bytes"),
        ("empty", vec![], 400, "empty"),
        ("blank", text(" \n\t"), 400, "line"),
        ("truncated", text(&good[..good.len() - 3]), 400, "line 1 column"),
        ("two documents", text(&format!("{good}{good}")), 400, "trailing"),
        ("invalid UTF-8", [&good.as_bytes()[..20], b"\xff\xfe", &good.as_bytes()[20..]].concat(), 400, "line 1 column"),
        ("overlong UTF-8", b"{\"target\":\"\xc0\xaf\"}".to_vec(), 400, "line 1 column"),
        ("UTF-16", utf16, 400, "line 1 column"),
        ("a NUL byte", text(&good.replace("ping", "pi\0ng")), 400, "control character"),
        ("half a surrogate", text(&good.replace("hello", "\\ud800")), 400, "line 1 column"),
        ("200,000 brackets", text(&"[".repeat(200_000)), 400, "recursion limit"),
        ("200,000 braces", text(&"{\"a\":".repeat(200_000)), 400, "recursion limit"),
        ("200,000 in tasks", text(&format!("{{\"tasks\":{}", "[".repeat(200_000))), 400, "recursion limit"),
        ("500,000 values", text(&format!("[{}0]", "0,".repeat(500_000))), 400, "too large"),
        ("1e400", text(&retries("1e400")), 400, "out of range"),
        ("-1e400", text(&retries("-1e400")), 400, "out of range"),
        ("NaN", text(&retries("NaN")), 400, "line 1 column"),
        ("Infinity", text(&retries("Infinity")), 400, "line 1 column"),
        ("a number of 100,000 digits", text(&retries(&"9".repeat(100_000))), 400, "out of range"),
        ("0x10", text(&retries("0x10")), 400, "line 1 column"),
        ("a comment", text(&format!("// hi\n{good}")), 400, "line 1 column"),
        ("YAML", text("target: all\ntasks: []\n"), 400, "line 1 column"),
        ("a key twice", text(&good.replacen('{', "{\"target\":\"all\",", 1)), 400, "target: is given twice"),
        ("a deep key twice", text(&good.replace("\"action\"", "\"action\":1,\"action\"")), 400, "tasks[0].action"),
        ("an escaped key twice", text(&good.replacen('{', "{\"\\u0074arget\":1,", 1)), 400, "target: is given twice"),
    ]
}

#[test]
fn every_bad_body_is_refused_and_says_why() {
    let mut cluster = one_node();
    let port = cluster.server.api_port();
    for (what, body, status, word) in bad_bodies() {
        for path in ["/job", "/job/plan"] {
            let mut client = grid_testkit::Raw::connect(port);
            let head = format!(
                "POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                body.len()
            );
            client.write(head.as_bytes()).unwrap_or_else(|e| panic!("{what}: {e}"));
            client.write(&body).unwrap_or_else(|e| panic!("{what}: the rest of a refused body is taken: {e}"));
            let answer = client.read_to_end().unwrap_or_else(|e| panic!("{what}: {e}"));
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{what}: {answer}");
            assert!(answer.contains(word), "{what}: {answer}");
            assert!(answer.contains("\"details\":[{\"field\":"), "{what}: {answer}");
        }
    }
    assert_unharmed(&mut cluster);
}

/// A document that expands to a billion.
fn laughs(levels: usize) -> String {
    let mut text = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for i in 1..levels {
        let before = format!("*a{}", i - 1);
        text.push_str(&format!("a{i}: &a{i} [{}]\n", [before.as_str(); 10].join(", ")));
    }
    text
}

#[test]
fn every_bad_file_is_refused_by_gridc_without_growing() {
    let mut cluster = one_node();
    let gridc = cluster.gridc();
    let files: Vec<(&str, Vec<u8>, &str)> = vec![
        ("a billion laughs", laughs(9).into_bytes(), "cannot read"),
        ("laughs in a map", laughs(9).replace('[', "{x: [").replace("]\n", "]}\n").into_bytes(), "cannot read"),
        (
            "a long text repeated",
            format!("a: &a {}\nb: [{}*a]\n", "x".repeat(100_000), "*a, ".repeat(900)).into(),
            "too large",
        ),
        ("an alias of itself", b"a: &a [*a]\n".to_vec(), "cannot read"),
        ("an unknown alias", b"target: *nobody\n".to_vec(), "anchor"),
        ("200,000 brackets", "[".repeat(200_000).into_bytes(), "cannot read"),
        ("200,000 braces", "{a: ".repeat(200_000).into_bytes(), "cannot read"),
        ("200,000 dashes", "- ".repeat(200_000).into_bytes(), "cannot read"),
        ("200,000 question marks", "? ".repeat(200_000).into_bytes(), "cannot read"),
        ("500,000 values", format!("tasks: [{}0]", "0, ".repeat(300_000)).into_bytes(), "too large"),
        ("a scalar of 1 MiB", format!("target: {}\n", "x".repeat(1_000_000)).into_bytes(), "target"),
        ("1 MiB + 1", vec![b' '; (1 << 20) + 1], "larger than 1048576 bytes"),
        ("invalid UTF-8", b"target: \xff\xfe\n".to_vec(), "UTF-8"),
        ("a NUL byte", b"target: all\0\ntasks: []\n".to_vec(), "cannot read"),
        (
            "a key twice",
            b"target: all\ntasks: []\ntarget: any\ntasks: [{params: {a: 1, a: 2}}]\n".to_vec(),
            "tasks[0].params.a: is given twice",
        ),
        ("two documents", b"target: all\n---\ntarget: any\n".to_vec(), "cannot read"),
        ("a tag", b"target: !python/object:os.system {x: 1}\n".to_vec(), "cannot read"),
        (
            "not a number",
            b"target: all\ntasks: [{backend: ping, action: echo, max_retries: .nan}]\n".to_vec(),
            "finite",
        ),
        (
            "an infinite number",
            b"target: all\ntasks: [{backend: ping, action: echo, max_retries: .inf}]\n".to_vec(),
            "finite",
        ),
        (
            "an octal number",
            b"target: all\ntasks: [{backend: ping, action: echo, max_retries: 0o777}]\n".to_vec(),
            "tasks[0].max_retries",
        ),
        ("a number as a key", b"1: x\n".to_vec(), "1: unknown field"),
        ("a list as a key", b"? [a]\n: 1\n".to_vec(), "cannot read"),
        ("a merge key", b"x: &x {a: 1}\n<<: *x\n".to_vec(), "<<: unknown field"),
        ("nothing", b"".to_vec(), "empty"),
        ("a comment", b"# later\n".to_vec(), "error"),
    ];
    for (what, bytes, word) in files {
        let file = cluster.path("bad.yaml");
        std::fs::write(&file, bytes).expect("a job file");
        for verb in ["run", "plan"] {
            let said = refused_by_gridc(&gridc.run_within_kib(GRIDC_KIB, &["job", verb, "-f", path(&file)]));
            assert!(said.contains(word), "{what}: {said}");
            assert!(said.len() < 10_000, "{what}: a refusal of {} bytes", said.len());
        }
    }
    assert_unharmed(&mut cluster);
}

#[test]
fn the_other_changes_of_a_job_name_their_faults_too() {
    let cluster = one_node();
    let api = cluster.api();
    let held = api.submit(&job("all", [with(echo(), json!({"confirm": true}))]));
    let cases: Vec<(&str, Value, Vec<&str>)> = vec![
        ("confirm", json!({"phase": -1, "x": 1}), vec!["phase", "x"]),
        ("confirm", json!({"phase": 1.5}), vec!["phase"]),
        ("confirm", json!({"phase": 99_999_999_999_u64}), vec!["phase"]),
        ("resume", json!({"rerun_once": "yes", "steps": []}), vec!["rerun_once", "steps"]),
        ("retry", json!({"rerun_once": 1, "nodes": "web-01"}), vec!["rerun_once", "nodes"]),
        ("resolve", json!({}), vec!["step", "node", "as"]),
        ("resolve", json!({"step": -1, "node": "UP", "as": "maybe", "y": 0}), vec!["step", "node", "as", "y"]),
        ("cancel", json!({"reason": "because"}), vec!["reason"]),
        ("cancel", json!({"leader_epoch": "one"}), vec!["leader_epoch"]),
        ("cancel", json!([]), vec![""]),
    ];
    for (verb, body, expected) in cases {
        let answer = api.post(&format!("/job/{held}/{verb}"), &body);
        assert_eq!(answer.status, 422, "{verb} {body}: {answer:?}");
        names_all(&details(&answer), &expected, &body.to_string());
    }
    for verb in ["confirm", "resume", "retry", "resolve", "cancel"] {
        for (body, status) in [("{", 400), ("{\"phase\":1,\"phase\":2}", 400), ("\u{0}", 400)] {
            let path = format!("/job/{held}/{verb}");
            let answer = api.request(Method::POST, &path, &[], Some(body.to_owned())).expect("answered");
            assert_eq!(answer.status, status, "{verb} {body:?}: {answer:?}");
        }
        let huge = Some(" ".repeat((1 << 20) + 1));
        let answer = api.request(Method::POST, &format!("/job/{held}/{verb}"), &[], huge).expect("answered");
        assert_eq!(answer.status, 413, "{verb}: {answer:?}");
        let nobody = api.post(&format!("/job/job-0c5t9v3k2m7qa/{verb}"), &json!({}));
        assert!([404, 422].contains(&nobody.status), "{verb}: {nobody:?}");
    }
    let held = api.job(&held);
    assert_eq!((held.status(), held.count("pending")), ("running", 1), "nothing of that moved it: {held}");
}
