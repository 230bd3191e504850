//! `rke2`: the installer of get.rke2.io, the scripts it leaves on the machine, and systemctl.
//!
//! ```text
//!   download: curl → sha256 → DATA/rke2/install.sh      install: sha256 → DATA/rke2/install.sh with INSTALL_RKE2_* set
//!   uninstall: rke2-uninstall.sh               kill: rke2-killall.sh        start, stop, restart: systemctl
//! ```
//!
//! The installer is kept in the worker's own folder, where nobody else can write, and is executed as a file: what a job
//! says reaches it in its environment only, never as text of a script. It runs as root, and what the address serves changes: only a
//! script with the digest that the job names is kept or run. What the installer itself fetches it checks by its own sums.
//! A guard and no more: a `mode` is refused on a node where the other kind is active. Who joins which cluster is in
//! RKE2's own configuration, which this backend does not touch.

use std::fs::{self, Permissions};
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use grid_folder::{create, make_dir};
use grid_types::LeaseKey;
use grid_types::decl::Params;
use sha2::{Digest, Sha256};

use super::systemd::systemctl;
use super::{Backend, Run, params};
use crate::run::lease::{Call, EffectGate, LeaseContext};

const INSTALLER_URL: &str = "https://get.rke2.io";
/// Where the installer puts the scripts: from a tarball, or from a package.
const SCRIPT_FOLDERS: [&str; 3] = ["/usr/local/bin", "/usr/bin", "/opt/rke2/bin"];

#[derive(Clone)]
pub(super) struct Rke2 {
    folder: PathBuf,
}

impl Rke2 {
    pub(super) fn new(data_dir: &Path) -> Self {
        Self { folder: std::path::absolute(data_dir).unwrap_or_else(|_| data_dir.to_owned()).join("rke2") }
    }

    fn installer(&self) -> PathBuf {
        self.folder.join("install.sh")
    }

    /// Each lease has its own: of two that fetch at once, one would rename what the other still writes.
    fn part(&self, lease: &LeaseKey) -> PathBuf {
        let LeaseKey { job, job_epoch, step, attempt } = lease;
        self.folder.join(format!("install.sh.{job}-e{job_epoch}-{step}-{attempt}.part"))
    }
}

impl Backend for Rke2 {
    fn run(&self, context: Arc<LeaseContext>, action: String, given: Params) -> Run {
        let rke2 = self.clone();
        Box::pin(async move {
            match action.as_str() {
                "download" => {
                    refuse_other_kind(&context, &given).await?;
                    rke2.download(&context, params::required_text(&given, "sha256")?).await
                }
                "install" => {
                    refuse_other_kind(&context, &given).await?;
                    rke2.install(&context, &given).await
                }
                "uninstall" => {
                    refuse_other_kind(&context, &given).await?;
                    match context.locate("rke2-uninstall.sh", &SCRIPT_FOLDERS) {
                        Some(script) => run_script(&context, &script).await,
                        None => {
                            context.write(b"rke2 is not installed here: nothing to do\n");
                            Ok(())
                        }
                    }
                }
                "kill" => match context.locate("rke2-killall.sh", &SCRIPT_FOLDERS) {
                    Some(script) => run_script(&context, &script).await,
                    None => Err("there is no rke2-killall.sh on this node: rke2 is not installed".to_owned()),
                },
                "start" | "stop" | "restart" => {
                    let unit = unit(params::required_text(&given, "mode")?);
                    context.call(&systemctl(&action, &unit)?).await?.success(&format!("{action} {unit}"))
                }
                other => Err(format!("rke2 has no action {other}")),
            }
        })
    }
}

impl Rke2 {
    async fn download(&self, context: &LeaseContext, digest: &str) -> Result<(), String> {
        let (folder, file) = (self.folder.clone(), self.installer());
        let unfinished = Part(self.part(&context.lease()));
        let part = unfinished.0.clone();
        let failed = |what: &str, path: &Path, error: &io::Error| format!("cannot {what} {}: {error}", path.display());
        let prepare = move |part: &Path| make_dir(&folder).and_then(|()| create(part)).map(drop);
        let to = part.clone();
        let prepare = move |gate: &EffectGate| {
            let _entered = gate.enter()?;
            prepare(&to).map_err(|e| failed("make", &to, &e))
        };
        context.block(prepare).await??;
        context.call(&download_call(&part)).await?.success(INSTALLER_URL)?;
        let (kept, digest) = (file.clone(), digest.to_owned());
        context.block(move |gate| keep(&part, &kept, &digest, gate)).await??;
        context.write(format!("kept {INSTALLER_URL} as {}\n", file.display()).as_bytes());
        Ok(())
    }

    async fn install(&self, context: &LeaseContext, given: &Params) -> Result<(), String> {
        let (installer, digest) = (self.installer(), params::required_text(given, "sha256")?);
        let (file, wanted) = (installer.clone(), digest.to_owned());
        // None, another one, or one that was changed since.
        if !context.block(move |_| sha256(&file).is_ok_and(|found| found == wanted)).await? {
            self.download(context, digest).await?;
        }
        context.call(&install_call(&installer, given)).await?.success("(installer of rke2)")
    }
}

/// Goes with the lease that fetches it, however that ends.
struct Part(PathBuf);

impl Drop for Part {
    fn drop(&mut self) {
        // Usually it has its name already.
        let _ = fs::remove_file(&self.0);
    }
}

fn download_call(part: &Path) -> Call {
    let part = part.to_string_lossy();
    // -q counts only as the first: no configuration of the user that the worker runs as.
    let fetch =
        ["-q", "--fail", "--silent", "--show-error", "--location", "--retry", "3", "--proto", "=https", "--tlsv1.2"];
    Call::new("curl", fetch.into_iter().chain(["--output", &part, INSTALLER_URL]))
}

