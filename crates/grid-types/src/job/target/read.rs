//! Reads a target expression and names the first fault with its place.
//!
//! ```text
//!   target := or | part "of" target      part := PERCENT | "first" NUMBER
//!   or     := and { "or" and }
//!   and    := not { "and" not }
//!   not    := "not" not | "(" target ")" | term
//!   term   := "all" | "node:" names | "group:" names | "labels:" pairs | "facts:" comparisons
//! ```
//!
//! Lists have commas and no spaces. A value that is not quoted ends at a space, a comma or a parenthesis.
//! Bounds: bytes of the text, depth, and tests, which every node may have to pass ([`MAX_TARGET_TESTS`]).

use std::collections::BTreeMap;

use super::compare::{FactTest, OPS, Op, Version};
use super::expr::{Expr, Names};
use super::glob::{Glob, Pattern};
use crate::job::{Concurrency, Share};
use crate::limits::{MAX_TARGET_BYTES, MAX_TARGET_DEPTH, MAX_TARGET_TESTS};
use crate::name::Name;
use crate::node::{FACT_KEY_RULE, LABEL_RULE, is_fact_key, is_label};

/// A fault of a target, and where it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{problem}")]
pub struct TargetError {
    /// Characters before it.
    pub at: usize,
    /// What is wrong there.
    pub problem: String,
}

/// What can be written, for messages.
const TERMS: &str = "all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE";

/// The whole text as an expression.
pub(super) fn read_expr(text: &str) -> Result<Expr, TargetError> {
    let mut reader = Reader::new(text)?;
    let expr = reader.target(0)?;
    reader.end()?;
    Ok(expr)
}

/// The value of one term, `web,db` of `group:web,db`, and nothing else.
pub(super) fn read_value(scope: &str, value: &str) -> Result<Expr, TargetError> {
    let mut reader = Reader::new(value)?;
    let expr = reader.value(scope)?;
    reader.end()?;
    Ok(expr)
}

struct Reader<'a> {
    text: &'a str,
    /// Bytes that were read.
    at: usize,
    tests: usize,
}

type Read<T> = Result<T, TargetError>;

impl<'a> Reader<'a> {
    fn new(text: &'a str) -> Read<Self> {
        if text.len() > MAX_TARGET_BYTES {
            let problem = format!("has {} bytes; a target has at most {MAX_TARGET_BYTES}", text.len());
            return Err(TargetError { at: 0, problem });
        }
        Ok(Self { text, at: 0, tests: 0 })
    }

    fn target(&mut self, depth: usize) -> Read<Expr> {
        match self.part()? {
            None => self.any_of(depth),
            Some(portion) => {
                let of = Box::new(self.target(self.deeper(depth)?)?);
                Ok(Expr::Part { portion, of })
            }
        }
    }

    /// `20% of` or `first 3 of`.
    fn part(&mut self) -> Read<Option<Concurrency>> {
        let (from, word) = self.peek_word();
        let portion = if word == "first" {
            self.take(word);
            let (at, number) = self.peek_word();
            self.take(number);
            let nodes = number.parse().ok().filter(|n| *n > 0 && number.bytes().all(|b| b.is_ascii_digit()));
            let nodes: u32 =
                nodes.ok_or_else(|| self.fault(at, "first needs a number of nodes from 1, as in `first 3 of all`"))?;
            Concurrency::Nodes(nodes)
        } else if word.ends_with('%') {
            self.take(word);
            Concurrency::Share(share(word).map_err(|problem| self.fault(from, problem))?)
        } else {
            return Ok(None);
        };
        let (at, of) = self.peek_word();
        if of != "of" {
            let portion = self.text[from..self.at].trim_end();
            return Err(self.fault(at, format!("write of which nodes: `{portion} of all`")));
        }
        self.take(of);
        // A part looks at every node, as a test does.
        self.test(from)?;
        Ok(Some(portion))
    }

    fn any_of(&mut self, depth: usize) -> Read<Expr> {
        self.list(depth, "or", Self::all_of, Expr::Or)
    }

    fn all_of(&mut self, depth: usize) -> Read<Expr> {
        self.list(depth, "and", Self::operand, Expr::And)
    }

    fn list(
        &mut self,
        depth: usize,
        between: &str,
        next: fn(&mut Self, usize) -> Read<Expr>,
        joined: fn(Vec<Expr>) -> Expr,
    ) -> Read<Expr> {
        let first = next(self, depth)?;
        let mut all = vec![first];
        while self.peek_word().1 == between {
            self.take(between);
            all.push(next(self, depth)?);
        }
        Ok(if all.len() == 1 { all.remove(0) } else { joined(all) })
    }

