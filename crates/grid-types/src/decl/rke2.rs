//! Declares `rke2`: Rancher's Kubernetes distribution, by its own installer and scripts.
//!
//! `mode` is what a node is in the cluster. Where an action does not need it, it is a condition: a node on which the
//! other kind runs is left alone, so that a target that was written too wide does not turn servers into agents.

use super::{ActionDecl, BackendDecl, EffectClass, ParamDecl, ParamType};
use crate::span::Span;

const MODES: ParamType = ParamType::Choice { of: &["server", "agent"] };

const MODE: ParamDecl =
    ParamDecl { name: "mode", kind: MODES, required: true, default: None, help: "what this node is in the cluster" };
const INSTALL_MODE: ParamDecl = ParamDecl {
    name: "mode",
    kind: MODES,
    required: false,
    default: Some("server"),
    help: "what this node is to be in the cluster; refused where the other kind runs",
};
const ONLY_MODE: ParamDecl = ParamDecl {
    name: "mode",
    kind: MODES,
    required: false,
    default: None,
    help: "what the nodes are taken to be; refused where the other kind runs",
};
const VERSION: ParamDecl = ParamDecl {
    name: "version",
    kind: ParamType::Word { pattern: r"v[0-9]+\.[0-9]+\.[0-9]+(-[a-z0-9.]+)?\+rke2r[0-9]+" },
    required: false,
    default: None,
    help: "a release, like v1.33.1+rke2r1; without it, the newest of the channel",
};
const SHA256: ParamDecl = ParamDecl {
    name: "sha256",
    kind: ParamType::Word { pattern: "[0-9a-f]{64}" },
    required: true,
    default: None,
    help: "the SHA-256 of the installer that you have looked at (curl -fsSL https://get.rke2.io | sha256sum); any other is not run",
};
const CHANNEL: ParamDecl = ParamDecl {
    name: "channel",
    kind: ParamType::Word { pattern: "[a-z0-9]([a-z0-9.-]*[a-z0-9])?" },
    required: false,
    default: None,
    help: "a release channel, like stable, latest or v1.33; without it, stable",
};

const fn action(name: &'static str, help: &'static str, timeout_min: u64, params: &'static [ParamDecl]) -> ActionDecl {
    let timeout = Some(Span::from_ms(timeout_min * 60_000));
    ActionDecl { name, help, effect: EffectClass::Idempotent, effect_choice: false, timeout, params }
}

pub(super) const RKE2: BackendDecl = BackendDecl {
    name: "rke2",
    help: "installs and runs RKE2 (Kubernetes) by its own installer and scripts",
    on_by_default: true,
    needs: &["curl", "systemctl"],
    settings: &[],
    actions: &[
        action(
            "download",
            "fetches the installer from get.rke2.io, checks it and keeps it on the node",
            10,
            &[SHA256, ONLY_MODE],
        ),
        action(
            "install",
            "runs the installer, which is fetched first if the node does not have this one; starts nothing",
            30,
            &[SHA256, INSTALL_MODE, VERSION, CHANNEL],
        ),
        action(
            "uninstall",
            "runs rke2-uninstall.sh: stops RKE2 and removes it with all its data; done where there is none",
            15,
            &[ONLY_MODE],
        ),
        action("start", "starts rke2-server or rke2-agent and waits until it is started", 15, &[MODE]),
        action("stop", "stops the service; containers keep running until `kill`", 10, &[MODE]),
        action("restart", "restarts the service and waits until it is started", 15, &[MODE]),
        action("kill", "runs rke2-killall.sh: ends the service and all its containers", 10, &[]),
    ],
};