fn install_call(installer: &Path, given: &Params) -> Call {
    let mode = params::text(given, "mode").unwrap_or("server").to_owned();
    let mut env = vec![("INSTALL_RKE2_TYPE".to_owned(), mode)];
    for (name, param) in [("INSTALL_RKE2_VERSION", "version"), ("INSTALL_RKE2_CHANNEL", "channel")] {
        env.extend(params::text(given, param).map(|value| (name.to_owned(), value.to_owned())));
    }
    Call { env, ..Call::new(&installer.to_string_lossy(), [] as [&str; 0]) }
}

/// Only what the job names; the address may serve a newer script, or a proxy its login page.
fn keep(part: &Path, file: &Path, digest: &str, gate: &EffectGate) -> Result<(), String> {
    let failed = |error: io::Error| format!("cannot keep {}: {error}", file.display());
    let found = sha256(part).map_err(failed)?;
    if found != digest {
        return Err(format!(
            "refused: what {INSTALLER_URL} serves has the SHA-256 {found}, and the job names {digest}; nothing was run: look at \
             the script, then name its digest"
        ));
    }
    fs::set_permissions(part, Permissions::from_mode(0o700)).map_err(failed)?;
    let _entered = gate.enter()?;
    fs::rename(part, file).map_err(failed)
}

fn sha256(file: &Path) -> io::Result<String> {
    let mut hasher = Sha256::new();
    let mut open = grid_folder::open(file)?;
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let count = open.read(&mut buffer)?;
        if count == 0 {
            return Ok(hasher.finalize().iter().map(|byte| format!("{byte:02x}")).collect());
        }
        hasher.update(&buffer[..count]);
    }
}

async fn run_script(context: &LeaseContext, script: &Path) -> Result<(), String> {
    context.call(&Call::new(&script.to_string_lossy(), [] as [&str; 0])).await?.success("")
}

async fn refuse_other_kind(context: &LeaseContext, given: &Params) -> Result<(), String> {
    let other = match params::text(given, "mode") {
        Some("server") => "agent",
        Some("agent") => "server",
        _ => return Ok(()),
    };
    // It prints the state of the unit, whatever that is; only success says that it is active.
    if context.call(&systemctl("is-active", &unit(other))?).await?.succeeded() {
        return Err(format!("refused: {} is active on this node, and the job is for the other kind", unit(other)));
    }
    Ok(())
}

fn unit(mode: &str) -> String {
    format!("rke2-{mode}.service")
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{Rke2, download_call, install_call, keep};
    use crate::run::lease::EffectGate;
    use grid_types::decl::{ParamValue, Params};
    use grid_types::{Attempt, JobEpoch, JobId, LeaseKey, StepIndex};

    #[test]
    fn the_command_lines() {
        let rke2 = Rke2::new(Path::new("/var/lib/grid"));
        assert_eq!(rke2.installer(), Path::new("/var/lib/grid/rke2/install.sh"));
        let fetch = download_call(Path::new("/d/install.sh.part"));
        assert_eq!(
            format!("{} {}", fetch.program, fetch.args.join(" ")),
            "curl -q --fail --silent --show-error --location --retry 3 --proto =https --tlsv1.2 --output \
             /d/install.sh.part https://get.rke2.io"
        );
        let given: Params = [("mode", "agent"), ("version", "v1.33.1+rke2r1"), ("channel", "stable")]
            .map(|(name, value)| (name.to_owned(), ParamValue::Text(value.to_owned())))
            .into();
        let call = install_call(Path::new("/d/install.sh"), &given);
        assert_eq!((call.program.as_str(), call.args.len()), ("/d/install.sh", 0));
        let env: Vec<_> = call.env.iter().map(|(name, value)| format!("{name}={value}")).collect();
        assert_eq!(
            env,
            ["INSTALL_RKE2_TYPE=agent", "INSTALL_RKE2_VERSION=v1.33.1+rke2r1", "INSTALL_RKE2_CHANNEL=stable"]
        );
        assert_eq!(
            install_call(Path::new("/d"), &Params::new()).env,
            [("INSTALL_RKE2_TYPE".to_owned(), "server".to_owned())]
        );
    }

    #[test]
    fn two_leases_that_fetch_at_once_do_not_share_a_file() {
        let rke2 = Rke2::new(Path::new("/var/lib/grid"));
        let lease = |job| LeaseKey { job: JobId(job), job_epoch: JobEpoch(1), step: StepIndex(0), attempt: Attempt(1) };
        let (one, other) = (rke2.part(&lease(1)), rke2.part(&lease(2)));
        assert_ne!(one, other);
        assert_eq!((one.parent(), other.parent()), (rke2.installer().parent(), rke2.installer().parent()));
    }

    #[test]
    fn issue14_8_only_the_script_that_the_job_names_is_kept() {
        let dir = tempfile::tempdir().unwrap();
        let (part, file) = (dir.path().join("part"), dir.path().join("install.sh"));
        let digest = "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf";
        for bad in ["", "<html>log in</html>"] {
            std::fs::write(&part, bad).unwrap();
            assert!(keep(&part, &file, digest, &EffectGate::default()).unwrap_err().contains(digest));
            assert!(!file.exists());
        }
        std::fs::write(&part, "#!/bin/sh\n").unwrap();
        keep(&part, &file, digest, &EffectGate::default()).unwrap();
        assert!(file.is_file() && !part.exists());
    }
}
