//! Outputs: the controller stores the end of each; the whole output stays on its worker and is read over the fabric.

use grid_testkit::Cluster;
use grid_testkit::spec::{job, task};
use serde_json::json;

#[test]
fn the_whole_output_comes_from_the_worker_and_its_end_when_the_worker_is_gone() {
    let mut cluster = Cluster::start(&[("web-01", "")]);
    let api = cluster.api();
    let id = api.submit(&job("all", [task("test", "output", &json!({"lines": 5000, "width": 99}))]));
    assert_eq!(api.wait_ended(&id).status(), "completed");
    let path = format!("/job/{id}/output/0/web-01");
    let whole = api.get(&path);
    assert_eq!((whole.status, whole.header("x-grid-output-total")), (200, Some("500000")));
    assert_eq!(whole.text.len(), 500_000);
    cluster.worker("web-01").terminate();
    let end = api.get(&path);
    assert_eq!((end.status, end.header("x-grid-output-total")), (200, Some("500000")));
    assert_eq!(end.text.len(), 16 * 1024, "the last 16 KiB are in the controller's hands");
    assert!(whole.text.ends_with(&end.text));
}
