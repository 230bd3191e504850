//! Declares `wait`: for a port, a file, or a time. Off by default; ports and files need the lists of `http` and `file`.
//!
//! The task's timeout is how long it waits: an hour unless the task says otherwise.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};
use crate::span::Span;

const HOUR: Option<Span> = Some(Span::from_ms(60 * 60_000));

const EVERY: ParamDecl = ParamDecl {
    name: "every",
    kind: ParamType::Duration,
    required: false,
    default: Some("1s"),
    help: "how long to pause between two tries, from 10ms to 1m",
};

const fn action(name: &'static str, help: &'static str, params: &'static [ParamDecl]) -> ActionDecl {
    ActionDecl { name, help, effect: EffectClass::Pure, effect_choice: false, timeout: HOUR, params }
}

pub(super) const WAIT: BackendDecl = BackendDecl {
    name: "wait",
    help: "waits for a port, a file or a time; the task's timeout says for how long",
    on_by_default: false,
    needs: &[],
    settings: &[],
    actions: &[
        action(
            "port",
            "waits until a TCP port accepts a connection (--allow-connect)",
            &[
                ParamDecl {
                    name: "host",
                    kind: ParamType::Word { pattern: "[A-Za-z0-9.:-]+" },
                    required: false,
                    default: Some("127.0.0.1"),
                    help: "the host, a name or an address",
                },
                ParamDecl {
                    name: "port",
                    kind: ParamType::Integer { min: 1, max: 65_535 },
                    required: true,
                    default: None,
                    help: "the port",
                },
                EVERY,
            ],
        ),
        action(
            "file",
            "waits until a file exists (--allow-path)",
            &[
                ParamDecl {
                    name: "path",
                    kind: ParamType::Word { pattern: "/.*[^/]" },
                    required: true,
                    default: None,
                    help: "the file, a path from /",
                },
                EVERY,
            ],
        ),
        action(
            "duration",
            "waits for a time",
            &[ParamDecl {
                name: "duration",
                kind: ParamType::Duration,
                required: true,
                default: None,
                help: "how long, like 30s",
            }],
        ),
    ],
};
