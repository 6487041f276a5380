//! JSON Schema to GBNF, the grammar language of llama.cpp.
//!
//! Schemas come from apps, which are not trusted, so this is our own bounded translation and not
//! the one in C++: limits on depth, properties, size and open alternatives, and a part that is not
//! understood becomes a *wider* grammar (any JSON value), never an error. The grammar helps the model
//! to write a well-formed call; the policy check of the call does not rely on it.
//!
//! # Stacks
//! llama.cpp keeps a stack for each way in which the text so far can be read by the grammar. It compares each
//! new stack with all others, and tries every token of the vocabulary on each, so their number is what a grammar
//! costs. A [`Part`] knows how many there can be at once inside of it:
//! - alternatives are open together, so theirs add up;
//! - of an object or an array one member or item is open at a time: where the text stands in a JSON value says in
//!   which. So siblings do not add up; an object counts the names that can come next, which are open together where
//!   members may be left out;
//! - white space may be missing, so what stands before it and after it is open together ([`SPACE`]);
//! - the inside of a repetition is open once, since an item ends where the next one begins.

use std::{collections::BTreeMap, fmt::Write as _};

use serde_json::{Map, Value};

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
/// Members and bytes of schemas that are looked at for one grammar. References lead to the same ones again and again,
/// and add nothing to the grammar where nothing is understood.
const WORK_LIMIT: usize = 4 << 20;
/// Stacks inside one value; a value with more is any value. More than four of the longest `enum`s at one place. With so
/// many llama.cpp takes seconds to find a token, and with ten times as many minutes, in which a call cannot be cancelled.
const STACK_LIMIT: usize = 1024;
/// Stacks of `ws`, a sign and `ws` again, beside what follows.
const SPACE: usize = 6;

/// A rule for a value.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    name: String,
    /// Most stacks that llama.cpp can have inside of it at once.
    stacks: usize,
}

impl Part {
    /// A rule of [`PRIMITIVES`]: strings and numbers can end or go on in two ways, booleans are two words.
    fn primitive(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            stacks: 3,
        }
    }

    /// A rule of [`Rules::finish`]: all primitives, or the first one of a list, its end and white space.
    fn any(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            stacks: 16,
        }
    }

    fn any_value() -> Self {
        Self::any(ANY_VALUE)
    }

    fn any_object() -> Self {
        Self::any(ANY_OBJECT)
    }
}

#[derive(Debug, Default)]
pub(crate) struct Rules {
    text: String,
    count: usize,
    work: usize,
}

impl Rules {
    pub(crate) fn add(&mut self, body: &str) -> String {
        let name = format!("r{}", self.count);
        self.count += 1;
        self.define(&name, body);
        name
    }

    pub(crate) fn define(&mut self, name: &str, body: &str) {
        let _ = writeln!(self.text, "{name} ::= {body}");
    }

    /// The rule for a schema; a grammar that has grown too large gets the widest one.
    pub(crate) fn schema(&mut self, schema: &Value) -> String {
        let scope = Scope { root: schema };
        scope.value(self, schema, 0).name
    }

    /// Like [`Rules::schema`], but always an object.
    pub(crate) fn object_schema(&mut self, schema: &Value) -> String {
        let scope = Scope { root: schema };
        let object = scope.object(self, schema, 0);
        object.unwrap_or_else(Part::any_object).name
    }

    /// Adds a rule for a value, unless it has too many stacks.
    fn part(&mut self, body: &str, stacks: usize) -> Option<Part> {
        (stacks <= STACK_LIMIT).then(|| Part {
            name: self.add(body),
            stacks,
        })
    }

    /// Counts what is looked at.
    fn spend(&mut self, work: usize) {
        self.work = self.work.saturating_add(work);
    }

    fn is_full(&self) -> bool {
        self.text.len() > GRAMMAR_LIMIT || self.work > WORK_LIMIT
    }

