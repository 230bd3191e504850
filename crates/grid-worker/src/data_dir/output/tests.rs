//! Outputs in a folder of their own, with small limits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

use super::{KEEP_FOR, OutputEnd, Outputs, Sink, files};
use crate::machine::space::{Room, Space};

fn lease(job: u64) -> LeaseKey {
    LeaseKey { job: JobId(job), job_epoch: JobEpoch(2), step: StepIndex(3), attempt: Attempt(1) }
}

fn outputs(dir: &tempfile::TempDir) -> Arc<Outputs> {
    let mut outputs = Outputs::new(dir.path());
    outputs.cap_bytes = 100;
    outputs.total_bytes = 250;
    Arc::new(outputs)
}

const STARTED_AT_MS: u64 = 1_790_000_000_000;

impl Outputs {
    fn begin(self: &Arc<Self>, lease: LeaseKey) -> Sink {
        self.open(lease, STARTED_AT_MS)
    }

    fn path(&self, lease: &LeaseKey) -> PathBuf {
        files::path(&self.dir, lease, files::run_of(STARTED_AT_MS))
    }

    fn is_open(&self, lease: &LeaseKey) -> bool {
        self.live(lease).is_some_and(|live| live.is_open())
    }

    fn in_memory(&self, lease: &LeaseKey) -> Option<Vec<u8>> {
        Some(self.live(lease)?.whole()?.into_inner())
    }
}

#[test]
fn the_file_has_the_beginning_the_tail_has_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    outputs.set_tail_bytes(120);
    let sink = outputs.begin(lease(1));
    for i in 0..30 {
        sink.write(format!("line {i}\n").as_bytes());
        assert_eq!(outputs.path(&lease(1)).exists(), sink.end().total_bytes > 100, "no file while it is short");
    }
    let tail = String::from_utf8(sink.end().tail).unwrap();
    assert!(tail.starts_with("[grid: output before") && tail.ends_with("\nline 28\nline 29\n"), "{tail}");
    assert_eq!(tail.len(), 120);
    let whole: String = (0..30).map(|i| format!("line {i}\n")).collect();
    assert_eq!(sink.end().total_bytes, whole.len() as u64);
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
fn issue15_2_a_short_output_stays_in_memory_until_the_leader_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    outputs.set_tail_bytes(50);
    outputs.begin(lease(1)).write(b"short");
    outputs.begin(lease(2)).write(b"short, too");
    drop(outputs.begin(lease(3)));
    assert_eq!(outputs.in_memory(&lease(1)).unwrap(), b"short");
    assert_eq!(outputs.in_memory(&lease(3)), None, "it said nothing");
    assert_eq!(outputs.discard(&[lease(1)]), [], "there is no file to be removed");
    assert_eq!(outputs.in_memory(&lease(1)), None);
    assert!(!dir.path().join("output").exists());
    outputs.keep(&lease(2));
    assert_eq!((outputs.in_memory(&lease(2)), outputs.tail(&lease(2))), (None, b"short, too".to_vec()));
    assert_eq!(outputs.discard(&[lease(2)]), [lease(2)]);
}

#[test]
fn an_output_that_grows_or_is_kept_moves_into_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    outputs.set_tail_bytes(10);
    let grown = outputs.begin(lease(1));
    grown.write(b"0123456789");
    assert!(!outputs.path(&lease(1)).exists());
    grown.write(b"abc");
    assert_eq!(std::fs::read(outputs.path(&lease(1))).unwrap(), b"0123456789abc");
    assert_eq!(grown.end().tail, b"3456789abc");
    let kept = outputs.begin(lease(2));
    kept.keep_in_file();
    assert!(!outputs.path(&lease(2)).exists(), "nothing was said");
    kept.write(b"one");
    kept.keep_in_file();
    kept.write(b"two");
    assert_eq!(std::fs::read(outputs.path(&lease(2))).unwrap(), b"onetwo");
    assert_eq!(kept.end().tail, b"onetwo");
}

#[test]
fn the_output_of_an_earlier_process_comes_from_the_journal_unless_a_file_has_it() {
    let dir = tempfile::tempdir().unwrap();
    outputs(&dir).begin(lease(1)).write(&[b'x'; 90]);
    let earlier = outputs(&dir).begin(lease(2));
    earlier.write(b"in a file");
    earlier.keep_in_file();
    drop(earlier);
    let outputs = outputs(&dir);
    for job in 1..=2 {
        outputs.restore(lease(job), STARTED_AT_MS, b"journalled".to_vec());
    }
    assert_eq!(outputs.in_memory(&lease(1)).unwrap(), b"journalled");
    assert_eq!((outputs.in_memory(&lease(2)), outputs.tail(&lease(2))), (None, b"in a file".to_vec()));
}

