//! Declares `apt`: packages of Debian and its kin.
//!
//! Everything here may run again with the same end: apt-get finds what is already done and goes on from there.
//! The patterns are stricter than the names apt-get takes: a `-` at the end would turn an install into a removal, and
//! what holds `*` or `^` would mean many packages at once.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};
use crate::span::Span;

const fn package(pattern: &'static str, help: &'static str) -> ParamDecl {
    ParamDecl { name: "package", kind: ParamType::Word { pattern }, required: true, default: None, help }
}

pub(super) const APT: BackendDecl = BackendDecl {
    name: "apt",
    help: "installs, removes and upgrades packages with apt-get",
    on_by_default: true,
    needs: &["apt-get"],
    settings: &[],
    actions: &[
        ActionDecl {
            name: "install",
            help: "installs a package, or upgrades it to the newest (or the named) version; configuration files that \
                   were changed by hand stay",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: Some(Span::from_ms(15 * 60_000)),
            params: &[package(
                "[a-z0-9][a-z0-9+.-]*[a-z0-9+](:[a-z0-9][a-z0-9-]*[a-z0-9])?(=[A-Za-z0-9.+:~-]*[A-Za-z0-9.+~]|\
                 /[A-Za-z0-9.-]*[A-Za-z0-9.])?",
                "a package name, like curl, libc6:amd64, curl=7.88.1-10 or curl/bookworm",
            )],
        },
        ActionDecl {
            name: "remove",
            help: "removes a package and keeps its configuration files",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: Some(Span::from_ms(10 * 60_000)),
            params: &[package(
                "[a-z0-9][a-z0-9+.-]*[a-z0-9+](:[a-z0-9][a-z0-9-]*[a-z0-9])?",
                "a package name, like curl or libc6:amd64",
            )],
        },
        ActionDecl {
            name: "update",
            help: "fetches the lists of packages; a list that cannot be fetched is a failure",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: Some(Span::from_ms(10 * 60_000)),
            params: &[],
        },
        ActionDecl {
            name: "upgrade",
            help: "upgrades every installed package that needs no other to be removed or added",
            effect: EffectClass::Idempotent,
            effect_choice: false,
            timeout: Some(Span::from_ms(60 * 60_000)),
            params: &[],
        },
    ],
};
