//! The live `--wait` view in a real terminal, with a job over 500 nodes.
//!
//! The content of a frame is tested as text beside the renderer (`gridc`, `live/frame`). These tests check that a terminal
//! shows exactly one frame at a time, at 80×24 and wide, through resizes, and is usable afterwards.

use grid_testkit::spec::{echo, fail, job, pipeline, sleep, task, with};
use grid_testkit::{Dev, LIMIT, Terminal, bin, ensure, wait_until};
use serde_json::{Value, json};

const NODES: usize = 500;

/// Fails on about one in ten nodes, then waits: forty at a time sleep longer than any test.
fn rollout() -> Value {
    let flaky = with(task("test", "flaky", &json!({"rate": 10})), json!({"concurrency": 100}));
    let stays = with(pipeline([sleep("250s"), echo()]), json!({"concurrency": 40}));
    with(job("all", [echo(), flaky, stays]), json!({"strategy": "continue"}))
}

fn seen(terminal: &Terminal, what: &str, probe: impl Fn(&str) -> bool) -> Vec<String> {
    wait_until(what, 3 * LIMIT, || {
        let screen = terminal.screen();
        ensure(probe(&screen.join("\n")), format!("\n{}", screen.join("\n"))).map(|()| screen)
    })
}

/// Every line is a whole line of a frame, and none is there twice.
fn assert_one_frame(screen: &[String], columns: usize) {
    let text = screen.join("\n");
    let heads = screen.iter().filter(|line| line.contains(" running on 500 nodes (all), phase ")).count();
    assert_eq!(heads, 1, "{text}");
    for name in
        ["  all steps ", "  step 0 ping/echo ", "  step 1 test/flaky ", "  step 2 test/sleep ", "  step 3 ping/echo "]
    {
        assert_eq!(screen.iter().filter(|line| line.starts_with(name)).count(), 1, "{name}: {text}");
    }
    let known = ["job-", "  all steps", "  step ", "  node-", "  web-", "  db-", "running longest: "];
    for line in screen {
        let failures = line.contains(" failed, among them") || line.ends_with(" failed:");
        let known = failures || known.iter().any(|begin| line.starts_with(begin)) || line.starts_with("Ctrl-C stops");
        assert!(known, "{line:?} in\n{text}");
    }
    let head = screen.iter().find(|line| line.contains(" running on 500 nodes")).map_or(0, |line| line.chars().count());
    assert!(head < columns && head > columns - 3, "the clock is at the right edge ({head}): {text}");
}

/// The parts of a frame that no longer change: head without its clock, bars, number of failures.
fn settled(screen: &[String]) -> Vec<String> {
    let lines = screen.iter().filter(|line| {
        line.contains(" running on ")
            || line.starts_with("  all steps")
            || line.starts_with("  step ")
            || line.contains(" failed, among")
    });
    lines
        .map(|line| {
            line.rsplit_once("  ")
                .filter(|_| line.contains(" running on "))
                .map_or(line.as_str(), |(head, _)| head.trim_end())
                .to_owned()
        })
        .collect()
}

#[test]
fn a_job_over_500_nodes_stays_readable_narrow_wide_and_after_it_is_left() {
    let Some(terminal) = Terminal::start(80, 24, &[]) else { return };
    let dev = Dev::start(NODES);
    let file = dev.dir().join("rollout.json");
    std::fs::write(&file, rollout().to_string()).expect("written");
    let gridc = format!("{} --server {}", bin("gridc").display(), dev.url());
    terminal.enter(&format!("clear; {gridc} job run -f {} --wait; echo \"code $?\"", file.display()));

    let narrow = seen(&terminal, "the last phase, narrow", |text| {
        text.contains("phase 3 of 3") && text.contains("40 running") && text.contains("running longest: ")
    });
    assert_one_frame(&narrow, 80);
    assert!(narrow.iter().any(|line| line.contains("test/flaky: failed: failed by chance")), "{narrow:#?}");

    terminal.resize(200, 50);
    let wide = seen(&terminal, "a wide frame", |text| text.lines().any(|line| line.chars().count() > 190));
    assert_one_frame(&wide, 200);
    assert!(wide.iter().any(|line| line.contains("40 running, ")), "there is room for every count: {wide:#?}");

    terminal.key("C-c");
    let left = seen(&terminal, "the prompt", |text| text.contains("code 130"));
    let text = left.join("\n");
    let id =
        wide.iter().find_map(|line| line.split(' ').find(|word| word.starts_with("job-"))).expect("an id").to_owned();
    assert!(text.contains(&format!("error: interrupted; {id} goes on")), "{text}");
    assert!(text.contains(&format!("gridc job cancel {id}")), "{text}");
    assert!(!text.contains("^C") && !text.contains("Ctrl-C"), "{text}");
    assert_eq!(dev.api().job(&id).status(), "running", "the job was left alone");
    assert!(text.contains(&format!("gridc job watch {id}")), "{text}");

    // A new watcher sees the last state.
    for (columns, rows, before) in [(200, 50, &wide), (80, 24, &narrow)] {
        terminal.resize(columns, rows);
        terminal.enter(&format!("clear; {gridc} job watch {id}; echo \"code $?\""));
        let again = seen(&terminal, "the frame again", |text| text.contains("running longest: "));
        assert_one_frame(&again, usize::try_from(columns).expect("small"));
        assert_eq!(settled(&again), settled(before));
        terminal.key("C-c");
        seen(&terminal, "the prompt again", |text| text.contains("code 130"));
    }
    terminal.enter("clear; stty -a");
    let sane = seen(&terminal, "the modes of the terminal", |text| text.contains("icanon")).join(" ");
    for mode in [" echo ", " icanon ", " isig ", " opost "] {
        assert!(sane.replace(';', " ").contains(mode), "{mode}: {sane}");
    }
    dev.api().cancel(&id);
}

#[test]
fn the_end_names_who_failed_and_how_to_resume() {
    let Some(terminal) = Terminal::start(80, 24, &[]) else { return };
    let dev = Dev::start(30);
    let file = dev.dir().join("fails.json");
    let fails = with(job("all", [echo(), fail("disk full")]), json!({"failure_tolerate": 29}));
    std::fs::write(&file, fails.to_string()).expect("written");
    let gridc = format!("{} --server {}", bin("gridc").display(), dev.url());
    terminal.enter(&format!("clear; {gridc} job run -f {} --wait; echo \"code $?\"", file.display()));
    let screen = seen(&terminal, "the end", |text| text.contains("code 1"));
    let text = screen.join("\n");
    let id = screen.iter().find_map(|line| line.strip_suffix(" submitted")).expect("an id");
    assert!(text.contains("  step 1 test/fail failed on 30 nodes: disk full\n    db-01, node-04, "), "{text}");
    assert!(text.contains(" more\nhint: gridc job status"), "{text}");
    assert!(text.contains(&format!("hint: gridc job resume {id} runs what is missing\n{id} failed\ncode 1")), "{text}");
    assert!(screen.iter().all(|line| line.chars().count() < 80), "nothing is folded: {text}");
}
