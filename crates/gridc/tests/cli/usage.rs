//! Help and usage errors, word for word.

use crate::fake::{Fake, job};
use crate::{run, run_with_stdin};

/// Compares with a file of `golden/`; `GRIDC_GOLDEN=write` writes it instead.
fn golden(name: &str, got: &str) {
    let path = format!("{}/tests/cli/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("GRIDC_GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(&path, got).unwrap();
    }
    let want = std::fs::read_to_string(&path).unwrap_or_default();
    assert_eq!(got, want, "{name}; GRIDC_GOLDEN=write accepts the new text");
}

#[tokio::test]
async fn help_is_data_and_reads_as_agreed() {
    for (line, name) in [
        ("--help", "help.txt"),
        ("job --help", "job-help.txt"),
        ("job run --help", "job-run-help.txt"),
        ("job run ping echo --help", "job-run-help.txt"),
        ("job get -h", "job-get-help.txt"),
        ("job list --help", "job-list-help.txt"),
        ("job logs --help", "job-logs-help.txt"),
        ("job confirm --help", "job-confirm-help.txt"),
        ("job resolve --help", "job-resolve-help.txt"),
        ("job why --help", "job-why-help.txt"),
        ("node list --help", "node-list-help.txt"),
        ("role --help", "role-help.txt"),
        ("cluster backup --help", "cluster-backup-help.txt"),
        ("events --help", "events-help.txt"),
        ("backend list --help", "backend-list-help.txt"),
        ("backend describe --help", "backend-describe-help.txt"),
        ("completion --help", "completion-help.txt"),
    ] {
        let ran = run("", line).await.exits(0);
        assert_eq!(ran.stderr, "", "{line}");
        // The list of actions grows with every backend; that it is there is what matters.
        let (text, actions) = ran.stdout.split_once("\nBackends and").unwrap_or((&ran.stdout, "echo [--message"));
        golden(name, text);
        assert!(actions.contains("echo [--message"), "{actions}");
    }
    let ran = run("", "--version").await.exits(0);
    assert_eq!(ran.stdout, format!("gridc {}\n", env!("CARGO_PKG_VERSION")));
}

#[tokio::test]
async fn no_command_shows_the_help_as_an_error() {
    for line in ["", "job", "node"] {
        let ran = run("", line).await.exits(2);
        assert!(ran.stdout.is_empty() && ran.stderr.contains("Usage: gridc"), "{ran:?}");
    }
}

#[tokio::test]
async fn usage_errors_exit_2_and_say_what_would_have_been_right() {
    for (line, want) in [
        ("frobnicate", "unrecognized subcommand 'frobnicate'"),
        ("job run ping echo", "required arguments were not provided:\n  --target <TARGET>"),
        ("job run deploy.yaml --wait", "hint: a job file is given with -f deploy.yaml\n"),
        ("job run --tagret all ping echo", "a similar argument exists: '--target'"),
        (
            "job run -t everything ping echo",
            "unknown word \"everything\": use all, node:everything, group:everything, labels:KEY=VALUE or facts:KEY=VALUE\n    everything\n    ^\n",
        ),
        ("job run -t labels:web ping echo", "labels are KEY=VALUE"),
        ("job run -t any:web ping echo", "any takes no value"),
        ("job run -t all ping echo --exclude nod:a", "exclude: unknown scope \"nod\""),
        ("job run -t all ping echo --limit 0", "limit: must be a number of nodes from 1"),
        ("job run -t all ping echo --first 0", "first: must be a whole number of nodes, at least 1"),
        ("job plan -f x.yaml -t all", "cannot be used with '--target <TARGET>'"),
        ("node list -t web", "unknown word"),
        ("job run -t all", "a backend and an action are needed, like `ping echo`"),
        ("job run -t all pong echo", "hint: did you mean ping?"),
        ("job run -t all ping echo --mesage hi", "hint: did you mean --message?"),
        ("job run -t all ping echo mesage=hi", "hint: did you mean --message?"),
        ("job run -t all ping echo --message", "--message needs a value (what to answer)"),
        ("job run -t all ping sleep", "  --duration: is required (how long to wait, like 3s)\n"),
        ("job run -t all ping sleep --duration soon", "  --duration: \"soon\" is not a duration"),
        ("job run -t all ping echo --timeout 3", "\"3\" is not a duration"),
        ("job run -t all ping echo --max-retries -1", "invalid value '-1' for '--max-retries <N>'"),
        ("job run -t all ping echo --wait-timeout 3s", "--wait"),
        ("job run -f x.yaml -t all", "cannot be used with '--target <TARGET>'"),
        ("job run -f x.yaml --failure-tolerate 1", "cannot be used with '--failure-tolerate <N|SHARE>'"),
        ("job run -f x.yaml --offline wait", "cannot be used with '--offline <RULE>'"),
        ("job run -f x.yaml --on-unknown wait", "cannot be used with '--on-unknown <RULE>'"),
        ("job run -f x.yaml --concurrency 1", "cannot be used with '--concurrency <N|SHARE>'"),
        ("job run -f x.yaml --confirm", "cannot be used with '--confirm'"),
        ("job run -t all ping echo --offline later", "[possible values: skip, wait, fail]"),
        ("job run -t all ping echo --on-unknown retry", "[possible values: fail, wait]"),
        ("job run -t all ping echo --concurrency 0", "must be a whole number of nodes, at least 1"),
        ("job run -t all ping echo --failure-tolerate 101%", "  --failure-tolerate: \"101%\" is more than all nodes\n"),
        ("job run -t all ping echo --confrim", "hint: did you mean --confirm?"),
        ("job run -f /nonexistent/x.yaml", "cannot read /nonexistent/x.yaml: No such file or directory"),
        ("-o xml status", "[possible values: table, json, yaml]"),
        ("-n Team job list", "\"Team\" is not a name"),
        ("--server ftp://x status", "use http://HOST:PORT"),
        ("--server https://x status", "https is not built in"),
    ] {
        let ran = run("", line).await.exits(2);
        assert!(
            ran.stdout.is_empty() && ran.stderr.starts_with("error: ") && ran.stderr.contains(want),
            "{line}: {ran:?}"
        );
    }
}

