//! Values against their declaration, twice: as given in a job (with conversions and defaults), and as a worker gets
//! them in a lease, which it takes on nobody's word.
//!
//! A `Word` becomes an argument of a program that runs as root. Beside its pattern it never begins with `-` and holds no
//! control character, whatever a declaration forgot.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex_lite::Regex;
use serde_json::Value;

use super::{ActionDecl, ParamDecl, ParamType, ParamValue, Params, builtin, collection};
use crate::fault::Faults;
use crate::limits::{MAX_TEXT_BYTES, MAX_WORD_BYTES};

/// Compiled once: a pattern is checked at every submit.
static PATTERNS: LazyLock<BTreeMap<&'static str, Regex>> = LazyLock::new(|| {
    let params = builtin().iter().flat_map(|backend| backend.actions).flat_map(|action| action.params);
    let patterns = params.filter_map(|param| match param.kind {
        ParamType::Word { pattern } => Some(pattern),
        _ => None,
    });
    patterns.filter_map(|pattern| Some((pattern, Regex::new(&format!("^(?:{pattern})$")).ok()?))).collect()
});

impl ActionDecl {
    /// Checks what was given against the declaration; faults are reported under `at`.
    #[must_use]
    pub fn check(&self, given: &serde_json::Map<String, Value>, at: &str, faults: &mut Faults) -> Params {
        let mut params = Params::new();
        for name in given.keys() {
            if !self.params.iter().any(|p| p.name == name) {
                let shown: String = name.chars().take(60).collect();
                faults.add(format!("{at}.{shown}"), self.unknown_param(name));
            }
        }
        for decl in self.params {
            let field = format!("{at}.{}", decl.name);
            let value = match (given.get(decl.name), decl.default) {
                (Some(Value::String(text)), _) if decl.required && text.is_empty() => {
                    Err(format!("must not be empty ({})", decl.help))
                }
                (Some(value), _) => decl.parse(value),
                (None, Some(default)) => decl.parse(&Value::String(default.to_owned())),
                (None, None) if decl.required => Err(format!("is required ({})", decl.help)),
                (None, None) => continue,
            };
            match value {
                Ok(value) => {
                    params.insert(decl.name.to_owned(), value);
                }
                Err(problem) => faults.add(field, problem),
            }
        }
        params
    }

    /// Checks parameters that somebody else has already checked.
    ///
    /// # Errors
    /// What no server of this version sends: the value of every parameter is named.
    pub fn admit(&self, params: &Params) -> Result<(), Faults> {
        let mut faults = Faults::default();
        for (name, value) in params {
            match self.params.iter().find(|p| p.name == name) {
                Some(decl) => {
                    let _ = decl.fits(value).map_err(|problem| faults.add(name, problem));
                }
                None => faults.add(name, self.unknown_param(name)),
            }
        }
        for decl in self.params.iter().filter(|p| p.required && !params.contains_key(p.name)) {
            faults.add(decl.name, format!("is required ({})", decl.help));
        }
        faults.finish(())
    }

    fn unknown_param(&self, name: &str) -> String {
        let known: Vec<_> = self.params.iter().map(|p| p.name).collect();
        let shown: String = name.chars().take(60).collect();
        if known.is_empty() {
            format!("unknown parameter {shown:?}: {} takes none", self.name)
        } else {
            format!("unknown parameter {shown:?}: {} takes {}", self.name, known.join(", "))
        }
    }
}

impl ParamDecl {
    fn parse(&self, value: &Value) -> Result<ParamValue, String> {
        let parsed = match (self.kind, value) {
            (ParamType::Text | ParamType::Word { .. } | ParamType::Choice { .. }, value) => text_of(value),
            (ParamType::Integer { .. }, Value::Number(number)) => number.as_i64().map(ParamValue::Integer),
            (ParamType::Integer { .. }, Value::String(text)) => text.parse().ok().map(ParamValue::Integer),
            (ParamType::Boolean, Value::Bool(b)) => Some(ParamValue::Boolean(*b)),
            (ParamType::Boolean, Value::String(text)) => text.parse().ok().map(ParamValue::Boolean),
            (ParamType::Duration, Value::String(text)) => {
                let span = text.parse().map_err(|e: crate::span::BadSpan| e.to_string())?;
                Some(ParamValue::Duration(span))
            }
            (ParamType::Mode, Value::String(text)) => Some(ParamValue::Text(text.clone())),
            (ParamType::Mode, _) => None,
            (ParamType::Texts | ParamType::Integers { .. } | ParamType::TextMap, value) => {
                collection::parse(self.kind, value)?
            }
            (ParamType::Integer { .. } | ParamType::Boolean | ParamType::Duration, _) => None,
        };
        let parsed = parsed.ok_or_else(|| self.wanted())?;
        self.fits(&parsed)?;
        Ok(parsed)
    }

