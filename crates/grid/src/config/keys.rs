//! The table of settings: the keys of a settings file, their types, and the flags that they set.
//!
//! Sections and keys have the names of the systems that Grid follows, where these have one. Keys that those systems have and
//! Grid does not support yet are in the table too, with the reason: a setting that is silently ignored is worse than one that
//! is refused.

use std::net::SocketAddr;

use grid_types::limits::MAX_SLOTS;
use grid_types::{Name, Span};
use serde_json::Value;

use crate::cli;

pub struct Section {
    pub name: &'static str,
    pub keys: &'static [Key],
    /// Why the key is not supported yet.
    pub missing: Option<&'static str>,
}

pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// Subcommand and flag.
    pub sets: &'static [(&'static str, &'static str)],
    pub missing: Option<&'static str>,
}

/// The values of one flag of one subcommand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    pub verb: &'static str,
    pub flag: &'static str,
    pub arguments: Vec<String>,
}

#[derive(Clone, Copy)]
pub enum Kind {
    Address,
    Host,
    /// Host names, as `--allow-host` takes them.
    Hosts,
    Text,
    Name,
    Names,
    /// One URL or several.
    Urls,
    /// As `--nats` takes them, one or several.
    NatsUrls,
    /// As `--fabric` takes them, one or several.
    Fabrics,
    Labels,
    Backends,
    /// Names of environment variables.
    Variables,
    /// As `--allow-command` takes them.
    AllowedPrograms,
    /// As `--allow-path` takes them.
    AllowedPaths,
    /// As `--allow-connect` takes them.
    AllowedHosts,
    /// As `--allow-env` takes them.
    AllowedVariables,
    Integer {
        min: u64,
        max: u64,
    },
    Duration,
    Heartbeat,
    /// A duration that may be in days.
    History,
    Boolean,
}

const fn key(name: &'static str, kind: Kind, sets: &'static [(&'static str, &'static str)]) -> Key {
    Key { name, kind, sets, missing: None }
}

const fn later(name: &'static str, why: &'static str) -> Key {
    Key { name, kind: Kind::Text, sets: &[], missing: Some(why) }
}

const BY_RAFT: &str = "controllers use controller.raft_heartbeat and controller.election_timeout; workers use \
     worker.heartbeat_interval and worker.stale_threshold";

