//! The five scenarios of docs/scenarios.md, from their files in scenarios/, on real workers.
//!
//! The workers share this machine: `/etc/app` of the files is a folder of the test, so that the first node that writes a file
//! changes it and the others find it as it should be. `systemctl` is a stub: most machines that run tests have no systemd.

use std::path::Path;

use grid_testkit::{Cluster, Gridc, Stubs, free_port};
use serde_json::Value;

struct Fleet {
    cluster: Cluster,
    gridc: Gridc,
    stubs: Stubs,
    port: u16,
}

impl Fleet {
    fn start() -> Self {
        let cluster = Cluster::start(&[]);
        let stubs = Stubs::at(cluster.path("stubs")).program("systemctl", "exit 0");
        let app = cluster.path("app");
        std::fs::create_dir(&app).expect("a folder");
        let port = free_port();
        let mut fleet = Self { gridc: cluster.gridc(), cluster, stubs, port };
        for (id, groups) in [("web-01", "web"), ("web-02", "web"), ("db-01", "db")] {
            let flags = format!(
                "--groups {groups} --enable-backend command --allow-command uptime --enable-backend file --allow-path {} \
                 --enable-backend wait --allow-connect 127.0.0.1:{port} --enable-backend systemd",
                app.display()
            );
            let worker = fleet.cluster.worker_options(id).flags(&flags).path(fleet.stubs.path()).start();
            fleet.cluster.workers.insert(id.to_owned(), worker);
        }
        fleet
    }

    /// The job file of a scenario, with the folder and the port of the test; `change` is made to its text.
    fn file(&self, name: &str, change: impl Fn(String) -> String) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios").join(name);
        let text = std::fs::read_to_string(source).expect("the scenario");
        let app = self.cluster.path("app").display().to_string();
        let text = change(text.replace("/etc/app", &app).replace("8080", &self.port.to_string()));
        let path = self.cluster.path(name);
        std::fs::write(&path, text).expect("a job file");
        path.display().to_string()
    }

    fn run(&self, words: &[&str]) -> Value {
        let words = [&["job", "run", "--wait", "-o", "json"], words].concat();
        self.gridc.run(&words).exits(0).json()
    }
}

fn same(text: String) -> String {
    text
}

/// Outcomes of a step by node.
fn outcomes(job: &Value, step: usize) -> Vec<(String, String)> {
    let results = job["results"][step].as_object().or_else(|| job["results"][step.to_string()].as_object());
    let results = results.unwrap_or_else(|| panic!("step {step} of {job}"));
    results.iter().map(|(node, row)| (node.clone(), row["status"].as_str().unwrap_or_default().to_owned())).collect()
}

fn nodes(job: &Value) -> Vec<String> {
    outcomes(job, 0).into_iter().map(|(node, _)| node).collect()
}

#[test]
fn scenario_1_uptime_of_a_group() {
    let fleet = Fleet::start();
    let job = fleet.run(&["-f", &fleet.file("uptime.yaml", same)]);
    assert_eq!((job["status"].as_str(), nodes(&job)), (Some("completed"), vec!["web-01".into(), "web-02".into()]));
    let short = fleet.gridc.run(&["run", "-t", "group:web", "--", "uptime"]).exits(0);
    assert!(short.stdout.contains("load average"), "{short:?}");
    let refused = fleet.gridc.run(&["run", "-t", "all", "--", "id"]).exits(1);
    assert!(format!("{}{}", refused.stdout, refused.stderr).contains("--allow-command id"), "{refused:?}");
}

#[test]
fn scenario_2_a_configuration_file_and_a_restart_where_it_changed() {
    let fleet = Fleet::start();
    let file = fleet.file("configure.yaml", same);
    let restarts = || fleet.stubs.calls().iter().filter(|call| call.contains("restart")).count();
    let job = fleet.run(&["-f", &file]);
    let pair = |first: &str, second: &str| vec![("web-01".into(), first.into()), ("web-02".into(), second.into())];
    assert_eq!(outcomes(&job, 1), pair("success", "skipped"), "the second node finds the file of the first: {job}");
    assert_eq!(restarts(), 1);
    let app = fleet.cluster.path("app");
    let mode = |name: &str| {
        use std::os::unix::fs::PermissionsExt;
        std::fs::metadata(app.join(name)).expect("the file").permissions().mode() & 0o777
    };
    assert_eq!(mode("app.conf"), 0o640);

    let job = fleet.run(&["-f", &file]);
    assert_eq!(outcomes(&job, 1), pair("skipped", "skipped"), "nothing differs: {job}");
    assert_eq!(restarts(), 1);

    let job = fleet.run(&["-f", &fleet.file("configure.yaml", |text| text.replace("workers = 4", "workers = 8"))]);
    assert_eq!(outcomes(&job, 1), pair("success", "skipped"), "{job}");
    assert_eq!(restarts(), 2);
    let names = std::fs::read_dir(&app).expect("the folder").map(|entry| entry.expect("an entry").file_name());
    let backups: Vec<_> = names.filter(|name| name.to_string_lossy().ends_with(".bak")).collect();
    assert_eq!(backups.len(), 1, "{backups:?}");
    let kept = std::fs::read_to_string(app.join(&backups[0])).expect("the backup");
    assert!(kept.contains("workers = 4"), "{kept}");
}

#[test]
fn scenario_3_a_file_of_each_node_in_a_folder() {
    let fleet = Fleet::start();
    std::fs::write(fleet.cluster.path("app").join("app.conf"), b"a\0b\xff\n").expect("a file");
    let job = fleet.run(&["-f", &fleet.file("collect.yaml", same)]);
    let folder = fleet.cluster.path("collected");
    let to = folder.display().to_string();
    fleet.gridc.run(&["job", "outputs", job["id"].as_str().expect("an id"), "--dir", &to]).exits(0);
    for node in ["db-01", "web-01", "web-02"] {
        assert_eq!(std::fs::read(folder.join(node)).expect("the file of a node"), b"a\0b\xff\n", "{node}");
    }
}

#[test]
fn scenario_4_one_node_first_and_then_the_rest() {
    let fleet = Fleet::start();
    let file = fleet.file("uptime.yaml", same);
    let tried = fleet.run(&["-f", &file, "--limit", "node:web-01"]);
    assert_eq!((tried["status"].as_str(), nodes(&tried)), (Some("completed"), vec!["web-01".to_owned()]));
    let rest = fleet.run(&["-f", &file, "--exclude", "node:web-01"]);
    assert_eq!((rest["status"].as_str(), nodes(&rest)), (Some("completed"), vec!["web-02".to_owned()]));
}

#[test]
fn scenario_5_wait_until_a_port_answers() {
    let fleet = Fleet::start();
    let file = fleet.file("wait-port.yaml", same);
    let submitted = fleet.gridc.run(&["job", "run", "-f", &file, "-o", "json"]).exits(0).json();
    let job = submitted["id"].as_str().expect("an id");
    let api = fleet.cluster.api();
    api.wait_job(job, "both nodes wait", |job| job.status() == "running");
    let _listener = std::net::TcpListener::bind(("127.0.0.1", fleet.port)).expect("the port");
    let ended = api.wait_ended(job);
    assert_eq!(ended.status(), "completed", "{ended}");
}
