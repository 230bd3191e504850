//! Writes a request as a text that is equal for equal requests (J12).

use serde_json::Value;

use super::PlanHash;

/// J12: equal requests are equal texts, however they are spaced and whatever the order of their fields.
pub fn canonical_request(body: &Value, plan: Option<PlanHash>) -> String {
    let mut text = String::new();
    write_canonical(body, &mut text);
    if let Some(plan) = plan {
        text.push_str(&format!(" plan {plan}"));
    }
    text
}

fn write_canonical(value: &Value, out: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| *name);
            out.push('{');
            for (name, value) in fields {
                out.push_str(&Value::from(name.as_str()).to_string());
                out.push(':');
                write_canonical(value, out);
                out.push(',');
            }
            out.push('}');
        }
        Value::Array(items) => {
            out.push('[');
            for item in items {
                write_canonical(item, out);
                out.push(',');
            }
            out.push(']');
        }
        plain => out.push_str(&plain.to_string()),
    }
}
