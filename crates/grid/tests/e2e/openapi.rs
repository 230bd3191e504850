//! `/openapi.json` of a real controller: the document and its examples are valid, and the API conforms to it for every request.
//!
//! Validator and fuzzer come from PyPI; `cargo xtask test` installs them and sets their path.
//! The fuzzer gets names that exist, since otherwise almost every request would end in a 404; the workers find no program, so
//! that no package is installed. All answers conform to the document. Two operations are left out: joining invented
//! controllers, because the server would wait for each, and removing an existing node, because that ends `grid dev`.
//! Its agents poll without waiting, and it accepts JSON only, so that events are pages: their stream never ends.

use std::path::Path;
use std::process::Command;

use grid_testkit::spec::{echo, fail, job, task};
use grid_testkit::{Dev, Stubs};
use serde_json::{Value, json};

const SEED: &str = "1";
const EXAMPLES_PER_OPERATION: &str = "12";
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,unsupported_method";

fn python() -> Command {
    let Some(python) = std::env::var_os("GRID_TEST_PYTHON") else {
        panic!("run this by `cargo xtask test -p grid --test e2e openapi`, which installs what it needs from PyPI");
    };
    Command::new(python)
}

fn run(command: &mut Command, folder: &Path) -> String {
    let out = command.current_dir(folder).output().expect("GRID_TEST_PYTHON starts");
    let text = String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{command:?}: {}\n{text}", out.status);
    text
}

/// A controller with three workers which find no program to run.
fn dev(folder: &Path) -> Dev {
    let nothing = Stubs::at(folder.join("bin"));
    Dev::start_with_path(3, nothing.folder().as_os_str())
}

#[test]
fn the_document_and_its_examples_are_valid() {
    let folder = tempfile::tempdir().expect("temp dir");
    let dev = dev(folder.path());
    let file = folder.path().join("openapi.json");
    std::fs::write(&file, dev.api().get("/openapi.json").text).expect("written");
    run(python().args(["-m", "openapi_spec_validator", "--schema", "3.1"]).arg(&file), folder.path());
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/e2e/openapi.py");
    run(python().arg(script).arg(&file), folder.path());
}

#[test]
fn the_api_keeps_to_its_document_whatever_it_is_asked() {
    let folder = tempfile::tempdir().expect("temp dir");
    let dev = dev(folder.path());
    let api = dev.api();
    let ended = api.submit(&job("all", [echo(), fail("as told")]));
    api.wait_ended(&ended);
    let open = api.submit(&job("all", [task("ping", "sleep", &json!({"duration": "1h"}))]));
    let mut document = api.get("/openapi.json").json();
    narrow(&mut document, &[&ended, &open, "job-0000000000000"]);
    let file = folder.path().join("narrowed.json");
    std::fs::write(&file, document.to_string()).expect("written");
    let text = run(
        python()
            .args(["-m", "schemathesis.cli", "run", "--url", dev.url(), "--seed", SEED, "--checks", CHECKS])
            .args(["--max-examples", EXAMPLES_PER_OPERATION, "--phases", "examples,coverage,fuzzing", "--no-color"])
            .args(["--header", "Accept:application/json", "--generation-database", "none", "--request-timeout", "30"])
            .args(["--exclude-path-regex", "^/api/v1/cluster/members$"])
            .args(["--continue-on-failure", "--no-shrink", "--suppress-health-check", "all"])
            .arg(&file),
        folder.path(),
    );
    println!("{text}");
    assert_eq!(api.get("/healthz").status, 200, "it serves afterwards");
}

fn narrow(document: &mut Value, jobs: &[&str]) {
    let paths = document["paths"].as_object_mut().expect("paths");
    let operations = paths.values_mut().flat_map(|item| item.as_object_mut().expect("a path"));
    for (method, operation) in operations {
        // A node that is removed ends its worker, and `grid dev` with it.
        let nodes: &[&str] = if method == "delete" { &["nobody"] } else { &["web-01", "db-01", "nobody"] };
        for parameter in operation["parameters"].as_array_mut().expect("parameters") {
            match (parameter["name"].as_str(), parameter["description"].as_str()) {
                (Some("id"), Some("a job id")) => parameter["schema"] = json!({"type": "string", "enum": jobs}),
                (Some("id" | "node"), Some("a node id")) => {
                    parameter["schema"] = json!({"type": "string", "enum": nodes});
                }
                (Some("step"), Some("the number of a step, from 0")) => parameter["schema"]["maximum"] = json!(2),
                _ => {}
            }
        }
    }
    let agent = &mut document["components"]["schemas"]["LeasesBody"];
    agent["required"] = json!(["agent", "wait"]);
    agent["properties"]["wait"] = json!({"type": "string", "const": "0s"});
    agent["properties"]["agent"] = json!({"type": "string", "enum": ["edge-01", "edge-02", "web-01"]});
}

#[test]
fn the_examples_of_the_guide_work_as_written() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/http.md");
    let page = std::fs::read_to_string(page).expect("docs/http.md");
    let folder = tempfile::tempdir().expect("temp dir");
    let dev = dev(folder.path());
    let mut answers = Vec::new();
    for block in page.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next()) {
        let mut sh = Command::new("sh");
        answers.push(run(sh.args(["-ec", block]).env("API", dev.url()).env("NO_PROXY", "*"), folder.path()));
    }
    let wanted =
        ["\"status\":", "\"items\":", "x-grid-leader-epoch: 1", "FORBIDDEN", "unknown query parameter", "\"next\":"];
    assert_eq!(answers.len(), wanted.len(), "{answers:?}");
    for (answer, wanted) in answers.iter().zip(wanted) {
        assert!(answer.contains(wanted), "{wanted} is not in {answer}");
    }
}
