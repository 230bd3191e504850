//! The programs of a lease inherit nothing from the worker except what is listed.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;

use grid_testkit::spec::{job, task};
use grid_testkit::{Cluster, LIMIT, Stubs, ensure, wait_until};
use serde_json::json;

/// Prints what it was started with, one fact per line, and leaves a file in its working folder.
const INSPECT: &str = r#"env | sed 's/^/env /'
echo "umask $(umask)"
echo "cwd $(pwd)"
echo "cwd-mode $(stat -c %a .)"
echo "fds $(ls /proc/self/fd | tr '\n' ' ')"
echo "stdin $(readlink /proc/self/fd/0)"
grep -E '^Sig(Blk|Ign)' /proc/self/status
ln -s /etc/passwd left-behind
echo here >file"#;

const HOSTILE: &str = r#"umask 077
trap '' HUP INT QUIT USR1
for n in {3..20}; do eval "exec $n</etc/hostname"; done
export SECRET_TOKEN=hunter2 LD_LIBRARY_PATH=/nowhere CURL_HOME=/nowhere PAGER=/nowhere GRID_TOKEN=hunter2
export http_proxy=http://proxy.example:3128 HOME=/root LANG=de_DE.UTF-8 LC_ALL=de_DE.UTF-8
cd /"#;

fn facts(output: &str) -> (BTreeMap<String, String>, BTreeMap<String, String>) {
    let (mut env, mut other) = (BTreeMap::new(), BTreeMap::new());
    for line in output.lines() {
        if let Some((name, value)) = line.strip_prefix("env ").and_then(|line| line.split_once('=')) {
            env.insert(name.to_owned(), value.to_owned());
        } else if let Some((name, value)) = line.split_once([' ', '\t']) {
            other.insert(name.trim_end_matches(':').to_owned(), value.trim().to_owned());
        }
    }
    (env, other)
}

