//! N2: which offers go to many at once, and to whom.

use grid_core::Effect;
use grid_fabric::{Audience, OfferMany};
use grid_proto::v1;
use grid_types::{NodeOrd, SessionId, StepIndex};
use serde_json::{Value, json};

use super::super::{Mandate, Out};
use super::world::World;

const WORKERS: [&str; 4] = ["w1", "w2", "w3", "w4"];

fn echo() -> Value {
    json!({"backend": "ping", "action": "echo"})
}

fn many(outs: &[Out]) -> Vec<&OfferMany> {
    outs.iter().filter_map(|out| if let Out::OfferMany(many) = out { Some(&**many) } else { None }).collect()
}

/// How many offers go to sessions by themselves.
fn singly(outs: &[Out]) -> usize {
    let offers = outs.iter().map(|out| if let Out::Send { message, .. } = out { message.offers.len() } else { 0 });
    offers.sum()
}

fn recipients(world: &World, many: &OfferMany) -> Vec<String> {
    let name = |to: &grid_fabric::Recipient| {
        let id = WORKERS.iter().find(|id| world.node(id) == to.node).unwrap();
        assert_eq!(world.session(id), to.session, "{id}");
        (*id).to_owned()
    };
    many.recipients.iter().map(name).collect()
}

/// What is offered when a job with this body begins.
fn begun(body: &Value) -> (World, Vec<Out>) {
    let mut world = World::new(&WORKERS);
    world.submit_body(7, body);
    let outs = world.applied();
    (world, outs)
}

/// The workers report that their leases ended so; one entry applies all of it.
fn report(world: &mut World, ended: &[(&str, v1::LeaseStatus)]) -> Vec<Out> {
    let mut outs = Vec::new();
    for (id, status) in ended {
        let job = world.state.jobs.values().next().unwrap();
        let (lease, _) = job.lease_at(world.node(id)).unwrap();
        let result = v1::LeaseResult { lease: Some(lease.into()), status: (*status).into(), ..Default::default() };
        outs = world.heard(id, |message| message.results.push(result));
    }
    outs
}

#[test]
fn n2_a_barrier_step_is_one_offer_to_all_its_nodes_and_the_next_one_is_too() {
    let (mut world, outs) = begun(&json!({"target": "all", "tasks": [echo(), echo()]}));
    let [first] = &many(&outs)[..] else { panic!("{outs:?}") };
    assert_eq!((recipients(&world, first), singly(&outs)), (WORKERS.map(str::to_owned).to_vec(), 0));
    assert_eq!((&first.audience, first.offer.session), (&Audience::All, 0));
    assert_eq!(first.leader_epoch, world.epoch(), "W2");
    world.deliver(outs);
    for id in ["w1", "w2", "w3"] {
        let outs = world.report(id);
        assert_eq!(many(&outs).len(), 0, "the barrier waits for w4");
        world.deliver(outs);
    }
    let outs = world.report("w4");
    let [second] = &many(&outs)[..] else { panic!("{outs:?}") };
    assert_eq!((second.offer.lease.unwrap().step, second.recipients.len(), singly(&outs)), (1, 4, 0));
    assert!(matches!(&outs[..], [Out::Send { .. }, Out::OfferMany(_)]), "answers are queued before it: {outs:?}");
}

#[test]
fn n2_windows_canaries_and_single_nodes_are_offered_per_session() {
    for (narrowed, offers) in [
        (json!({"target": "all", "concurrency": 2, "tasks": [echo()]}), 2),
        (json!({"target": "all", "concurrency": "100%", "tasks": [echo()]}), 4),
        (json!({"target": "all", "first": 2, "tasks": [echo()]}), 2),
        (json!({"target": "node:w2", "tasks": [echo()]}), 1),
        (json!({"target": "all", "exclude": "node:w1,w2,w3", "tasks": [echo()]}), 1),
    ] {
        let (_, outs) = begun(&narrowed);
        assert_eq!((many(&outs).len(), singly(&outs)), (0, offers), "{narrowed}");
    }
}

#[test]
fn n2_a_pipeline_begins_together_and_goes_on_per_session() {
    let (mut world, outs) = begun(&json!({"target": "all", "tasks": [{"tasks": [echo(), echo()]}]}));
    assert_eq!((many(&outs).len(), singly(&outs)), (1, 0));
    world.deliver(outs);
    let outs = world.report("w1");
    assert_eq!((many(&outs).len(), singly(&outs)), (0, 1));
    world.submit_body(8, &json!({"target": "all", "tasks": [echo()]}));
    let outs = world.report("w2");
    assert_eq!((many(&outs).len(), singly(&outs)), (1, 1), "in the same batch: the other job begins");
}

#[test]
fn n2_the_nodes_of_a_group_hear_it_on_its_own_subject_unless_they_have_left_the_group() {
    let (world, outs) = begun(&json!({"target": "group:fleet", "tasks": [echo()]}));
    assert_eq!(many(&outs)[0].audience, Audience::Group("fleet".parse().unwrap()));
    assert_eq!(recipients(&world, many(&outs)[0]).len(), 4);
    let mut world = World::new(&WORKERS);
    world.submit_body(7, &json!({"target": "group:fleet", "tasks": [echo()]}));
    let left = world.node("w3");
    world.state.nodes.get_mut(&left).unwrap().facts.groups.clear();
    let outs = world.applied();
    assert_eq!(recipients(&world, many(&outs)[0]), ["w1", "w2", "w4"]);
    assert_eq!(singly(&outs), 1, "its worker may not hear the group any more");
}

