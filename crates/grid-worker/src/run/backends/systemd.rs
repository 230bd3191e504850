//! `systemd`: units by systemctl.
//!
//! start, stop and restart wait for the unit. A cancel ends that wait and not the unit's own start or stop, which is
//! systemd's and not this lease's.
//! Not here: which names are taken (`grid_types::decl`).

use std::sync::Arc;

use grid_types::decl::Params;

use super::{Backend, Run, params};
use crate::run::lease::{Call, LeaseContext};
use crate::seams::Exit;

/// LSB's codes for `status`.
const NOT_ACTIVE: Exit = Exit::Code(3);
const NO_SUCH_UNIT: Exit = Exit::Code(4);

pub(super) struct Systemd;

impl Backend for Systemd {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        Box::pin(async move {
            let unit = params::required_text(&given, "unit")?;
            let finished = context.call(&systemctl(&action, unit)?).await?;
            match finished.exit {
                NOT_ACTIVE if action == "status" => Err(format!("{unit} is not active (systemctl status: exit 3)")),
                NO_SUCH_UNIT if action == "status" => {
                    Err(format!("there is no unit {unit} (systemctl status: exit 4)"))
                }
                _ => finished.success(&action),
            }
        })
    }
}

/// `Err`: not an action of this backend.
pub(super) fn systemctl(action: &str, unit: &str) -> Result<Call, String> {
    let mut args = vec!["--no-ask-password", "--no-pager"];
    match action {
        "start" | "stop" | "restart" | "enable" | "disable" | "is-active" => args.push(action),
        "status" => args.extend(["--full", "--lines=20", "status"]),
        other => return Err(format!("systemd has no action {other}")),
    }
    args.extend(["--", unit]);
    Ok(Call { env: vec![("LC_ALL".to_owned(), "C.UTF-8".to_owned())], ..Call::new("systemctl", args) })
}

#[cfg(test)]
mod tests {
    use super::systemctl;

    #[test]
    fn the_command_lines() {
        for (action, want) in [
            ("start", "start -- nginx"),
            ("stop", "stop -- nginx"),
            ("restart", "restart -- nginx"),
            ("enable", "enable -- nginx"),
            ("disable", "disable -- nginx"),
            ("status", "--full --lines=20 status -- nginx"),
        ] {
            let call = systemctl(action, "nginx").unwrap();
            assert_eq!(call.program, "systemctl");
            assert_eq!(call.args.join(" "), format!("--no-ask-password --no-pager {want}"));
        }
        assert!(systemctl("kill", "nginx").is_err());
    }
}
