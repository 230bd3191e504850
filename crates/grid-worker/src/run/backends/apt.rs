//! `apt`: packages by apt-get, never asking anybody.
//!
//! - Another apt-get or dpkg (an automatic upgrade, a second worker on this machine) is waited for. apt-get itself waits
//!   for the lock of dpkg only, not for those of its lists and downloads; those are tried again here, before which nothing
//!   was done.
//! - A dpkg that was killed in its work (a cancel, a power cut) leaves packages half set up, and apt-get then refuses
//!   everything. That is made good first: without it these actions could not call themselves idempotent.
//! - `APT::Cmd::Pattern-Only`: a name that is no package is an error, and not a regular expression over all of them.
//!   `--only-upgrade` on a removal: `name+` can then never mean "install name".
//!
//! Not here: which names are taken (`grid_types::decl`).

use std::sync::Arc;
use std::time::Duration;

use grid_types::decl::Params;
use tokio::time::Instant;

use super::{Backend, Run, params};
use crate::run::lease::{Call, Finished, LeaseContext};

const LOCK_WAIT_SECONDS: u64 = 300;
const LOCK_PAUSE: Duration = Duration::from_secs(2);

/// Configuration files that were changed by hand stay; the maintainer's default is taken where there is no such change.
const KEEP_CONFIGURATION: [&str; 2] = ["--force-confdef", "--force-confold"];

pub(super) struct Apt;

impl Backend for Apt {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        Box::pin(async move {
            let call = apt_get(&action, &given)?;
            let waits_until = Instant::now() + Duration::from_secs(LOCK_WAIT_SECONDS);
            let mut repaired = false;
            loop {
                let finished = context.call(&call).await?;
                if says(&finished, "E: Could not get lock") && Instant::now() < waits_until {
                    context.write(b"[grid: another apt-get holds a lock; trying again]\n");
                    tokio::time::sleep(LOCK_PAUSE).await;
                } else if says(&finished, "E: dpkg was interrupted") && !repaired {
                    repaired = true;
                    context.write(b"[grid: an earlier dpkg was interrupted; finishing its work first]\n");
                    context.call(&configure()).await?.success("--configure")?;
                } else {
                    return finished.success(&action);
                }
            }
        })
    }
}

/// As an error of its own: while it waits for a lock it says the same, and then ends for another reason.
fn says(finished: &Finished, words: &str) -> bool {
    !finished.succeeded() && finished.said.lines().any(|line| line.starts_with(words))
}

fn apt_get(action: &str, given: &Params) -> Result<Call, String> {
    let lock = format!("DPkg::Lock::Timeout={LOCK_WAIT_SECONDS}");
    let mut args = vec!["-y", "-q", "-o", &lock, "-o", "Dpkg::Use-Pty=0"];
    let keep = KEEP_CONFIGURATION.map(|option| format!("Dpkg::Options::={option}"));
    args.extend(keep.iter().flat_map(|option| ["-o", option]));
    match action {
        "install" => {
            let package = params::required_text(given, "package")?;
            args.extend(["-o", "APT::Cmd::Pattern-Only=true", "install", "--", package]);
        }
        "remove" => {
            let package = params::required_text(given, "package")?;
            args.extend(["-o", "APT::Cmd::Pattern-Only=true", "--only-upgrade", "remove", "--", package]);
        }
        "update" => args.extend(["-o", "APT::Update::Error-Mode=any", "update"]),
        "upgrade" => args.push("upgrade"),
        other => return Err(format!("apt has no action {other}")),
    }
    Ok(Call { env: environment(), ..Call::new("apt-get", args) })
}

fn configure() -> Call {
    let args = KEEP_CONFIGURATION.iter().copied().chain(["--configure", "-a"]);
    Call { env: environment(), ..Call::new("dpkg", args) }
}

/// Nobody is there to answer: the package's own questions, changed configuration files, lists of changes and bugs.
/// Services are restarted when somebody asks for it, not because a library was upgraded.
fn environment() -> Vec<(String, String)> {
    let fixed = [
        ("DEBIAN_FRONTEND", "noninteractive"),
        ("DEBIAN_PRIORITY", "critical"),
        ("APT_LISTCHANGES_FRONTEND", "none"),
        ("APT_LISTBUGS_FRONTEND", "none"),
        ("NEEDRESTART_MODE", "l"),
        ("UCF_FORCE_CONFFOLD", "1"),
        // What it says is looked at above.
        ("LC_ALL", "C.UTF-8"),
    ];
    fixed.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec()
}

#[cfg(test)]
mod tests {
    use super::{apt_get, configure};
    use grid_types::decl::{ParamValue, Params};

    const ALWAYS: &str = "apt-get -y -q -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 -o Dpkg::Options::=--force-confdef \
                          -o Dpkg::Options::=--force-confold";

    fn line(action: &str, package: Option<&str>) -> String {
        let given: Params =
            package.map(|name| ("package".to_owned(), ParamValue::Text(name.to_owned()))).into_iter().collect();
        let call = apt_get(action, &given).unwrap();
        assert!(call.args.iter().all(|arg| !arg.contains(' ')), "one argument, one word: {call:?}");
        format!("{} {}", call.program, call.args.join(" "))
    }

    #[test]
    fn the_command_lines() {
        for (action, package, want) in [
            ("install", Some("curl"), "-o APT::Cmd::Pattern-Only=true install -- curl"),
            ("install", Some("curl=7.88.1-10"), "-o APT::Cmd::Pattern-Only=true install -- curl=7.88.1-10"),
            ("remove", Some("curl"), "-o APT::Cmd::Pattern-Only=true --only-upgrade remove -- curl"),
            ("update", None, "-o APT::Update::Error-Mode=any update"),
            ("upgrade", None, "upgrade"),
        ] {
            assert_eq!(line(action, package), format!("{ALWAYS} {want}"));
        }
        assert_eq!(configure().args, ["--force-confdef", "--force-confold", "--configure", "-a"]);
        for call in [configure(), apt_get("update", &Params::new()).unwrap()] {
            assert!(call.env.contains(&("DEBIAN_FRONTEND".to_owned(), "noninteractive".to_owned())), "{call:?}");
        }
    }

    #[test]
    fn without_a_package_nothing_is_run() {
        assert!(apt_get("install", &Params::new()).is_err());
        assert!(apt_get("purge", &Params::new()).is_err());
    }
}
