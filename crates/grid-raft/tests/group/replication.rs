//! What one member accepts, all have.

use grid_raft::Start;

use crate::trio::{Node, Trio};

#[test]
fn l3_what_the_leader_accepted_every_member_has() {
    let trio = Trio::start(&["a", "b", "c"]);
    for i in 0..50 {
        trio.propose(&format!("p{i}"));
    }
    let content = trio.wait_equal();
    assert_eq!(content.payloads.len(), 50);
    assert_eq!(content.payloads[49], "p49");
}

#[test]
fn a_member_whose_log_was_purged_catches_up_from_a_snapshot() {
    let mut trio = Trio::start(&["a", "b", "c"]);
    trio.propose("first");
    trio.wait_equal();
    let behind = trio.nodes.keys().find(|name| !trio.nodes[*name].is_leader()).expect("a follower").clone();
    trio.node(&behind).kill();
    let filler = "x".repeat(4 << 10);
    for i in 0..40 {
        trio.propose(&format!("{i} {filler}"));
    }
    trio.cut_log();
    trio.node(&behind).start(Start::Existing);
    let content = trio.wait_equal();
    assert_eq!(content.payloads.len(), 42);
    assert!(trio.nodes[&behind].content().installs > 0, "it was caught up by a snapshot, not by the log");
}

#[test]
fn an_empty_member_joins_a_group_whose_log_begins_late() {
    let mut trio = Trio::start(&["a"]);
    let filler = "x".repeat(4 << 10);
    for i in 0..40 {
        trio.propose(&format!("{i} {filler}"));
    }
    trio.cut_log();
    trio.join(Node::new("b"));
    trio.join(Node::new("c"));
    assert_eq!(trio.wait_equal().payloads.len(), 41);
    assert!(trio.nodes["c"].content().installs > 0);
    assert!(grid_raft::is_initialised(&trio.nodes["c"].config.data_dir));
}

#[test]
fn e6_a_strong_read_on_any_member_sees_what_was_acknowledged() {
    let trio = Trio::start(&["a", "b", "c"]);
    let leader = trio.wait_leader();
    let raft = trio.nodes[&leader].raft();
    raft.open_reads(raft.leadership().borrow().term);
    for i in 0..20 {
        trio.propose(&format!("p{i}"));
        for node in trio.nodes.values() {
            node.block_on(node.raft().read_barrier()).expect("confirmed");
            assert!(node.content().payloads.len() > i, "{} lags", node.name);
        }
    }
}

#[test]
fn e6_reads_of_a_term_that_has_not_begun_are_not_confirmed() {
    let trio = Trio::start(&["a"]);
    trio.wait_leader();
    let node = &trio.nodes["a"];
    assert!(node.block_on(node.raft().read_barrier()).is_err());
}
