//! JSON Schema to GBNF, the grammar language of llama.cpp.
//!
//! Schemas come from apps, which are not trusted, so this is our own bounded translation and not
//! the one in C++: limits on depth, properties and size, and whatever is not understood becomes a
//! *wider* grammar (any JSON value), never an error. The grammar helps the model to write a
//! well-formed call; the policy check of the call does not rely on it.

use std::fmt::Write as _;

use super::json::{Json, quoted};

/// Schema nesting that is followed; deeper parts accept any value.
const DEPTH_LIMIT: usize = 8;
/// Properties of one object that are followed; an object with more accepts any object.
const PROPERTY_LIMIT: usize = 64;
/// Alternatives of one `enum` or `anyOf`.
const ALTERNATIVE_LIMIT: usize = 256;
/// `minItems`/`maxItems` above this are ignored: llama.cpp unrolls repetitions.
const REPEAT_LIMIT: usize = 32;
/// Nesting of a value of which the schema says nothing. Well below `serde_json`'s 128.
const VALUE_DEPTH: usize = 6;
/// Bytes of one grammar. Enough for a hundred large tools; llama.cpp parses this in milliseconds.
const GRAMMAR_LIMIT: usize = 512 * 1024;

/// Collects the rules of one grammar.
#[derive(Debug, Default)]
pub(super) struct Rules {
    text: String,
    count: usize,
}

impl Rules {
    /// Adds a rule and returns its name.
    pub(super) fn add(&mut self, body: &str) -> String {
        let name = format!("r{}", self.count);
        self.count += 1;
        self.define(&name, body);
        name
    }

    /// Adds a rule under a fixed name.
    pub(super) fn define(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.text, "{name} ::= {body}");
    }

    /// The rule for a schema; a grammar that has grown too large gets the widest one.
    pub(super) fn schema(&mut self, schema: &Json) -> String {
        let scope = Scope { root: schema };
        scope.value(self, schema, 0)
    }

    /// Like [`Rules::schema`], but always an object.
    pub(super) fn object_schema(&mut self, schema: &Json) -> String {
        let scope = Scope { root: schema };
        scope
            .object(self, schema, 0)
            .unwrap_or_else(|| any_object().to_owned())
    }

    fn is_full(&self) -> bool {
        self.text.len() > GRAMMAR_LIMIT
    }

    /// The whole grammar with the primitive rules.
    pub(super) fn finish(mut self) -> String {
        self.text.push_str(PRIMITIVES);
        self.define("value0", "string | number | boolean | null");
        for depth in 1..=VALUE_DEPTH {
            let below = depth - 1;
            self.define(
                &format!("object{depth}"),
                &format!(
                    r#""{{" ws ( string ws ":" ws value{below} (ws "," ws string ws ":" ws value{below})* )? ws "}}""#
                ),
            );
            self.define(
                &format!("array{depth}"),
                &format!(r#""[" ws ( value{below} (ws "," ws value{below})* )? ws "]""#),
            );
            self.define(
                &format!("value{depth}"),
                &format!("string | number | boolean | null | object{depth} | array{depth}"),
            );
        }
        self.text
    }
}

/// Strings have no lone surrogates and numbers no absurd length, so that all of it parses again.
const PRIMITIVES: &str = r#"ws ::= | " " | "\n" [ \t]{0,16}
string ::= "\"" char* "\""
char ::= [^"\\\x00-\x1F\x7F] | "\\" (["\\/bfnrt] | "u" hex4)
hex4 ::= [0-9a-cA-Ce-fE-F] hex hex hex | [dD] [0-7] hex hex
hex ::= [0-9a-fA-F]
natural ::= "0" | [1-9] [0-9]{0,15}
integer ::= "-"? natural
number ::= "-"? natural ("." [0-9]{1,15})? ([eE] [-+]? [0-9]{1,2})?
boolean ::= "true" | "false"
null ::= "null"
"#;

const ANY_VALUE: &str = "value6";

fn any_object() -> &'static str {
    "object6"
}

/// A GBNF literal.
pub(super) fn literal(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_graphic() || c == ' ' => out.push(c),
            c => {
                let _ = write!(out, "\\U{:08X}", u32::from(c));
            }
        }
    }
    out.push('"');
    out
}

struct Scope<'a> {
    /// Where `$ref` starts.
    root: &'a Json,
}

