//! Declares `file`: files in folders that the worker's operator has allowed (`--allow-path`). Off by default.
//!
//! Nothing here is `once`: a file that is written, removed or read a second time ends up the same.
//! Content is part of the job, and a job is stored by every controller: it is short. A path names a file from the root, and no link below an
//! allowed folder is followed.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};

const fn path(help: &'static str) -> ParamDecl {
    ParamDecl { name: "path", kind: ParamType::Word { pattern: "/.*[^/]" }, required: true, default: None, help }
}

const fn optional(name: &'static str, kind: ParamType, default: Option<&'static str>, help: &'static str) -> ParamDecl {
    ParamDecl { name, kind, required: false, default, help }
}

const NAME: ParamType = ParamType::Word { pattern: "[a-z_][a-z0-9_.-]*|[0-9]{1,9}" };

const fn action(
    name: &'static str,
    help: &'static str,
    effect: EffectClass,
    params: &'static [ParamDecl],
) -> ActionDecl {
    ActionDecl { name, help, effect, effect_choice: false, timeout: None, params }
}

pub(super) const FILE: BackendDecl = BackendDecl {
    name: "file",
    help: "writes, reads, looks at and deletes files in folders that the worker's operator has allowed",
    on_by_default: false,
    needs: &[],
    settings: &["--allow-path FOLDER"],
    actions: &[
        action(
            "put",
            "writes a file where it differs, as a whole or not at all, and shows what changed",
            EffectClass::Idempotent,
            &[
                path("the file, a path from /; its folder must exist"),
                optional("content", ParamType::Text, None, "the content, a text of at most 64 KiB"),
                optional("base64", ParamType::Text, None, "the content in base64, instead of content"),
                optional(
                    "mode",
                    ParamType::Mode,
                    None,
                    "the mode in octal digits, in quotes; without it, as it was, or 644",
                ),
                optional("owner", NAME, None, "the owner, a name or a number; without it, as it was, or the worker's"),
                optional("group", NAME, None, "the group, a name or a number; without it, as it was, or the worker's"),
                optional(
                    "backup",
                    ParamType::Boolean,
                    Some("false"),
                    "keep what is replaced as NAME.SECONDS.bak beside it",
                ),
                optional("diff", ParamType::Boolean, Some("true"), "show what changes in the output"),
            ],
        ),
        action(
            "fetch",
            "reads a file: the output is its content, byte for byte, at most 64 MiB",
            EffectClass::Pure,
            &[path("the file, a path from /")],
        ),
        action(
            "stat",
            "shows kind, size, mode, owner and time as a line of JSON, or that there is nothing",
            EffectClass::Pure,
            &[path("the file, a path from /")],
        ),
        action(
            "delete",
            "deletes a file; done where there is none",
            EffectClass::Idempotent,
            &[path("the file, a path from /; never a folder")],
        ),
    ],
};
