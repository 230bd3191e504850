//! Members come and go while the group runs.

use grid_raft::{ChangeError, HandOverError, Namesake, OpenError, Start};

use crate::trio::{Node, Trio};

fn id(trio: &Trio, name: &str) -> u64 {
    trio.nodes[name].raft().local_member().raft_id
}

#[test]
fn a_group_grows_to_five_and_shrinks_to_three() {
    let mut trio = Trio::start(&["a", "b", "c", "d", "e"]);
    trio.propose("five");
    trio.wait_equal();
    for name in ["d", "e"] {
        let (leader, gone) = (trio.wait_leader(), id(&trio, name));
        if leader == name {
            let node = &trio.nodes[name];
            let refused = node.block_on(node.raft().remove(gone));
            assert!(refused.expect_err("refused").to_string().contains("step-down"));
            node.block_on(node.raft().hand_over(None)).expect("handed over");
        }
        let gone = id(&trio, name);
        trio.wait("removed", |trio| {
            let leader = trio.leader().ok_or("no leader")?;
            leader.block_on(leader.raft().remove(gone)).map_err(|e| e.to_string())
        });
        trio.node(name).kill();
    }
    trio.propose("three");
    let leader = trio.wait_leader();
    assert_eq!(trio.nodes[&leader].raft().roster().members.len(), 3);
    for name in ["d", "e"] {
        // Whether it heard of its removal or not: it is no member, and elects nobody.
        match trio.node(name).try_start(Start::Existing) {
            Err(OpenError::Removed { .. }) => {}
            Ok(()) => trio.node(name).kill(),
            Err(e) => panic!("{e}"),
        }
        trio.nodes.remove(name);
    }
    assert_eq!(trio.wait_equal().payloads, ["five", "three"]);
}

#[test]
fn a_member_that_was_removed_learns_of_it_though_it_was_away_and_is_not_let_in_again() {
    let mut trio = Trio::start(&["a", "b", "c"]);
    let leader = trio.wait_leader();
    let mut others: Vec<String> = trio.nodes.keys().filter(|name| **name != leader).cloned().collect();
    let (away, live) = (others.remove(0), others.remove(0));
    let (away_id, live_id) = (id(&trio, &away), id(&trio, &live));
    trio.node(&away).kill();
    let remove = |trio: &Trio, gone: u64| {
        let node = &trio.nodes[&leader];
        node.block_on(node.raft().remove(gone)).map_err(|e| e.to_string())
    };
    trio.wait("removed while away", |trio| remove(trio, away_id));
    // Its record has changed, which it would announce to the group.
    trio.node(&away).config.member.api_url = "http://elsewhere:1".into();
    trio.node(&away).start(Start::Existing);
    let within = |node: &Node| {
        let limit = crate::trio::LIMIT;
        let removed = node.block_on(async { tokio::time::timeout(limit, node.raft().removed()).await });
        removed.expect("it learns that it was removed");
    };
    within(&trio.nodes[&away]);
    let listed = trio.nodes[&leader].raft().roster();
    assert!(listed.members.iter().all(|listed| listed.raft_id != away_id), "{listed:?}");
    // One that lives hears nothing more, and asks.
    trio.wait("removed while it runs", |trio| remove(trio, live_id));
    within(&trio.nodes[&live]);
    trio.node(&away).kill();
    trio.node(&live).kill();
    trio.nodes.remove(&away);
    trio.nodes.remove(&live);
    trio.propose("alone");
}

#[test]
fn what_would_break_the_majority_is_refused_with_the_reason() {
    let mut trio = Trio::start(&["a", "b", "c"]);
    let leader = trio.wait_leader();
    let mut others: Vec<String> = trio.nodes.keys().filter(|name| **name != leader).cloned().collect();
    let (healthy, dead) = (others.remove(0), others.remove(0));
    let (healthy_id, dead_id) = (id(&trio, &healthy), id(&trio, &dead));
    trio.node(&dead).kill();
    let node = &trio.nodes[&leader];
    trio.wait("the refusal", |_| match node.block_on(node.raft().remove(healthy_id)) {
        Err(ChangeError::Refused(reason)) if reason.contains(&format!("({dead})")) => Ok(()),
        Err(other) => Err(format!("{other}; silence {:?}", node.raft().silence(healthy_id))),
        Ok(()) => panic!("a group of two with one dead has no majority"),
    });
    assert!(matches!(node.block_on(node.raft().demote(healthy_id)), Err(ChangeError::Refused(_))));
    node.block_on(node.raft().remove(dead_id)).expect("the dead one may go");
    trio.propose("two");
}