impl Scope<'_> {
    fn value(&self, rules: &mut Rules, schema: &Json, depth: usize) -> String {
        self.known(rules, schema, depth)
            .unwrap_or_else(|| ANY_VALUE.to_owned())
    }

    /// `None` where nothing narrower than any value is known.
    fn known(&self, rules: &mut Rules, schema: &Json, depth: usize) -> Option<String> {
        if depth >= DEPTH_LIMIT || rules.is_full() {
            return None;
        }
        if let Some(target) = schema.get("$ref") {
            let target = self.resolve(target.as_str()?)?;
            return self.known(rules, target, depth + 1);
        }
        if let Some(constant) = schema.get("const") {
            return Some(rules.add(&exact(constant)));
        }
        if let Some(Json::Array(choices)) = schema.get("enum") {
            return alternatives(rules, choices.iter().map(exact).collect());
        }
        if let Some(Json::Array(choices)) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            if choices.len() > ALTERNATIVE_LIMIT {
                return None;
            }
            let names = choices
                .iter()
                .map(|choice| self.value(rules, choice, depth + 1))
                .collect();
            return alternatives(rules, names);
        }
        if let Some(Json::Array(parts)) = schema.get("allOf") {
            return match parts.as_slice() {
                [only] => self.known(rules, only, depth + 1),
                _ => None,
            };
        }
        match schema.get("type") {
            Some(Json::Array(types)) => {
                let names: Option<Vec<String>> = types
                    .iter()
                    .map(|kind| self.of_type(rules, kind.as_str()?, schema, depth))
                    .collect();
                alternatives(rules, names?)
            }
            Some(kind) => self.of_type(rules, kind.as_str()?, schema, depth),
            None if schema.get("properties").is_some() => self.object(rules, schema, depth),
            None => None,
        }
    }

    fn of_type(
        &self,
        rules: &mut Rules,
        kind: &str,
        schema: &Json,
        depth: usize,
    ) -> Option<String> {
        match kind {
            "string" => Some("string".into()),
            "integer" => Some(match schema.get("minimum") {
                Some(Json::Number(least)) if least.as_f64()? >= 0.0 => "natural".into(),
                _ => "integer".into(),
            }),
            "number" => Some("number".into()),
            "boolean" => Some("boolean".into()),
            "null" => Some("null".into()),
            "array" => Some(self.array(rules, schema, depth)),
            "object" => Some(
                self.object(rules, schema, depth)
                    .unwrap_or_else(|| any_object().to_owned()),
            ),
            _ => None,
        }
    }

    fn array(&self, rules: &mut Rules, schema: &Json, depth: usize) -> String {
        let item = schema.get("items").map_or_else(
            || ANY_VALUE.to_owned(),
            |items| self.value(rules, items, depth + 1),
        );
        let bound = |key| {
            schema
                .get(key)
                .and_then(Json::as_usize)
                .filter(|n| *n <= REPEAT_LIMIT)
        };
        let least = bound("minItems").unwrap_or(0);
        let most = bound("maxItems").filter(|most| *most >= least);
        if most == Some(0) {
            return rules.add(r#""[" ws "]""#);
        }
        let more = least.saturating_sub(1);
        let repeat = match most {
            Some(most) => format!("{{{more},{}}}", most - 1),
            None => format!("{{{more},}}"),
        };
        let body = format!(r#"{item} (ws "," ws {item}){repeat}"#);
        let optional = if least == 0 { "?" } else { "" };
        rules.add(&format!(r#""[" ws ( {body} ){optional} ws "]""#))
    }

    /// An object with the listed properties in the schema's order. `None` when nothing is listed
    /// or too much.
    fn object(&self, rules: &mut Rules, schema: &Json, depth: usize) -> Option<String> {
        if depth >= DEPTH_LIMIT || rules.is_full() {
            return None;
        }
        let Some(Json::Object(properties)) = schema.get("properties") else {
            return match schema.get("additionalProperties") {
                Some(Json::Bool(false)) => Some(rules.add(r#""{" ws "}""#)),
                _ => None,
            };
        };
        if properties.is_empty() {
            return match schema.get("additionalProperties") {
                Some(Json::Bool(true) | Json::Object(_)) => None,
                _ => Some(rules.add(r#""{" ws "}""#)),
            };
        }
        let required: Vec<&str> = match schema.get("required") {
            Some(Json::Array(names)) => names.iter().filter_map(Json::as_str).collect(),
            _ => Vec::new(),
        };
        // A required property of which nothing is said could not be written by this grammar: any object may then be.
        let unlisted = |name: &&str| properties.iter().all(|(key, _)| key != name);
        if properties.len() > PROPERTY_LIMIT || required.iter().any(unlisted) {
            return None;
        }
        Some(self.members(rules, properties, &required, depth))
    }

    /// Built from the last property to the first: `first` is what may follow when no member has
    /// been written yet, `rest` when one has.
    fn members(
        &self,
        rules: &mut Rules,
        properties: &[(String, Json)],
        required: &[&str],
        depth: usize,
    ) -> String {
        let mut first = rules.add(r#""""#);
        let mut rest = first.clone();
        for (name, schema) in properties.iter().rev() {
            let value = self.value(rules, schema, depth + 1);
            let member = rules.add(&format!(r#"{} ws ":" ws {value}"#, literal(&quoted(name))));
            let (skip_first, skip_rest) = if required.contains(&name.as_str()) {
                (String::new(), String::new())
            } else {
                (format!(" | {first}"), format!(" | {rest}"))
            };
            let next_first = rules.add(&format!("{member} {rest}{skip_first}"));
            rest = rules.add(&format!(r#"ws "," ws {member} {rest}{skip_rest}"#));
            first = next_first;
        }
        rules.add(&format!(r#""{{" ws {first} ws "}}""#))
    }

    /// `#/$defs/name` and the like, inside the same schema only.
    fn resolve(&self, reference: &str) -> Option<&Json> {
        let mut at = self.root;
        for step in reference.strip_prefix("#/")?.split('/') {
            at = at.get(&step.replace("~1", "/").replace("~0", "~"))?;
        }
        Some(at)
    }
}

fn exact(value: &Json) -> String {
    literal(&value.to_text(super::json::Spacing::Tight))
}

fn alternatives(rules: &mut Rules, names: Vec<String>) -> Option<String> {
    (!names.is_empty() && names.len() <= ALTERNATIVE_LIMIT).then(|| rules.add(&names.join(" | ")))
}