    fn fits(&self, value: &ParamValue) -> Result<(), String> {
        match (self.kind, value) {
            (ParamType::Text, ParamValue::Text(text)) => text_fits(text),
            (ParamType::Word { pattern }, ParamValue::Text(text)) => self.word_fits(text, pattern),
            (ParamType::Choice { of }, ParamValue::Text(text)) if of.contains(&text.as_str()) => Ok(()),
            (ParamType::Integer { min, max }, ParamValue::Integer(n)) if (min..=max).contains(n) => Ok(()),
            (ParamType::Boolean, ParamValue::Boolean(_)) | (ParamType::Duration, ParamValue::Duration(_)) => Ok(()),
            (ParamType::Texts, ParamValue::Texts(texts)) => collection::texts_fit(texts),
            (ParamType::TextMap, ParamValue::TextMap(map)) => collection::map_fits(map),
            (ParamType::Mode, ParamValue::Text(text)) if is_mode(text) => Ok(()),
            (ParamType::Integers { min, max }, ParamValue::Integers(list))
                if !list.is_empty() && list.iter().all(|n| (min..=max).contains(n)) =>
            {
                collection::count_fits(list.len())
            }
            _ => Err(self.wanted()),
        }
    }

    fn word_fits(&self, text: &str, pattern: &str) -> Result<(), String> {
        if text.is_empty() {
            return Err(format!("must not be empty ({})", self.help));
        }
        if text.len() > MAX_WORD_BYTES {
            return Err(format!("is longer than {MAX_WORD_BYTES} bytes"));
        }
        if text.starts_with('-') {
            return Err(format!("must not begin with '-' ({})", self.help));
        }
        if let Some(c) = text.chars().find(|c| c.is_control()) {
            return Err(format!("must not contain {c:?}, a control character ({})", self.help));
        }
        if PATTERNS.get(pattern).is_some_and(|regex| regex.is_match(text)) {
            return Ok(());
        }
        let shown: String = text.chars().take(60).collect();
        Err(format!("{shown:?} is not {}; it must match {pattern}", self.help))
    }

    /// What a value would have to be.
    fn wanted(&self) -> String {
        match self.kind {
            ParamType::Text | ParamType::Word { .. } => "must be a string, a number or a boolean".to_owned(),
            ParamType::Integer { min, max } => format!("must be a whole number from {min} to {max}"),
            ParamType::Boolean => "must be true or false".to_owned(),
            ParamType::Duration => "must be a duration like 300ms, 3s, 2m or 1h".to_owned(),
            ParamType::Choice { of } => format!("must be {}", of.join(" or ")),
            ParamType::Texts => "must be a list of texts, like [\"-r\", \"a file\"]".to_owned(),
            ParamType::Integers { min, max } => {
                format!("must be a list of whole numbers from {min} to {max}, like [0, 1]")
            }
            ParamType::Mode => "must be three octal digits in quotes, like \"644\" or \"0644\"".to_owned(),
            ParamType::TextMap => "must be an object of texts, like {\"NAME\": \"value\"}".to_owned(),
        }
    }
}

/// Without setuid, setgid and sticky bits.
fn is_mode(text: &str) -> bool {
    let digits = text.strip_prefix('0').filter(|rest| rest.len() == 3).unwrap_or(text);
    digits.len() == 3 && digits.bytes().all(|byte| matches!(byte, b'0'..=b'7'))
}

fn text_of(value: &Value) -> Option<ParamValue> {
    scalar(value).map(ParamValue::Text)
}

