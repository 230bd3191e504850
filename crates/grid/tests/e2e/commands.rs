//! `command run` on real workers: an allowed program runs with its arguments, others are refused with the setting that would allow
//! them, and the effect class that the caller chose decides the outcome after a killed worker.

use grid_testkit::spec::{job, task, with};
use grid_testkit::{Cluster, Dev, Job, LIMIT, ensure, wait_until};
use serde_json::{Value, json};

fn allowing(flags: &str) -> Cluster {
    Cluster::start(&[("web-01", &format!("--enable-backend command {flags}"))])
}

fn command(params: &Value) -> Value {
    task("command", "run", params)
}

fn run(cluster: &Cluster, params: &Value) -> Job {
    let api = cluster.api();
    api.wait_ended(&api.submit(&job("all", [command(params)])))
}

fn output(cluster: &Cluster, job: &Job) -> String {
    cluster.api().get(&format!("/job/{}/output/0/web-01", job.id())).text
}

#[test]
fn an_allowed_program_gets_its_words_and_its_exit_code_decides() {
    let cluster = allowing("--allow-command printf,/bin/sh,cat --allow-env GREETING");
    let hostile = ["%s|", "a b", "$(id)", ";id", "-x", "", "*", "é"];
    let ended = run(&cluster, &json!({"program": "printf", "args": hostile}));
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(output(&cluster, &ended), "a b|$(id)|;id|-x||*|é|");
    assert_eq!(ended.result(0, "web-01")["exit_code"], 0, "{ended}");

    let ended = run(&cluster, &json!({"program": "cat", "stdin": "one\ntwo\n"}));
    assert_eq!((ended.status(), output(&cluster, &ended).as_str()), ("completed", "one\ntwo\n"), "{ended}");

    let script = r#"echo "$GREETING from $PWD"; exit 3"#;
    let given = json!({"program": "/bin/sh", "args": ["-c", script], "env": {"GREETING": "hi"}, "cwd": "/"});
    let ended = run(&cluster, &given);
    assert_eq!((ended.status(), ended.error(0, "web-01")), ("failed", "sh: exit 3: hi from /"), "{ended}");
    assert_eq!(ended.result(0, "web-01")["exit_code"], 3, "{ended}");
    let ended = run(&cluster, &json!({"program": "sh", "args": ["-c", "exit 3"], "exit_codes": [0, 3]}));
    assert_eq!(ended.status(), "completed", "{ended}");
    assert_eq!(ended.result(0, "web-01")["exit_code"], 3, "{ended}");
    let ended = run(&cluster, &json!({"program": "sh", "args": ["-c", "kill -9 $$"]}));
    let result = ended.result(0, "web-01");
    assert_eq!(
        (ended.status(), &result["signal"], &result["exit_code"]),
        ("failed", &json!(9), &Value::Null),
        "{ended}"
    );
    let ended = run(&cluster, &json!({"program": "sh", "cwd": "/no/such/folder"}));
    assert!(ended.error(0, "web-01").starts_with("cwd /no/such/folder: "), "{ended}");
}

#[test]
fn a_refusal_names_the_setting_that_would_allow_it() {
    let cluster = allowing("--allow-command true");
    let link = cluster.path("true");
    std::os::unix::fs::symlink("/bin/sh", &link).expect("link");
    for (params, want) in [
        (json!({"program": "id"}), "start it with --allow-command id"),
        (json!({"program": "/bin/sh"}), "start it with --allow-command /bin/sh"),
        (json!({"program": link}), "is not on its list of allowed programs"),
        (json!({"program": "true", "env": {"LD_PRELOAD": "/x.so"}}), "start it with --allow-env LD_PRELOAD"),
        (json!({"program": "true", "env": {"PATH": "/x"}}), "start it with --allow-env PATH"),
    ] {
        let ended = run(&cluster, &params);
        assert_eq!(ended.status(), "failed", "{params}: {ended}");
        let error = ended.error(0, "web-01");
        assert!(error.starts_with("refused by this worker: ") && error.contains(want), "{params}: {error}");
        assert_eq!(ended.result(0, "web-01")["exit_code"], Value::Null, "nothing ran: {ended}");
    }
    assert_eq!(run(&cluster, &json!({"program": "/bin/true"})).status(), "completed");

    let empty = allowing("");
    let error = run(&empty, &json!({"program": "true"})).error(0, "web-01").to_owned();
    assert!(error.contains("--allow-command true"), "{error}");
    let off = Cluster::start(&[("web-01", "")]);
    let ended = run(&off, &json!({"program": "true"}));
    let reason = ended.result_reason(0, "web-01");
    assert!(reason.contains("--enable-backend command --allow-command PROGRAM"), "{ended}");
}

