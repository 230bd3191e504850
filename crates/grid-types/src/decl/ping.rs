//! Declares `ping`: is the node there, and does it do what it is asked.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};

pub(super) const PING: BackendDecl = BackendDecl {
    name: "ping",
    help: "checks that a node answers",
    on_by_default: true,
    needs: &[],
    settings: &[],
    actions: &[
        ActionDecl {
            name: "echo",
            help: "answers with a message",
            effect: EffectClass::Pure,
            effect_choice: false,
            timeout: None,
            params: &[ParamDecl {
                name: "message",
                kind: ParamType::Text,
                required: false,
                default: Some("pong"),
                help: "what to answer",
            }],
        },
        ActionDecl {
            name: "hostname",
            help: "answers with the node's host name",
            effect: EffectClass::Pure,
            effect_choice: false,
            timeout: None,
            params: &[],
        },
        ActionDecl {
            name: "sleep",
            help: "waits, then succeeds",
            effect: EffectClass::Pure,
            effect_choice: false,
            timeout: None,
            params: &[ParamDecl {
                name: "duration",
                kind: ParamType::Duration,
                required: true,
                default: None,
                help: "how long to wait, like 3s",
            }],
        },
    ],
};
