use super::parse_job;
use super::phase::resolved_timeout_ms;
use crate::job::Target;
use serde_json::{Value, json};

fn fields(document: &Value) -> Vec<String> {
    parse_job(document).unwrap_err().list().iter().map(|f| f.field.clone()).collect()
}

#[test]
fn tasks_of_the_wrong_kind_are_not_called_missing() {
    let told = |body: Value| parse_job(&body).unwrap_err().list()[0].problem.clone();
    assert!(told(json!({"target": "all"})).starts_with("is required"));
    assert!(told(json!({"target": "all", "tasks": null})).starts_with("is required"));
    assert!(told(json!({"target": "all", "tasks": "ping"})).starts_with("must be a list"));
}

#[test]
fn the_job_of_the_seed_is_read() {
    let job = parse_job(&json!({
        "target": {"scope": "group", "value": "web"},
        "tasks": [
            {"tasks": [
                {"backend": "ping", "action": "echo"},
                {"backend": "test", "action": "succeed", "timeout": "3s", "max_retries": 2, "condition": "on_success"},
            ]},
            {"backend": "test", "action": "record", "params": {"path": "/tmp/x"}},
        ],
    }))
    .unwrap();
    assert_eq!(job.target, Target::Group("web".parse().unwrap()));
    assert_eq!(job.step_count(), 3);
    let steps: Vec<_> = job.steps().map(|(phase, t)| (phase, t.action.as_str(), t.timeout_ms)).collect();
    assert_eq!(steps, [(0, "echo", 300_000), (0, "succeed", 3_000), (1, "record", 300_000)]);
    assert_eq!(job.first_step(1).0, 2);
}

#[test]
fn j7_a_tasks_timeout_beats_the_declared_one_which_beats_5_minutes() {
    let timeout = |task: Value| {
        let job = parse_job(&json!({"target": "all", "tasks": [task]})).unwrap();
        job.steps().next().unwrap().1.timeout_ms
    };
    assert_eq!(timeout(json!({"backend": "ping", "action": "echo", "timeout": "7s"})), 7_000);
    assert_eq!(timeout(json!({"backend": "ping", "action": "echo"})), 300_000);
    assert_eq!(resolved_timeout_ms(None, Some(crate::Span::from_ms(9_000))), 9_000);
    let both = resolved_timeout_ms(Some(crate::Span::from_ms(1)), Some(crate::Span::from_ms(9_000)));
    assert_eq!(both, 1);
}

#[test]
fn a_task_chooses_its_effect_only_where_the_action_leaves_it_to_the_caller() {
    let effect = |mut task: Value, effect: Value| {
        task["effect"] = effect;
        let job = parse_job(&json!({"target": "all", "tasks": [task]}));
        job.map(|job| job.steps().next().unwrap().1.effect.word()).map_err(|faults| faults.to_string())
    };
    let command = || json!({"backend": "command", "action": "run", "params": {"program": "x"}});
    for (given, want) in
        [(json!(null), "once"), (json!("once"), "once"), (json!("pure"), "pure"), (json!("idempotent"), "idempotent")]
    {
        assert_eq!(effect(command(), given).as_deref(), Ok(want));
    }
    let fault = effect(command(), json!("twice")).unwrap_err();
    assert_eq!(fault, "tasks[0].effect: must be pure, idempotent or once");
    let echo = || json!({"backend": "ping", "action": "echo"});
    assert_eq!(effect(echo(), json!("pure")).as_deref(), Ok("pure"));
    let fault = effect(echo(), json!("once")).unwrap_err();
    assert_eq!(fault, "tasks[0].effect: echo is always pure: this action does not let a task choose");
}

#[test]
fn every_fault_is_named_at_once() {
    let got = fields(&json!({
        "target": {"scope": "everyone", "why": 1},
        "strategy": "hope",
        "timeout": "-1s",
        "extra": true,
        "tasks": [
            {"backend": "ping", "action": "pong"},
            {"backend": "nope", "action": "x", "max_retries": -1},
            {"backend": "ping", "action": "echo", "tasks": []},
            {"tasks": [{"tasks": []}, {"backend": "ping", "action": "sleep", "condition": "maybe"}]},
            7,
            {"backend": "ping", "action": "echo", "concurrency": 0, "confirm": "yes"},
            {"tasks": [{"backend": "ping", "action": "echo", "confirm": true}]},
        ],
        "failure_tolerate": 0.1,
        "offline": "later",
        "on_unknown": 3,
    }));
    assert_eq!(
        got,
        [
            "extra",
            "target.why",
            "target",
            "strategy",
            "timeout",
            "tasks[0].action",
            "tasks[1].backend",
            "tasks[1].max_retries",
            "tasks[2].backend",
            "tasks[2].action",
            "tasks[2].tasks",
            "tasks[3].tasks[0].tasks",
            "tasks[3].tasks[1].params.duration",
            "tasks[3].tasks[1].condition",
            "tasks[4]",
            "tasks[5].concurrency",
            "tasks[5].confirm",
            "tasks[6].tasks[0].confirm",
            "failure_tolerate",
            "offline",
            "on_unknown",
        ]
    );
}

