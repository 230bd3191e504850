//! JSON and YAML into one tree, refusing keys given twice and documents that grow beyond what was written.
//!
//! Anchors of YAML repeat parts, and parts of parts: a page of text can mean gigabytes. So values and bytes are
//! counted as they are built, and the count is part of the reader, not a check afterwards.

use std::cell::Cell;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

/// A job of 1,000 steps needs a tenth of it.
const MAX_VALUES: usize = 200_000;
const MAX_TEXT_BYTES: usize = 4 * 1024 * 1024;

pub fn from_json(text: &str) -> Result<Value, String> {
    let budget = Budget::default();
    let mut json = serde_json::Deserializer::from_str(text);
    let value = Strict(&budget).deserialize(&mut json).map_err(|e| e.to_string())?;
    json.end().map_err(|e| e.to_string())?;
    Ok(value)
}

pub fn from_yaml(text: &str) -> Result<Value, String> {
    let budget = Budget::default();
    Strict(&budget).deserialize(serde_norway::Deserializer::from_str(text)).map_err(|e| e.to_string())
}

#[derive(Default)]
struct Budget {
    values: Cell<usize>,
    text_bytes: Cell<usize>,
}

impl Budget {
    fn spend<E: Error>(&self, text_bytes: usize) -> Result<(), E> {
        self.values.set(self.values.get() + 1);
        self.text_bytes.set(self.text_bytes.get() + text_bytes);
        if self.values.get() > MAX_VALUES || self.text_bytes.get() > MAX_TEXT_BYTES {
            return Err(E::custom("the document is too large once its aliases are expanded"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy)]
struct Strict<'a>(&'a Budget);

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
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

    fn visit_i64<E: Error>(self, value: i64) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Value, E> {
        self.0.spend(0)?;
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        self.0.spend(0)?;
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("a number must be finite"))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Value, E> {
        self.0.spend(value.len())?;
        Ok(Value::String(value.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.0.spend(0)?;
        let mut list = Vec::new();
        while let Some(value) = access.next_element_seed(self)? {
            list.push(value);
        }
        Ok(Value::Array(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Value, A::Error> {
        self.0.spend(0)?;
        let mut map = Map::new();
        while let Some(key) = access.next_key::<String>()? {
            self.0.spend(key.len())?;
            if map.contains_key(&key) {
                let shown: String = key.chars().take(60).collect();
                return Err(A::Error::custom(format!("the key {shown:?} is given twice")));
            }
            let value = access.next_value_seed(self)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}