#[tokio::test]
async fn a_usage_error_word_for_word() {
    let ran = run("", "job run -t all test output --lines x --wait").await.exits(2);
    assert_eq!(
        ran.stderr,
        "error: the task test output is not valid\n  \
         --lines: must be a whole number from 0 to 10000000\n  \
         --width: is required (characters per line)\n"
    );
}

#[tokio::test]
async fn the_job_file_of_the_help_is_a_job() {
    let help = run("", "job run --help").await.exits(0).stdout;
    let file = help.split_once("A job file:\n").and_then(|(_, rest)| rest.split_once("\n\n")).unwrap().0;
    let server = Fake::job(vec![job("pending", &[], None)]).await;
    run_with_stdin(&server.url(), "job run -f -", file).await.exits(0);
    let sent = &server.seen()[0].body;
    assert_eq!((&sent["failure_tolerate"], &sent["tasks"][2]["confirm"]), (&"10%".into(), &true.into()));
}

#[tokio::test]
async fn the_job_files_of_the_documentation_are_jobs() {
    let server = Fake::job(vec![job("pending", &[], None)]).await;
    let mut tried = 0;
    for page in ["docs/jobs.md", "docs/tour.md", "README.md"] {
        let text = std::fs::read_to_string(format!("{}/../../{page}", env!("CARGO_MANIFEST_DIR"))).unwrap();
        for block in text.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next()) {
            if block.contains("\ntarget:") {
                run_with_stdin(&server.url(), "job run -f -", block).await.exits(0);
                tried += 1;
            }
        }
    }
    assert!(tried >= 4, "{tried}");
}

#[tokio::test]
async fn what_cannot_be_an_id_is_not_found() {
    for line in ["job status nope", "job get job-1", "job cancel ../x", "node info No_Such"] {
        let ran = run("", line).await.exits(4);
        assert!(ran.stderr.starts_with("error: no such "), "{line}: {ran:?}");
    }
}

#[tokio::test]
async fn issue13_a_label_that_is_given_twice_is_refused() {
    for line in ["--label a=b --label a=c", "--label a=b --label x=y --label a=b"] {
        let ran = run("", &format!("job run -t all ping echo {line}")).await.exits(2);
        assert_eq!(ran.stderr, "error: the label \"a\" is given twice\n", "{line}");
    }
}

#[tokio::test]
async fn issue13_options_from_the_environment_are_not_shown_as_required() {
    for line in ["job run ping echo", "job status", "node lst"] {
        let plain = run("", line).await.exits(2);
        let mut command = crate::gridc("http://127.0.0.1:9", line);
        let ran = crate::end(command.env("GRID_TOKEN", "s3cret").env("GRID_PATIENCE", "1s")).await.exits(2);
        assert_eq!(ran.stderr, plain.stderr, "{line}");
    }
    let bad = crate::end(&mut crate::gridc("ftp://x", "status")).await.exits(2);
    assert!(bad.stderr.contains("use http://HOST:PORT"), "{bad:?}");
}

#[tokio::test]
async fn issue13_a_negative_value_is_refused_as_a_value() {
    for line in [
        "job list --limit -1",
        "events --limit -1",
        "job run -t all ping echo --timeout -1s",
        "job run -t all ping echo --wait --wait-timeout -1s",
        "job status x --run -1",
        "job logs x --step -1",
        "job logs x --tail -1",
        "node drain x --wait --wait-timeout -1s",
    ] {
        let ran = run("", line).await.exits(2);
        assert!(ran.stderr.starts_with("error: invalid value '-1"), "{line}: {ran:?}");
    }
}

#[tokio::test]
async fn issue13_labels_without_a_key_or_given_twice_are_refused_by_their_option() {
    for (line, want) in [
        ("job run -t all ping echo --label =b", "invalid value '=b' for '--label <KEY=VALUE>'"),
        ("job list --label a", "invalid value 'a' for '--label <KEY=VALUE>'"),
        ("job list --label a=b --label a=c", "error: the label \"a\" is given twice\n"),
    ] {
        let ran = run("", line).await.exits(2);
        assert!(ran.stderr.contains(want), "{line}: {ran:?}");
    }
}
