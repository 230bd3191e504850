//! Declares `command`: any program of the node, by an argument vector. Off by default, and even then only what the worker's own list
//! allows (`--allow-command`).
//!
//! `once` unless the caller says otherwise: nobody but the caller knows what a program does when it runs a second time.
//! A program is a path from the root or a bare name that the worker looks up in its fixed search path; a relative path would mean
//! another file in every folder.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};

/// A path from the root, or a name.
pub(super) const PROGRAM: &str = r"/.*[^/]|[A-Za-z0-9_\[][A-Za-z0-9_.+@:-]*";
/// Every exit code that a process can have.
pub(super) const EXIT_CODES: ParamDecl = ParamDecl {
    name: "exit_codes",
    kind: ParamType::Integers { min: 0, max: 255 },
    required: false,
    default: Some("[0]"),
    help: "the exit codes that count as success, like 0,1",
};
pub(super) const ARGS: ParamDecl = ParamDecl {
    name: "args",
    kind: ParamType::Texts,
    required: false,
    default: None,
    help: "its arguments, one item each; no shell reads them",
};
pub(super) const ENV: ParamDecl = ParamDecl {
    name: "env",
    kind: ParamType::TextMap,
    required: false,
    default: None,
    help: "environment variables that the worker allows (--allow-env)",
};
pub(super) const CWD: ParamDecl = ParamDecl {
    name: "cwd",
    kind: ParamType::Word { pattern: "/.*" },
    required: false,
    default: None,
    help: "the folder it works in, a path from /; without it, an empty folder of its own",
};
pub(super) const STDIN: ParamDecl = ParamDecl {
    name: "stdin",
    kind: ParamType::Text,
    required: false,
    default: None,
    help: "what it reads from its standard input; without it, nothing",
};

pub(super) const COMMAND: BackendDecl = BackendDecl {
    name: "command",
    help: "runs programs that the worker's operator has allowed",
    on_by_default: false,
    needs: &[],
    settings: &["--allow-command PROGRAM"],
    actions: &[ActionDecl {
        name: "run",
        help: "runs a program with arguments, without a shell; its exit code decides",
        effect: EffectClass::Once,
        effect_choice: true,
        timeout: None,
        params: &[
            ParamDecl {
                name: "program",
                kind: ParamType::Word { pattern: PROGRAM },
                required: true,
                default: None,
                help: "a program, like uname or /usr/bin/uname",
            },
            ARGS,
            ENV,
            CWD,
            STDIN,
            EXIT_CODES,
        ],
    }],
};
