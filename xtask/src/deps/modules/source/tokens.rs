//! Removes from token streams what is compiled only for tests.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Items that end at their first braces or semicolon. `const` and `static` do not: a value may have braces.
const ITEMS: &[&str] =
    &["fn", "impl", "mod", "struct", "enum", "union", "trait", "unsafe", "async", "extern", "macro_rules"];
/// Items and statements that end at a semicolon, whatever braces they have.
const TO_SEMICOLON: &[&str] = &["use", "static", "type", "let"];

pub fn is_punct(token: &TokenTree, wanted: char) -> bool {
    matches!(token, TokenTree::Punct(punct) if punct.as_char() == wanted)
}

pub fn is_ident(token: &TokenTree, wanted: &str) -> bool {
    matches!(token, TokenTree::Ident(ident) if ident == wanted)
}

/// The tokens of one stream without doc comments and without what `#[cfg(test)]` guards. Groups are left as they are:
/// the walk calls this again for the inside of each.
pub fn production(stream: TokenStream) -> Vec<TokenTree> {
    let tokens: Vec<TokenTree> = stream.into_iter().collect();
    let mut kept = Vec::new();
    let mut at = 0;
    let mut tests_only = false;
    while at < tokens.len() {
        match attribute(&tokens[at..]) {
            Some((length, _, true)) if only_for_tests(&tokens[at..at + length]) => return Vec::new(),
            Some((length, group, _)) => {
                tests_only |= only_for_tests_in(group);
                if !tests_only && !is_doc(group) {
                    kept.extend_from_slice(&tokens[at..at + length]);
                }
                at += length;
            }
            None if tests_only => {
                at += guarded_length(&tokens[at..]);
                tests_only = false;
            }
            None => {
                kept.push(tokens[at].clone());
                at += 1;
            }
        }
    }
    kept
}

/// An attribute at the start: (its length in tokens, its brackets, whether it is an inner one).
fn attribute(tokens: &[TokenTree]) -> Option<(usize, &Group, bool)> {
    match tokens {
        [hash, TokenTree::Group(group), ..] if is_punct(hash, '#') && group.delimiter() == Delimiter::Bracket => {
            Some((2, group, false))
        }
        [hash, bang, TokenTree::Group(group), ..]
            if is_punct(hash, '#') && is_punct(bang, '!') && group.delimiter() == Delimiter::Bracket =>
        {
            Some((3, group, true))
        }
        _ => None,
    }
}

fn is_doc(brackets: &Group) -> bool {
    brackets.stream().into_iter().next().is_some_and(|word| is_ident(&word, "doc"))
}

fn only_for_tests(attribute: &[TokenTree]) -> bool {
    matches!(attribute.last(), Some(TokenTree::Group(group)) if only_for_tests_in(group))
}

/// `cfg(test)`, `cfg(all(test, …))` and `cfg(any(test, …))`; not `cfg(not(test))`.
fn only_for_tests_in(brackets: &Group) -> bool {
    let words: Vec<TokenTree> = brackets.stream().into_iter().collect();
    match &words[..] {
        [word, TokenTree::Group(condition)] if is_ident(word, "cfg") => requires_test(condition),
        _ => false,
    }
}

fn requires_test(condition: &Group) -> bool {
    let words: Vec<TokenTree> = condition.stream().into_iter().collect();
    words.iter().enumerate().any(|(at, word)| match word {
        TokenTree::Group(inner) => at > 0 && !is_ident(&words[at - 1], "not") && requires_test(inner),
        word => is_ident(word, "test"),
    })
}

/// How many tokens the item, field, variant or statement at the start has.
fn guarded_length(tokens: &[TokenTree]) -> usize {
    let mut start = 0;
    while tokens.get(start).is_some_and(|token| is_ident(token, "pub")) {
        let scoped =
            matches!(tokens.get(start + 1), Some(TokenTree::Group(g)) if g.delimiter() == Delimiter::Parenthesis);
        start += if scoped { 2 } else { 1 };
    }
    let keyword =
        |at: usize, words: &[&str]| tokens.get(at).is_some_and(|token| words.iter().any(|word| is_ident(token, word)));
    let is_const = keyword(start, &["const"]);
    let is_item = keyword(start, ITEMS) || is_const && keyword(start + 1, ITEMS);
    let to_semicolon = keyword(start, TO_SEMICOLON) || is_const && !is_item;
    let ends = |token: &TokenTree| {
        let braces = matches!(token, TokenTree::Group(group) if group.delimiter() == Delimiter::Brace);
        is_punct(token, ';') || braces && !to_semicolon || is_punct(token, ',') && !to_semicolon && !is_item
    };
    tokens[start..].iter().position(ends).map_or(tokens.len(), |end| start + end + 1)
}
