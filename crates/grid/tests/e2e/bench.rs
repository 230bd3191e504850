//! `grid bench` on the real binaries. Checks counts only: times would make the test flaky.

use grid_testkit::{command, nats_server};
use serde_json::{Value, json};

#[test]
fn a_smoke_run_over_200_workers_accounts_for_every_result() {
    let line = "bench fanout --workers 200 --rounds 2 --jobs 2 --json";
    let out = command("grid").args(line.split(' ')).output().expect("grid runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    // The benchmark fails by itself unless the sessions ran and committed exactly the submitted steps.
    assert!(out.status.success(), "{stderr}");
    let rows: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let cases: Vec<_> = rows.iter().map(|row| (row["bench"].as_str(), row["case"].as_str())).collect();
    let wanted =
        ["barrier", "pipeline", "document", "once barrier", "once pipeline"].map(|case| (Some("fanout"), Some(case)));
    assert_eq!(cases, wanted, "{stdout}");
    for row in &rows {
        assert_eq!((row["workers"].as_u64(), row["controllers"].as_u64()), (Some(200), Some(1)), "{row}");
        assert_eq!(row["fabric"], "grpc", "{row}");
    }
    for row in [&rows[0], &rows[1], &rows[3], &rows[4]] {
        for field in ["results_per_s", "results_per_cpu_s", "rss_kib_per_session"] {
            assert!(row[field].is_number(), "{field} is missing in {row}");
        }
    }
    for field in ["p50_ms", "p99_ms", "baseline_p50_ms", "ratio"] {
        assert!(rows[0][field].is_number(), "{field} is missing in {}", rows[0]);
    }
    for row in [&rows[1], &rows[4]] {
        assert_eq!(row["results"], 200 * 50 * 2, "{row}");
    }
}

#[test]
fn issue15_2_the_steps_of_a_real_worker_are_measured() {
    let line = "bench worker --rounds 1 --steps 20 --json";
    let out = command("grid").args(line.split(' ')).output().expect("grid runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stderr}");
    let rows: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect(line)).collect();
    let cases: Vec<_> = rows.iter().map(|row| (row["case"].as_str().unwrap_or_default(), &row["results"])).collect();
    let (in_process, processes) = (Value::from(16 * 20), Value::from(16));
    let wanted = [
        ("start to registered, then idle", &Value::Null),
        ("in-process steps", &in_process),
        ("steps with a process", &processes),
    ];
    assert_eq!(cases, wanted, "{stdout}");
    assert!(rows[1..].iter().all(|row| row["cpu_s"].is_number()), "{stdout}");
}

#[test]
fn fanout_over_nats_stands_beside_bare_nats_and_durable_consumers() {
    let line = "bench fanout --fabric nats --workers 20 --durable 5 --per-connection 10 --rounds 2 --jobs 1 --effects pure --json";
    let mut bench = command("grid");
    bench.args(line.split(' ')).env("GRID_TEST_NATS_SERVER", nats_server());
    let out = bench.output().expect("grid runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    assert!(out.status.success(), "{stderr}");
    let rows: Vec<Value> = stdout.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let cases: Vec<_> = rows.iter().map(|row| row["case"].as_str().unwrap_or_default()).collect();
    assert_eq!(cases, ["barrier", "barrier, durable consumers", "pipeline", "document"], "{stdout}");
    for row in &rows[..2] {
        assert_eq!((&row["fabric"], &row["per_connection"]), (&json!("nats"), &json!(10)), "{row}");
        assert!(row["ratio"].as_f64() > Some(0.0) && row["baseline_p50_ms"].as_f64() > Some(0.0), "{row}");
    }
    assert_eq!(rows[1]["baseline_workers"], 5, "{stdout}");
    assert!(rows[0]["consumers"].as_u64() <= Some(1) && rows[0]["broker_cpu_s"].is_number(), "{stdout}");
}

#[test]
fn peers_that_are_not_installed_are_named_with_the_way_to_install_them() {
    let out = command("grid").args(["bench", "peers"]).env("PATH", "").output().expect("grid runs");
    let stderr = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{stderr}");
    for package in ["pip install ansible-core", "pip install salt"] {
        assert!(stderr.contains(package), "{stderr}");
    }
}
