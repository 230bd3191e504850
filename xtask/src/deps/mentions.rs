//! Checks that a crate does not name a module of a crate that it may depend on.
//!
//! The sources are compared as tokens, so that comments and line breaks do not matter. Tests count too: they show what a
//! crate returns.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, Result, anyhow, bail};
use proc_macro2::{TokenStream, TokenTree};

use crate::shell::workspace_root;

/// (crate, path that it must not name, why)
const MUST_NOT_NAME: &[(&str, &[&str; 2], &str)] = &[(
    "grid-store",
    &["grid_types", "api"],
    "the store returns rows; grid-controller::documents makes the documents of the HTTP API from them",
)];

/// Checks every rule.
pub fn check() -> Result<()> {
    let mut broken = Vec::new();
    for (krate, path, why) in MUST_NOT_NAME {
        let mut files = Vec::new();
        collect(&workspace_root().join("crates").join(krate), &mut files)?;
        if files.is_empty() {
            bail!("no crate `{krate}` in this workspace");
        }
        for file in files {
            let text = std::fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
            if names(&text, path)? {
                broken.push(format!("{} names {}: {why}", file.display(), path.join("::")));
            }
        }
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    Ok(())
}

/// Whether a source names `krate::module`, alone or in a list of imports.
fn names(text: &str, path: &[&str; 2]) -> Result<bool> {
    let tokens = TokenStream::from_str(text).map_err(|error| anyhow!("{error}"))?;
    Ok(is_named(tokens, path))
}

fn is_named(stream: TokenStream, [krate, module]: &[&str; 2]) -> bool {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let here = tokens.windows(4).any(|four| match four {
        [first, TokenTree::Punct(_), TokenTree::Punct(_), TokenTree::Group(list)] if is_ident(first, krate) => {
            list.stream().into_iter().any(|token| is_ident(&token, module))
        }
        [first, TokenTree::Punct(_), TokenTree::Punct(_), last] => is_ident(first, krate) && is_ident(last, module),
        _ => false,
    });
    here || tokens.into_iter().any(|token| match token {
        TokenTree::Group(group) => is_named(group.stream(), &[krate, module]),
        _ => false,
    })
}

fn is_ident(token: &TokenTree, name: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == name)
}

#[cfg(test)]
mod tests {
    use super::names;

    #[test]
    fn a_path_is_found_alone_and_in_lists_and_not_in_comments() {
        let named = |text| names(text, &["grid_types", "api"]).unwrap();
        assert!(named("use grid_types::api::JobDoc;"));
        assert!(named("use grid_types::{JobId, api::JobDoc};"));
        assert!(named("fn f() { let x: grid_types::api::JobDoc; }"));
        assert!(!named("// grid_types::api\nuse grid_types::{JobId, job::JobSpec};"));
        assert!(!named("use other::api::JobDoc;"));
    }
}
