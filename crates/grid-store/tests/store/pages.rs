//! Pages are complete, in order, and no longer than asked for.

use grid_store::ResultFilter;
use grid_types::job::Strategy;
use grid_types::{JobId, JobStatus, NodeId, Outcome};

use crate::world::{World, leaf, named};

#[test]
fn results_are_paged_by_step_and_name_completely() {
    let mut world = World::with_nodes(25);
    world.strategy = Strategy::Continue;
    let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo"), leaf("ping", "echo")]);
    for (i, lease) in world.offered().into_iter().enumerate() {
        world.report(lease, if i % 5 == 0 { Outcome::Failed } else { Outcome::Success });
    }
    world.store();
    let whole = world.all_rows(job, 1_000, None, None);
    let places: Vec<_> = whole.iter().map(|row| (row.step, row.node.clone())).collect();
    let mut ordered = places.clone();
    ordered.sort();
    ordered.dedup();
    assert_eq!((places.len(), &places), (75, &ordered));
    assert_eq!(places[1].1, "node-10", "by name, not by number");
    for limit in [1, 7, 25, 26, 74, 75] {
        assert_eq!(world.all_rows(job, limit, None, None), whole, "limit {limit}");
    }
    for status in Outcome::ALL {
        let wanted: Vec<_> = whole.iter().filter(|row| row.result.status == status).cloned().collect();
        for limit in [1, 4, 100] {
            assert_eq!(world.all_rows(job, limit, None, Some(status)), wanted, "{status} limit {limit}");
            let of_step: Vec<_> = wanted.iter().filter(|row| row.step == 1).cloned().collect();
            assert_eq!(world.all_rows(job, limit, Some(1), Some(status)), of_step, "{status} of step 1");
        }
    }
    assert_eq!(whole.iter().filter(|row| row.result.status == Outcome::Skipped).count(), 5, "the excluded ones");
    assert_eq!(world.all_rows(job, 10, Some(3), None), [], "a step it does not have");
    let beyond = world
        .reader()
        .results(&named("default", job), 10, Some((2, "zzz".to_owned())), ResultFilter::default())
        .unwrap()
        .unwrap();
    assert_eq!((beyond.items.len(), beyond.next), (0, None));
}

#[test]
fn a_few_nodes_of_a_large_fleet_are_paged_like_many() {
    let mut world = World::with_nodes(100);
    let job = world.submit("node:node-7", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    world.store();
    let rows: Vec<_> = world.all_rows(job, 1, None, None).into_iter().map(|row| (row.step, row.node)).collect();
    assert_eq!(rows, [(0, "node-7".to_owned()), (1, "node-7".to_owned())]);
    assert_eq!(world.job(job).expected.unwrap(), ["node-7"]);
}

#[test]
fn results_are_inline_up_to_a_thousand_rows() {
    let mut world = World::with_nodes(501);
    let one = world.submit("all", vec![leaf("ping", "echo")]);
    let two = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    world.store();
    let inline = world.job(one).results.unwrap();
    assert_eq!(inline.len(), 501);
    let summary = world.job(two);
    assert_eq!((summary.results.as_ref(), summary.count(Outcome::Running)), (None, 501));
    assert_eq!(summary.expected.unwrap().len(), 501);
    assert_eq!(world.all_rows(two, 1_000, None, None).len(), 1_002);
}

#[test]
fn a_list_repeats_no_thousand_names_for_each_job() {
    let mut world = World::with_nodes(1_001);
    let all = world.submit("all", vec![leaf("ping", "echo")]);
    let one = world.submit("node:node-7", vec![leaf("ping", "echo")]);
    world.store();
    let list = world.reader().jobs(&"default".parse().unwrap(), 10, &grid_store::JobFilter::default()).unwrap().items;
    let names: Vec<_> = list.iter().map(|row| (row.id, row.expected.clone(), row.expected_count)).collect();
    let seven = Some(vec!["node-7".to_owned()]);
    assert_eq!(names, [(one, seven, 1), (all, None, 1_001)]);
    assert_eq!(world.job(all).expected.unwrap().len(), 1_001, "the job itself has them");
}

#[test]
fn jobs_are_listed_newest_first_without_results() {
    let mut world = World::with_nodes(1);
    let mut ids: Vec<JobId> = Vec::new();
    for _ in 0..5 {
        ids.push(world.submit("all", vec![leaf("ping", "echo")]));
        for lease in world.offered() {
            world.report(lease, Outcome::Success);
        }
    }
    world.namespace = "team";
    world.submit("all", vec![leaf("ping", "echo")]);
    world.namespace = "default";
    ids.push(world.submit("all", vec![leaf("ping", "echo")]));
    world.store();
    ids.reverse();
    let reader = world.reader();
    for limit in [1, 2, 5, 6, 7] {
        let (mut seen, mut before) = (Vec::new(), None);
        loop {
            let page = reader
                .jobs(&"default".parse().unwrap(), limit, &grid_store::JobFilter { before, ..Default::default() })
                .unwrap();
            assert!(page.items.len() <= limit as usize && page.items.iter().all(|row| row.results.is_none()));
            seen.extend(page.items.into_iter().map(|row| row.id));
            let Some(next) = page.next else { break };
            before = Some(next);
        }
        assert_eq!(seen, ids, "limit {limit}");
    }
    let of = |status| {
        reader
            .jobs(&"default".parse().unwrap(), 3, &grid_store::JobFilter { status: Some(status), ..Default::default() })
            .unwrap()
    };
    assert_eq!(of(JobStatus::Running).items.len(), 1);
    let completed = of(JobStatus::Completed);
    assert_eq!((completed.items.len(), completed.next), (3, Some(ids[3])));
    assert_eq!(of(JobStatus::Failed).items, []);
    let among = |wanted: &[usize], limit| {
        let among = Some(wanted.iter().map(|n| ids[*n]).collect());
        let page = reader
            .jobs(&"default".parse().unwrap(), limit, &grid_store::JobFilter { among, ..Default::default() })
            .unwrap();
        (page.items.into_iter().map(|row| row.id).collect::<Vec<_>>(), page.next)
    };
    assert_eq!(among(&[4, 1], 9), (vec![ids[1], ids[4]], None), "newest first");
    assert_eq!(among(&[4, 1], 1), (vec![ids[1]], Some(ids[1])));
    assert_eq!(among(&[], 9), (Vec::new(), None));
}

#[test]
fn nodes_are_listed_by_name() {
    let world = World::with_nodes(12);
    let (mut seen, mut after): (Vec<String>, Option<NodeId>) = (Vec::new(), None);
    loop {
        let page = world.reader().nodes(5, after.as_ref(), None).unwrap();
        seen.extend(page.items.into_iter().map(|row| row.id.to_string()));
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    let mut names: Vec<_> = (1..=12).map(|i| format!("node-{i}")).collect();
    names.sort();
    assert_eq!(seen, names);
}