#[test]
fn issue14_8_a_program_of_a_lease_inherits_nothing_but_what_is_listed() {
    let cluster = Cluster::start(&[]);
    let stubs = Stubs::at(cluster.path("stubs")).program("apt-get", INSPECT);
    let mut worker = cluster.worker_options("w1").path(stubs.path()).prelude(HOSTILE).start();
    let api = cluster.api();
    let id = api.submit(&job("all", [task("apt", "update", &json!({}))]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.status(), "completed", "{ended}");
    let output = api.get(&format!("/job/{id}/output/0/w1")).text;
    let (env, other) = facts(&output);

    let names: Vec<&str> = env.keys().map(String::as_str).collect();
    let grid = ["GRID_ATTEMPT", "GRID_JOB", "GRID_LEASE", "GRID_NODE", "GRID_RUN", "GRID_STEP"];
    // PWD, OLDPWD, SHLVL and _ are the stub's own shell.
    let own = ["PWD", "OLDPWD", "SHLVL", "_"];
    let declared = [
        "APT_LISTBUGS_FRONTEND",
        "APT_LISTCHANGES_FRONTEND",
        "DEBIAN_FRONTEND",
        "DEBIAN_PRIORITY",
        "NEEDRESTART_MODE",
        "UCF_FORCE_CONFFOLD",
    ];
    let listed = ["HOME", "LANG", "LC_ALL", "PATH"];
    let unexpected: Vec<_> =
        names.iter().filter(|n| ![&grid[..], &own, &declared, &listed].iter().any(|set| set.contains(n))).collect();
    assert!(unexpected.is_empty(), "{unexpected:?}");
    for name in grid.iter().chain(&declared).chain(&listed) {
        assert!(env.contains_key(*name), "{name}: {env:?}");
    }
    assert_eq!((env["LANG"].as_str(), env["LC_ALL"].as_str()), ("C.UTF-8", "C.UTF-8"));
    assert_eq!((env["GRID_RUN"].as_str(), env["GRID_ATTEMPT"].as_str()), ("1", "1"));

    assert_eq!(other["fds"], "0 1 2 3", "3 is the folder that ls itself looks at: {output}");
    assert_eq!((other["umask"].as_str(), other["stdin"].as_str()), ("0022", "/dev/null"), "{output}");
    // 32 and 33 are the C library's own.
    let standard = u64::from_str_radix(&other["SigIgn"], 16).map(|mask| mask & 0x7fff_ffff);
    assert_eq!(standard, Ok(0), "{output}");
    assert_eq!(u64::from_str_radix(&other["SigBlk"], 16), Ok(0), "{output}");
    let work = worker.data_dir().join("work");
    assert!(other["cwd"].starts_with(work.to_str().expect("plain")), "{output}");
    assert_eq!((other["cwd-mode"].as_str(), env["HOME"].as_str()), ("700", other["cwd"].as_str()), "{output}");
    wait_until("the end of the working folder", LIMIT, || {
        ensure(fs::read_dir(&work).map_or(0, Iterator::count) == 0, format!("{:?}", fs::read_dir(&work)))
    });
    assert!(fs::metadata("/etc/passwd").expect("there").size() > 0);

    // The files of a killed worker are removed at its next start.
    worker.kill9();
    fs::create_dir_all(work.join("left")).expect("made");
    std::os::unix::fs::symlink("/etc", work.join("left/link")).expect("a link");
    worker.restart();
    wait_until("the end of what was left", LIMIT, || {
        ensure(fs::read_dir(&work).map_or(0, Iterator::count) == 0, format!("{:?}", fs::read_dir(&work)))
    });
    assert!(fs::metadata("/etc/passwd").is_ok());
}

#[test]
fn issue14_8_an_operator_passes_a_variable_on_by_name() {
    let cluster = Cluster::start(&[]);
    let stubs = Stubs::at(cluster.path("stubs")).program("apt-get", INSPECT);
    let _worker = cluster
        .worker_options("w1")
        .prelude(&format!("{HOSTILE}\nexport PATH={}:$PATH", stubs.folder().display()))
        .flags("--pass-env http_proxy,https_proxy,LANG --pass-env PATH")
        .start();
    let api = cluster.api();
    let id = api.submit(&job("all", [task("apt", "update", &json!({}))]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    let (env, _) = facts(&api.get(&format!("/job/{id}/output/0/w1")).text);
    assert_eq!((env["http_proxy"].as_str(), env["LANG"].as_str()), ("http://proxy.example:3128", "de_DE.UTF-8"));
    assert_eq!(env["LC_ALL"], "C.UTF-8", "what an action declares comes last");
    assert!(!env.contains_key("https_proxy") && !env.contains_key("SECRET_TOKEN"), "{env:?}");
}

#[test]
fn issue14_8_programs_are_found_in_fixed_folders_unless_path_is_passed_on() {
    let cluster = Cluster::start(&[]);
    let stubs = Stubs::at(cluster.path("stubs")).program("systemctl", "echo planted");
    let _worker = cluster
        .worker_options("w1")
        .prelude(&format!("export PATH={}:$PATH", stubs.folder().display()))
        .flags("--enable-backend systemd")
        .start();
    let api = cluster.api();
    let id = api.submit(&job("all", [task("systemd", "status", &json!({"unit": "grid-no-such-unit"}))]));
    api.wait_ended(&id);
    assert_eq!(stubs.calls(), [] as [&str; 0], "the worker's own PATH is not the tasks'");
}

const SCRIPT: &str = "#!/bin/sh\necho installed\n";

/// In hex.
pub fn sha256(text: &str) -> String {
    use std::io::Write;
    let mut sum = std::process::Command::new("sha256sum")
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("sha256sum");
    sum.stdin.take().expect("piped").write_all(text.as_bytes()).expect("written");
    let out = sum.wait_with_output().expect("ended");
    String::from_utf8_lossy(&out.stdout).split(' ').next().unwrap_or_default().to_owned()
}

#[test]
fn issue14_8_the_rke2_installer_runs_only_if_it_has_the_digest_that_the_job_names() {
    let cluster = Cluster::start(&[]);
    let script = cluster.path("script");
    fs::write(&script, SCRIPT).expect("written");
    let fetch = format!(r#"while [ "$1" != --output ]; do shift; done; cat {} >"$2""#, script.display());
    let stubs = Stubs::at(cluster.path("stubs")).program("curl", &fetch).program("systemctl", "exit 3");
    let worker = cluster.worker_options("w1").path(stubs.path()).start();
    let api = cluster.api();
    for action in ["install", "download"] {
        let answer = api.post("/job", &job("all", [task("rke2", action, &json!({}))]));
        assert_eq!(answer.status, 422, "{answer:?}");
        assert_eq!(answer.json()["details"][0]["field"], "tasks[0].params.sha256", "{answer:?}");
    }
    let run = |action: &str, digest: &str| {
        let id = api.submit(&job("all", [task("rke2", action, &json!({"sha256": digest}))]));
        let ended = api.wait_ended(&id);
        (ended.status().to_owned(), ended.error(0, "w1").to_owned(), api.get(&format!("/job/{id}/output/0/w1")).text)
    };
    let (status, error, output) = run("install", &sha256("something else"));
    assert_eq!(status, "failed");
    assert!(error.contains(&sha256(SCRIPT)) && error.contains(&sha256("something else")), "{error}");
    assert!(!output.contains("installed"), "{output}");
    let (status, error, output) = run("install", &sha256(SCRIPT));
    assert_eq!((status.as_str(), error.as_str()), ("completed", ""));
    assert!(output.ends_with("installed\n"), "{output}");
    let curl = stubs.calls().into_iter().find(|call| call.starts_with("curl ")).expect("called");
    assert!(curl.starts_with("curl -q ") && curl.contains(" --proto =https "), "{curl}");

    // A kept script that was changed since is fetched again.
    fs::write(worker.data_dir().join("rke2/install.sh"), "#!/bin/sh\necho tampered\n").expect("written");
    let (status, _, output) = run("install", &sha256(SCRIPT));
    assert!(status == "completed" && output.ends_with("installed\n") && !output.contains("tampered"), "{output}");
    // A script with another digest replaces it.
    fs::write(&script, "#!/bin/sh\necho newer\n").expect("written");
    let (status, _, output) = run("install", &sha256("#!/bin/sh\necho newer\n"));
    assert!(status == "completed" && output.ends_with("newer\n"), "{output}");
}
