//! `gridc backend`: the controller's declarations, as columns and as documents.

use serde_json::{Value, json};

use crate::fake::{Fake, refusal};
use crate::run;

pub fn apt() -> Value {
    let package =
        json!({"name": "package", "help": "a package name", "type": "word", "required": true, "pattern": "[a-z]+"});
    json!({
        "name": "apt", "help": "packages", "on_by_default": true, "needs": ["apt-get"],
        "actions": [
            {"name": "install", "help": "installs a package", "effect": "idempotent", "timeout": "15m", "params": [package]},
            {"name": "update", "help": "fetches lists", "effect": "idempotent", "timeout": "5m", "params": []},
        ],
    })
}

async fn server() -> Fake {
    Fake::start(|_, seen| match seen.line.as_str() {
        "GET /api/v1/backends" => (200, json!({"items": [apt()], "next": null})),
        "GET /api/v1/backends/apt" => (200, apt()),
        _ => refusal(404, "NOT_FOUND", "no backend; there are apt"),
    })
    .await
}

#[tokio::test]
async fn backends_are_listed_and_described() {
    let server = server().await;
    let ran = run(&server.url(), "backend list").await.exits(0);
    assert_eq!(ran.stdout, "NAME  RUNS             NEEDS    ACTIONS\napt   where installed  apt-get  install,update\n");
    let ran = run(&server.url(), "backend describe apt").await.exits(0);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        (
            "\
backend  apt
what     packages
runs     where installed
needs    apt-get

gridc job run -t all apt install --package PACKAGE
    installs a package
    idempotent, timeout 15m
    --package (required): a package name
        word: [a-z]+

gridc job run -t all apt update
    fetches lists
    idempotent, timeout 5m
",
            ""
        )
    );
    let ran = run(&server.url(), "backend describe apt -o json").await.exits(0);
    assert_eq!(ran.json(), apt());
    let ran = run(&server.url(), "backend list -o yaml").await.exits(0);
    assert!(ran.stdout.starts_with("items:\n- name: apt\n"), "{ran:?}");
}

#[tokio::test]
async fn a_backend_that_is_none_exits_4_and_names_the_nearest() {
    let server = server().await;
    let ran = run(&server.url(), "backend describe atp").await.exits(4);
    assert_eq!(
        (ran.stdout.as_str(), ran.stderr.as_str()),
        ("", "error: no such backend: \"atp\" (did you mean apt?); see gridc backend list\n")
    );
}
