//! Reads job files: YAML or JSON, from a path or stdin.
//!
//! Read strictly, as a controller reads a body; then checked as the controller will check it, so that faults are named
//! before anybody is asked.
//! A document that begins with `{` is tried as JSON first: JSON allows tabs where YAML does not.

use std::io::Read;
use std::path::Path;

use grid_types::api::FaultDoc;
use grid_types::job::parse_job;
use grid_types::limits::MAX_BODY_BYTES;
use grid_types::{Faults, strict};
use serde_json::Value;

use crate::failure::Failure;
use crate::suggest::nearest;
use crate::yaml::read_yaml;

/// The job of a file; `-` is stdin.
pub fn read(path: &Path) -> Result<Value, Failure> {
    let name = if path.as_os_str() == "-" { "stdin".to_owned() } else { path.display().to_string() };
    let text = text_of(path).map_err(|problem| Failure::usage(format!("cannot read {name}: {problem}"), None))?;
    let (job, twice) = parse(&text).map_err(|problem| {
        let hint = "a job file is YAML or JSON; gridc job run --help shows one".to_owned();
        Failure::usage(format!("cannot read {name}: {problem}"), Some(hint))
    })?;
    match twice.finish(()).and_then(|()| parse_job(&job)) {
        Ok(_) => Ok(job),
        Err(faults) => {
            let faults = crate::aim::pointed(&faults, &job).into_iter().map(meant).collect();
            Err(Failure::Invalid { what: format!("the job in {name}"), faults })
        }
    }
}

/// A field that nobody knows is often one that was nearly spelled: the fault lists those that there are.
fn meant(fault: FaultDoc) -> FaultDoc {
    let near = || {
        let (_, known) = fault.problem.split_once("unknown field; known here: ")?;
        let name = fault.field.rsplit('.').next()?;
        nearest(name, known.split(", ")).map(str::to_owned)
    };
    match near() {
        Some(near) => FaultDoc { problem: format!("{} (did you mean {near}?)", fault.problem), ..fault },
        None => fault,
    }
}

/// A text of a file or of stdin, as long as a body may be.
pub fn text_of(path: &Path) -> Result<String, String> {
    let limit = MAX_BODY_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let done = if path.as_os_str() == "-" {
        std::io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        std::fs::File::open(path).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    done.map_err(|e| e.to_string())?;
    if bytes.len() > MAX_BODY_BYTES {
        return Err(format!("it is larger than {MAX_BODY_BYTES} bytes, the most a controller takes"));
    }
    String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())
}

/// The document, and the keys that are given twice in it.
fn parse(text: &str) -> Result<(Value, Faults), String> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.lines().map(str::trim).all(|line| line.is_empty() || line.starts_with('#')) {
        return Err("it is empty".to_owned());
    }
    if text.trim_start().starts_with('{') {
        let json = from_json(text);
        if json.is_ok() {
            return json;
        }
        // `{target: all}` is YAML; what is neither is reported as JSON, which it looks like.
        return read_yaml(text).or(json);
    }
    read_yaml(text)
}

fn from_json(text: &str) -> Result<(Value, Faults), String> {
    let mut json = serde_json::Deserializer::from_str(text);
    let read = strict::read(&mut json).and_then(|read| json.end().map(|()| read));
    read.map_err(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::{meant, parse};
    use grid_types::api::FaultDoc;
    use grid_types::job::parse_job;
    use serde_json::json;

    #[test]
    fn yaml_and_json_give_the_same_job() {
        let want =
            json!({"target": {"scope": "all"}, "tasks": [{"backend": "ping", "action": "echo", "max_retries": 2}]});
        for text in [
            "target:\n  scope: all\ntasks:\n  - backend: ping\n    action: echo\n    max_retries: 2\n",
            "{target: {scope: all}, tasks: [{backend: ping, action: echo, max_retries: 2}]}",
            "{\"target\":\n\t{\"scope\": \"all\"}, \"tasks\": [{\"backend\": \"ping\", \"action\": \"echo\", \"max_retries\": 2}]}",
            "--- # one document\ntarget: &t {scope: all}\ntasks: [{backend: ping, action: echo, max_retries: 2}]\n",
        ] {
            assert_eq!(parse(text).unwrap().0, want, "{text}");
        }
    }

    /// YAML reads `0o644` as 420, whose digits would be another mode.
    #[test]
    fn the_mode_of_a_file_means_what_is_written_or_is_refused() {
        let mode = |written: &str| {
            let put = format!("{{backend: file, action: put, params: {{path: /f, content: x, mode: {written}}}}}");
            let (job, _) = parse(&format!("target: all\ntasks: [{put}]\n")).unwrap();
            parse_job(&job).map(|spec| serde_json::to_value(&spec.phases[0].tasks[0].params["mode"]).unwrap())
        };
        for (written, want) in [("0644", "0644"), ("'644'", "644"), ("\"0600\"", "0600")] {
            assert_eq!(mode(written).unwrap(), want, "{written}");
        }
        for refused in ["0o644", "420", "644", "0x1a4", "'4755'", "rw"] {
            assert!(mode(refused).is_err(), "{refused}");
        }
    }

    #[test]
    fn a_file_of_comments_is_empty() {
        for text in ["", " \n", "# later\n\n  # more\n", "\u{feff}# later"] {
            assert_eq!(parse(text), Err("it is empty".to_owned()), "{text:?}");
        }
    }

    #[test]
    fn duplicate_keys_are_named_with_their_paths() {
        for (text, field) in [
            ("target: all\ntarget: node:a\n", "target"),
            ("{\"tasks\": [], \"tasks\": []}", "tasks"),
            ("tasks: [{params: {a: 1, a: 2}}]", "tasks[0].params.a"),
        ] {
            let (_, twice) = parse(text).unwrap();
            assert_eq!(twice.list()[0].field, field, "{text}");
        }
    }

    #[test]
    fn what_is_no_single_plain_document_is_refused() {
        for text in [
            "",
            " \n",
            "a: 1\n---\nb: 2\n",
            "a: !tag {b: 1}",
            "a: .nan",
            "? [x]\n: 1\n",
            "{\"a\": 1",
            "a: [",
            "\t- x: y: z",
        ] {
            assert!(parse(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_field_that_was_nearly_spelled_is_named() {
        let fault =
            |field: &str, problem: &str| FaultDoc { field: field.to_owned(), problem: problem.to_owned(), at: None };
        let unknown = "unknown field; known here: backend, action, params, timeout";
        for (field, near) in [("tasks[0].timout", Some("timeout")), ("acton", Some("action")), ("tasks[0].xyzzy", None)]
        {
            let told = near.map_or(unknown.to_owned(), |near| format!("{unknown} (did you mean {near}?)"));
            assert_eq!(meant(fault(field, unknown)), fault(field, &told));
        }
        assert_eq!(meant(fault("target", "is required")), fault("target", "is required"));
    }
}
