//! Declares `http`: does a server answer as it should. Off by default, and only to hosts that the worker's operator has allowed (`--allow-connect`): a
//! worker reaches addresses that its callers do not.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};
use crate::span::Span;

const fn optional(name: &'static str, kind: ParamType, default: Option<&'static str>, help: &'static str) -> ParamDecl {
    ParamDecl { name, kind, required: false, default, help }
}

pub(super) const HTTP: BackendDecl = BackendDecl {
    name: "http",
    help: "checks what a web server answers to the node",
    on_by_default: false,
    needs: &[],
    settings: &["--allow-connect HOST:PORT"],
    actions: &[ActionDecl {
        name: "check",
        help: "sends one GET and looks at status and body; the output is the beginning of the answer",
        effect: EffectClass::Pure,
        effect_choice: false,
        timeout: Some(Span::from_ms(60_000)),
        params: &[
            ParamDecl {
                name: "url",
                kind: ParamType::Word { pattern: "http://[A-Za-z0-9.:\\[\\]-]+(/[!-~]*)?" },
                required: true,
                default: None,
                help: "what to ask, like http://127.0.0.1:8080/health; https is not supported",
            },
            optional(
                "statuses",
                ParamType::Integers { min: 100, max: 599 },
                Some("[200]"),
                "the statuses that count as success, like 200,204",
            ),
            optional("contains", ParamType::Text, None, "a text that the first MiB of the body must contain"),
            optional("headers", ParamType::TextMap, None, "headers to send, to the host of url only"),
            optional("redirects", ParamType::Integer { min: 0, max: 10 }, Some("0"), "how many redirects to follow"),
        ],
    }],
};
