//! Outputs: equal ones are stored once, and shown by content.

use grid_store::LogFilter;
use grid_types::{Attempt, Outcome, StepIndex};
use rusqlite::Connection;

use crate::world::{World, leaf, named, retrying};

fn stored_outputs(world: &World) -> u32 {
    let conn = Connection::open(world.path()).unwrap();
    conn.query_one("SELECT count(*) FROM outputs", [], |row| row.get(0)).unwrap()
}

#[test]
fn equal_outputs_of_a_job_are_stored_once_also_across_a_restart() {
    let mut world = World::with_nodes(6);
    world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    for round in 0..2 {
        for (i, lease) in world.offered().into_iter().enumerate() {
            world.report_with(lease, Outcome::Success, [&b"one"[..], b"two", b""][i % 3]);
        }
        world.store();
        assert_eq!(stored_outputs(&world), 2, "round {round}");
        let path = world.path();
        // The old writer closes only when the new one is open: that is allowed as long as it does not write.
        (world.store, _) = grid_store::Store::open(&path).unwrap();
    }
}

#[test]
fn outputs_of_a_step_are_grouped_largest_first() {
    let mut world = World::with_nodes(7);
    let job = world.submit("all", vec![leaf("ping", "echo")]);
    let outputs: [&[u8]; 7] = [b"b", b"a\xff", b"b", b"", b"b", b"a\xff", b"c"];
    for (lease, output) in world.offered().into_iter().zip(outputs) {
        world.report_with(lease, Outcome::Success, output);
    }
    world.store();
    let groups = world.reader().outputs(&named("default", job), StepIndex(0)).unwrap().unwrap();
    let shown: Vec<_> = groups.iter().map(|g| (g.tail.as_slice(), g.nodes.join(" "), g.total_bytes)).collect();
    let expected: [(&[u8], String, u64); 4] = [
        (b"b", "node-1 node-3 node-5".to_owned(), 1),
        (b"a\xff", "node-2 node-6".to_owned(), 2),
        (b"", "node-4".to_owned(), 0),
        (b"c", "node-7".to_owned(), 1),
    ];
    assert_eq!(shown, expected);
    assert_eq!(world.reader().outputs(&named("default", job), StepIndex(1)).unwrap().unwrap(), []);
}

#[test]
fn the_newest_attempts_output_counts() {
    let mut world = World::with_nodes(1);
    let job = world.submit("all", vec![retrying(1)]);
    let output = |world: &World| world.output(job, "node-1");
    world.store();
    assert_eq!(output(&world), None, "no result yet");
    let first = world.offered()[0];
    world.report_with(first, Outcome::Failed, b"first");
    world.advance_ms(5_000);
    world.store();
    let found = output(&world).unwrap();
    assert_eq!((found.tail.as_slice(), found.total_bytes, found.lease), (&b"first"[..], 5, first.1));
    let second = world.offered()[0];
    world.report_with(second, Outcome::Success, b"");
    world.store();
    let found = output(&world).unwrap();
    assert_eq!((found.tail.as_slice(), found.total_bytes, found.lease.attempt.0), (&b""[..], 0, 2));
    let groups = world.reader().outputs(&named("default", job), StepIndex(0)).unwrap().unwrap();
    assert_eq!((groups.len(), groups[0].tail.as_slice()), (1, &b""[..]));
    assert_eq!(world.output(job, "nobody"), None);
    let first_again = LogFilter { attempt: Some(Attempt(1)), ..LogFilter::default() };
    let (rows, _) = world.reader().log_page(&named("default", job), &first_again, None, 10).unwrap().unwrap();
    assert_eq!(world.reader().stored_output(&rows[0].lease, rows[0].node).unwrap().unwrap().tail, b"first");
}

#[test]
fn outputs_of_a_job_are_paged_by_step_and_name_and_new_ones_come_after() {
    let mut world = World::with_nodes(12);
    let job = world.submit("all", vec![leaf("ping", "echo"), leaf("ping", "echo")]);
    let all = |world: &World, most| {
        let (mut found, mut after) = (Vec::new(), None);
        loop {
            let page = world.reader().log_page(&named("default", job), &LogFilter::default(), after, most).unwrap();
            let (rows, next) = page.unwrap();
            found.extend(rows.into_iter().map(|row| (row.lease.step.0, row.name)));
            after = next;
            if after.is_none() {
                return found;
            }
        }
    };
    let newest = world.reader().newest_result().unwrap();
    for lease in world.offered() {
        world.report_with(lease, Outcome::Success, b"x");
    }
    world.store();
    let whole = all(&world, 1_000);
    let names: Vec<_> = whole.iter().map(|(_, name)| name.as_str()).collect();
    assert_eq!((whole.len(), names[..3].to_vec()), (12, vec!["node-1", "node-10", "node-11"]));
    for most in [1, 5, 12, 13] {
        assert_eq!(all(&world, most), whole, "{most}");
    }
    let (new, reached) = world.reader().logs_since(job, newest, 5).unwrap();
    let (rest, end) = world.reader().logs_since(job, reached, 100).unwrap();
    assert_eq!((new.len(), rest.len(), world.reader().newest_result().unwrap()), (5, 7, end));
    assert!(world.reader().log_page(&named("elsewhere", job), &LogFilter::default(), None, 5).unwrap().is_none());
}
