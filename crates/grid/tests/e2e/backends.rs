//! The backends `apt`, `systemd` and `rke2` on real workers, with stubs in place of the programs that they run: which program
//! is called, with which arguments, and how its exit code and output are reported.
//!
//! Stubs, because most machines that run tests have no systemd, and their packages must not be changed; the real apt-get is in
//! `real_apt`.

use grid_testkit::spec::{job, task};
use grid_testkit::{Cluster, Dev, Gridc, Job, Stubs};
use serde_json::{Value, json};

fn stubs(dir: &std::path::Path) -> Stubs {
    Stubs::at(dir.join("stubs"))
}

/// Runs one task on web-01 and returns the job as it ended.
fn run(dev: &Dev, backend: &str, action: &str, params: &Value) -> Job {
    let api = dev.api();
    let id = api.submit(&job("node:web-01", [task(backend, action, params)]));
    api.wait_ended(&id)
}

fn output(dev: &Dev, job: &Job) -> String {
    dev.api().get(&format!("/job/{}/output/0/web-01", job.id())).text
}

#[test]
fn systemd_calls_systemctl_and_tells_what_it_answered() {
    let dir = tempfile::tempdir().expect("temp dir");
    let stubs = stubs(dir.path()).program(
        "systemctl",
        r#"case "$*" in
            *status*idle) echo "idle.service - inactive (dead)"; exit 3;;
            *status*nope) echo "Unit nope.service could not be found." >&2; exit 4;;
            *start*broken) echo "Job for broken.service failed." >&2; exit 1;;
        esac"#,
    );
    let dev = Dev::start_with_path(1, &stubs.path());
    let unit = |name: &str| json!({ "unit": name });
    for action in ["start", "stop", "restart", "enable", "disable", "status"] {
        let ended = run(&dev, "systemd", action, &unit("nginx"));
        assert_eq!(ended.status(), "completed", "{ended}");
    }
    let always = "systemctl --no-ask-password --no-pager";
    let want = ["start", "stop", "restart", "enable", "disable", "--full --lines=20 status"];
    let want: Vec<_> = want.iter().map(|verb| format!("{always} {verb} -- nginx")).collect();
    assert_eq!(stubs.calls(), want);

    for (action, name, error) in [
        ("status", "idle", "idle is not active (systemctl status: exit 3)"),
        ("status", "nope", "there is no unit nope (systemctl status: exit 4)"),
        ("start", "broken", "systemctl start: exit 1: Job for broken.service failed."),
    ] {
        let ended = run(&dev, "systemd", action, &unit(name));
        assert_eq!((ended.status(), ended.error(0, "web-01")), ("failed", error), "{ended}");
    }
    let ended = run(&dev, "systemd", "status", &unit("idle"));
    assert_eq!(output(&dev, &ended), "idle.service - inactive (dead)\n", "what it printed is there as well");
}

#[test]
fn the_real_systemctl_without_systemd_says_so() {
    if std::path::Path::new("/run/systemd/system").exists() {
        println!("skipped: systemd runs on this machine");
        return;
    }
    let dev = Dev::start(1);
    let runs = dev.api().get("/node/web-01").json()["backends"]["systemd"].is_array();
    if !runs {
        println!("skipped: there is no systemctl on this machine");
        return;
    }
    let ended = run(&dev, "systemd", "restart", &json!({"unit": "grid-no-such-unit"}));
    assert_eq!(ended.status(), "failed", "{ended}");
    let error = ended.error(0, "web-01");
    assert!(error.starts_with("systemctl restart: exit 1: ") && error.contains("systemd"), "{error}");
}

