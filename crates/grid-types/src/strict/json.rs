//! Reads JSON documents strictly: exactly one document, no key twice, bounded.
//!
//! Depth is bounded by `serde_json`'s own limit of 128, so that open brackets cannot exhaust the stack.
//! Not here: what a document means (`job`).

use serde_json::Value;

use crate::fault::Faults;

/// Reads one JSON document and nothing after it.
pub fn json(bytes: &[u8]) -> Result<Value, Faults> {
    let mut json = serde_json::Deserializer::from_slice(bytes);
    match super::read(&mut json).and_then(|read| json.end().map(|()| read)) {
        Ok((value, twice)) => twice.finish(value),
        Err(error) => {
            let mut faults = Faults::default();
            faults.add("", format!("the body is not valid JSON: {error}"));
            Err(faults)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::json;

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
            let faults = json(bytes).unwrap_err().to_string();
            assert!(faults.contains(place), "{faults}");
        }
    }

    #[test]
    fn open_brackets_are_harmless() {
        for open in ["[", "{\"a\":"] {
            let faults = json(open.repeat(200_000).as_bytes()).unwrap_err().to_string();
            assert!(faults.contains("recursion limit"), "{faults}");
        }
    }
}
