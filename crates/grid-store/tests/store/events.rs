//! Events are read in order, by page and by filter, and keep their numbers.

use grid_store::{EventFilter, EventRow};
use grid_types::Outcome;

use crate::world::{World, leaf};

fn all(world: &World, filter: &EventFilter, limit: usize) -> Vec<EventRow> {
    let (mut found, mut after) = (Vec::new(), 0);
    loop {
        let (page, reached) = world.reader().events_after(filter, after, limit).unwrap();
        let done = page.is_empty() && reached == after;
        found.extend(page);
        if done {
            return found;
        }
        after = reached;
    }
}

#[test]
fn pages_in_both_directions_have_every_event_once() {
    let mut world = World::with_nodes(3);
    for _ in 0..10 {
        world.submit("all", vec![leaf("ping", "echo")]);
        for lease in world.offered() {
            world.report(lease, Outcome::Success);
        }
    }
    world.store();
    let whole = all(&world, &EventFilter::default(), 1_000);
    assert!(whole.len() >= 34, "a term, three nodes, three of each job: {}", whole.len());
    assert!(whole.windows(2).all(|pair| pair[0].id < pair[1].id));
    assert_eq!(world.reader().newest_event().unwrap(), whole.last().unwrap().id);
    for limit in [1, 7] {
        assert_eq!(all(&world, &EventFilter::default(), limit), whole, "limit {limit}");
    }
    let (mut back, mut before) = (Vec::new(), None);
    loop {
        let page = world.reader().events_before(&EventFilter::default(), before, 5).unwrap();
        back.extend(page.items);
        let Some(next) = page.next else { break };
        before = Some(next);
    }
    back.reverse();
    assert_eq!(back, whole);
}

#[test]
fn a_filter_finds_exactly_its_events() {
    let mut world = World::with_nodes(2);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    let other = world.submit("all", vec![leaf("ping", "echo")]);
    world.store();
    let kinds = |filter: &EventFilter| -> Vec<String> {
        let of = |row: EventRow| format!("{} {}", row.event.kind(), row.event.subject(row.job, row.node.as_deref()));
        all(&world, filter, 3).into_iter().map(of).collect()
    };
    let of_job = EventFilter { job: Some(job), ..EventFilter::default() };
    assert_eq!(kinds(&of_job), [format!("JobSubmitted {job}"), format!("JobStarted {job}")]);
    let started = EventFilter { kinds: vec!["JobStarted".to_owned()], ..EventFilter::default() };
    assert_eq!(kinds(&started), [format!("JobStarted {job}"), format!("JobStarted {other}")]);
    let of_node = EventFilter { node: Some("node-2".to_owned()), ..EventFilter::default() };
    assert_eq!(kinds(&of_node), ["NodeRegistered node-2"]);
    let in_namespace = EventFilter { namespace: Some("default".to_owned()), ..EventFilter::default() };
    assert_eq!(kinds(&in_namespace).len(), 4);
    let nowhere = EventFilter { namespace: Some("elsewhere".to_owned()), ..EventFilter::default() };
    assert!(kinds(&nowhere).is_empty());
}
