//! A schema, as the grammar of the embedded model. It is bounded, and each rule is defined once.

use super::schema;

/// What a grammar may have beyond its own limit: the rules of one schema that was begun before it.
const MAX_BYTES: usize = 2 << 20;

pub(crate) fn llm_grammar(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let Ok(json) = serde_json::from_str(text) else {
        return false;
    };
    let mut rules = schema::Rules::default();
    let value = rules.schema(&json);
    let object = rules.object_schema(&json);
    rules.define("root", &format!("{value} | {object}"));
    let grammar = rules.finish();
    assert!(grammar.len() <= MAX_BYTES);
    let mut defined = std::collections::HashSet::new();
    for line in grammar.lines() {
        let (name, _) = line.split_once(" ::= ").expect("each line is a rule");
        assert!(defined.insert(name), "{name} is defined twice");
    }
    assert!(defined.contains(value.as_str()) && defined.contains(object.as_str()));
    true
}