/// A value that is no collection, as text.
pub(super) fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(b) => Some(b.to_string()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

pub(super) fn text_fits(text: &str) -> Result<(), String> {
    if text.len() > MAX_TEXT_BYTES {
        return Err(format!("is longer than {MAX_TEXT_BYTES} bytes"));
    }
    if text.contains('\0') {
        return Err("must not contain a NUL".to_owned());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::{ParamType, ParamValue, Params};
    use crate::decl::{backend, builtin};
    use crate::fault::Faults;
    use serde_json::json;

    fn check(backend_name: &str, action: &str, given: &serde_json::Value) -> Result<Params, Faults> {
        let mut faults = Faults::default();
        let decl = backend(backend_name).unwrap().action(action).unwrap();
        let params = decl.check(given.as_object().unwrap(), "params", &mut faults);
        faults.finish(params)
    }

    #[test]
    fn strings_are_converted_as_the_action_declares() {
        let params = check("test", "output", &json!({"lines": "3", "width": 10})).unwrap();
        assert_eq!(params["lines"], ParamValue::Integer(3));
        assert_eq!(params["width"], ParamValue::Integer(10));
    }

    #[test]
    fn every_fault_is_named_at_once() {
        let faults = check("test", "output", &json!({"lines": -1, "width": [], "colour": "red"})).unwrap_err();
        let fields: Vec<_> = faults.list().iter().map(|f| f.field.as_str()).collect();
        assert_eq!(fields, ["params.colour", "params.lines", "params.width"]);
    }

    #[test]
    fn declared_defaults_are_valid_values() {
        for b in builtin() {
            for action in b.actions {
                for p in action.params {
                    assert!(!(p.required && p.default.is_some()), "{}.{}.{}", b.name, action.name, p.name);
                    if let Some(default) = p.default {
                        p.parse(&json!(default)).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn every_pattern_compiles() {
        let params = builtin().iter().flat_map(|b| b.actions).flat_map(|a| a.params);
        let patterns: Vec<_> = params
            .filter_map(|p| if let ParamType::Word { pattern } = p.kind { Some(pattern) } else { None })
            .collect();
        assert!(patterns.len() >= 10);
        for pattern in patterns {
            assert!(super::PATTERNS.contains_key(pattern), "{pattern}");
        }
    }

    const DIGEST: &str = "a8076d3d28d21e02012b20eaf7dbf75409a6277134439025f282e368e3305abf";

    /// One parameter, beside the one that an installation cannot be without.
    fn given(action: &str, param: &str, value: &str) -> serde_json::Value {
        let beside = match (action, param) {
            ("put", _) => json!({"path": "/f"}),
            ("port", _) => json!({"port": 1}),
            ("run", _) => json!({"script": "x"}),
            _ => json!({}),
        };
        if let Some(beside) = beside.as_object().filter(|beside| !beside.is_empty()) {
            let mut given = beside.clone();
            given.insert(param.to_owned(), json!(value));
            return given.into();
        }
        let is_pinned = action == "install" && ["version", "channel", "mode"].contains(&param);
        if is_pinned { json!({"sha256": DIGEST, param: value}) } else { json!({param: value}) }
    }

    #[test]
    fn words_that_name_one_thing_pass() {
        for (backend, action, param, values) in [
            (
                "apt",
                "install",
                "package",
                &["curl", "g++", "libc6:amd64", "curl=7.88.1-10+deb12u5", "vim/bookworm"][..],
            ),
            ("apt", "install", "package", &["memtest86+", "openjdk-17-jre", "python3.11", "tzdata=2024a-0+deb12u1"]),
            ("apt", "remove", "package", &["curl", "g++", "libc6:amd64"]),
            ("systemd", "start", "unit", &["nginx", "nginx.service", "getty@tty1", r"dev-disk\x2dby.swap", "a:b"]),
            ("rke2", "install", "version", &["v1.33.1+rke2r1", "v1.31.0-rc2+rke2r1"]),
            ("rke2", "install", "channel", &["stable", "latest", "v1.33"]),
            ("rke2", "install", "mode", &["server", "agent"]),
            ("rke2", "download", "sha256", &[DIGEST]),
            ("file", "put", "path", &["/etc/app.conf", "/a b", "/é"]),
            ("file", "put", "mode", &["644", "0600"]),
            ("file", "put", "owner", &["www-data", "_apt", "1000"]),
            ("http", "check", "url", &["http://127.0.0.1:8080/a?b=c", "http://[::1]/", "http://web.example"]),
            ("wait", "port", "host", &["127.0.0.1", "db.example", "::1"]),
            ("script", "run", "interpreter", &["sh", "/usr/bin/python3"]),
        ] {
            for value in values {
                check(backend, action, &given(action, param, value)).unwrap_or_else(|e| panic!("{value}: {e}"));
            }
        }
    }

    #[test]
    fn words_that_could_mean_something_else_are_refused_with_their_field() {
        let long = "a".repeat(256);
        for (backend, action, param, values) in [
            (
                "apt",
                "install",
                "package",
                &["-y", "--purge", "curl jq", "curl\n", "cu\0rl", "", "a", "Curl", "curl-"][..],
            ),
            (
                "apt",
                "install",
                "package",
                &["curl*", "^curl", "task^", "./x.deb", "/tmp/x.deb", "curl;id", "$(id)", &long],
            ),
            ("apt", "install", "package", &["curl=", "curl=1-", "curl/", "curl:", "?installed", "~i", "cürl"]),
            ("apt", "remove", "package", &["curl-", "curl=7.88.1", "lib.", ".*"]),
            (
                "systemd",
                "stop",
                "unit",
                &["-.mount", "--force", "nginx*", "ngi?x", "[a]", "/dev/sda", "a b", "a\nb", ""],
            ),
            ("rke2", "install", "version", &["1.33.1", "v1.33.1", "v1.33.1+rke2r1;id", "-v"]),
            ("rke2", "install", "channel", &["", "a b", "-x", "x-"]),
            ("rke2", "start", "mode", &["", "Server", "both", "server\n"]),
            ("rke2", "install", "sha256", &["", "a8076d", "sha256:00", &DIGEST.to_uppercase()]),
            ("file", "fetch", "path", &["", "etc/passwd", "~/x", "/etc/", "/a\nb", "/a\0", "-x"]),
            ("file", "put", "mode", &["4755", "2755", "1777", "888", "rw", "-644", "0o644", "00644"]),
            ("file", "put", "owner", &["-1", "Root", "a b", "root\n", "root:root", "\u{440}oot"]),
            (
                "http",
                "check",
                "url",
                &["file:///etc/passwd", "https://a", "ftp://a", "a", "http://u@a/", "http://a/\r\nX: y", "http://a/ b"],
            ),
            ("wait", "port", "host", &["a b", "a/b", "-a", "\u{430}.example"]),
            ("script", "run", "interpreter", &["./sh", "../sh", "bin/sh", "-c", "sh -c"]),
        ] {
            for value in values {
                let faults = check(backend, action, &given(action, param, value)).map(|_| ()).unwrap_err();
                assert_eq!(faults.list()[0].field, format!("params.{param}"), "{value}: {faults}");
            }
        }
        let told = |backend, action, given| check(backend, action, &given).unwrap_err().to_string();
        assert_eq!(
            told("apt", "remove", json!({"package": "-y"})),
            "params.package: must not begin with '-' (a package name, like curl or libc6:amd64)"
        );
        assert_eq!(
            told("systemd", "stop", json!({"unit": "a\nb"})),
            "params.unit: must not contain '\\n', a control character (a unit, like nginx, nginx.service or getty@tty1)"
        );
        assert_eq!(told("rke2", "start", json!({"mode": "x"})), "params.mode: must be server or agent");
        assert_eq!(told("rke2", "start", json!({})), "params.mode: is required (what this node is in the cluster)");
    }

    #[test]
    fn lists_and_maps_are_read_and_bounded() {
        let run = |given: serde_json::Value| check("command", "run", &given);
        let given = json!({"program": "x", "args": ["-r", 1, true, ""], "env": {"A": 1}, "exit_codes": "0, 3"});
        let params = run(given).unwrap();
        assert_eq!(params["args"], ParamValue::Texts(["-r", "1", "true", ""].map(str::to_owned).to_vec()));
        assert_eq!(params["env"], ParamValue::TextMap([("A".to_owned(), "1".to_owned())].into()));
        assert_eq!(params["exit_codes"], ParamValue::Integers(vec![0, 3]));
        let params = run(json!({"program": "x", "args": r#"["a b"]"#, "env": r#"{"A": ""}"#})).unwrap();
        assert_eq!(params["args"], ParamValue::Texts(vec!["a b".to_owned()]));
        assert_eq!(params["exit_codes"], ParamValue::Integers(vec![0]), "the default");
        let many: Vec<String> = (0..1_001).map(|i| i.to_string()).collect();
        let wide = vec!["x".repeat(60_000); 3];
        for (field, bad) in [
            ("args", json!("-r x")),
            ("args", json!({"a": "b"})),
            ("args", json!([["nested"]])),
            ("args", json!([null])),
            ("args", json!(["a\0b"])),
            ("args", json!(["x".repeat(65_537)])),
            ("args", json!(many)),
            ("args", json!(wide)),
            ("env", json!(["A=1"])),
            ("env", json!({"A": {}})),
            ("env", json!({"A=B": "1"})),
            ("env", json!({"": "1"})),
            ("env", json!({"\u{ff21}": "1"})),
            ("env", json!({"A": "x\0"})),
            ("exit_codes", json!([256])),
            ("exit_codes", json!([])),
            ("exit_codes", json!([-1])),
            ("exit_codes", json!("")),
            ("exit_codes", json!([0.5])),
            ("program", json!("bin/x")),
            ("program", json!("./x")),
            ("program", json!("..")),
            ("program", json!("/bin/")),
            ("program", json!("-x")),
            ("program", json!("a b")),
            ("program", json!("\u{441}url")),
            ("cwd", json!("srv")),
        ] {
            let mut given = json!({"program": "x"});
            given[field] = bad.clone();
            let faults = run(given).unwrap_err();
            assert_eq!(faults.list()[0].field, format!("params.{field}"), "{bad}: {faults}");
        }
        for number in [json!(644), json!(420), json!(0o644)] {
            let faults = check("file", "put", &json!({"path": "/f", "mode": number})).unwrap_err();
            let want = "params.mode: must be three octal digits in quotes, like \"644\" or \"0644\"";
            assert_eq!(faults.to_string(), want, "what it means depends on who reads it");
        }
        let told = run(json!({"program": "x", "args": "-r x"})).unwrap_err().to_string();
        assert_eq!(told, "params.args: must be a list of texts, like [\"-r\", \"a file\"]");
    }

    #[test]
    fn what_a_lease_carries_is_checked_again() {
        let install = backend("apt").unwrap().action("install").unwrap();
        let text = |text: &str| ParamValue::Text(text.to_owned());
        let params = |pairs: &[(&str, ParamValue)]| -> Params {
            pairs.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
        };
        install.admit(&params(&[("package", text("curl"))])).unwrap();
        for bad in [
            params(&[]),
            params(&[("package", text("--purge"))]),
            params(&[("package", text("a\nb"))]),
            params(&[("package", ParamValue::Integer(3))]),
            params(&[("package", text("curl")), ("purge", ParamValue::Boolean(true))]),
        ] {
            assert!(install.admit(&bad).is_err(), "{bad:?}");
        }
        let run = backend("command").unwrap().action("run").unwrap();
        let program = ("program", text("x"));
        run.admit(&params(&[program.clone(), ("args", ParamValue::Texts(vec!["-".to_owned()]))])).unwrap();
        for bad in [
            ("args", text("-r")),
            ("args", ParamValue::Texts(vec![String::new(); 1_001])),
            ("args", ParamValue::Texts(vec!["a\0".to_owned()])),
            ("env", ParamValue::TextMap([("A B".to_owned(), String::new())].into())),
            ("exit_codes", ParamValue::Integers(vec![256])),
            ("exit_codes", ParamValue::Integers(Vec::new())),
        ] {
            assert!(run.admit(&params(&[program.clone(), bad.clone()])).is_err(), "{bad:?}");
        }
        let flaky = backend("test").unwrap().action("flaky").unwrap();
        assert!(flaky.admit(&params(&[("rate", ParamValue::Integer(101))])).is_err());
    }
}
