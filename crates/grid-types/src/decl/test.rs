//! Declares `test`: actions that fail, wait, write and refuse to die on demand. Off by default on a worker.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};

const MESSAGE: ParamDecl =
    ParamDecl { name: "message", kind: ParamType::Text, required: false, default: None, help: "what to say" };
const DELAY: ParamDecl = ParamDecl {
    name: "delay",
    kind: ParamType::Duration,
    required: false,
    default: Some("0s"),
    help: "how long to wait, like 500ms",
};
const DURATION: ParamDecl = ParamDecl {
    name: "duration",
    kind: ParamType::Duration,
    required: true,
    default: None,
    help: "how long to run, like 3s",
};

pub(super) const TEST: BackendDecl = BackendDecl {
    name: "test",
    help: "actions that behave and misbehave on demand",
    on_by_default: false,
    needs: &[],
    settings: &[],
    actions: &[
        ActionDecl {
            name: "succeed",
            help: "waits, prints the message and succeeds",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: None,
            params: &[MESSAGE, DELAY],
        },
        ActionDecl {
            name: "fail",
            help: "waits, then fails with the message as its error",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: None,
            params: &[MESSAGE, DELAY],
        },
        ActionDecl {
            name: "sleep",
            help: "runs a sleeping process",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: None,
            params: &[DURATION],
        },
        ActionDecl {
            name: "flaky",
            help: "fails in this percentage of runs",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: None,
            params: &[ParamDecl {
                name: "rate",
                kind: ParamType::Integer { min: 0, max: 100 },
                required: true,
                default: None,
                help: "percent of runs that fail",
            }],
        },
        ActionDecl {
            name: "output",
            help: "prints numbered lines",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: None,
            params: &[
                ParamDecl {
                    name: "lines",
                    kind: ParamType::Integer { min: 0, max: 10_000_000 },
                    required: true,
                    default: None,
                    help: "how many lines",
                },
                ParamDecl {
                    name: "width",
                    kind: ParamType::Integer { min: 1, max: 100_000 },
                    required: true,
                    default: None,
                    help: "characters per line",
                },
                ParamDecl {
                    name: "pause",
                    kind: ParamType::Duration,
                    required: false,
                    default: Some("0s"),
                    help: "how long to wait after each line",
                },
            ],
        },
        ActionDecl {
            name: "record",
            help: "appends the line \"job step node attempt\" to a file, then waits",
            effect: EffectClass::Once,
            effect_choice: false,
            timeout: None,
            params: &[
                ParamDecl {
                    name: "path",
                    kind: ParamType::Text,
                    required: true,
                    default: None,
                    help: "the file; its folder must exist",
                },
                DELAY,
            ],
        },
        ActionDecl {
            name: "tree",
            help: "runs a child and a grandchild that ignore SIGTERM",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: None,
            params: &[DURATION],
        },
    ],
};
