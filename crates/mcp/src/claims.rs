//! What an app says of a result's label (`_meta.ifc`), as words that a configuration may give a meaning.

use ifc::json::Json;
use serde_json::Value;
use wire::limits::{MAX_CLAIM_BYTES, MAX_CLAIMS};

/// The axes that such a label has.
const AXES: [&str; 2] = ["integrity", "confidentiality"];

/// Each claim as `AXIS:VALUE`; one of another form is `unreadable`. Empty if the app claims nothing.
/// `meta` is `_meta` as the app wrote it.
pub(crate) fn claims(meta: Option<&str>) -> Vec<String> {
    let unreadable = || vec!["unreadable".to_owned()];
    let Some(meta) = meta.filter(|meta| *meta != "null") else {
        return Vec::new();
    };
    // Of a name that stands twice, the claim that is not read may be the one that restricts.
    let read_once = Json::read(meta).is_ok();
    let meta = serde_json::from_str::<Value>(meta);
    match meta.map(|meta| meta.as_object().map(|meta| meta.get("ifc").cloned())) {
        Ok(Some(None)) if read_once => Vec::new(),
        Ok(Some(Some(said))) if read_once => read(&said).unwrap_or_else(unreadable),
        _ => unreadable(),
    }
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
        if values.is_empty() {
            return None;
        }
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
        assert_eq!(claims(Some(&meta.to_string())), expected);
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
        unreadable(json!({"integrity": []}));
        unreadable(json!({"integrity": ["trusted", null]}));
        unreadable(json!({"trust": "trusted"}));
        unreadable(json!({"integrity": "x".repeat(MAX_CLAIM_BYTES)}));
        unreadable(json!({"integrity": vec!["x"; MAX_CLAIMS + 1]}));
        check(json!("trusted"), &["unreadable"]);
        for twice in [
            r#"{"ifc":{"integrity":"untrusted"},"ifc":{}}"#,
            r#"{"ifc":{"integrity":"untrusted","integrity":"trusted"}}"#,
        ] {
            assert_eq!(claims(Some(twice)), ["unreadable"], "{twice}");
        }
        assert!(claims(None).is_empty());
    }
}
