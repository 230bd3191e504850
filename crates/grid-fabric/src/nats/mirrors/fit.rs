//! Makes a document fit into a value of a bucket: 64 KiB (N7).

use serde_json::{Value, json};

/// Of a whole value.
pub const MAX_VALUE_BYTES: usize = 64 * 1024;
/// Fields that are left out, in this order, until a document fits; the API has them.
const OPTIONAL: [&str; 6] = ["results", "expected", "runs", "facts", "tasks", "steps"];

/// The text of `document`. What was left out is named in its field `left_out`.
pub fn fit(mut document: Value) -> String {
    let mut left_out: Vec<&str> = Vec::new();
    let mut text = document.to_string();
    for field in OPTIONAL {
        if text.len() <= MAX_VALUE_BYTES {
            break;
        }
        let Value::Object(fields) = &mut document else { break };
        if fields.remove(field).is_some() {
            left_out.push(field);
            fields.insert("left_out".to_owned(), json!(left_out));
            text = document.to_string();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{MAX_VALUE_BYTES, fit};
    use serde_json::{Value, json};

    #[test]
    fn n7_a_value_has_at_most_64_kib_and_names_what_is_left_out() {
        let job = json!({"id": "job-1", "status": "running", "tasks": "t".repeat(1_000), "results": "r".repeat(70_000), "expected": "e".repeat(10_000)});
        let text = fit(job.clone());
        assert!(text.len() <= MAX_VALUE_BYTES);
        let value: Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            (&value["left_out"], &value["expected"], &value["tasks"]),
            (&json!(["results"]), &job["expected"], &job["tasks"])
        );
        let small = json!({"id": "job-2", "results": {}});
        assert_eq!(fit(small.clone()), small.to_string());
    }
}
