//! JSON that means one thing: duplicate keys are refused, each with its path.
//!
//! `serde_json` keeps the last of two equal keys and says nothing, so that what a person reads in a job and what runs
//! could differ. Depth is bounded by `serde_json`'s own limit of 128, so that open brackets cannot exhaust the stack.
//! Not here: what a document means (`grid_types::job`).

use std::fmt;

use grid_types::Faults;
use serde::de::{DeserializeSeed, Deserializer, Error as _, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// Longest part of a key that is shown.
const SHOWN_KEY_CHARS: usize = 60;

/// Reads one JSON document and nothing after it.
pub fn read(bytes: &[u8]) -> Result<Value, Faults> {
    let mut trail = Trail::default();
    let mut json = serde_json::Deserializer::from_slice(bytes);
    let read = Node(&mut trail).deserialize(&mut json).and_then(|value| json.end().map(|()| value));
    match read {
        Ok(value) => trail.twice.finish(value),
        Err(error) => {
            let mut faults = Faults::default();
            faults.add("", format!("the body is not valid JSON: {error}"));
            Err(faults)
        }
    }
}

/// Where the reader stands, and what it has found.
#[derive(Default)]
struct Trail {
    path: Vec<Part>,
    twice: Faults,
}

enum Part {
    Key(String),
    Index(usize),
}

impl Trail {
    fn shown(&self) -> String {
        let mut text = String::new();
        for part in &self.path {
            match part {
                Part::Key(key) => {
                    if !text.is_empty() {
                        text.push('.');
                    }
                    text.extend(key.chars().take(SHOWN_KEY_CHARS));
                }
                Part::Index(i) => text.push_str(&format!("[{i}]")),
            }
        }
        text
    }
}

/// One value, built like `serde_json` builds it.
struct Node<'t>(&'t mut Trail);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("number out of range"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            self.0.path.push(Part::Index(list.len()));
            let item = items.next_element_seed(Node(self.0))?;
            self.0.path.pop();
            match item {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.0.path.push(Part::Key(key));
            let value = entries.next_value_seed(Node(self.0))?;
            let shown = self.0.path.last().is_some_and(|part| matches!(part, Part::Key(key) if map.contains_key(key)));
            if shown {
                let field = self.0.shown();
                self.0.twice.add(field, "is given twice; which one is meant?");
            }
            let Some(Part::Key(key)) = self.0.path.pop() else {
                return Err(A::Error::custom("the reader lost its place"));
            };
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::{Value, json};

    fn fields(text: &str) -> Vec<String> {
        read(text.as_bytes()).unwrap_err().list().iter().map(|f| f.field.clone()).collect()
    }

    #[test]
    fn duplicate_keys_are_all_named_with_their_paths() {
        assert_eq!(fields(r#"{"a":1,"a":2}"#), ["a"]);
        let text = r#"{"t":[{"p":{"x":1,"x":2}},{"q":1,"r":{},"q":2}],"t":0,"\u0074":1}"#;
        assert_eq!(fields(text), ["t[0].p.x", "t[1].q", "t", "t"]);
    }

    #[test]
    fn values_are_those_of_serde_json() {
        let text = r#"{"a":[1,-2,3.5,true,null,"\u00e9",{}],"b":18446744073709551615,"c":{"a":[]}}"#;
        assert_eq!(read(text.as_bytes()).unwrap(), serde_json::from_str::<Value>(text).unwrap());
        assert_eq!(read(b" 7 ").unwrap(), json!(7));
    }

    #[test]
    fn what_is_not_json_is_refused_with_its_place() {
        let cases: [(&[u8], &str); 6] = [
            (b"", "line 1 column 0"),
            (b"{\n  \"a\": ,\n}", "line 2 column 8"),
            (b"{} x", "line 1 column 4"),
            (b"\"\xff\"", "line 1 column"),
            (b"{\"a\":1e999}", "line 1 column"),
            (b"{\"a\"", "line 1 column 4"),
        ];
        for (bytes, place) in cases {
            let faults = read(bytes).unwrap_err().to_string();
            assert!(faults.contains(place), "{faults}");
        }
    }

    #[test]
    fn open_brackets_are_harmless() {
        for open in ["[", "{\"a\":"] {
            let faults = read(open.repeat(200_000).as_bytes()).unwrap_err().to_string();
            assert!(faults.contains("recursion limit"), "{faults}");
        }
    }
}