pub const SECTIONS: &[Section] = &[
    Section {
        name: "api",
        missing: None,
        keys: &[
            key("listen", Kind::Address, &[("server", "api"), ("node", "api"), ("dev", "api")]),
            key("advertise", Kind::Host, &[("server", "advertise"), ("node", "advertise")]),
            key(
                "allow_hosts",
                Kind::Hosts,
                &[("server", "allow_hosts"), ("node", "allow_hosts"), ("dev", "allow_hosts")],
            ),
            key("insecure", Kind::Boolean, &[("server", "insecure"), ("node", "insecure")]),
            later("forward_writes", "writes are not forwarded yet: a standby answers NOT_LEADER"),
        ],
    },
    Section {
        name: "controller",
        missing: None,
        keys: &[
            key("node_id", Kind::Name, &[("server", "node_id"), ("node", "node_id")]),
            key("data_dir", Kind::Text, &[("server", "data_dir"), ("node", "data_dir")]),
            key("raft", Kind::Address, &[("server", "raft"), ("node", "raft")]),
            key("grpc", Kind::Address, &[("server", "grpc"), ("node", "grpc")]),
            key("fabric", Kind::Fabrics, &[("server", "fabric"), ("node", "fabric")]),
            key("join", Kind::Urls, &[("server", "join"), ("node", "join")]),
            key("raft_heartbeat", Kind::Duration, &[("server", "raft_heartbeat"), ("node", "raft_heartbeat")]),
            key("election_timeout", Kind::Duration, &[("server", "election_timeout"), ("node", "election_timeout")]),
            key(
                "snapshot_after",
                Kind::Integer { min: 64 * 1024, max: u64::MAX },
                &[("server", "snapshot_after"), ("node", "snapshot_after")],
            ),
            key("history", Kind::History, &[("server", "history"), ("node", "history"), ("dev", "history")]),
            key(
                "max_nodes",
                Kind::Integer { min: 1, max: 10_000_000 },
                &[("server", "max_nodes"), ("node", "max_nodes"), ("dev", "max_nodes")],
            ),
            later("heartbeat_interval", BY_RAFT),
            later("stale_threshold", BY_RAFT),
        ],
    },
    Section {
        name: "scheduler",
        missing: None,
        keys: &[
            key(
                "max_concurrent",
                Kind::Integer { min: 1, max: 100_000 },
                &[("server", "max_concurrent"), ("node", "max_concurrent"), ("dev", "max_concurrent")],
            ),
            key(
                "max_pending",
                Kind::Integer { min: 0, max: 1_000_000 },
                &[("server", "max_pending"), ("node", "max_pending"), ("dev", "max_pending")],
            ),
            key(
                "max_waiting",
                Kind::Integer { min: 1, max: 1_000_000 },
                &[("server", "max_waiting"), ("node", "max_waiting"), ("dev", "max_waiting")],
            ),
        ],
    },
    Section {
        name: "worker",
        missing: None,
        keys: &[
            key("server", Kind::Urls, &[("worker", "server")]),
            key("node_id", Kind::Name, &[("worker", "node_id")]),
            key("groups", Kind::Names, &[("worker", "groups"), ("node", "groups")]),
            key("labels", Kind::Labels, &[("worker", "labels"), ("node", "labels")]),
            key("data_dir", Kind::Text, &[("worker", "data_dir")]),
            key(
                "enable_backends",
                Kind::Backends,
                &[("worker", "enable_backends"), ("node", "enable_backends"), ("dev", "enable_backends")],
            ),
            key("disable_backends", Kind::Backends, &[("worker", "disable_backends"), ("node", "disable_backends")]),
            key(
                "allow_commands",
                Kind::AllowedPrograms,
                &[("worker", "allow_commands"), ("node", "allow_commands"), ("dev", "allow_commands")],
            ),
            key(
                "allow_interpreters",
                Kind::AllowedPrograms,
                &[("worker", "allow_interpreters"), ("node", "allow_interpreters"), ("dev", "allow_interpreters")],
            ),
            key(
                "allow_paths",
                Kind::AllowedPaths,
                &[("worker", "allow_paths"), ("node", "allow_paths"), ("dev", "allow_paths")],
            ),
            key(
                "allow_connect",
                Kind::AllowedHosts,
                &[("worker", "allow_connect"), ("node", "allow_connect"), ("dev", "allow_connect")],
            ),
            key(
                "allow_env",
                Kind::AllowedVariables,
                &[("worker", "allow_env"), ("node", "allow_env"), ("dev", "allow_env")],
            ),
            key("pass_env", Kind::Variables, &[("worker", "pass_env"), ("node", "pass_env"), ("dev", "pass_env")]),
            key("slots", Kind::Integer { min: 1, max: MAX_SLOTS as u64 }, &[("worker", "slots"), ("node", "slots")]),
            key("address", Kind::Text, &[("worker", "address"), ("node", "address")]),
            key(
                "heartbeat_interval",
                Kind::Heartbeat,
                &[
                    ("worker", "heartbeat_interval"),
                    ("server", "heartbeat_interval"),
                    ("node", "heartbeat_interval"),
                    ("dev", "heartbeat_interval"),
                ],
            ),
            key(
                "warning_threshold",
                Kind::Duration,
                &[("server", "warning_after"), ("node", "warning_after"), ("dev", "warning_after")],
            ),
            key(
                "inactive_threshold",
                Kind::Duration,
                &[("server", "unhealthy_after"), ("node", "unhealthy_after"), ("dev", "unhealthy_after")],
            ),
            key(
                "stale_threshold",
                Kind::Duration,
                &[("server", "dead_after"), ("node", "dead_after"), ("dev", "dead_after")],
            ),
        ],
    },
    Section {
        name: "node",
        missing: None,
        keys: &[
            key("worker", Kind::Boolean, &[("node", "worker")]),
            key("drain_timeout", Kind::Duration, &[("node", "drain_timeout")]),
        ],
    },
    Section {
        name: "dev",
        missing: None,
        keys: &[
            key("workers", Kind::Integer { min: 0, max: 1_000 }, &[("dev", "workers")]),
            key("data_dir", Kind::Text, &[("dev", "data_dir")]),
        ],
    },
    Section {
        name: "nats",
        missing: None,
        keys: &[
            key("urls", Kind::NatsUrls, &[("server", "nats"), ("node", "nats"), ("worker", "nats")]),
            key("name", Kind::Text, &[("server", "nats_name"), ("node", "nats_name")]),
            key(
                "replicas",
                Kind::Integer { min: 1, max: 5 },
                &[("server", "nats_replicas"), ("node", "nats_replicas")],
            ),
            key(
                "credentials",
                Kind::Text,
                &[("server", "nats_creds"), ("node", "nats_creds"), ("worker", "nats_creds")],
            ),
            key("worker_credentials", Kind::Text, &[("node", "nats_worker_creds")]),
            key("ca", Kind::Text, &[("server", "nats_ca"), ("node", "nats_ca"), ("worker", "nats_ca")]),
        ],
    },
];

