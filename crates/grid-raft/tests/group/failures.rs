//! Members die, come back, and cannot reach each other.

use std::collections::BTreeMap;
use std::time::Duration;

use grid_raft::{Namesake, OpenError, Start};
use tokio::runtime::Runtime;

use crate::links::Link;
use crate::trio::{Node, Trio};

#[test]
fn the_group_goes_on_without_its_leader_and_takes_it_back() {
    let mut trio = Trio::start(&["a", "b", "c"]);
    for round in 0..3 {
        trio.propose(&format!("before {round}"));
        let leader = trio.wait_leader();
        trio.node(&leader).kill();
        trio.propose(&format!("after {round}"));
        trio.node(&leader).start(Start::Existing);
    }
    assert_eq!(trio.wait_equal().payloads.len(), 6);
}

#[test]
fn all_members_restart_and_nothing_is_lost() {
    let mut trio = Trio::start(&["a", "b", "c"]);
    trio.propose("kept");
    trio.wait_equal();
    for name in ["a", "b", "c"] {
        trio.node(name).kill();
    }
    for name in ["c", "a", "b"] {
        trio.node(name).start(Start::Existing);
    }
    trio.propose("and on");
    assert_eq!(trio.wait_equal().payloads, ["kept", "and on"]);
}

#[test]
fn e3_a_folder_is_never_another_member_and_an_empty_one_never_votes_alone() {
    let mut trio = Trio::start(&["a"]);
    trio.propose("kept");
    let mut stranger = Node::new("a");
    assert!(matches!(stranger.try_start(Start::Existing), Err(OpenError::NotInitialised { .. })));
    assert!(matches!(stranger.try_start(Start::Join), Err(OpenError::Settings(_))), "nobody has accepted it");

    let identity = grid_raft::LocalMember::prepare(&stranger.config.data_dir, "x").expect("identity");
    let leader = &trio.nodes["a"];
    let refused =
        leader.block_on(leader.raft().admit(identity.raft_id, stranger.config.member.clone(), Namesake::Refuse));
    assert!(refused.expect_err("refused").to_string().contains("--replace"));

    // Accepted on paper only: it runs, and nobody elects it.
    identity.accepted_by("another-cluster", &stranger.config.data_dir).expect("saved");
    stranger.start(Start::Join);
    // In the time in which a real member is elected, from its start on, several times over.
    for _ in 0..3 {
        trio.node("a").kill();
        trio.node("a").start(Start::Existing);
        trio.wait_leader();
    }
    assert!(!stranger.raft().leadership().borrow().is_leader);
    stranger.kill();
    trio.node("a").kill();
}

/// Three members, each pair joined by links that can be cut. Membership holds one
/// address a member, so every member dials its own view of it.
#[test]
fn a_majority_goes_on_and_a_minority_does_not() {
    let mut trio = Trio::start(&["a", "b", "c"]);
    trio.propose("before");
    let outside = Runtime::new().expect("runtime");
    // Everything towards and from the leader goes through its own port: moving it behind a proxy cuts both ways.
    let leader = trio.wait_leader();
    let real = trio.nodes[&leader].address;
    let link = outside.block_on(Link::to(real));
    trio.node(&leader).kill();
    trio.node(&leader).config.member.address = link.address.to_string();
    trio.node(&leader).start(Start::Existing);
    trio.wait("the new address", |trio| {
        let known = |node: &Node| node.raft().roster().by_node_id(&leader).map(|l| l.member.address.clone());
        let all: BTreeMap<_, _> = trio.nodes.values().map(|node| (node.name.clone(), known(node))).collect();
        let done = all.values().all(|address| address.as_deref() == Some(&link.address.to_string()));
        if done { Ok(()) } else { Err(format!("{all:?}")) }
    });
    trio.propose("moved");
    trio.wait_equal();

    // As a leader it would go on: what it dials itself is open.
    if trio.wait_leader() == leader {
        let node = &trio.nodes[&leader];
        node.block_on(node.raft().hand_over(None)).expect("handed over");
    }
    // Asymmetric: nobody can dial it, it can dial everybody.
    link.set_cut(true);
    trio.propose("during");
    let term = |trio: &Trio, name: &str| trio.nodes[name].raft().leadership().borrow().term;
    let leading = trio.wait_leader();
    assert_ne!(leading, leader, "a member that hears no leader, while others do, is no candidate");
    let before = term(&trio, &leading);
    // It hears no leader, but learns from the others that there is one, and stays quiet.
    let cut_off = trio.nodes[&leader].raft().local_member().raft_id;
    trio.wait("two seconds of silence", |trio| {
        let silence = trio.nodes[&leading].raft().silence(cut_off);
        if silence >= Some(Duration::from_secs(2)) { Ok(()) } else { Err(format!("{silence:?}")) }
    });
    assert_eq!(term(&trio, &leading), before, "the member that is cut off deposed the leader");
    assert!(!trio.nodes[&leader].is_leader());
    link.set_cut(false);
    assert_eq!(trio.wait_equal().payloads, ["before", "moved", "during"]);
    assert_eq!(term(&trio, &leading), before, "healing needs no election");
}