#[test]
fn what_is_too_long_is_told_once() {
    let pipeline = json!({"tasks": vec![json!(7); 600]});
    assert_eq!(fields(&json!({"target": "all", "tasks": [pipeline, pipeline]})), ["tasks"]);
    assert_eq!(fields(&json!({"target": "all", "tasks": vec![json!({"tasks": []}); 1_001]})), ["tasks"]);
}

#[test]
fn a_label_selector_is_bounded_like_labels_are() {
    let many: Vec<_> = (0..65).map(|i| format!("k{i}=v")).collect();
    assert!(format!("labels:{}", many[1..].join(",")).parse::<Target>().is_ok());
    let long_key = format!("labels:{}=v", "k".repeat(64));
    let long_value = format!("labels:k={}", "v".repeat(256));
    for bad in [format!("labels:{}", many.join(",")), long_key, long_value, "labels:a\0=b".to_owned()] {
        assert!(bad.parse::<Target>().is_err(), "{bad}");
    }
}

#[test]
fn an_unknown_scope_never_means_all() {
    for bad in [
        "everything",
        "",
        "al",
        "group",
        "group:",
        "node:UP",
        "all:x",
        "any:x",
        "labels:",
        "labels:a",
        "labels:a=1,a=2",
    ] {
        assert!(bad.parse::<Target>().is_err(), "{bad}");
    }
}

#[test]
fn j9_only_a_clean_up_chooses_its_nodes() {
    let phase = |condition: &str, nodes: Value| {
        json!({"target": "all", "tasks": [
            {"backend": "ping", "action": "echo", "condition": condition, "nodes": nodes},
            {"tasks": [{"backend": "ping", "action": "echo"}], "condition": condition, "nodes": nodes},
        ]})
    };
    for nodes in ["failed", "healthy", "all"] {
        assert!(parse_job(&phase("on_failure", json!(nodes))).is_ok());
        for condition in ["always", "on_success"] {
            assert_eq!(fields(&phase(condition, json!(nodes))), ["tasks[0].nodes", "tasks[1].nodes"]);
        }
    }
    assert_eq!(fields(&phase("on_failure", json!("some"))), ["tasks[0].nodes", "tasks[1].nodes"]);
    let in_pipeline = json!({"target": "all", "tasks": [
        {"tasks": [{"backend": "ping", "action": "echo", "condition": "on_failure", "nodes": "all"}]},
    ]});
    assert_eq!(fields(&in_pipeline), ["tasks[0].tasks[0].nodes"]);
}

#[test]
fn issue13_25_name_labels_and_shares_are_read_and_bounded() {
    let task = json!({"backend": "ping", "action": "echo", "concurrency": "50%"});
    let body = json!({
        "target": "all", "tasks": [task], "name": "Deploy Ünïcode", "labels": {"team": "web", "tier": "1"}, "concurrency": "20%",
    });
    let job = parse_job(&body).unwrap();
    assert_eq!(job.name.as_deref(), Some("Deploy Ünïcode"));
    assert_eq!(job.labels.len(), 2);
    assert_eq!(job.places(&job.phases[0], 10), Some(5), "the phase's own beats the job's");
    let bare = crate::job::Phase { concurrency: None, ..job.phases[0].clone() };
    assert_eq!(job.places(&bare, 14), Some(2));
    let many: serde_json::Map<_, _> = (0..33).map(|i| (format!("k{i}"), json!("v"))).collect();
    for (fields_of, expected) in [
        (json!({"name": "x".repeat(129)}), "name"),
        (json!({"name": ""}), "name"),
        (json!({"name": "a\u{0}b"}), "name"),
        (json!({"labels": {"Team": "web"}}), "labels.Team"),
        (json!({"labels": {"team": "Web"}}), "labels.team"),
        (json!({"labels": {"team": 1}}), "labels.team"),
        (json!({"labels": many}), "labels"),
        (json!({"concurrency": "0%"}), "concurrency"),
        (json!({"concurrency": 0}), "concurrency"),
        (json!({"concurrency": "101%"}), "concurrency"),
    ] {
        let mut body = json!({"target": "all", "tasks": [{"backend": "ping", "action": "echo"}]});
        body.as_object_mut().unwrap().extend(fields_of.as_object().unwrap().clone());
        assert_eq!(fields(&body), [expected], "{fields_of}");
    }
    assert!(
        parse_job(&json!({"target": "all", "name": "x".repeat(128), "tasks": [{"backend": "ping", "action": "echo"}]}))
            .is_ok()
    );
}

#[test]
fn on_changed_needs_an_earlier_task_of_its_pipeline() {
    let job = |first: &str, second: &str| {
        let task = |condition: &str| json!({"backend": "ping", "action": "echo", "condition": condition});
        json!({"target": "all", "tasks": [{"tasks": [task(first), task(second)]}]})
    };
    assert!(parse_job(&job("always", "on_changed")).is_ok());
    assert_eq!(fields(&job("on_changed", "on_changed")), ["tasks[0].tasks[0].condition"]);
    let phases = json!({"target": "all", "tasks": [
        {"backend": "ping", "action": "echo", "condition": "on_changed"},
        {"condition": "on_changed", "tasks": [{"backend": "ping", "action": "echo"}]},
    ]});
    assert_eq!(fields(&phases), ["tasks[0].condition", "tasks[1].condition"]);
}
