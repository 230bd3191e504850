//! The facts that nodes report, and the number of nodes, are bounded in total.

use grid_proto::v1;
use grid_testkit::Cluster;
use grid_testkit::spec::{job, task};
use serde_json::{Value, json};
use tonic::Code;

use super::peer::{Peer, refused as refused_count, registration};

fn with_facts(node: &str, change: impl FnOnce(&mut v1::NodeFacts)) -> v1::RegisterNodeRequest {
    let mut request = registration(node);
    change(request.facts.get_or_insert_default());
    request
}

#[test]
fn issue14_4_undeclared_backends_and_actions_are_dropped() {
    let cluster = Cluster::start(&[]);
    let peer = Peer::connect(cluster.server.grpc_port());
    for i in 0..20 {
        let invented: Vec<String> = (0..4_000).map(|i| format!("{i:0>200}")).collect();
        let request = with_facts(&format!("evil-{i}"), |facts| {
            facts.backends[0].actions.extend(invented.clone());
            facts.backends.push(v1::BackendFacts { name: "invented".to_owned(), actions: invented[..50].to_vec() });
        });
        peer.register(request).expect("registered without what nobody declares");
    }
    let nodes = cluster.api().get("/nodes");
    assert!(nodes.text.len() < 100_000, "{} bytes for 20 nodes", nodes.text.len());
    let node = cluster.api().try_node("evil-3").expect("a node");
    assert_eq!(node["backends"]["ping"], json!(["echo"]), "what is declared stays");
    assert_eq!(node["backends"]["invented"], Value::Null);
}

#[test]
fn issue14_4_facts_have_at_most_16_kib_and_the_worker_says_why() {
    let cluster = Cluster::start(&[]);
    let peer = Peer::connect(cluster.server.grpc_port());
    let request = with_facts("evil", |facts| {
        facts.labels = (0..64).map(|i| (format!("{i:0>63}"), "v".repeat(255))).collect();
    });
    let refused = peer.register(request).expect_err("64 of the longest labels are too much");
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    assert!(refused.message().contains("16384"), "{refused}");
    let labels: Vec<String> = (0..64).map(|i| format!("{i:0>63}={}", "v".repeat(255))).collect();
    let mut worker = cluster.worker_options("honest").flags(&format!("--labels {}", labels.join(","))).spawn();
    let ended = worker.process().wait_exit(grid_testkit::LIMIT);
    let log = worker.process().log_text();
    assert!(!ended.success() && log.contains("16384") && log.contains("labels"), "{ended}: {log}");
}

#[test]
fn issue14_4_nodes_are_bounded_and_agents_count_too() {
    let cluster = Cluster::start_with("--max-nodes 3", &[("web-01", "")]);
    let peer = Peer::connect(cluster.server.grpc_port());
    peer.register(registration("web-02")).expect("the second");
    let api = cluster.api();
    let poll = |agent: &str| api.post("/v1/leases", &json!({"agent": agent, "wait": "0s"}));
    assert_eq!(poll("web-03").status, 200);
    let refused = peer.register(registration("web-04")).expect_err("the fourth");
    assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    assert!(refused.message().contains("--max-nodes") && refused.message().contains("node remove"), "{refused}");
    assert_eq!(refused_count(&api, "too_many_nodes"), 1);
    let answer = poll("web-05");
    assert_eq!((answer.status, answer.error().as_str()), (429, "QUEUE_FULL"), "{answer:?}");
    peer.register(registration("web-02")).expect("a known node may always come back");
    assert_eq!(poll("web-03").status, 200);
    let removed = api.request(grid_testkit::Method::DELETE, "/api/v1/nodes/web-02?force=true", &[], None);
    assert_eq!(removed.expect("answered").status, 200);
    peer.register(registration("web-04")).expect("there is room again");
}

#[test]
fn issue14_4_pages_are_bounded_by_bytes() {
    let cluster = Cluster::start(&[]);
    let peer = Peer::connect(cluster.server.grpc_port());
    for i in 0..250 {
        let request = with_facts(&format!("wide-{i:03}"), |facts| {
            facts.labels = (0..48).map(|i| (format!("{i:0>63}"), "v".repeat(250))).collect();
        });
        peer.register(request).expect("registered");
    }
    let (mut after, mut seen, mut pages) = (String::new(), 0, 0);
    loop {
        let page = cluster.api().get(&format!("/api/v1/nodes?limit=1000{after}"));
        assert!(page.text.len() < 2_200_000, "a page of {} bytes", page.text.len());
        let page = page.json();
        (seen, pages) = (seen + page["items"].as_array().map_or(0, Vec::len), pages + 1);
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!((seen, pages), (250, 2), "every node once");
    let bare = cluster.api().get("/nodes");
    let next = bare.header("x-grid-next").expect("the bare list says where it goes on");
    assert_eq!(bare.json().as_array().and_then(|nodes| nodes.last()).map(|node| node["id"].clone()), Some(json!(next)));
}

#[test]
fn issue14_4_a_page_of_jobs_is_bounded_by_bytes() {
    let cluster = Cluster::start(&[]);
    let peer = Peer::connect(cluster.server.grpc_port());
    peer.register(registration("wide")).expect("registered");
    let text = "x".repeat(64 * 1024);
    let tasks: Vec<Value> = (0..12).map(|_| task("ping", "echo", &json!({"message": text}))).collect();
    for _ in 0..6 {
        cluster.api().submit(&job("all", tasks.clone()));
    }
    let (mut after, mut seen, mut pages) = (String::new(), 0, 0);
    loop {
        let page = cluster.api().get(&format!("/api/v1/namespaces/default/jobs?limit=1000{after}"));
        assert!(page.text.len() < 3_000_000, "a page of {} bytes", page.text.len());
        let page = page.json();
        (seen, pages) = (seen + page["items"].as_array().map_or(0, Vec::len), pages + 1);
        let Some(next) = page["next"].as_str() else { break };
        after = format!("&after={next}");
    }
    assert_eq!((seen, pages), (6, 2), "every job once");
}