#[test]
fn files_of_older_workers_are_found_and_removed() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    let job = dir.path().join("output").join(JobId(1).to_string());
    std::fs::create_dir_all(&job).unwrap();
    for name in ["3-1-e2", "3-10-e2", "3-1-e20", "3-1-e2.old"] {
        std::fs::write(job.join(name), name).unwrap();
    }
    assert_eq!(outputs.tail(&lease(1)), b"3-1-e2");
    drop(outputs.begin(lease(1)));
    let mut left: Vec<_> = std::fs::read_dir(job).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["3-1-e2.old", "3-1-e20", "3-10-e2"]);
}

#[test]
fn a_second_run_of_a_lease_starts_its_output_anew() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    outputs.set_tail_bytes(4);
    outputs.open(lease(1), 1).write(b"interrupted");
    let sink = outputs.begin(lease(1));
    assert_eq!(outputs.tail(&lease(1)), b"");
    sink.write(b"again");
    assert_eq!(std::fs::read(outputs.path(&lease(1))).unwrap(), b"again");
}

#[test]
fn old_and_surplus_outputs_are_pruned_oldest_first_but_never_an_open_one() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    let now = SystemTime::now();
    let mut sinks = Vec::new();
    for job in 1..=5 {
        let sink = outputs.begin(lease(job));
        sink.write(&[b'x'; 90]);
        sink.keep_in_file();
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

/// With a file, however short it is.
fn write(outputs: &Arc<Outputs>, lease: LeaseKey, bytes: &[u8]) {
    let sink = outputs.begin(lease);
    sink.write(bytes);
    sink.keep_in_file();
}

fn remove(outputs: &Outputs, leases: &[LeaseKey]) {
    outputs.remove_files(&outputs.discard(leases));
}

#[test]
fn a_discarded_output_is_gone_and_the_folder_of_its_job_with_the_last_one() {
    let dir = tempfile::tempdir().unwrap();
    let outputs = outputs(&dir);
    let another = LeaseKey { step: StepIndex(4), ..lease(1) };
    write(&outputs, lease(1), b"short");
    write(&outputs, another, b"short, too");
    remove(&outputs, &[lease(1), lease(9)]);
    assert!(!outputs.path(&lease(1)).exists() && outputs.path(&another).exists());
    let reading = outputs.reading(another);
    remove(&outputs, &[another]);
    assert!(outputs.path(&another).exists(), "somebody still reads it");
    drop(reading);
    remove(&outputs, &[another]);
    assert_eq!(std::fs::read_dir(dir.path().join("output")).unwrap().count(), 0);
    write(&outputs, lease(1), b"again");
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
                    write(outputs, own, b"said");
                    assert_eq!(outputs.tail(&own), b"said");
                    remove(outputs, &[own]);
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
    write(&outputs, lease(1), b"old");
    let sink = outputs.begin(lease(2));
    sink.write(b"fits\n");
    sink.keep_in_file();
    assert!(!sink.end().truncated && outputs.path(&lease(1)).exists());
    sink.write(&b"0123456789".repeat(10));
    assert!(!outputs.path(&lease(1)).exists(), "the old one went first");
    let OutputEnd { truncated, tail, total_bytes } = sink.end();
    assert!(truncated);
    let kept = std::fs::read_to_string(outputs.path(&lease(2))).unwrap();
    assert!(kept.starts_with("fits\n\n[grid: output beyond this point") && kept.contains("short of space"), "{kept}");
    let tail = String::from_utf8(tail).unwrap();
    assert!(tail.starts_with("[grid: output before this point") && tail.ends_with("789"), "{tail}");
    assert_eq!(total_bytes, 105);
    let short = outputs.begin(lease(3));
    short.write(b"x".repeat(6).as_slice());
    short.keep_in_file();
    assert!(!short.end().truncated, "the last bytes are all of it");
    assert_eq!(short.end().tail, b"xxxxxx");
    assert_eq!(outputs.in_memory(&lease(3)).unwrap(), b"xxxxxx", "and can still be read");
}
