//! The grammar of a whole answer, for each [`Shape`].

use model_files::protocol::{Shape, Tool};
use serde_json::Value;

use super::schema::{Rules, literal, quoted};

/// What opens a tool call (the Qwen and Hermes spelling).
pub(crate) const CALL_OPEN: &str = "<tool_call>";
pub(crate) const CALL_CLOSE: &str = "</tool_call>";
/// Calls in one answer. More than anyone needs in one step; it bounds a model that goes wild.
const CALL_LIMIT: usize = 16;

/// The grammar (GBNF, start rule `root`) for an answer; `None` when anything goes.
///
/// Calls may be spelled `<tool_call>{…}</tool_call>`, as a fenced `json` block, or bare. Text
/// that *begins* like a call must be one; elsewhere only `<tool_call>` starts one.
///
/// # Errors
/// Calls are demanded, but there are no tools; or the schema is not JSON.
pub(crate) fn answer_grammar(
    shape: &Shape,
    tools: &[Tool],
) -> Result<Option<String>, &'static str> {
    let mut rules = Rules::default();
    match shape {
        Shape::Json(schema) => {
            let schema: Value = serde_json::from_str(schema)
                .map_err(|_| "the answer's schema is not valid JSON")?;
            let value = rules.schema(&schema);
            rules.define("root", &format!("ws {value} ws"));
        }
        Shape::Text | Shape::TextOrCalls if tools.is_empty() => return Ok(None),
        Shape::Text => {
            // Even where only text is asked for: a model that knows tools would otherwise write a
            // call that is then shown as text.
            let text = text_rules(&mut rules, None);
            rules.define("root", &format!("{LEAD} {text}"));
        }
        Shape::Calls if tools.is_empty() => {
            return Err("a tool call is demanded, but the prompt has no tools");
        }
        Shape::Calls => {
            let call = call_rule(&mut rules, tools);
            let tagged = tagged_rules(&mut rules, &call);
            rules.define("root", &format!("ws {} {tagged}", literal(CALL_OPEN)));
        }
        Shape::TextOrCalls => {
            let call = call_rule(&mut rules, tools);
            let tagged = tagged_rules(&mut rules, &call);
            let more = CALL_LIMIT - 1;
            let list = rules.add(&format!("{call} ([ \\n\\t]{{1,4}} {call}){{0,{more}}}"));
            let fence = rules.add(&format!(
                r#""```" "json"? "\n" [ \n\t]{{0,4}} {list} ws "```" ws"#
            ));
            let text = text_rules(&mut rules, Some(&tagged));
            rules.define("root", &format!("{LEAD} ( {text} | {fence} | {list} ws )"));
        }
    }
    Ok(Some(rules.finish()))
}

const LEAD: &str = "[ \\n\\t]{0,4}";

/// `{"name": "…", "arguments": {…}}`, the arguments by the tool's own schema.
fn call_rule(rules: &mut Rules, tools: &[Tool]) -> String {
    let bodies: Vec<String> = tools
        .iter()
        .map(|tool| {
            // What is no JSON gets any object: the grammar helps the model and refuses nothing.
            let parameters = serde_json::from_str(&tool.parameters).unwrap_or(Value::Null);
            let arguments = rules.object_schema(&parameters);
            rules.add(&format!(
                r#"{} ws "," ws "\"arguments\"" ws ":" ws {arguments}"#,
                literal(&quoted(&tool.name))
            ))
        })
        .collect();
    rules.add(&format!(
        r#""{{" ws "\"name\"" ws ":" ws ( {} ) ws "}}""#,
        bodies.join(" | ")
    ))
}

/// What follows a first `<tool_call>`, to the end of the answer.
fn tagged_rules(rules: &mut Rules, call: &str) -> String {
    let (open, close) = (literal(CALL_OPEN), literal(CALL_CLOSE));
    let more = CALL_LIMIT - 1;
    rules.add(&format!(
        "ws {call} ws {close} (ws {open} ws {call} ws {close}){{0,{more}}} ws"
    ))
}

/// Text that does not begin like a fenced or bare call, and in which `<tool_call>` leads to
/// `tagged`, or cannot occur where that is `None`.
///
/// One rule per prefix of `<tool_call>`: the automaton that looks for that word. `<` occurs in it
/// only at its start, so a mismatch falls back to the first state or to none.
fn text_rules(rules: &mut Rules, tagged: Option<&str>) -> String {
    let word: Vec<char> = CALL_OPEN.chars().collect();
    let last = word.len() - 1;
    for (state, c) in word.iter().enumerate() {
        let next = state + 1;
        let other = if *c == '<' {
            "[^<] t0".to_owned()
        } else {
            format!("\"<\" t1 | [^<{c}] t0")
        };
        let step = match tagged {
            _ if state < last => format!("{} t{next} | ", literal(&c.to_string())),
            Some(tagged) => format!("{} {tagged} | ", literal(&c.to_string())),
            None => String::new(),
        };
        rules.define(&format!("t{state}"), &format!("{step}{other} | \"\""));
    }
    rules.add(
        r#"[^ \n\t{`<] t0 | "<" t1 | "`" [^`] t0 | "``" [^`] t0 | "```" [^j\n{ ] t0 | "```j" [^s] t0 | "```js" [^o] t0"#,
    )
}
