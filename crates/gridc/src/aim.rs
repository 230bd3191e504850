//! Reads where a job runs, as it is typed: `--target`, `--exclude`, `--limit`, `--first`, and points at the character of a fault.
//!
//! The controller reads them again; it is the authority. Reading them here too answers before anybody is asked.
//! Not here: names that only the cluster knows (`hint`).

use grid_types::Faults;
use grid_types::api::{FaultDoc, fault_docs, target_doc};
use grid_types::job::{Target, TargetError};
use serde_json::{Map, Value, json};

use crate::failure::Failure;

/// The option that a fault of `--target` names.
pub const TARGET: &str = "--target";

/// Characters that are shown on each side of a fault.
const SHOWN: usize = 50;

/// What narrows the target of a job, as typed; each beats what a job file says.
#[derive(Debug, Clone, Copy, Default)]
pub struct Narrow<'a> {
    pub exclude: Option<&'a str>,
    pub limit: Option<&'a str>,
    pub first: Option<&'a str>,
}

impl Narrow<'_> {
    /// Whether anything was put into the job.
    pub fn put(&self, job: &mut Map<String, Value>) -> bool {
        let number = |text: &str| text.parse::<u64>().map_or_else(|_| json!(text), |nodes| json!(nodes));
        let given = [
            ("exclude", self.exclude.map(|text| json!(text))),
            ("limit", self.limit.map(number)),
            ("first", self.first.map(number)),
        ];
        let given = given.into_iter().filter_map(|(field, value)| Some((field.to_owned(), value?)));
        let before = job.len();
        let fields: Vec<_> = given.collect();
        job.extend(fields.iter().cloned());
        job.len() > before || !fields.is_empty()
    }
}

/// `--target` as a job document has it.
pub fn target(text: &str) -> Result<Value, Failure> {
    parse(text).map(|target| json!(target_doc(&target)))
}

/// `--target`, checked.
pub fn parse(text: &str) -> Result<Target, Failure> {
    text.parse().map_err(|TargetError { at, problem }| {
        let fault = FaultDoc { field: TARGET.to_owned(), problem: problem + &caret(text, at), at: None };
        Failure::Invalid { what: "the target".to_owned(), faults: vec![fault] }
    })
}

/// Faults of a job document, with the place in the texts that have a grammar.
pub fn pointed(faults: &Faults, job: &Value) -> Vec<FaultDoc> {
    let mut docs = fault_docs(faults);
    for doc in &mut docs {
        let at = doc.at.take().and_then(|at| usize::try_from(at).ok());
        let field = &job[doc.field.as_str()];
        let text = field.as_str().or_else(|| field["value"].as_str());
        if let (Some(at), Some(text)) = (at, text) {
            doc.problem.push_str(&caret(text, at));
        }
    }
    docs
}

/// Two further lines: the text around the fault, and a mark below it.
fn caret(text: &str, at: usize) -> String {
    let from = at.saturating_sub(SHOWN);
    let plain = |c: char| if c.is_control() { ' ' } else { c };
    let shown: String = text.chars().skip(from).take(2 * SHOWN).map(plain).collect();
    format!("\n{shown}\n{}^", " ".repeat(at - from))
}

#[cfg(test)]
mod tests {
    use super::{caret, parse};

    #[test]
    fn a_fault_is_marked_below_its_character() {
        let lines = parse("group:web and nod:x").unwrap_err().lines();
        let expected = "\
error: the target is not valid
  --target: unknown scope \"nod\": use all, node:ID, group:NAME, labels:KEY=VALUE or facts:KEY=VALUE
    group:web and nod:x
                  ^
";
        assert_eq!(lines, expected);
        let long = format!("{}\tX{}", "a".repeat(200), "b".repeat(200));
        let marked = caret(&long, 201);
        let lines: Vec<_> = marked.lines().collect();
        assert_eq!(lines[1].chars().nth(lines[2].find('^').unwrap()), Some('X'), "{marked}");
        assert!(lines[1].len() <= 100 && !marked.contains('\t'));
    }
}