#[test]
fn apt_waits_for_locks_and_finishes_what_a_killed_dpkg_left() {
    let dir = tempfile::tempdir().expect("temp dir");
    let stubs = stubs(dir.path())
        .program(
            "apt-get",
            r#"here=${0%/*}; n=$(cat "$here/n" 2>/dev/null || echo 0); echo $((n + 1)) >"$here/n"
            [ "$DEBIAN_FRONTEND" = noninteractive ] || exit 7
            case "$n $*" in
                "0 "*) echo "E: Could not get lock /var/lib/apt/lists/lock. It is held by process 12 (apt-get)" >&2
                    exit 100;;
                "1 "*) echo "E: dpkg was interrupted, you must manually run 'dpkg --configure -a'" >&2; exit 100;;
                *nope) echo "Waiting for cache lock: Could not get lock /var/lib/dpkg/lock-frontend..."
                    echo "E: Unable to locate package nope" >&2; exit 100;;
            esac
            echo "installed""#,
        )
        .program("dpkg", "echo configured");
    let dev = Dev::start_with_path(1, &stubs.path());
    let ended = run(&dev, "apt", "install", &json!({"package": "curl"}));
    assert_eq!(ended.status(), "completed", "{ended}");
    let install = "apt-get -y -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confdef \
                   -o Dpkg::Options::=--force-confold -o APT::Cmd::Pattern-Only=true install -- curl";
    let configure = "dpkg --force-confdef --force-confold --configure -a";
    assert_eq!(stubs.calls(), [install, install, configure, install]);
    let told = output(&dev, &ended);
    assert!(told.contains("another apt-get holds a lock") && told.ends_with("configured\ninstalled\n"), "{told}");

    let ended = run(&dev, "apt", "install", &json!({"package": "nope"}));
    let want = "apt-get install: exit 100: E: Unable to locate package nope";
    assert_eq!((ended.status(), ended.error(0, "web-01")), ("failed", want), "{ended}");
}

#[test]
fn rke2_fetches_its_installer_runs_it_with_the_mode_and_spares_the_other_kind() {
    let dir = tempfile::tempdir().expect("temp dir");
    let stubs = stubs(dir.path())
        .program(
            "curl",
            r#"while [ "$1" != --output ]; do shift; done
            printf '#!/bin/sh\necho "type=$INSTALL_RKE2_TYPE version=$INSTALL_RKE2_VERSION"\n' >"$2""#,
        )
        .program(
            "systemctl",
            r#"case "$*" in *is-active*rke2-server.service) [ -e "${0%/*}/server-runs" ]; exit;; *is-active*) exit 3;; esac"#,
        );
    let dev = Dev::start_with_path(1, &stubs.path());
    let digest = super::children::sha256("#!/bin/sh\necho \"type=$INSTALL_RKE2_TYPE version=$INSTALL_RKE2_VERSION\"\n");
    let ended = run(&dev, "rke2", "install", &json!({"sha256": digest, "mode": "agent", "version": "v1.33.1+rke2r1"}));
    assert_eq!(ended.status(), "completed", "{ended}");
    assert!(output(&dev, &ended).ends_with("type=agent version=v1.33.1+rke2r1\n"), "{}", output(&dev, &ended));
    let ended = run(&dev, "rke2", "install", &json!({"sha256": digest, "mode": "agent"}));
    assert_eq!(output(&dev, &ended), "type=agent version=\n", "the installer is kept");
    assert_eq!(run(&dev, "rke2", "download", &json!({"sha256": digest})).status(), "completed");
    assert_eq!(run(&dev, "rke2", "start", &json!({"mode": "agent"})).status(), "completed");
    let calls = stubs.calls();
    assert_eq!(
        calls.last().map(String::as_str),
        Some("systemctl --no-ask-password --no-pager start -- rke2-agent.service")
    );
    assert_eq!(calls.iter().filter(|call| call.starts_with("curl ")).count(), 2, "{calls:?}");

    std::fs::write(stubs.folder().join("server-runs"), "").expect("written");
    let ended = run(&dev, "rke2", "install", &json!({"sha256": digest, "mode": "agent"}));
    let want = "refused: rke2-server.service is active on this node, and the job is for the other kind";
    assert_eq!((ended.status(), ended.error(0, "web-01")), ("failed", want), "{ended}");
    let ended = run(&dev, "rke2", "uninstall", &json!({"mode": "agent"}));
    assert_eq!(ended.error(0, "web-01"), want, "{ended}");
    if !std::path::Path::new("/usr/local/bin/rke2-killall.sh").exists() {
        let ended = run(&dev, "rke2", "kill", &json!({}));
        assert_eq!(ended.error(0, "web-01"), "there is no rke2-killall.sh on this node: rke2 is not installed");
        stubs.clone().program("rke2-killall.sh", "echo killed").program("rke2-uninstall.sh", "exit 9");
        assert_eq!(output(&dev, &run(&dev, "rke2", "kill", &json!({}))), "killed\n");
        let ended = run(&dev, "rke2", "uninstall", &json!({"mode": "server"}));
        assert_eq!(ended.error(0, "web-01"), "rke2-uninstall.sh: exit 9", "{ended}");
    }
}