#[test]
fn a_demoted_member_follows_without_a_vote_and_is_promoted_again() {
    let trio = Trio::start(&["a", "b", "c"]);
    let leader = trio.wait_leader();
    let other = trio.nodes.keys().find(|name| **name != leader).expect("another").clone();
    let (node, other_id) = (&trio.nodes[&leader], id(&trio, &other));
    node.block_on(node.raft().demote(other_id)).expect("demoted");
    assert!(!node.raft().roster().by_node_id(&other).expect("listed").is_voter);
    for _ in 0..20 {
        trio.propose("still replicated");
        trio.wait_equal();
    }
    assert!(!node.raft().roster().by_node_id(&other).expect("listed").is_voter, "it does not promote itself");
    node.block_on(node.raft().promote(other_id)).expect("promoted");
    assert!(node.raft().roster().by_node_id(&other).expect("listed").is_voter);
    assert_eq!(node.block_on(node.raft().promote(1)), Err(ChangeError::Unknown(1)));
}

#[test]
fn changes_queue() {
    let mut trio = Trio::start(&["a"]);
    let mut nodes: Vec<Node> = ["b", "c", "d"].into_iter().map(Node::new).collect();
    let leader = &trio.nodes["a"];
    leader.block_on(async {
        let mut asked = tokio::task::JoinSet::new();
        for node in &nodes {
            let identity = grid_raft::LocalMember::prepare(&node.config.data_dir, "x").expect("identity");
            let mut member = node.config.member.clone();
            member.folder_id = identity.folder_id;
            let raft = leader.raft().clone();
            asked.spawn(async move { raft.admit(identity.raft_id, member, Namesake::Refuse).await });
        }
        while let Some(admitted) = asked.join_next().await {
            admitted.expect("joined").expect("each waits for its turn");
        }
    });
    assert_eq!(leader.raft().roster().members.len(), 4);
    trio.join(nodes.remove(0));
}

#[test]
fn e7_a_hand_over_makes_another_member_lead() {
    let trio = Trio::start(&["a", "b", "c"]);
    trio.propose("before");
    let leader = trio.wait_leader();
    let node = &trio.nodes[&leader];
    let to = trio.nodes.values().find(|n| n.name != leader).expect("another");
    let before = node.raft().leadership().borrow().term;
    node.block_on(node.raft().hand_over(Some(to.raft().local_member().raft_id))).expect("handed over");
    // Its own watch may be a moment behind.
    let now = trio.wait("another leader", |trio| {
        let other = trio.nodes.values().find(|node| node.name != leader && node.is_leader());
        other.map(|node| node.name.clone()).ok_or("none".into())
    });
    assert!(trio.nodes[&now].raft().leadership().borrow().term > before);
    trio.propose("after");
    assert_eq!(trio.wait_equal().payloads, ["before", "after"]);
    assert_eq!(node.block_on(node.raft().hand_over(None)), Err(HandOverError::NotLeader));
}

#[test]
fn e7_alone_there_is_nobody_to_hand_over_to() {
    let trio = Trio::start(&["a"]);
    trio.wait_leader();
    let node = &trio.nodes["a"];
    assert!(matches!(node.block_on(node.raft().hand_over(None)), Err(HandOverError::Refused(_))));
    trio.propose("still leads");
}

#[test]
fn issue14_1_a_member_that_was_away_accepts_members_that_it_does_not_know() {
    let mut trio = Trio::start(&["a", "b", "c"]);
    trio.propose("three");
    trio.wait_equal();
    trio.node("c").kill();
    // Everybody that `c` knows leaves.
    for name in ["d", "e"] {
        let node = Node::new(name);
        trio.join_without(node, &["c"]);
    }
    for name in ["a", "b"] {
        let (gone, to) = (id(&trio, name), id(&trio, "d"));
        trio.wait("removed", |trio| {
            let leader = trio.leader().ok_or("no leader")?;
            if leader.name == name {
                leader.block_on(leader.raft().hand_over(Some(to))).map_err(|e| e.to_string())?;
            }
            let leader = trio.leader().ok_or("no leader")?;
            leader.block_on(leader.raft().remove(gone)).map_err(|e| e.to_string())
        });
        trio.node(name).kill();
        trio.nodes.remove(name);
    }
    trio.propose("others");
    trio.node("c").start(Start::Existing);
    let payloads = trio.wait_equal().payloads;
    assert_eq!(payloads, ["three", "others"]);
    // Its vote counts: without it there is no majority.
    let leader = trio.wait_leader();
    let follower = ["d", "e"].into_iter().find(|name| *name != leader).unwrap_or("d");
    trio.node(follower).kill();
    trio.propose("with its vote");
}