#[test]
fn n2_retries_are_offered_per_session() {
    let task = json!({"backend": "ping", "action": "echo", "max_retries": 1});
    let body = json!({"target": "all", "tasks": [task], "strategy": "continue"});
    let mut world = World::new(&WORKERS);
    world.submit_body(7, &body);
    world.settle();
    for id in WORKERS {
        report(&mut world, &[(id, v1::LeaseStatus::Failed)]);
    }
    world.pass(2_000);
    let outs = world.tick();
    assert_eq!((many(&outs).len(), singly(&outs)), (0, 4), "{outs:?}");
    let attempts = outs.iter().filter_map(|out| if let Out::Send { message, .. } = out { Some(message) } else { None });
    assert!(attempts.flat_map(|message| &message.offers).all(|offer| offer.lease.unwrap().attempt == 2));
}

#[test]
fn e2_n2_restored_leases_are_offered_per_session() {
    let mut world = World::new(&WORKERS);
    world.submit_body(7, &json!({"target": "all", "tasks": [echo()]}));
    for effect in &mut world.batch.effects {
        if let Effect::Offer(offer) = effect {
            offer.restored = true;
        }
    }
    let outs = world.applied();
    assert_eq!((many(&outs).len(), singly(&outs)), (0, 4));
}

#[test]
fn w5_n2_what_was_lost_is_offered_again_to_its_session_alone() {
    let mut world = World::new(&WORKERS);
    for id in WORKERS {
        world.say(id, |message| message.outstanding = Some(v1::OutstandingList::default()));
    }
    world.submit_body(7, &json!({"target": "all", "tasks": [echo()]}));
    assert_eq!(many(&world.applied()).len(), 1, "and it is lost");
    world.pass(10_000);
    for id in WORKERS {
        world.say(id, |message| message.heartbeat = Some(v1::Heartbeat::default()));
        let outs = world.heard(id, |message| message.outstanding = Some(v1::OutstandingList::default()));
        assert_eq!((many(&outs).len(), singly(&outs)), (0, 1), "{id}");
        world.deliver(outs);
        assert_eq!(world.running(id), 1);
    }
}

#[test]
fn n2_e5_e7_e8_what_may_not_be_offered_is_not_broadcast() {
    for mandate in [Mandate::Paused, Mandate::HandingOver, Mandate::CutOff] {
        let mut world = World::new(&WORKERS);
        world.mandate = mandate;
        world.submit_body(7, &json!({"target": "all", "tasks": [echo()]}));
        let outs = world.applied();
        assert_eq!((many(&outs).len(), singly(&outs)), (0, 0), "{mandate:?}");
    }
}

#[test]
fn n2_nodes_that_failed_under_continue_or_came_late_are_not_among_the_recipients() {
    let mut world = World::new(&["w1", "w2", "w3"]);
    let body = json!({"target": "all", "tasks": [echo(), echo()], "strategy": "continue"});
    world.submit_body(7, &body);
    world.register("w4");
    let outs = world.applied();
    assert_eq!(recipients(&world, many(&outs)[0]), ["w1", "w2", "w3"], "w4 came after the job began");
    world.deliver(outs);
    use v1::LeaseStatus::{Failed, Success};
    let outs = report(&mut world, &[("w1", Failed), ("w2", Success), ("w3", Success)]);
    let [second] = &many(&outs)[..] else { panic!("{outs:?}") };
    assert_eq!(recipients(&world, second), ["w2", "w3"], "w1 is excluded");
}

#[test]
fn n2_a_node_that_registers_again_before_the_broadcast_is_not_among_its_recipients() {
    let mut world = World::new(&WORKERS);
    world.submit_body(7, &json!({"target": "all", "tasks": [echo()]}));
    let epoch = world.epoch();
    world.restart("w2");
    // The registration of w3 is applied, and the leader has not heard of it: its session must lie above all that are meant.
    let (third, newer) = (world.node("w3"), SessionId(99));
    world.state.nodes.get_mut(&third).unwrap().session = newer;
    let outs = world.applied();
    let [only] = &many(&outs)[..] else { panic!("{outs:?}") };
    let nodes: Vec<NodeOrd> = only.recipients.iter().map(|to| to.node).collect();
    assert_eq!(nodes, [world.node("w1"), world.node("w4")]);
    assert!(only.recipients.iter().all(|to| to.session < newer), "{epoch}");
    assert_eq!(singly(&outs), 1, "that of w3, which its old session may still take");
}

#[test]
fn n2_few_nodes_among_many_are_offered_it_per_session() {
    let names: Vec<String> = (1..=40).map(|number| format!("n{number}")).collect();
    for (target, offered_together) in [("node:n1,n2", 0), ("node:n1,n2,n3", 1)] {
        let mut world = World::new(&names.iter().map(String::as_str).collect::<Vec<_>>());
        world.submit_body(7, &json!({"target": target, "tasks": [echo()]}));
        let outs = world.applied();
        assert_eq!(many(&outs).len(), offered_together, "{target}");
    }
}

#[test]
fn n2_each_job_and_each_step_is_an_offer_of_its_own() {
    let mut world = World::new(&WORKERS);
    for job in [7, 8] {
        world.submit_body(job, &json!({"target": "all", "tasks": [echo()]}));
    }
    let outs = world.applied();
    let jobs: Vec<_> = many(&outs).iter().map(|many| many.offer.lease.unwrap().job_id).collect();
    assert_eq!(jobs, [7, 8]);
    assert!(many(&outs).iter().all(|many| many.offer.lease.unwrap().step == StepIndex(0).0));
}
