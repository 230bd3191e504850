//! `job retry`: runs on the failed nodes only, with everything that they miss, after a cancel and after a kill.

use grid_testkit::Cluster;
use grid_testkit::spec::{job, pipeline, record};

use crate::staging::{Busy, at, closed_record, open, sorted_places, two_web_nodes};

#[test]
fn a_retry_works_again_and_again_and_after_kills() {
    let mut cluster = Cluster::start(&[("web-01", ""), ("web-02", "")]);
    let api = cluster.api();
    let (lines, later) = (cluster.record("lines"), closed_record(&cluster));
    let one = api.submit(&job("node:web-02", [pipeline([record(&lines), record(&later), record(&lines)])]));
    assert_eq!(api.wait_ended(&one).status(), "failed");
    cluster.gridc().run(&["job", "retry", &one, "--wait"]).exits(1);
    open(&later);
    cluster.server.kill9();
    cluster.server.restart();
    cluster.worker("web-02").kill9();
    cluster.worker("web-02").restart();
    let ran = cluster.gridc().run(&["job", "retry", &one, "--wait", "-o", "json"]).exits(0).json();
    assert_eq!((ran["status"].as_str(), ran["job_epoch"].as_u64()), (Some("completed"), Some(3)), "{ran}");
    assert_eq!(sorted_places(&lines, &one), at(&[(0, "web-02"), (2, "web-02")]), "step 0 did not run again");
    let refused = cluster.gridc().run(&["job", "retry", &one]).exits(5);
    assert!(refused.stderr.contains("nothing to retry"), "{}", refused.stderr);
}

#[test]
fn a_retry_says_up_front_and_at_the_end_what_the_others_miss() {
    let cluster = two_web_nodes();
    let api = cluster.api();
    let (lines, closed) = (cluster.record("lines"), closed_record(&cluster));
    let busy = Busy::keep(&api, "web-02");
    let id = api.submit(&job("all", [record(&closed), record(&lines)]));
    let ended = api.wait_ended(&id);
    assert_eq!(ended.outcomes(0), ["failed", "skipped"], "fail-fast let web-02 not begin: {ended}");
    busy.release();
    open(&closed);
    let ran = cluster.gridc().run(&["job", "retry", &id, "--wait"]).exits(1);
    let up_front = format!("hint: 1 other node misses parts and is left alone: gridc job resume {id} runs those");
    assert!(ran.stderr.contains(&up_front), "{}", ran.stderr);
    assert_eq!((sorted_places(&closed, &id), sorted_places(&lines, &id)), (at(&[(0, "web-01")]), at(&[(1, "web-01")])));
    let why = cluster.gridc().run(&["job", "why", &id]).exits(0).stdout;
    assert!(why.contains(&format!("1 other node still misses parts: gridc job resume {id}")), "{why}");
    let refused = cluster.gridc().run(&["job", "retry", &id]).exits(5);
    assert!(refused.stderr.contains(&format!("gridc job resume {id}")), "{}", refused.stderr);
    cluster.gridc().run(&["job", "resume", &id, "--wait"]).exits(0);
    assert_eq!((closed.of(&id).len(), lines.of(&id).len()), (2, 2));
}
