//! What an app says of a result's label (`_meta.ifc`), as words that a configuration may give a meaning.

use rmcp::model::MetaObject;
use serde_json::Value;
use wire::limits::{MAX_CLAIM_BYTES, MAX_CLAIMS};

/// The axes that such a label has.
const AXES: [&str; 2] = ["integrity", "confidentiality"];

/// Each claim as `AXIS:VALUE`; one of another form is `unreadable`. Empty if the app claims nothing.
pub(crate) fn claims(meta: Option<&MetaObject>) -> Vec<String> {
    let meta = meta.and_then(|meta| serde_json::to_value(meta).ok());
    let Some(said) = meta.as_ref().and_then(|meta| meta.get("ifc")) else {
        return Vec::new();
    };
    read(said).unwrap_or_else(|| vec!["unreadable".to_owned()])
}

fn read(said: &Value) -> Option<Vec<String>> {
    let mut claims = Vec::new();
    for (axis, value) in said.as_object()? {
        // An unknown axis may be the one that restricts, so the known ones are not used either.
        if !AXES.contains(&axis.as_str()) {
            return None;
        }
        // One value, or several that all hold.
        let values = match value {
            Value::Array(values) => values.as_slice(),
            one => std::slice::from_ref(one),
        };
        for value in values {
            claims.push(format!("{axis}:{}", value.as_str()?));
        }
    }
    let fits = |claim: &String| claim.len() <= MAX_CLAIM_BYTES;
    // Refused, not cut: a claim that is left out may be the one that restricts.
    (claims.len() <= MAX_CLAIMS && claims.iter().all(fits)).then_some(claims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(meta: Value, expected: &[&str]) {
        let meta: MetaObject = serde_json::from_value(meta).expect("an object");
        assert_eq!(claims(Some(&meta)), expected);
    }

    #[test]
    fn claims_are_read_or_are_unreadable() {
        check(json!({}), &[]);
        check(
            json!({"ifc": {"integrity": "untrusted", "confidentiality": ["private", "team"]}}),
            &[
                "integrity:untrusted",
                "confidentiality:private",
                "confidentiality:team",
            ],
        );
        let unreadable = |ifc: Value| check(json!({ "ifc": ifc }), &["unreadable"]);
        unreadable(json!("trusted"));
        unreadable(json!({"integrity": 1}));
        unreadable(json!({"integrity": ["trusted", null]}));
        unreadable(json!({"trust": "trusted"}));
        unreadable(json!({"integrity": "x".repeat(MAX_CLAIM_BYTES)}));
        unreadable(json!({"integrity": vec!["x"; MAX_CLAIMS + 1]}));
        assert!(claims(None).is_empty());
    }
}