    /// The whole grammar with the primitive rules.
    pub(crate) fn finish(mut self) -> String {
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
const ANY_OBJECT: &str = "object6";

/// A GBNF literal.
pub(crate) fn literal(text: &str) -> String {
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
    root: &'a Value,
}

impl Scope<'_> {
    fn value(&self, rules: &mut Rules, schema: &Value, depth: usize) -> Part {
        self.known(rules, schema, depth)
            .unwrap_or_else(Part::any_value)
    }

    /// `None` where nothing narrower than any value is known, or it would be too much.
    fn known(&self, rules: &mut Rules, schema: &Value, depth: usize) -> Option<Part> {
        rules.spend(members(schema));
        // `$ref` counts as a level too, so a schema that refers to itself ends here.
        if depth >= DEPTH_LIMIT || rules.is_full() {
            return None;
        }
        if let Some(target) = schema.get("$ref") {
            let target = self.resolve(rules, target.as_str()?)?;
            return self.known(rules, target, depth + 1);
        }
        if let Some(constant) = schema.get("const") {
            return rules.part(&exact(constant), 1);
        }
        if let Some(Value::Array(choices)) = schema.get("enum") {
            let choices = limited(choices)?;
            let words: Vec<String> = choices.iter().map(exact).collect();
            return rules.part(&words.join(" | "), words.len());
        }
        if let Some(Value::Array(choices)) = schema.get("anyOf").or_else(|| schema.get("oneOf")) {
            let choices = limited(choices)?.iter();
            let parts = choices.map(|choice| self.value(rules, choice, depth + 1));
            let parts: Vec<Part> = parts.collect();
            return alternatives(rules, &parts);
        }
        if let Some(Value::Array(parts)) = schema.get("allOf") {
            // The intersection of several is no grammar of ours; a single one is just a wrapper, as generators write
            // it.
            return match parts.as_slice() {
                [only] => self.known(rules, only, depth + 1),
                _ => None,
            };
        }
        match schema.get("type") {
            Some(Value::Array(types)) => {
                let kinds = limited(types)?.iter();
                let parts = kinds.map(|kind| self.of_type(rules, kind.as_str()?, schema, depth));
                let parts: Vec<Part> = parts.collect::<Option<_>>()?;
                alternatives(rules, &parts)
            }
            Some(kind) => self.of_type(rules, kind.as_str()?, schema, depth),
            // Many apps leave out `type`.
            None if schema.get("properties").is_some() => self.object(rules, schema, depth),
            None => None,
        }
    }

    fn of_type(&self, rules: &mut Rules, kind: &str, schema: &Value, depth: usize) -> Option<Part> {
        match kind {
            "integer" => Some(Part::primitive(match schema.get("minimum") {
                // Only the sign: exact bounds need a grammar of digits, and the call is checked by its schema
                // afterwards.
                Some(Value::Number(least)) if least.as_f64()? >= 0.0 => "natural",
                _ => "integer",
            })),
            "string" | "number" | "boolean" | "null" => Some(Part::primitive(kind)),
            "array" => self.array(rules, schema, depth),
            "object" => {
                let object = self.object(rules, schema, depth);
                Some(object.unwrap_or_else(Part::any_object))
            }
            _ => None,
        }
    }

    fn array(&self, rules: &mut Rules, schema: &Value, depth: usize) -> Option<Part> {
        let item = schema
            .get("items")
            .map_or_else(Part::any_value, |items| self.value(rules, items, depth + 1));
        let bound = |key| {
            schema
                .get(key)
                .and_then(as_usize)
                .filter(|n| *n <= REPEAT_LIMIT)
        };
        let least = bound("minItems").unwrap_or(0);
        let most = bound("maxItems").filter(|most| *most >= least);
        if most == Some(0) {
            return rules.part(r#""[" ws "]""#, SPACE);
        }
        // The first item stands before the repetition, without a comma.
        let more = least.saturating_sub(1);
        let repeat = match most {
            Some(most) => format!("{{{more},{}}}", most - 1),
            None => format!("{{{more},}}"),
        };
        let Part { name, stacks } = item;
        let body = format!(r#"{name} (ws "," ws {name}){repeat}"#);
        let optional = if least == 0 { "?" } else { "" };
        // After a number: it may go on, a comma may follow, or the end.
        let stacks = stacks.saturating_add(2 * SPACE);
        rules.part(&format!(r#""[" ws ( {body} ){optional} ws "]""#), stacks)
    }

    /// An object with the listed properties in the schema's order. `None` when nothing is listed
    /// or too much.
    fn object(&self, rules: &mut Rules, schema: &Value, depth: usize) -> Option<Part> {
        if depth >= DEPTH_LIMIT || rules.is_full() {
            return None;
        }
        let Some(Value::Object(properties)) = schema.get("properties") else {
            return match schema.get("additionalProperties") {
                Some(Value::Bool(false)) => rules.part(r#""{" ws "}""#, SPACE),
                _ => None,
            };
        };
        if properties.is_empty() {
            return match schema.get("additionalProperties") {
                Some(Value::Bool(true) | Value::Object(_)) => None,
                // Apps that list no properties mean "no arguments", though by JSON Schema any object would fit.
                _ => rules.part(r#""{" ws "}""#, SPACE),
            };
        }
        if properties.len() > PROPERTY_LIMIT {
            return None;
        }
        let required: Vec<&str> = match schema.get("required") {
            Some(Value::Array(names)) => names.iter().filter_map(Value::as_str).collect(),
            _ => Vec::new(),
        };
        rules.spend(required.len());
        // A required property of which nothing is said could not be written by this grammar: any object may then be.
        if required.iter().any(|name| !properties.contains_key(*name)) {
            return None;
        }
        self.members(rules, properties, &required, depth)
    }

    /// Built from the last property to the first: `next` is the members that may come from one of them on, which is
    /// then a first member or stands after a comma.
    fn members(
        &self,
        rules: &mut Rules,
        properties: &Map<String, Value>,
        required: &[&str],
        depth: usize,
    ) -> Option<Part> {
        let mut next: Option<String> = None;
        // Whether the object may end before `next`, and how many names that may begin with.
        let mut may_end = true;
        let mut names = 0_usize;
        let mut stacks = 0_usize;
        for (name, schema) in properties.iter().rev() {
            let value = self.value(rules, schema, depth + 1);
            let rest = match &next {
                Some(next) if may_end => format!(r#" (ws "," ws {next})?"#),
                Some(next) => format!(r#" ws "," ws {next}"#),
                None => String::new(),
            };
            let is_required = required.contains(&name.as_str());
            let skip = match &next {
                Some(next) if !is_required => format!(" | {next}"),
                _ => String::new(),
            };
            // A member that may be left out is open together with the next one; a required one closes that chain.
            names = if is_required { 1 } else { names + 1 };
            stacks = stacks.max(value.stacks).max(names);
            let (key, value) = (literal(&quoted(name)), value.name);
            next = Some(rules.add(&format!(r#"{key} ws ":" ws {value}{rest}{skip}"#)));
            may_end &= !is_required;
        }
        let next = next?;
        let optional = if may_end { "?" } else { "" };
        // As for an array: after a number it may go on, a comma may follow, or the end.
        let stacks = stacks.saturating_add(2 * SPACE);
        rules.part(&format!(r#""{{" ws ( {next} ){optional} ws "}}""#), stacks)
    }

    /// `#/$defs/name` and the like, inside the same schema only.
    fn resolve(&self, rules: &mut Rules, reference: &str) -> Option<&Value> {
        rules.spend(reference.len());
        let mut at = self.root;
        for step in reference.strip_prefix("#/")?.split('/') {
            rules.spend(members(at));
            // RFC 6901: `~1` before `~0`, or `~01` would become a slash.
            at = at.get(step.replace("~1", "/").replace("~0", "~"))?;
        }
        Some(at)
    }
}

fn exact(value: &Value) -> String {
    literal(&value.to_string())
}

/// The text as a JSON string, with its quotes.
pub(crate) fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

fn as_usize(value: &Value) -> Option<usize> {
    value
        .as_u64()
        .and_then(|number| usize::try_from(number).ok())
}

fn members(value: &Value) -> usize {
    value.as_object().map_or(0, Map::len)
}

/// The choices, unless there are none or too many: before anything is made of them.
fn limited(choices: &[Value]) -> Option<&[Value]> {
    (1..=ALTERNATIVE_LIMIT)
        .contains(&choices.len())
        .then_some(choices)
}

/// Any of these, all of which are open at once. The same rule twice leads to the same stacks.
fn alternatives(rules: &mut Rules, parts: &[Part]) -> Option<Part> {
    let distinct: BTreeMap<&str, usize> = parts
        .iter()
        .map(|part| (part.name.as_str(), part.stacks))
        .collect();
    let names: Vec<&str> = parts.iter().map(|part| part.name.as_str()).collect();
    rules.part(&names.join(" | "), distinct.values().sum())
}

#[cfg(test)]
mod tests;
