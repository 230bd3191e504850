//! Declares `script`: a text that an interpreter of the node runs. Off by default, and even then only with the interpreters that the worker's own
//! list allows (`--allow-interpreter`).
//!
//! Allowing an interpreter allows everything that it can do: the text is the caller's.

use super::command::{ARGS, CWD, ENV, EXIT_CODES, STDIN};
use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};

pub(super) const SCRIPT: BackendDecl = BackendDecl {
    name: "script",
    help: "runs a text with an interpreter that the worker's operator has allowed",
    on_by_default: false,
    needs: &[],
    settings: &["--allow-interpreter PROGRAM"],
    actions: &[ActionDecl {
        name: "run",
        help: "writes the text to a private file and runs the interpreter on it; the exit code decides",
        effect: EffectClass::Once,
        effect_choice: true,
        timeout: None,
        params: &[
            ParamDecl {
                name: "script",
                kind: ParamType::Text,
                required: true,
                default: None,
                help: "the text, at most 64 KiB",
            },
            ParamDecl {
                name: "interpreter",
                kind: ParamType::Word { pattern: super::command::PROGRAM },
                required: false,
                default: Some("sh"),
                help: "what reads it, like sh, bash or /usr/bin/python3",
            },
            ARGS,
            ENV,
            CWD,
            STDIN,
            EXIT_CODES,
        ],
    }],
};