#[test]
fn what_could_be_an_option_or_more_than_one_thing_is_refused_by_its_field() {
    let cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    for (backend, action, param, values) in [
        ("apt", "install", "package", &["-y", "--purge", "a b", "a\nb", "a\u{0}b", "curl-", "*", "../x"][..]),
        ("apt", "remove", "package", &["lib.", "curl=1"]),
        ("systemd", "stop", "unit", &["--all", "nginx*", "a\nb"]),
        ("rke2", "start", "mode", &["both", "-x", ""]),
    ] {
        for value in values {
            let answer = api.post("/job", &job("all", [task(backend, action, &json!({param: value}))]));
            assert_eq!(answer.status, 422, "{value:?}: {answer:?}");
            assert_eq!(answer.json()["details"][0]["field"], format!("tasks[0].params.{param}"), "{answer:?}");
        }
    }
    assert_eq!(api.get("/jobs").json(), json!([]), "nothing was accepted");
}

#[test]
fn a_worker_offers_what_is_installed_and_a_job_elsewhere_says_why_it_failed() {
    let cluster = Cluster::start(&[]);
    let empty = cluster.path("nothing-installed");
    std::fs::create_dir(&empty).expect("a folder");
    let mut bare = cluster.worker_options("bare-01").path(&empty).spawn();
    let mut told = cluster.worker_options("told-01").path(&empty).flags("--enable-backend apt").spawn();
    let stubs = stubs(cluster.dir()).program("apt-get", "").program("systemctl", "");
    let mut full = cluster.worker_options("full-01").path(stubs.path()).flags("--disable-backend systemd").spawn();
    for worker in [&mut bare, &mut told, &mut full] {
        worker.wait_ready();
    }
    let api = cluster.api();
    let runs = |node: &str| {
        let backends = api.get(&format!("/node/{node}")).json()["backends"].clone();
        let mut names: Vec<String> = backends.as_object().into_iter().flatten().map(|(name, _)| name.clone()).collect();
        names.retain(|name| name != "rke2");
        names
    };
    assert_eq!(runs("bare-01"), ["ping", "test"]);
    assert_eq!(runs("told-01"), ["apt", "ping", "test"]);
    assert_eq!(runs("full-01"), ["apt", "ping", "test"]);

    let apt = task("apt", "install", &json!({"package": "curl"}));
    let plan = api.post("/job/plan", &job("all", [apt.clone()])).json();
    assert_eq!(plan["lacking"], json!({"apt/install": ["bare-01"]}), "{plan}");
    let id = api.submit(&job("node:bare-01", [apt.clone()]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "failed", "{ended}");
    assert!(ended.result_reason(0, "bare-01").contains("does not run apt install; apt needs apt-get there"), "{ended}");
    let id = api.submit(&job("node:told-01", [apt]));
    let error = api.wait_ended(&id).error(0, "told-01").to_owned();
    assert!(error.starts_with("cannot start apt-get: "), "{error}");
}

#[test]
fn the_declarations_are_listed_and_described_by_a_real_controller() {
    let cluster = Cluster::start(&[]);
    let gridc: Gridc = cluster.gridc();
    let list = gridc.run(&["backend", "list"]).exits(0).stdout;
    for line in ["apt      where installed  apt-get         install,remove,update,upgrade", "test     if enabled"] {
        assert!(list.contains(line), "{list}");
    }
    let apt = gridc.run(&["backend", "describe", "apt", "-o", "json"]).exits(0).json();
    assert_eq!(apt, cluster.api().get("/api/v1/backends/apt").json());
    let text = gridc.run(&["backend", "describe", "systemd"]).exits(0).stdout;
    assert!(text.contains("gridc job run -t all systemd restart --unit UNIT\n"), "{text}");
    gridc.run(&["backend", "describe", "yum"]).exits(4);
}
