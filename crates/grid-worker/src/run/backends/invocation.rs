//! Reads what `command` and `script` share: arguments, variables, folder, input and exit codes of a program, as a caller gave them.
//!
//! Arguments are items of a list from the caller to `execve`: nothing here joins or splits them.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use grid_types::decl::{ParamValue, Params};

use super::params;
use crate::allow::Variables;
use crate::run::lease::{Call, Finished, LeaseContext};

/// The call of `program` with what was given; `first` are arguments of Grid's own before the caller's.
pub(super) fn call(program: &Path, first: &[&str], given: &Params, variables: &Variables) -> Result<Call, String> {
    let env = match given.get("env") {
        Some(ParamValue::TextMap(env)) => env.clone(),
        _ => BTreeMap::new(),
    };
    variables.check(&env)?;
    let program = program.to_str().ok_or_else(|| format!("{}: a path that is no text", program.display()))?;
    let args = first.iter().copied().chain(texts(given, "args").iter().map(String::as_str));
    let folder = params::text(given, "cwd").map(PathBuf::from);
    let stdin = params::text(given, "stdin").map(str::to_owned);
    Ok(Call { env: env.into_iter().collect(), folder, stdin, ..Call::new(program, args) })
}

/// Runs it; the exit code decides.
pub(super) async fn run(context: &LeaseContext, call: &Call, given: &Params, name: &str) -> Result<(), String> {
    if let Some(folder) = call.folder.clone() {
        context.block(move |_| check_folder(&folder)).await??;
    }
    let finished: Finished = context.call(call).await?;
    let codes = match given.get("exit_codes") {
        Some(ParamValue::Integers(codes)) => codes.as_slice(),
        _ => &[0],
    };
    finished.one_of(codes, name)
}

/// Said here: the kernel's answer names neither the folder nor the program.
fn check_folder(folder: &Path) -> Result<(), String> {
    match folder.metadata() {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(format!("cwd {} is no folder", folder.display())),
        Err(error) => Err(format!("cwd {}: {error}", folder.display())),
    }
}

fn texts<'a>(given: &'a Params, name: &str) -> &'a [String] {
    match given.get(name) {
        Some(ParamValue::Texts(texts)) => texts,
        _ => &[],
    }
}