    fn operand(&mut self, depth: usize) -> Read<Expr> {
        let (at, word) = self.peek_word();
        if word == "not" {
            self.take(word);
            let of = self.operand(self.deeper(depth)?)?;
            return Ok(Expr::Not(Box::new(of)));
        }
        if word.is_empty() && self.text[at..].starts_with('(') {
            self.at = at + 1;
            let inner = self.target(self.deeper(depth)?)?;
            let (end, _) = self.peek_word();
            if !self.text[end..].starts_with(')') {
                return Err(self.unexpected(end, "the closing parenthesis is missing"));
            }
            self.at = end + 1;
            return Ok(inner);
        }
        self.term(at, word)
    }

    fn term(&mut self, at: usize, word: &str) -> Read<Expr> {
        let scope = word.split_once(':').map(|(scope, _)| scope);
        match (scope, word) {
            (Some(scope), _) if matches!(scope, "node" | "group" | "labels" | "facts") => {
                self.at = at + scope.len() + 1;
                self.value(scope)
            }
            (None, "all") => {
                self.take(word);
                self.test(at)?;
                Ok(Expr::All)
            }
            (None, "any") => Err(self.fault(at, "any stands alone; one node of a set is `first 1 of …`".to_owned())),
            (Some(scope @ ("all" | "any")), _) => Err(self.fault(at, format!("{scope} takes no value"))),
            (Some(scope), _) => Err(self.fault(at, format!("unknown scope {:?}: use {TERMS}", shown(scope)))),
            (None, "" | "and" | "or" | "of") => {
                Err(self.unexpected(at, &format!("a set of nodes is missing here: {TERMS}")))
            }
            (None, "first") => Err(self.fault(at, "put a number of nodes in parentheses: (first 3 of …)".to_owned())),
            (None, word) if word.ends_with('%') => {
                Err(self.fault(at, format!("put a share in parentheses: ({} of …)", shown(word))))
            }
            (None, "node" | "group") => Err(self.fault(at, format!("{word} needs a name, like {word}:web"))),
            (None, "labels") => Err(self.fault(at, "labels needs KEY=VALUE, like labels:zone=a".to_owned())),
            (None, "facts") => Err(self.fault(at, "facts needs KEY=VALUE, like facts:os.id=debian".to_owned())),
            (None, word) => {
                let terms = terms_for(word);
                Err(self.fault(at, format!("unknown word {:?}: use {terms}", shown(word))))
            }
        }
    }

    /// What follows the colon of a term.
    fn value(&mut self, scope: &str) -> Read<Expr> {
        match scope {
            "node" => self.names(scope).map(Expr::Nodes),
            "group" => self.names(scope).map(Expr::Groups),
            "labels" => self.labels().map(Expr::Labels),
            _ => self.facts().map(Expr::Facts),
        }
    }

    fn names(&mut self, scope: &str) -> Read<Names> {
        let mut names = Names::default();
        self.test(self.at)?;
        loop {
            let (at, item) = (self.at, self.run(|c| c.is_whitespace() || "(),\"".contains(c)));
            if item.is_empty() {
                return Err(self
                    .fault(at, format!("{scope} needs a name, like {scope}:web; lists have no spaces: {scope}:a,b")));
            }
            match Glob::new(item) {
                Some(glob) => {
                    self.test(at)?;
                    if let Some((bad, c)) = item.char_indices().find(|(_, c)| !is_of_names(*c)) {
                        return Err(self.fault(at + bad, format!("{c:?} is in no name: use a-z, 0-9, '-', * and ?")));
                    }
                    names.globs.insert(glob);
                }
                None => {
                    let name = item.parse::<Name>().map_err(|e| self.fault(at, e.to_string()))?;
                    names.exact.insert(name);
                }
            }
            if !self.comma() {
                return Ok(names);
            }
        }
    }

    fn labels(&mut self) -> Read<BTreeMap<String, Pattern>> {
        let mut labels = BTreeMap::new();
        loop {
            let (at, key) = (self.at, self.run(|c| c.is_whitespace() || "(),\"=".contains(c)));
            if key.is_empty() || !self.text[self.at..].starts_with('=') {
                let problem = "labels are KEY=VALUE, separated by commas, without spaces";
                return Err(self.fault(if key.is_empty() { at } else { self.at }, problem));
            }
            self.at += 1;
            self.test(at)?;
            let value = self.pattern()?;
            let text = match &value {
                Pattern::Exact(text) => text.as_str(),
                Pattern::Glob(glob) => glob.as_str(),
            };
            if !is_label(key, text) {
                return Err(self.fault(at, format!("is no label: {LABEL_RULE}")));
            }
            if labels.insert(key.to_owned(), value).is_some() {
                return Err(self.fault(at, format!("label {:?} is there twice", shown(key))));
            }
            if !self.comma() {
                return Ok(labels);
            }
        }
    }

