//! Tests of settings files: valid ones, and the messages for invalid ones.

use std::ffi::OsString;
use std::path::Path;

use clap::{CommandFactory, Parser};

use super::keys::SECTIONS;
use super::{parse, settings};
use crate::cli::controller_line;
use crate::cli::{Cli, Verb};

fn argv(line: &str) -> Vec<OsString> {
    line.split(' ').map(OsString::from).collect()
}

fn with_file(text: &str, line: &str) -> Result<Cli, String> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("grid.yaml");
    std::fs::write(&path, text).unwrap();
    parse(&argv(&line.replace("FILE", path.to_str().unwrap()))).map_err(|e| e.to_string())
}

#[test]
fn every_key_stands_for_a_flag_that_exists() {
    let command = Cli::command();
    for key in SECTIONS.iter().flat_map(|section| section.keys) {
        assert_eq!(key.sets.is_empty(), key.missing.is_some(), "{}", key.name);
        for (verb, flag) in key.sets {
            let verb = command.find_subcommand(verb).unwrap_or_else(|| panic!("{verb}"));
            assert!(verb.get_arguments().any(|arg| arg.get_id() == *flag), "{} has no {flag}", verb.get_name());
        }
    }
}

const CLUSTER: &str = "
api: {listen: '127.0.0.1:0'}
controller: {node_id: c1, data_dir: /c1, grpc: '127.0.0.1:0'}
scheduler: {max_concurrent: 9}
worker:
  server: [http://a:1, http://b:2]
  groups: [web, production]
  labels: {rack: 7, ssd: true}
  data_dir: /w
  slots: 3
  heartbeat_interval: 2s
  inactive_threshold: 20s
  stale_threshold: 40s
dev:
";

#[test]
fn one_file_serves_servers_and_workers_before_and_after_the_verb() {
    let Verb::Server(server) = with_file(CLUSTER, "grid server -c FILE --bootstrap").unwrap().verb else { panic!() };
    assert_eq!((server.node_id.as_str(), server.tuning.max_concurrent), ("c1", 9));
    assert_eq!(server.tuning.heartbeat_interval.ms(), 2_000);
    assert_eq!(server.tuning.unhealthy_after.map(grid_types::Span::ms), Some(20_000));
    let Verb::Worker(worker) = with_file(CLUSTER, "grid -c FILE worker").unwrap().verb else { panic!() };
    let groups: Vec<_> = worker.traits.groups.iter().map(grid_types::Name::as_str).collect();
    assert_eq!((worker.traits.slots, groups, worker.server.len()), (3, vec!["web", "production"], 2));
    assert_eq!(worker.traits.labels, [("rack".into(), "7".into()), ("ssd".into(), "true".into())]);
    assert_eq!(worker.heartbeat_interval.map(grid_types::Span::ms), Some(2_000));
}

#[test]
fn flags_beat_the_file() {
    let line = "grid worker --config=FILE --slots 5 --groups db --data-dir /other";
    let Verb::Worker(worker) = with_file(CLUSTER, line).unwrap().verb else { panic!() };
    assert_eq!((worker.traits.slots, worker.traits.groups.len(), worker.data_dir.to_str()), (5, 1, Some("/other")));
}

#[test]
fn what_neither_file_nor_line_says_is_still_missed() {
    let said = with_file("scheduler: {max_pending: 0}", "grid server -c FILE").map(drop).unwrap_err();
    assert!(said.contains("--node-id") && said.contains("--data-dir"), "{said}");
    assert!(parse(&argv("grid worker -c /no/such/file")).map(drop).unwrap_err().to_string().contains("/no/such/file"));
    assert!(with_file("", "grid demo -c FILE").map(drop).unwrap_err().contains("demo takes no settings"));
    assert!(with_file("# nothing yet\n", "grid dev -c FILE").is_ok());
}

fn fields(text: &str) -> Vec<(String, String)> {
    let faults = settings(text).unwrap().unwrap_err();
    faults.list().iter().map(|f| (f.field.clone(), f.problem.clone())).collect()
}

#[test]
fn every_fault_is_named_at_once_by_its_path() {
    let said = fields(
        "
wroker: {groups: [a]}
nats: {url: nats://x}
api: {listen: here, insecure: maybe, forward_writes: true, port: 1}
controller: [c1]
scheduler: {max_concurrent: 0, max_pending: 1.5}
worker:
  group: web
  groups: web
  labels: [a]
  slots: many
  node_id: UP
  heartbeat_interval: 5
  inactive_threshold: -3s
  enable_backends: [nope]
  address: ''
",
    );
    let named: Vec<&str> = said.iter().map(|(field, _)| field.as_str()).collect();
    assert_eq!(
        named,
        [
            "api.forward_writes",
            "api.insecure",
            "api.listen",
            "api.port",
            "controller",
            "nats.url",
            "scheduler.max_concurrent",
            "scheduler.max_pending",
            "worker.address",
            "worker.enable_backends",
            "worker.group",
            "worker.groups",
            "worker.heartbeat_interval",
            "worker.inactive_threshold",
            "worker.labels",
            "worker.node_id",
            "worker.slots",
            "wroker",
        ]
    );
    let problem = |field: &str| said.iter().find(|(name, _)| name == field).unwrap().1.clone();
    assert!(problem("wroker").contains("did you mean worker?"));
    assert!(problem("worker.group").contains("did you mean groups?"));
    assert!(problem("nats.url").contains("did you mean urls?"));
    assert!(problem("worker.slots").contains("whole number from 1 to 1024"));
}

#[test]
fn keys_twice_and_what_is_no_map_are_refused() {
    assert_eq!(fields("worker: {slots: 1, slots: 2}")[0].0, "worker.slots");
    assert_eq!(fields("- worker")[0].0, "");
    assert!(settings("worker: [").is_err());
    assert!(settings(&"[".repeat(200_000)).is_err());
}

#[test]
fn a_node_takes_what_is_for_controllers_and_what_its_worker_is_to_others() {
    let text = format!("{CLUSTER}node: {{worker: true, drain_timeout: 7s}}\n");
    let Verb::Node(node) = with_file(&text, "grid node -c FILE --bootstrap").unwrap().verb else { panic!() };
    assert_eq!((node.server.node_id.as_str(), node.server.tuning.max_concurrent), ("c1", 9));
    assert_eq!((node.worker, node.drain_timeout.ms(), node.traits.slots), (true, 7_000, 3));
}

#[test]
fn the_flag_bootstrap_beats_the_join_of_a_file_that_serves_every_controller() {
    let text = CLUSTER.replace("node_id: c1,", "node_id: c1, join: ['http://a:1'],");
    let Verb::Server(server) = with_file(&text, "grid server -c FILE --bootstrap").unwrap().verb else { panic!() };
    assert!(server.bootstrap && server.join == ["http://a:1"], "both reach server::begin, where the flag wins");
    let Verb::Node(node) = with_file(&text, "grid node -c FILE --bootstrap").unwrap().verb else { panic!() };
    let child = controller_line(&node, Path::new("/c1"));
    let child = std::iter::once("grid".into()).chain(child);
    let Verb::Server(child) = Cli::try_parse_from(child).unwrap_or_else(|e| panic!("{e}")).verb else { panic!() };
    assert!(child.bootstrap && child.join.is_empty());
    let Verb::Node(other) = with_file(&text, "grid node -c FILE").unwrap().verb else { panic!() };
    assert!(controller_line(&other, Path::new("/c2")).contains(&OsString::from("--join=http://a:1")));
}
