//! Reads documents from outside strictly: a duplicate key is refused, with its path, and a document cannot expand beyond its
//! size.
//!
//! `serde_json` silently keeps the last of two equal keys, so that the job that an operator reads could differ from the one
//! that runs. YAML anchors repeat parts, and parts of parts: a page of text can expand to gigabytes. So values and bytes are
//! counted while they are built; the count is part of the reader, not a later check.
//! Not here: YAML, which is parsed where files are read, its limit of depth, the meaning of a document
//! (`job::parse_job`).

mod json;

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use crate::fault::Faults;

pub use json::json;

/// A job of 1,000 steps needs a tenth of it.
const MAX_VALUES: usize = 200_000;
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;
/// Longest part of a key that is shown.
const SHOWN_KEY_CHARS: usize = 60;

/// Reads one value. The second part has all duplicate keys; a syntax error ends the reading.
pub fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<(Value, Faults), D::Error> {
    let mut reader = Reader::default();
    let value = Node(&mut reader).deserialize(deserializer)?;
    Ok((value, reader.twice))
}

/// The position of the reader, and what it has found.
#[derive(Default)]
struct Reader {
    path: Vec<Part>,
    twice: Faults,
    values: usize,
    text_bytes: usize,
}

enum Part {
    Key(String),
    Index(usize),
}

impl Reader {
    fn spend<E: Error>(&mut self, text_bytes: usize) -> Result<(), E> {
        self.values += 1;
        self.text_bytes += text_bytes;
        if self.values > MAX_VALUES || self.text_bytes > MAX_TEXT_BYTES {
            return Err(E::custom(format_args!(
                "the document is too large: it has more than {MAX_VALUES} values or {MAX_TEXT_BYTES} bytes of text"
            )));
        }
        Ok(())
    }

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
struct Node<'r>(&'r mut Reader);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a plain value: text, number, boolean, null, list or map")
    }

    fn visit_unit<E: Error>(self) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::Null)
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::from(value))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::from(value))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.spend(0)?;
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.spend(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        self.0.spend(0)?;
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
        self.0.spend(0)?;
        let mut map = Map::new();
        while let Some(key) = entries.next_key::<String>()? {
            self.0.spend(key.len())?;
            let twice = map.contains_key(&key);
            self.0.path.push(Part::Key(key.clone()));
            if twice {
                let field = self.0.shown();
                self.0.twice.add(field, "is given twice; which one is meant?");
            }
            let value = entries.next_value_seed(Node(self.0))?;
            self.0.path.pop();
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use super::read;
    use serde_json::{Value, json};

    fn read_json(text: &str) -> Result<(Value, Vec<String>), String> {
        let (value, twice) = read(&mut serde_json::Deserializer::from_str(text)).map_err(|e| e.to_string())?;
        Ok((value, twice.list().iter().map(|f| f.field.clone()).collect()))
    }

    #[test]
    fn duplicate_keys_are_all_named_with_their_paths() {
        assert_eq!(read_json(r#"{"a":1,"a":2}"#).unwrap().1, ["a"]);
        let text = r#"{"t":[{"p":{"x":1,"x":2}},{"q":1,"r":{},"q":2}],"t":0,"\u0074":1}"#;
        assert_eq!(read_json(text).unwrap().1, ["t[0].p.x", "t[1].q", "t", "t"]);
    }

    #[test]
    fn values_are_those_of_serde_json() {
        let text = r#"{"a":[1,-2,3.5,true,null,"\u00e9",{}],"b":18446744073709551615,"c":{"a":[]}}"#;
        assert_eq!(read_json(text).unwrap(), (serde_json::from_str(text).unwrap(), vec![]));
        assert_eq!(read_json(" 7 ").unwrap().0, json!(7));
    }

    #[test]
    fn a_document_has_only_so_many_values() {
        let many = |count: usize| format!("[{}0]", "0,".repeat(count));
        assert!(read_json(&many(100_000)).is_ok());
        assert!(read_json(&many(200_000)).unwrap_err().contains("too large"));
    }
}
