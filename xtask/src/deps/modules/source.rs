//! Reads which top-level modules of a crate name which others, from its source files.
//!
//! Works on tokens, not on a syntax tree: paths inside macro calls count like any other, and a path is recognised by its
//! first words (`crate::`, `super::`) wherever it is. A name that the crate root re-exports counts as its module's.
//! Left out: items under `#[cfg(test)]`, with the files that they declare.
//!
//! Files are found by following `mod` declarations from the root, as the compiler does.

mod paths;
pub mod tokens;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};
use proc_macro2::{Delimiter, Literal, TokenStream, TokenTree};

use self::tokens::{is_ident, is_punct, production};
use super::graph::Imports;

/// The name of the crate root in the graph.
const ROOT: &str = "(root)";

/// Reads a file; `None` if it does not exist.
pub type ReadFile<'a> = &'a dyn Fn(&Path) -> Result<Option<String>>;

/// The imports between the top-level modules below one crate root. Places are shown relative to `shown_from`.
pub fn read(root: &Path, read_file: ReadFile<'_>, shown_from: &Path) -> Result<Imports> {
    let mut reader = Reader { read_file, shown_from, names: BTreeMap::new(), imports: Imports::default() };
    let tokens = reader.parse(root)?.ok_or_else(|| anyhow!("{} does not exist", root.display()))?;
    reader.names = paths::names_at_root(&tokens);
    let folder = root.parent().unwrap_or(Path::new("")).to_owned();
    let place = Place { file: root.to_owned(), folder, module: Vec::new() };
    reader.walk(&tokens, &place)?;
    Ok(reader.imports)
}

struct Reader<'a> {
    read_file: ReadFile<'a>,
    shown_from: &'a Path,
    /// Every name at the crate root, by the top-level module that it belongs to.
    names: BTreeMap<String, String>,
    imports: Imports,
}

/// Where the walk is.
struct Place {
    file: PathBuf,
    /// The folder in which this module's `mod x;` declarations look for their files.
    folder: PathBuf,
    module: Vec<String>,
}

impl Place {
    fn top(&self) -> &str {
        self.module.first().map_or(ROOT, String::as_str)
    }

    fn child(&self, name: &str) -> Vec<String> {
        self.module.iter().cloned().chain([name.to_owned()]).collect()
    }
}

impl Reader<'_> {
    fn parse(&self, file: &Path) -> Result<Option<Vec<TokenTree>>> {
        let Some(text) = (self.read_file)(file)? else { return Ok(None) };
        let tokens = TokenStream::from_str(&text).map_err(|error| anyhow!("{}: {error}", file.display()))?;
        Ok(Some(production(tokens)))
    }

    /// Walks the tokens of one module, in a file or in braces.
    fn walk(&mut self, tokens: &[TokenTree], place: &Place) -> Result<()> {
        let mut at = 0;
        while at < tokens.len() {
            let rest = &tokens[at..];
            if let [TokenTree::Ident(word), TokenTree::Ident(name), after, ..] = rest
                && word == "mod"
            {
                match after {
                    TokenTree::Group(body) if body.delimiter() == Delimiter::Brace => {
                        let name = name.to_string();
                        let inner = Place {
                            file: place.file.clone(),
                            folder: place.folder.join(&name),
                            module: place.child(&name),
                        };
                        self.walk(&production(body.stream()), &inner)?;
                    }
                    _ => self.declared(&name.to_string(), place)?,
                }
                at += 3;
            } else if let Some(used) = paths::from_path(rest, &place.module) {
                for (name, line) in used.names {
                    self.record(&name, line, place)?;
                }
                at += used.length;
            } else if let TokenTree::Literal(literal) = &rest[0] {
                self.in_string(literal, place)?;
                at += 1;
            } else if place.module.is_empty() && is_ident(&rest[0], "use") {
                at += 1 + rest.iter().position(|token| is_punct(token, ';')).unwrap_or(rest.len());
            } else {
                self.at_root(tokens, at, place)?;
                if let TokenTree::Group(group) = &tokens[at] {
                    self.walk(&production(group.stream()), place)?;
                }
                at += 1;
            }
        }
        Ok(())
    }

    /// A module in its own file.
    fn declared(&mut self, name: &str, place: &Place) -> Result<()> {
        let folder = place.folder.join(name);
        for file in [place.folder.join(format!("{name}.rs")), folder.join("mod.rs")] {
            if let Some(tokens) = self.parse(&file)? {
                return self.walk(&tokens, &Place { file, folder, module: place.child(name) });
            }
        }
        bail!("{}: no file for `mod {name};`", place.file.display())
    }

    /// In the root's own code a plain name refers to a module or to what the root imports.
    fn at_root(&mut self, tokens: &[TokenTree], at: usize, place: &Place) -> Result<()> {
        let TokenTree::Ident(word) = &tokens[at] else { return Ok(()) };
        if !place.module.is_empty() || at > 0 && is_punct(&tokens[at - 1], '.') {
            return Ok(());
        }
        let name = word.to_string();
        let is_module = self.names.get(&name) == Some(&name);
        if !is_module || tokens.get(at + 1).is_some_and(|next| is_punct(next, ':')) {
            self.record(&name, word.span().start().line, place)?;
        }
        Ok(())
    }

    /// Attributes of derive macros name functions and modules in strings: `#[cbor(with = "crate::coded")]`.
    fn in_string(&mut self, literal: &Literal, place: &Place) -> Result<()> {
        let text = literal.to_string();
        let inner = text.trim_matches('"');
        if !(inner.starts_with("crate::") || inner.starts_with("super::")) {
            return Ok(());
        }
        let Ok(tokens) = TokenStream::from_str(inner) else { return Ok(()) };
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        for (name, _) in paths::from_path(&tokens, &place.module).map(|used| used.names).unwrap_or_default() {
            self.record(&name, literal.span().start().line, place)?;
        }
        Ok(())
    }

    fn record(&mut self, name: &str, line: usize, place: &Place) -> Result<()> {
        let file = place.file.strip_prefix(self.shown_from).unwrap_or(&place.file);
        let at = format!("{}:{line}", file.display());
        let to = match self.names.get(name) {
            Some(module) => module.clone(),
            None if name == "*" => bail!("{at}: a glob import of the crate root hides which modules it uses"),
            None if place.module.is_empty() => return Ok(()),
            None => ROOT.to_owned(),
        };
        self.imports.add(place.top(), &to, at);
        Ok(())
    }
}
