//! Outputs in a folder of their own, with small limits.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

use super::{KEEP_FOR, Outputs};
use crate::space::{Room, Space};

fn lease(job: u64) -> LeaseKey {
    LeaseKey { job: JobId(job), job_epoch: JobEpoch(2), step: StepIndex(3), attempt: Attempt(1) }
}

fn outputs(dir: &tempfile::TempDir) -> Arc<Outputs> {
    let mut outputs = Outputs::new(dir.path());
    outputs.cap_bytes = 100;
    outputs.total_bytes = 250;
    Arc::new(outputs)
}

#[test]
fn the_file_has_the_beginning_the_tail_has_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    outputs.set_tail_bytes(120);
    let mut sink = outputs.open(lease(1));
    assert!(!outputs.path(&lease(1)).exists(), "no byte, no file");
    for i in 0..30 {
        sink.write(format!("line {i}\n").as_bytes());
    }
    let tail = String::from_utf8(sink.tail()).unwrap();
    assert!(tail.starts_with("[grid: output before") && tail.ends_with("\nline 28\nline 29\n"), "{tail}");
    assert_eq!(tail.len(), 120);
    let whole: String = (0..30).map(|i| format!("line {i}\n")).collect();
    assert_eq!(sink.total_bytes(), whole.len() as u64);
    let kept = std::fs::read_to_string(outputs.path(&lease(1))).unwrap();
    assert!(kept.starts_with(&whole[..100]) && kept[100..].contains("was dropped"), "{kept}");
    assert_eq!(kept.matches("dropped").count(), 1);
    assert!(outputs.is_open(&lease(1)));
    drop(sink);
    assert!(!outputs.is_open(&lease(1)));
    assert_eq!(outputs.tail(&lease(1)), kept.as_bytes()[kept.len() - 120..]);
    assert_eq!(outputs.tail(&lease(9)), b"");
}

#[test]
fn a_second_run_of_a_lease_starts_its_output_anew() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    outputs.open(lease(1)).write(b"interrupted");
    let mut sink = outputs.open(lease(1));
    assert!(!outputs.path(&lease(1)).exists());
    sink.write(b"again");
    assert_eq!(outputs.tail(&lease(1)), b"again");
}

#[test]
fn old_and_surplus_outputs_are_pruned_oldest_first_but_never_an_open_one() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    let now = SystemTime::now();
    let mut sinks = Vec::new();
    for job in 1..=5 {
        let mut sink = outputs.open(lease(job));
        sink.write(&[b'x'; 90]);
        let modified = now - Duration::from_secs(100 - job);
        std::fs::File::options().write(true).open(outputs.path(&lease(job))).unwrap().set_modified(modified).unwrap();
        sinks.push(sink);
    }
    let oldest = sinks.remove(0);
    drop(sinks);
    outputs.prune(now).unwrap();
    let left: Vec<_> = (1..=5).filter(|job| outputs.path(&lease(*job)).exists()).collect();
    assert_eq!(left, [1, 5], "the total is 250, the first is still open");
    drop(oldest);
    outputs.prune(now + KEEP_FOR).unwrap();
    assert_eq!(std::fs::read_dir(dir.path().join("output")).unwrap().count(), 0);
}

#[test]
fn a_discarded_output_is_gone_and_the_folder_of_its_job_with_the_last_one() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    let another = LeaseKey { step: StepIndex(4), ..lease(1) };
    outputs.open(lease(1)).write(b"short");
    outputs.open(another).write(b"short, too");
    outputs.discard(&[lease(1), lease(9)]);
    assert!(!outputs.path(&lease(1)).exists() && outputs.path(&another).exists());
    let reading = outputs.reading(another);
    outputs.discard(&[another]);
    assert!(outputs.path(&another).exists(), "somebody still reads it");
    drop(reading);
    outputs.discard(&[another]);
    assert_eq!(std::fs::read_dir(dir.path().join("output")).unwrap().count(), 0);
    outputs.open(lease(1)).write(b"again");
    assert_eq!(outputs.tail(&lease(1)), b"again");
}

#[test]
fn no_output_is_lost_because_another_of_its_job_is_discarded() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    std::thread::scope(|scope| {
        for step in 0..4 {
            let outputs = &outputs;
            scope.spawn(move || {
                for attempt in 1..=200 {
                    let own = LeaseKey { step: StepIndex(step), attempt: Attempt(attempt), ..lease(1) };
                    outputs.open(own).write(b"said");
                    assert_eq!(outputs.tail(&own), b"said");
                    outputs.discard(&[own]);
                }
            });
        }
    });
}

#[test]
fn issue13_a_short_disk_costs_old_outputs_first_and_then_the_rest_of_the_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let mut outputs = Outputs::new(dir.path());
    // An eighth, 100 bytes, stays free: nothing more fits.
    outputs.space = Space::pretended(dir.path(), Room { total_bytes: 800, free_bytes: 105 });
    let outputs = Arc::new(outputs);
    outputs.set_tail_bytes(95);
    outputs.open(lease(1)).write(b"old");
    let mut sink = outputs.open(lease(2));
    sink.write(b"fits\n");
    assert!(!sink.is_truncated() && outputs.path(&lease(1)).exists());
    sink.write(&b"0123456789".repeat(10));
    assert!(!outputs.path(&lease(1)).exists(), "the old one went first");
    assert!(sink.is_truncated());
    let kept = std::fs::read_to_string(outputs.path(&lease(2))).unwrap();
    assert!(kept.starts_with("fits\n\n[grid: output beyond this point") && kept.contains("short of space"), "{kept}");
    let tail = String::from_utf8(sink.tail()).unwrap();
    assert!(tail.starts_with("[grid: output before this point") && tail.ends_with("789"), "{tail}");
    assert_eq!(sink.total_bytes(), 105);
    let mut short = outputs.open(lease(3));
    short.write(b"x".repeat(6).as_slice());
    assert!(!short.is_truncated(), "the last bytes are all of it");
    assert_eq!(short.tail(), b"xxxxxx");
}