    fn facts(&mut self) -> Read<Vec<FactTest>> {
        let mut tests = Vec::new();
        loop {
            let (at, key) = (self.at, self.run(|c| c.is_whitespace() || "(),\"=!<>".contains(c)));
            if !is_fact_key(key) {
                return Err(
                    self.fault(at, format!("a fact is compared as KEY=VALUE, like os.id=debian; {FACT_KEY_RULE}"))
                );
            }
            let rest = &self.text[self.at..];
            let Some((word, op)) = OPS.iter().find(|(word, _)| rest.starts_with(word)) else {
                return Err(self.fault(self.at, "a comparison is missing: =, !=, >=, <=, > or <"));
            };
            self.at += word.len();
            self.test(at)?;
            let from = self.at;
            let value = self.pattern()?;
            let is_order = !matches!(op, Op::Is | Op::IsNot);
            let is_version = matches!(&value, Pattern::Exact(text) if Version::written(text).is_some());
            if is_order && !is_version {
                return Err(self.fault(from, format!("{word} needs a number or a version, like 12, 6.1 or 8Gi")));
            }
            tests.push(FactTest { key: key.to_owned(), op: *op, value });
            if !self.comma() {
                return Ok(tests);
            }
        }
    }

    /// A value: quoted, or up to where it ends.
    fn pattern(&mut self) -> Read<Pattern> {
        let from = self.at;
        if !self.text[from..].starts_with('"') {
            return Ok(Pattern::new(self.run(|c| c.is_whitespace() || "(),\"".contains(c))));
        }
        let (mut value, mut escaped) = (String::new(), false);
        for (i, c) in self.text[from + 1..].char_indices() {
            match c {
                '\\' if !escaped => escaped = true,
                '"' if !escaped => {
                    self.at = from + 1 + i + 1;
                    return Ok(Pattern::Exact(value));
                }
                c => {
                    value.push(c);
                    escaped = false;
                }
            }
        }
        Err(self.fault(from, "the closing quote is missing"))
    }

    /// Every test may have to be made on every node.
    fn test(&mut self, at: usize) -> Read<()> {
        self.tests += 1;
        if self.tests > MAX_TARGET_TESTS {
            let problem = format!("has more than {MAX_TARGET_TESTS} terms, patterns, labels and comparisons");
            return Err(self.fault(at, problem));
        }
        Ok(())
    }

    fn deeper(&self, depth: usize) -> Read<usize> {
        if depth < MAX_TARGET_DEPTH {
            return Ok(depth + 1);
        }
        Err(self.fault(self.at, format!("is nested deeper than {MAX_TARGET_DEPTH}")))
    }

    fn comma(&mut self) -> bool {
        let is_there = self.text[self.at..].starts_with(',');
        self.at += usize::from(is_there);
        is_there
    }

    /// Up to a character that ends it.
    fn run(&mut self, ends: fn(char) -> bool) -> &'a str {
        let rest = &self.text[self.at..];
        let run = &rest[..rest.find(ends).unwrap_or(rest.len())];
        self.at += run.len();
        run
    }

    /// The next word, and where it begins. A parenthesis is no part of one.
    fn peek_word(&self) -> (usize, &'a str) {
        let rest = &self.text[self.at..];
        let word = rest.trim_start();
        let at = self.at + rest.len() - word.len();
        (at, &word[..word.find(|c: char| c.is_whitespace() || "()".contains(c)).unwrap_or(word.len())])
    }

    fn take(&mut self, word: &str) {
        self.at = self.peek_word().0 + word.len();
    }

    fn end(&self) -> Read<()> {
        let (at, _) = self.peek_word();
        if at == self.text.len() {
            return Ok(());
        }
        if self.text[at..].starts_with(')') {
            return Err(self.fault(at, "there is no opening parenthesis for this one"));
        }
        Err(self
            .fault(at, format!("unexpected {:?}: join sets with and, or; quote values with spaces", self.word_at(at))))
    }

    /// A fault where something else was needed: at the end of the text that is said, too.
    fn unexpected(&self, at: usize, needed: &str) -> TargetError {
        if at == self.text.len() {
            return self.fault(at, format!("ends too early; {needed}"));
        }
        self.fault(at, format!("unexpected {:?}; {needed}", self.word_at(at)))
    }

    fn word_at(&self, at: usize) -> String {
        let rest = &self.text[at..];
        let end = rest.find(char::is_whitespace).unwrap_or(rest.len());
        shown(&rest[..end])
    }

    fn fault(&self, at: usize, problem: impl Into<String>) -> TargetError {
        TargetError { at: self.text[..at].chars().count(), problem: problem.into() }
    }
}

/// A share of a set, which cannot be nothing.
pub(in crate::job) fn share(text: &str) -> Result<Share, String> {
    let share: Share = text.parse()?;
    if share.is_zero() { Err("must be more than 0%".to_owned()) } else { Ok(share) }
}

fn is_of_names(c: char) -> bool {
    c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?".contains(c)
}

/// What to write instead of a word alone, which is usually the name of a node or a group.
fn terms_for(word: &str) -> String {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-*?,".contains(c);
    if word.len() > 40 || !word.chars().all(is_name) {
        return TERMS.to_owned();
    }
    format!("all, node:{word}, group:{word}, labels:KEY=VALUE or facts:KEY=VALUE")
}

fn shown(text: &str) -> String {
    text.chars().take(40).collect()
}
