//! A remote server's list of tools, and then a call of one of them. Whatever the schemas mark, there are only headers of
//! the protocol's own prefix, few and short, whose values say what the argument is. A tool with a mark that breaks a rule is
//! in no list that is passed on, and a list without one is passed on as it came.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

// The program's own file: what it reads is nobody else's, so its crate does not show it.
#[path = "../../../crates/remote/src/mirror.rs"]
mod mirror;

/// The target.
pub(crate) fn remote_mirror(bytes: &[u8]) -> bool {
    let Some(end) = bytes.iter().position(|byte| *byte == 0) else {
        return false;
    };
    let (answer, call) = (&bytes[..end], &bytes[end + 1..]);
    // It is our own client's: what is passed over of it is text too.
    let Ok(said) = serde_json::from_slice::<Value>(call) else {
        return false;
    };
    let mirrored = mirror::Mirrored::default();
    let (passed_on, left_out) = mirrored.listed(answer.to_vec());
    if left_out.is_empty() {
        assert_eq!(passed_on, answer);
    } else {
        let (before, after) = (tools(answer), tools(&passed_on));
        assert_eq!(before.len(), after.len() + left_out.len());
        assert!(after.iter().all(|tool| before.contains(tool)));
        // What is left breaks no rule.
        assert!(
            mirror::Mirrored::default()
                .listed(passed_on.clone())
                .1
                .is_empty()
        );
    }
    let mut is_mirrored = false;
    for tool in tools(&passed_on) {
        let name = tool["name"].as_str().unwrap_or_default();
        let Ok(headers) = mirrored.headers(name, call) else {
            continue;
        };
        assert!(
            headers.len() <= 32
                && headers.values().map(|value| value.len()).sum::<usize>() <= 16 << 10
        );
        is_mirrored |= !headers.is_empty();
        let mut arguments = Vec::new();
        primitives(&said["params"]["arguments"], &mut arguments);
        for (header, value) in &headers {
            assert!(header.as_str().len() > 10 && header.as_str().starts_with("mcp-param-"));
            let value = value.to_str().unwrap();
            assert_eq!(value, value.trim());
            let encoded = value
                .strip_prefix("=?base64?")
                .and_then(|it| it.strip_suffix("?="));
            let value = match encoded {
                Some(encoded) => String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap(),
                None => value.to_owned(),
            };
            let is_said = |it: &Value| match it {
                Value::String(text) => *text == value,
                Value::Number(number) => number.as_f64() == value.parse().ok(),
                other => other.to_string().as_str() == value.as_str(),
            };
            assert!(arguments.iter().any(is_said), "{value:?} is no argument");
        }
    }
    is_mirrored
}

fn tools(answer: &[u8]) -> Vec<Value> {
    let answer: Value = serde_json::from_slice(answer).unwrap_or_default();
    answer
        .pointer("/result/tools")
        .and_then(Value::as_array)
        .cloned()
        .unwrap_or_default()
}

/// The values that are no containers.
fn primitives(value: &Value, found: &mut Vec<Value>) {
    match value {
        Value::Object(members) => members
            .values()
            .for_each(|member| primitives(member, found)),
        Value::Array(items) => items.iter().for_each(|item| primitives(item, found)),
        other => found.push(other.clone()),
    }
}
