//! Declarations of backends: the one place that says which actions exist, what they take, and what running them
//! twice would mean. Submit-time validation, help and the worker's own checks all read it.
//!
//! Every built-in declaration is known to the server; which backends a worker runs is the worker's choice.
//! Not here: checking values against a declaration (`check`), running anything (`grid-worker::run::backends`).

mod apt;
mod check;
mod collection;
mod command;
mod file;
mod http;
mod ping;
mod rke2;
mod script;
mod systemd;
mod test;
mod wait;

use std::collections::BTreeMap;

use minicbor::{Decode, Encode};
use serde::{Deserialize, Serialize};

use crate::limits::DEFAULT_TASK_TIMEOUT_MS;
use crate::span::Span;

/// What running an action a second time means (W3, W8).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize, Deserialize)]
#[cbor(index_only)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub enum EffectClass {
    /// Changes nothing.
    #[n(0)]
    Pure,
    /// May be run again with the same end.
    #[n(1)]
    Idempotent,
    /// Must never run twice.
    #[n(2)]
    Once,
}

/// What a parameter takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ParamType {
    /// Any text.
    Text,
    /// A whole number.
    Integer {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// `true` or `false`.
    Boolean,
    /// A duration, such as `3s`.
    Duration,
    /// Becomes one argument of a program: the whole of it fits `pattern`, and no program can take it for an option.
    Word {
        /// A regular expression for the whole value.
        pattern: &'static str,
    },
    /// One of several words.
    Choice {
        /// The words.
        of: &'static [&'static str],
    },
    /// The mode of a file in octal digits. Never a number: `0o644` in YAML, 420 in JSON and the digits 420 are three modes.
    Mode,
    /// A list of texts, each of which becomes one argument of a program as it is.
    Texts,
    /// A list of whole numbers.
    Integers {
        /// The smallest.
        min: i64,
        /// The largest.
        max: i64,
    },
    /// Texts by name; a name is one of an environment variable or of a header: letters, digits, `_` and `-`.
    TextMap,
}

impl ParamType {
    /// The name of the type in documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Integer { .. } => "integer",
            Self::Boolean => "boolean",
            Self::Duration => "duration",
            Self::Word { .. } => "word",
            Self::Choice { .. } => "choice",
            Self::Mode => "mode",
            Self::Texts => "texts",
            Self::Integers { .. } => "integers",
            Self::TextMap => "text map",
        }
    }
}

/// The declaration of one parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ParamDecl {
    /// The name, as tasks use it.
    pub name: &'static str,
    /// What it takes.
    pub kind: ParamType,
    /// Whether a task must have it.
    pub required: bool,
    /// As a person would write it; parsed like any other value.
    pub default: Option<&'static str>,
    /// What it means, in one line.
    pub help: &'static str,
}

/// The declaration of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct ActionDecl {
    /// The name, as tasks use it.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// What running it a second time means.
    pub effect: EffectClass,
    /// The caller knows it better: a task may say otherwise (`effect`).
    pub effect_choice: bool,
    /// J7: beats 5 m, is beaten by the task's own.
    pub timeout: Option<Span>,
    /// What it takes.
    pub params: &'static [ParamDecl],
}

/// The declaration of one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct BackendDecl {
    /// The name, as tasks use it.
    pub name: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// Runs on a worker that was not asked for it by name.
    pub on_by_default: bool,
    /// Programs without which a worker does not offer it, unless it was asked for it by name.
    pub needs: &'static [&'static str],
    /// Options of a worker without which it refuses every call, as they are written.
    pub settings: &'static [&'static str],
    /// What it can do.
    pub actions: &'static [ActionDecl],
}

/// Every built-in backend.
#[must_use]
pub fn builtin() -> &'static [BackendDecl] {
    &[
        ping::PING,
        apt::APT,
        systemd::SYSTEMD,
        rke2::RKE2,
        command::COMMAND,
        script::SCRIPT,
        file::FILE,
        http::HTTP,
        wait::WAIT,
        test::TEST,
    ]
}

/// The built-in backend of this name.
#[must_use]
pub fn backend(name: &str) -> Option<&'static BackendDecl> {
    builtin().iter().find(|b| b.name == name)
}

impl BackendDecl {
    /// What a worker that does not run it needs, for an operator.
    #[must_use]
    pub fn missing(&self) -> String {
        match self.needs {
            [] if self.on_by_default => format!("it was started with --disable-backend {}", self.name),
            [] => format!("start it with {}", self.enabled_by()),
            needs => {
                format!("{} needs {} there, and no --disable-backend {}", self.name, needs.join(" and "), self.name)
            }
        }
    }

    /// The options that let a worker run it.
    #[must_use]
    pub fn enabled_by(&self) -> String {
        let enable = format!("--enable-backend {}", self.name);
        self.settings.iter().fold(enable, |text, setting| format!("{text} {setting}"))
    }

    /// The action of this name.
    #[must_use]
    pub fn action(&self, name: &str) -> Option<&'static ActionDecl> {
        self.actions.iter().find(|a| a.name == name)
    }
}

impl EffectClass {
    /// Every class.
    pub const ALL: [Self; 3] = [Self::Pure, Self::Idempotent, Self::Once];

    /// The name in documents.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Pure => "pure",
            Self::Idempotent => "idempotent",
            Self::Once => "once",
        }
    }
}

impl ActionDecl {
    /// J7: what holds for a task that names none itself.
    #[must_use]
    pub fn timeout_ms(&self) -> u64 {
        self.timeout.map_or(DEFAULT_TASK_TIMEOUT_MS, Span::ms)
    }
}

/// A checked parameter.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Encode, Decode, Serialize)]
#[serde(untagged)]
pub enum ParamValue {
    /// Of [`ParamType::Text`], [`ParamType::Word`], [`ParamType::Choice`] and [`ParamType::Mode`].
    #[n(0)]
    Text(#[n(0)] String),
    /// Of [`ParamType::Integer`].
    #[n(1)]
    Integer(#[n(0)] i64),
    /// Of [`ParamType::Boolean`].
    #[n(2)]
    Boolean(#[n(0)] bool),
    /// Of [`ParamType::Duration`].
    #[n(3)]
    Duration(#[n(0)] Span),
    /// Of [`ParamType::Texts`].
    #[n(4)]
    Texts(#[n(0)] Vec<String>),
    /// Of [`ParamType::Integers`].
    #[n(5)]
    Integers(#[n(0)] Vec<i64>),
    /// Of [`ParamType::TextMap`].
    #[n(6)]
    TextMap(#[n(0)] BTreeMap<String, String>),
}

/// Parameters of one task, checked and with defaults filled in.
pub type Params = BTreeMap<String, ParamValue>;
