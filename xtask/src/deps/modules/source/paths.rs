//! Paths that leave a module: `crate::…`, `super::…`, and the names that a crate root brings into scope.

use std::collections::BTreeMap;

use proc_macro2::{Delimiter, TokenTree};

use super::tokens::{is_ident, is_punct};

/// A path that begins at the crate root: the names right below the root, each with its line.
pub struct Used {
    pub names: Vec<(String, usize)>,
    /// How many tokens were read.
    pub length: usize,
}

/// Reads a path that starts with `crate`, `super` or `self`, as far as it names something at the crate root.
/// `module` is the path of the module that contains it.
pub fn from_path(tokens: &[TokenTree], module: &[String]) -> Option<Used> {
    let mut names = Vec::new();
    let length = follow(tokens, module.len(), false, &mut names)?;
    Some(Used { names, length })
}

/// Follows the start of a path. `depth` is how far below the crate root it has got.
fn follow(tokens: &[TokenTree], depth: usize, inside: bool, names: &mut Vec<(String, usize)>) -> Option<usize> {
    let TokenTree::Ident(first) = tokens.first()? else { return None };
    let depth = match first.to_string().as_str() {
        "crate" if !inside => 0,
        "super" => depth.checked_sub(1)?,
        "self" => depth,
        name if inside && depth == 0 => {
            names.push((name.to_owned(), first.span().start().line));
            return Some(1);
        }
        _ => return None,
    };
    if !double_colon(&tokens[1..]) {
        return None;
    }
    let rest = &tokens[3..];
    match rest.first()? {
        TokenTree::Ident(_) => Some(3 + follow(rest, depth, true, names).unwrap_or(0)),
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let tree: Vec<TokenTree> = group.stream().into_iter().collect();
            for branch in tree.split(|token| is_punct(token, ',')) {
                follow(branch, depth, true, names);
            }
            Some(4)
        }
        star if is_punct(star, '*') && depth == 0 => {
            names.push(("*".to_owned(), star.span().start().line));
            Some(4)
        }
        _ => Some(3),
    }
}

fn double_colon(tokens: &[TokenTree]) -> bool {
    matches!(tokens, [first, second, ..] if is_punct(first, ':') && is_punct(second, ':'))
}

/// The names at a crate root, by the top-level module that they belong to: the modules themselves, and what `use`
/// declarations take out of them. Names of other crates are not among them.
pub fn names_at_root(tokens: &[TokenTree]) -> BTreeMap<String, String> {
    let mut names = BTreeMap::new();
    for pair in tokens.windows(2) {
        if let [TokenTree::Ident(word), TokenTree::Ident(name)] = pair
            && word == "mod"
        {
            names.insert(name.to_string(), name.to_string());
        }
    }
    let modules: Vec<String> = names.keys().cloned().collect();
    for (at, token) in tokens.iter().enumerate() {
        if is_ident(token, "use") {
            let end = tokens[at..].iter().position(|token| is_punct(token, ';')).unwrap_or(tokens.len() - at);
            for branch in branches(&tokens[at + 1..at + end]) {
                if let Some(module) = branch.path.first().filter(|first| modules.contains(first)) {
                    names.entry(branch.name).or_insert_with(|| module.clone());
                }
            }
        }
    }
    names
}

/// One leaf of a `use` tree.
struct Branch {
    path: Vec<String>,
    name: String,
}

fn branches(tree: &[TokenTree]) -> Vec<Branch> {
    let mut path: Vec<String> = Vec::new();
    let mut at = 0;
    while let Some(token) = tree.get(at) {
        match token {
            TokenTree::Ident(word) if word == "as" => {
                let name = tree.get(at + 1).map(ToString::to_string).unwrap_or_default();
                return vec![Branch { path, name }];
            }
            TokenTree::Ident(word) if (word == "crate" || word == "self") && path.is_empty() => {}
            TokenTree::Ident(word) if word == "self" => {}
            TokenTree::Ident(word) => path.push(word.to_string()),
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner: Vec<TokenTree> = group.stream().into_iter().collect();
                let of = |branch: Branch| {
                    let whole: Vec<String> = path.iter().cloned().chain(branch.path).collect();
                    let name =
                        if branch.name.is_empty() { whole.last().cloned().unwrap_or_default() } else { branch.name };
                    Branch { path: whole, name }
                };
                return inner.split(|token| is_punct(token, ',')).flat_map(branches).map(of).collect();
            }
            _ => {}
        }
        at += 1;
    }
    let name = path.last().cloned().unwrap_or_default();
    vec![Branch { path, name }]
}
