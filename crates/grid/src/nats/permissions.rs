//! Decides what each user of NATS may publish and subscribe to, and writes it as nats-server reads it.
//!
//! | user | publishes | subscribes |
//! |---|---|---|
//! | controller | everything in the account | everything in the account |
//! | worker | its own sessions and results | its own sessions, commands for it, its inbox |
//! | client | `request.job`, reading buckets | `result.>`, its inbox |
//!
//! A worker is its name: nothing it may publish names another node, so a stolen key acts for one node alone. Its groups come from here and not
//! from the worker (N8). Nobody but controllers may speak to JetStream, apart from clients that read buckets: creating a consumer lets
//! JetStream itself publish to any subject, whatever its creator may publish, so only clients that `watch` may do it.

use std::fmt::Write;

use grid_fabric::nats::{inbox_prefix, subjects};

use super::users::{Client, Users, Worker};

const BUCKETS: [&str; 4] = ["jobs", "nodes", "controllers", "cluster"];

/// The account with all users, for `include`.
pub fn account(users: &Users) -> String {
    let mut text = String::from(
        "# Written by `grid nats config`; users.json is its source. Copy it to every server, then reload: nats-server --signal reload\n\
         accounts {\n  GRID {\n    jetstream: enabled\n    users: [\n",
    );
    let _ = writeln!(text, "      # controllers\n      {{ nkey: {} }}", users.controller);
    for (name, worker) in &users.workers {
        user(&mut text, name, &worker.key, &worker_rights(name, worker));
    }
    for (name, client) in &users.clients {
        user(&mut text, name, &client.key, &client_rights(name, client));
    }
    text.push_str("    ]\n  }\n}\n");
    text
}

struct Rights {
    publish: Vec<String>,
    subscribe: Vec<String>,
}

fn worker_rights(name: &str, worker: &Worker) -> Rights {
    let mut publish: Vec<String> =
        subjects::Call::ALL.iter().map(|call| format!("node.{name}.{}", call.word())).collect();
    publish.push(format!("node.{name}.up"));
    publish.push(format!("result.*.*.{name}"));
    let mut subscribe = vec![
        format!("node.{name}.down.>"),
        "cmd.all.>".to_owned(),
        format!("cmd.node.{name}.>"),
        format!("{}.>", inbox_prefix(name)),
    ];
    subscribe.extend(worker.groups.iter().map(|group| format!("cmd.group.{group}.>")));
    Rights { publish, subscribe }
}

fn client_rights(name: &str, client: &Client) -> Rights {
    let mut publish = vec![subjects::REQUEST_JOB.to_owned()];
    for bucket in BUCKETS {
        publish.push(format!("$JS.API.STREAM.INFO.KV_{bucket}"));
        publish.push(format!("$JS.API.DIRECT.GET.KV_{bucket}.>"));
        publish.push(format!("$JS.API.STREAM.MSG.GET.KV_{bucket}"));
        if client.watch {
            publish.push(format!("$JS.API.CONSUMER.CREATE.KV_{bucket}"));
            publish.push(format!("$JS.API.CONSUMER.CREATE.KV_{bucket}.>"));
            publish.push(format!("$JS.API.CONSUMER.INFO.KV_{bucket}.>"));
            publish.push(format!("$JS.API.CONSUMER.MSG.NEXT.KV_{bucket}.>"));
            publish.push(format!("$JS.API.CONSUMER.DELETE.KV_{bucket}.>"));
            publish.push(format!("$JS.FC.KV_{bucket}.>"));
        }
    }
    Rights { publish, subscribe: vec![subjects::STREAM_RESULTS.to_owned(), format!("{}.>", inbox_prefix(name))] }
}

fn user(text: &mut String, name: &str, key: &str, rights: &Rights) {
    let list =
        |subjects: &[String]| subjects.iter().map(|subject| format!("{subject:?}")).collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        text,
        "      # {name}\n      {{ nkey: {key}\n        permissions: {{\n          publish: {{ allow: [{}] }}\n          \
         subscribe: {{ allow: [{}] }}\n        }}\n      }}",
        list(&rights.publish),
        list(&rights.subscribe),
    );
}

#[cfg(test)]
mod tests {
    use super::{Client, Worker, client_rights, worker_rights};

    #[test]
    fn n8_a_worker_publishes_only_as_itself_and_never_to_jetstream() {
        let rights = worker_rights("w-01", &Worker { key: String::new(), groups: vec!["web".to_owned()] });
        assert!(
            rights.publish.iter().all(|subject| subject.split('.').any(|token| token == "w-01")),
            "{:?}",
            rights.publish
        );
        assert!(!rights.publish.iter().chain(&rights.subscribe).any(|subject| subject.contains('$')));
        assert!(
            rights.subscribe.contains(&"cmd.group.web.>".to_owned()) && !rights.subscribe.contains(&"cmd.>".to_owned())
        );
    }

    #[test]
    fn only_a_client_that_watches_creates_consumers() {
        let creates = |watch| {
            let rights = client_rights("ci", &Client { key: String::new(), watch });
            rights.publish.iter().any(|subject| subject.contains("CONSUMER"))
        };
        assert!(creates(true) && !creates(false));
    }
}