impl Kind {
    /// Converts the values to command-line arguments.
    pub fn arguments(self, value: &Value) -> Result<Vec<String>, String> {
        let one = |checked: Result<String, String>| checked.map(|word| vec![word]);
        match self {
            Self::Address => one(text(value).and_then(|text| {
                let parsed = text.parse::<SocketAddr>();
                parsed.map(|_| text).map_err(|_| "must be an address with a port, like 127.0.0.1:8765".to_owned())
            })),
            Self::Host => one(text(value).and_then(|text| cli::host(&text))),
            Self::Hosts => list(value)?.iter().map(|host| cli::allowed_host(host)).collect(),
            Self::Text => one(text(value)),
            Self::Name => one(text(value).and_then(name)),
            Self::Names => list(value)?.into_iter().map(name).collect(),
            Self::Urls => one_or_list(value),
            Self::NatsUrls => one_or_list(value)?.iter().map(|url| cli::nats_url(url)).collect(),
            Self::Fabrics => one_or_list(value)?
                .into_iter()
                .map(|word| match word.as_str() {
                    "grpc" | "nats" => Ok(word),
                    _ => Err("must be grpc, nats or both".to_owned()),
                })
                .collect(),
            Self::Labels => labels(value),
            Self::Variables => list(value)?.iter().map(|name| cli::variable(name)).collect(),
            Self::Backends => list(value)?.iter().map(|word| cli::backend(word)).collect(),
            Self::AllowedPrograms => list(value)?.iter().map(|word| cli::allowed_program(word)).collect(),
            Self::AllowedPaths => list(value)?.iter().map(|word| cli::allowed_path(word)).collect(),
            Self::AllowedHosts => list(value)?.iter().map(|word| cli::allowed_connect(word)).collect(),
            Self::AllowedVariables => list(value)?.iter().map(|word| cli::allowed_variable(word)).collect(),
            Self::Integer { min, max } => {
                let number = value.as_u64().filter(|number| (min..=max).contains(number));
                one(number.map(|n| n.to_string()).ok_or_else(|| format!("must be a whole number from {min} to {max}")))
            }
            Self::Duration => one(text(value)
                .map_err(|_| DURATION.to_owned())
                .and_then(|text| text.parse::<Span>().map(|span| span.to_string()).map_err(|e| e.to_string()))),
            Self::Heartbeat => {
                let read = |text: String| cli::heartbeat(&text).map(|span| span.to_string());
                one(text(value).map_err(|_| DURATION.to_owned()).and_then(read))
            }
            Self::History => one(text(value).and_then(|text| cli::history(&text).map(|_| text))),
            Self::Boolean => match value {
                Value::Bool(true) => Ok(vec!["true".to_owned()]),
                Value::Bool(false) => Ok(vec!["false".to_owned()]),
                _ => Err("must be true or false".to_owned()),
            },
        }
    }
}

const DURATION: &str = "must be a duration like 300ms, 3s, 2m or 1h";

fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) if !text.is_empty() && !text.contains('\0') => Ok(text.clone()),
        _ => Err("must be a string".to_owned()),
    }
}

fn name(text: String) -> Result<String, String> {
    text.parse::<Name>().map(|_| text).map_err(|e| e.to_string())
}

fn list(value: &Value) -> Result<Vec<String>, String> {
    let wrong = || "must be a list of strings".to_owned();
    let items = value.as_array().ok_or_else(wrong)?;
    items.iter().map(|item| text(item).map_err(|_| wrong())).collect()
}

fn one_or_list(value: &Value) -> Result<Vec<String>, String> {
    match value {
        Value::Array(_) => list(value),
        _ => Ok(vec![text(value)?]),
    }
}

fn labels(value: &Value) -> Result<Vec<String>, String> {
    let wrong = || "must be a map of labels, like {rack: r7}".to_owned();
    let map = value.as_object().ok_or_else(wrong)?;
    let pairs = map.iter().map(|(key, value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Bool(flag) => flag.to_string(),
            _ => return Err(wrong()),
        };
        cli::label(&format!("{key}={value}")).map(|(key, value)| format!("{key}={value}"))
    });
    pairs.collect()
}