#[test]
fn w3_the_effect_that_the_caller_chose_decides_what_a_killed_worker_means() {
    let mut cluster = allowing("--allow-command sh");
    let api = cluster.api();
    // The first run leaves a file and stays; a second one finds it and ends.
    let script = |file: &str| {
        let file = cluster.path(file);
        let script = r#"[ -e "$1" ] && exit 0; : >"$1"; sleep 250"#;
        (json!({"program": "sh", "args": ["-c", script, "sh", file]}), file)
    };
    let ((once, once_ran), (again, again_ran)) = (script("once"), script("again"));
    let once = api.submit(&job("all", [command(&once)]));
    let again = api.submit(&job("all", [with(command(&again), json!({"effect": "idempotent"}))]));
    assert_eq!(api.job(&again).0["tasks"][0]["effect"], "idempotent");
    wait_until("both programs", LIMIT, || ensure(once_ran.exists() && again_ran.exists(), "not yet"));
    cluster.worker("web-01").kill9_tree();
    cluster.worker("web-01").restart();
    assert_eq!(api.wait_ended(&once).outcome(0, "web-01"), "unknown");
    assert_eq!(api.wait_ended(&again).outcome(0, "web-01"), "success");
}

#[test]
fn grid_dev_runs_every_program_if_it_is_told_to() {
    let dev = Dev::start_with(1, &["--enable-backend", "command", "--allow-command", "*"]);
    let api = dev.api();
    let ended = api.wait_ended(&api.submit(&job("all", [command(&json!({"program": "uname", "args": ["-s"]}))])));
    assert_eq!(ended.status(), "completed", "{ended}");
}

/// `gridc run` and `gridc job outputs` as an operator uses them.
#[test]
fn gridc_run_groups_outputs_and_exits_like_the_command() {
    let allowed = "--enable-backend command --allow-command uname,sh";
    let cluster = Cluster::start(&[("web-01", allowed), ("web-02", allowed), ("db-01", "--enable-backend command")]);
    let gridc = cluster.gridc();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").expect("linux");
    let web = gridc.run(&["run", "-t", "node:web-01", "--", "uname", "-r"]).exits(0);
    assert_eq!(web.stdout, format!("1 node (web-01):\n  {release}"));

    // One node refuses: the others have run it, and the refusal names the setting.
    let all = gridc.run(&["run", "-t", "all", "--effect", "pure", "--", "uname", "-r"]).exits(1);
    assert_eq!(all.stdout, format!("2 nodes (web-01, web-02):\n  {release}"), "{}", all.stderr);
    let refusal = all.stderr.lines().find(|line| line.contains("failed on db-01")).unwrap_or_default();
    assert!(refusal.contains("start it with --allow-command uname"), "{}", all.stderr);

    // Everywhere the same refusal: it is told once.
    let none = gridc.run(&["run", "-t", "all", "--", "id"]).exits(1);
    assert_eq!(none.stdout, "");
    let told: Vec<_> =
        none.stderr.lines().filter(|line| line.starts_with("  step 0 command/run failed on 3 nodes: ")).collect();
    assert!(told.len() == 1 && told[0].contains("--allow-command id"), "{}", none.stderr);
    assert!(none.stderr.contains("\n    db-01, web-01, web-02\n"), "{}", none.stderr);

    let script = r#"echo "$1"; [ "$GRID_NODE" = web-01 ] || exit 3"#;
    let some = gridc.run(&["run", "-t", "all", "-o", "json", "--", "sh", "-c", script, "sh", "a b"]).exits(1).json();
    assert_eq!((&some["outputs"][0]["output"], &some["outputs"][0]["count"]), (&json!("a b\n"), &json!(2)), "{some}");
    assert_eq!(some["job"]["results"]["0"]["web-01"]["status"], "success", "{some}");
    assert_eq!(some["job"]["results"]["0"]["web-02"]["error"], "sh: exit 3: a b", "{some}");
}

#[test]
fn job_outputs_are_stored_byte_for_byte_in_a_file_for_each_node() {
    let allowed = "--enable-backend command --allow-command sh";
    let cluster = Cluster::start(&[("web-01", allowed), ("web-02", allowed)]);
    // More than a result keeps, and no text.
    let script = r#"printf '\377\000%s\n' "$GRID_NODE"; head -c 100000 /dev/zero; echo end"#;
    let ran = cluster.gridc().run(&["run", "-t", "all", "-o", "json", "--", "sh", "-c", script]).exits(0).json();
    let (id, dir) = (ran["job"]["id"].as_str().expect("an id"), cluster.path("outputs"));
    let folder = dir.to_str().expect("a plain path");
    cluster.gridc().run(&["job", "outputs", id, "--dir", folder]).exits(0);
    for node in ["web-01", "web-02"] {
        let mut want = format!("\u{0}{node}\n").into_bytes();
        want.insert(0, 0xff);
        want.extend(vec![0; 100_000]);
        want.extend(b"end\n");
        assert!(std::fs::read(dir.join(node)).expect("a file") == want, "{node}");
    }
    assert_eq!(std::fs::read_dir(&dir).expect("a folder").count(), 2, "nothing else");
    let again = cluster.gridc().run(&["job", "outputs", id, "--step", "0", "--dir", folder]).exits(1);
    assert!(again.stderr.contains("is there already and is not changed"), "{}", again.stderr);
}
