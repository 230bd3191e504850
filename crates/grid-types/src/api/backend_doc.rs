//! Backends as the API shows them, built from their declarations.
//!
//! Owned copies, since a client may talk to a server that declares more backends than its own version; for the same reason
//! `type` is a string and not an enum.

use serde::{Deserialize, Serialize};

use crate::decl::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};
use crate::span::Span;

/// One item of `GET /api/v1/backends`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct BackendDoc {
    /// The name, as tasks use it.
    pub name: String,
    /// What it does, in one line.
    pub help: String,
    /// Workers run it by default, where `needs` are installed.
    pub on_by_default: bool,
    /// Programs that it needs on the machine.
    pub needs: Vec<String>,
    /// Options that a worker needs: without them it refuses every call.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub settings: Vec<String>,
    /// Its actions.
    pub actions: Vec<ActionDoc>,
}

/// One action of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ActionDoc {
    /// The name, as tasks use it.
    pub name: String,
    /// What it does, in one line.
    pub help: String,
    /// Whether it may run again: `pure`, `idempotent` or `once`.
    pub effect: EffectClass,
    /// Whether a task may set its own effect class.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub effect_choice: bool,
    /// Timeout of a task that does not set one.
    #[cfg_attr(feature = "schema", schema(value_type = String))]
    pub timeout: Span,
    /// Its parameters.
    pub params: Vec<ParamDoc>,
}

/// One parameter of an action.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(utoipa::ToSchema))]
pub struct ParamDoc {
    /// The name, as tasks use it.
    pub name: String,
    /// What it means, in one line.
    pub help: String,
    /// `text`, `word`, `choice`, `integer`, `boolean`, `duration`, `mode`, `texts`, `integers` or `text map`.
    #[serde(rename = "type")]
    pub kind: String,
    /// Whether a task must have it.
    pub required: bool,
    /// The value if a task does not have it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub default: Option<String>,
    /// A regular expression that the whole value of a `word` matches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pattern: Option<String>,
    /// The values of a `choice`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
    /// Smallest `integer`, also of `integers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<i64>,
    /// Largest `integer`, also of `integers`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<i64>,
}

impl From<&BackendDecl> for BackendDoc {
    fn from(decl: &BackendDecl) -> Self {
        Self {
            name: decl.name.to_owned(),
            help: decl.help.to_owned(),
            on_by_default: decl.on_by_default,
            needs: decl.needs.iter().map(ToString::to_string).collect(),
            settings: decl.settings.iter().map(ToString::to_string).collect(),
            actions: decl.actions.iter().map(ActionDoc::from).collect(),
        }
    }
}

impl From<&ActionDecl> for ActionDoc {
    fn from(decl: &ActionDecl) -> Self {
        Self {
            name: decl.name.to_owned(),
            help: decl.help.to_owned(),
            effect: decl.effect,
            effect_choice: decl.effect_choice,
            timeout: Span::from_ms(decl.timeout_ms()),
            params: decl.params.iter().map(ParamDoc::from).collect(),
        }
    }
}

impl From<&ParamDecl> for ParamDoc {
    fn from(decl: &ParamDecl) -> Self {
        let mut doc = Self {
            name: decl.name.to_owned(),
            help: decl.help.to_owned(),
            kind: decl.kind.word().to_owned(),
            required: decl.required,
            default: decl.default.map(str::to_owned),
            pattern: None,
            choices: Vec::new(),
            min: None,
            max: None,
        };
        match decl.kind {
            ParamType::Word { pattern } => doc.pattern = Some(pattern.to_owned()),
            ParamType::Choice { of } => doc.choices = of.iter().map(ToString::to_string).collect(),
            ParamType::Integer { min, max } | ParamType::Integers { min, max } => {
                (doc.min, doc.max) = (Some(min), Some(max));
            }
            ParamType::Text
            | ParamType::Boolean
            | ParamType::Duration
            | ParamType::Mode
            | ParamType::Texts
            | ParamType::TextMap => {}
        }
        doc
    }
}

impl ParamDoc {
    /// The accepted values, as text.
    #[must_use]
    pub fn accepts(&self) -> String {
        match (self.kind.as_str(), &self.pattern, self.min.zip(self.max)) {
            (_, Some(pattern), _) => pattern.clone(),
            ("integers", None, Some((min, max))) => format!("{min} to {max}, several with commas"),
            (_, None, Some((min, max))) => format!("{min} to {max}"),
            ("mode", ..) => "644, 0644".to_owned(),
            ("texts", ..) => format!("any texts: repeat it, or {}=[\"a\", \"b\"]", self.name),
            ("text map", ..) => format!("--{0} NAME=VALUE, repeated, or {0}={{\"NAME\": \"VALUE\"}}", self.name),
            ("choice", None, None) => self.choices.join(" or "),
            ("boolean", None, None) => "true or false".to_owned(),
            ("duration", None, None) => "300ms, 3s, 2m, 1h".to_owned(),
            _ => "any text".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::BackendDoc;
    use crate::decl::{backend, builtin};
    use serde_json::json;

    #[test]
    fn a_document_says_all_that_a_declaration_does_and_reads_back() {
        for decl in builtin() {
            let doc = BackendDoc::from(decl);
            let text = serde_json::to_string(&doc).unwrap();
            assert_eq!(serde_json::from_str::<BackendDoc>(&text).unwrap(), doc);
        }
        let rke2 = serde_json::to_value(BackendDoc::from(backend("rke2").unwrap())).unwrap();
        assert_eq!(rke2["needs"], json!(["curl", "systemctl"]));
        let start = rke2["actions"].as_array().unwrap().iter().find(|a| a["name"] == "start").unwrap();
        assert_eq!((&start["effect"], &start["timeout"]), (&json!("idempotent"), &json!("15m")));
        assert_eq!(
            start["params"],
            json!([{"name": "mode", "help": "what this node is in the cluster", "type": "choice", "required": true,
                    "choices": ["server", "agent"]}])
        );
    }
}
