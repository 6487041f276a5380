//! A schema of messages between apps, as a configuration or a manifest has it. Whatever is read must say the same again when it
//! is written, in full and within its limits; whatever is not must say where it is wrong.

use hub::isc::Schema;
use serde_json::Value;

pub(crate) fn isc_schema(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let Ok(json) = serde_json::from_str::<Value>(text) else {
        return false;
    };
    let schema = match Schema::read(&json) {
        Ok(schema) => schema,
        Err(errors) => {
            assert!(!errors.is_empty());
            assert!(
                errors
                    .iter()
                    .all(|error| !error.message.is_empty() && !error.help.is_empty())
            );
            return false;
        }
    };
    let written = schema.to_json();
    let again = Schema::read(&written).expect("what was read is written as what can be read");
    assert_eq!(again, schema);
    assert_eq!(again.to_json(), written);
    assert!(schema.is_object() || schema.properties().next().is_none());
    true
}
