//! Declares `systemd`: units of the machine's service manager.
//!
//! `restart` is idempotent although a second one interrupts the service again: its end is the same, and the alternative,
//! `unknown` on every node whose worker was restarted meanwhile, would stop a rollout for something harmless.
//! A unit is named whole: patterns such as `nginx*`, paths and names that begin with `-` are refused.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};
use crate::span::Span;

const UNIT: ParamDecl = ParamDecl {
    name: "unit",
    kind: ParamType::Word { pattern: r"[A-Za-z0-9:_.@\\][A-Za-z0-9:_.@\\-]*" },
    required: true,
    default: None,
    help: "a unit, like nginx, nginx.service or getty@tty1",
};

const fn action(name: &'static str, help: &'static str, effect: EffectClass, timeout_min: u64) -> ActionDecl {
    let timeout = Some(Span::from_ms(timeout_min * 60_000));
    ActionDecl { name, help, effect, effect_choice: false, timeout, params: &[UNIT] }
}

pub(super) const SYSTEMD: BackendDecl = BackendDecl {
    name: "systemd",
    help: "starts, stops and looks at units with systemctl",
    on_by_default: true,
    needs: &["systemctl"],
    settings: &[],
    actions: &[
        action("start", "starts a unit and waits until it is started", EffectClass::Idempotent, 5),
        action("stop", "stops a unit and waits until it is stopped", EffectClass::Idempotent, 5),
        action("restart", "stops a unit if it runs, and starts it", EffectClass::Idempotent, 10),
        action("enable", "lets a unit start with the machine", EffectClass::Idempotent, 1),
        action("disable", "disables a unit at boot", EffectClass::Idempotent, 1),
        action(
            "status",
            "shows the state of a unit; fails if it is not active or there is no such unit",
            EffectClass::Pure,
            1,
        ),
    ],
};
