//! What a grammar costs, and what it takes, without a model: the stacks of llama.cpp, made as it makes them.

use std::collections::{BTreeSet, HashMap};
use std::fmt::Write as _;

use model_files::protocol::Shape;

use super::*;
use crate::grammar::answer_grammar;

/// More than a value has: what stands around it, and white space.
const MARGIN: usize = 32;

enum Item {
    /// One character of these ranges, or of all others.
    Char(bool, Vec<(char, char)>),
    Rule(usize),
}

type Rule = Vec<Vec<Item>>;
/// Where each open rule goes on: its number, the alternative, the item.
type Stack = Vec<(usize, usize, usize)>;

/// GBNF, as far as we write it.
#[derive(Default)]
struct Grammar {
    rules: Vec<Rule>,
    names: HashMap<String, usize>,
}

impl Grammar {
    fn of(schema: &str) -> Self {
        let shape = Shape::Json(schema.to_owned());
        let text = answer_grammar(&shape, &[]).unwrap().unwrap();
        let mut grammar = Self::default();
        for line in text.lines() {
            let (name, body) = line.split_once(" ::= ").unwrap();
            let mut body = body;
            let rule = grammar.alternatives(&mut body);
            assert_eq!(body, "", "{line}");
            let id = grammar.id(name);
            grammar.rules[id] = rule;
        }
        grammar
    }

    fn id(&mut self, name: &str) -> usize {
        if let Some(id) = self.names.get(name) {
            return *id;
        }
        self.names.insert(name.to_owned(), self.rules.len());
        self.unnamed(Rule::new())
    }

    fn unnamed(&mut self, rule: Rule) -> usize {
        self.rules.push(rule);
        self.rules.len() - 1
    }

    fn alternatives(&mut self, text: &mut &str) -> Rule {
        let mut rule = vec![self.sequence(text)];
        while let Some(rest) = text.strip_prefix('|') {
            *text = rest;
            rule.push(self.sequence(text));
        }
        rule
    }

    fn sequence(&mut self, text: &mut &str) -> Vec<Item> {
        let mut items = Vec::new();
        let mut last = 0;
        loop {
            *text = text.trim_start();
            let Some(first) = text.chars().next() else {
                return items;
            };
            let is_name = |c: char| c.is_ascii_alphanumeric();
            match first {
                '|' | ')' => return items,
                '*' | '?' | '{' => {
                    let (least, most) = times(text);
                    let once: Vec<Item> = items.split_off(last);
                    self.repeat(&mut items, &once, least, most);
                    continue;
                }
                _ => last = items.len(),
            }
            match first {
                '"' => {
                    *text = &text[1..];
                    while !text.starts_with('"') {
                        let c = character(text);
                        items.push(Item::Char(true, vec![(c, c)]));
                    }
                    *text = &text[1..];
                }
                '[' => {
                    *text = &text[1..];
                    let is_listed = !text.starts_with('^');
                    *text = text.trim_start_matches('^');
                    let mut ranges = Vec::new();
                    while !text.starts_with(']') {
                        let from = character(text);
                        let to = match text.strip_prefix('-').filter(|it| !it.starts_with(']')) {
                            Some(rest) => {
                                *text = rest;
                                character(text)
                            }
                            None => from,
                        };
                        ranges.push((from, to));
                    }
                    *text = &text[1..];
                    items.push(Item::Char(is_listed, ranges));
                }
                '(' => {
                    *text = &text[1..];
                    let rule = self.alternatives(text);
                    *text = text.strip_prefix(')').unwrap();
                    let id = self.unnamed(rule);
                    items.push(Item::Rule(id));
                }
                _ => {
                    let end = text.find(|c| !is_name(c)).unwrap_or(text.len());
                    let id = self.id(&text[..end]);
                    *text = &text[end..];
                    items.push(Item::Rule(id));
                }
            }
        }
    }

    /// `once{least,most}`, as llama.cpp unrolls it.
    fn repeat(&mut self, items: &mut Vec<Item>, once: &[Item], least: usize, most: Option<usize>) {
        let copy = || {
            once.iter().map(|item| match item {
                Item::Char(listed, ranges) => Item::Char(*listed, ranges.clone()),
                Item::Rule(id) => Item::Rule(*id),
            })
        };
        for _ in 0..least {
            items.extend(copy());
        }
        let mut rest = None;
        for _ in 0..most.map_or(1, |most| most - least) {
            let id = self.unnamed(Rule::new());
            let next = if most.is_none() { Some(id) } else { rest };
            self.rules[id] = vec![copy().chain(next.map(Item::Rule)).collect(), Vec::new()];
            rest = Some(id);
        }
        items.extend(rest.map(Item::Rule));
    }

    /// The stacks whose next item is a character; the empty one is the end.
    fn open(&self, stack: Stack, open: &mut BTreeSet<Stack>) {
        let mut seen = BTreeSet::new();
        let mut left = vec![stack];
        while let Some(mut stack) = left.pop() {
            if !seen.insert(stack.clone()) {
                continue;
            }
            let Some((rule, alternative, at)) = stack.pop() else {
                open.insert(stack);
                continue;
            };
            let items = &self.rules[rule][alternative];
            match items.get(at) {
                Some(Item::Char(..)) => {
                    stack.push((rule, alternative, at));
                    open.insert(stack);
                }
                Some(Item::Rule(id)) => {
                    if at + 1 < items.len() {
                        stack.push((rule, alternative, at + 1));
                    }
                    for next in 0..self.rules[*id].len() {
                        let mut stack = stack.clone();
                        stack.push((*id, next, 0));
                        left.push(stack);
                    }
                }
                None => left.push(stack),
            }
        }
    }

    /// Most stacks at any place of a text, and whether it can end there. A text that is not taken is an error.
    fn read(&self, text: &str) -> Result<(usize, bool), String> {
        let mut stacks = BTreeSet::new();
        for alternative in 0..self.rules[self.names["root"]].len() {
            self.open(vec![(self.names["root"], alternative, 0)], &mut stacks);
        }
        let mut most = stacks.len();
        for (place, c) in text.char_indices() {
            let mut next = BTreeSet::new();
            for mut stack in stacks {
                let Some((rule, alternative, at)) = stack.pop() else {
                    continue;
                };
                let Item::Char(is_listed, ranges) = &self.rules[rule][alternative][at] else {
                    continue;
                };
                if ranges.iter().any(|(from, to)| (*from..=*to).contains(&c)) == *is_listed {
                    stack.push((rule, alternative, at + 1));
                    self.open(stack, &mut next);
                }
            }
            if next.is_empty() {
                return Err(format!("{c:?} at {place} is not taken"));
            }
            most = most.max(next.len());
            stacks = next;
        }
        Ok((most, stacks.contains(&Stack::new())))
    }
}

fn times(text: &mut &str) -> (usize, Option<usize>) {
    let sign = text.chars().next();
    *text = &text[1..];
    match sign {
        Some('*') => return (0, None),
        Some('?') => return (0, Some(1)),
        _ => {}
    }
    let (inside, rest) = text.split_once('}').unwrap();
    *text = rest;
    let (least, most) = inside.split_once(',').unwrap();
    (least.parse().unwrap(), most.parse().ok())
}

fn character(text: &mut &str) -> char {
    let mut chars = text.chars();
    let mut next = || chars.next().unwrap();
    let c = match (next(), text.chars().nth(1)) {
        ('\\', Some(kind)) => {
            next();
            let digits = match kind {
                'x' => 2,
                'U' => 8,
                _ => 0,
            };
            let code: String = (0..digits).map(|_| next()).collect();
            match kind {
                'x' | 'U' => char::from_u32(u32::from_str_radix(&code, 16).unwrap()).unwrap(),
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                c => c,
            }
        }
        (c, _) => c,
    };
    *text = chars.as_str();
    c
}

/// `count` times the same, as items of a list.
fn list(count: usize, item: &str) -> String {
    vec![item; count].join(",")
}

fn members(count: usize, value: &str) -> String {
    let members = (0..count).map(|n| format!(r#""a{n}":{value}"#));
    members.collect::<Vec<_>>().join(",")
}

#[test]
fn no_schema_opens_more_stacks_than_the_limit() {
    let numbers: Vec<String> = (100..356).map(|n| n.to_string()).collect();
    let numbers = format!(r#"{{"enum":[{}]}}"#, numbers.join(","));
    let twice = |inner: &str| {
        let refs = list(256, r##"{"$ref":"#/e"}"##);
        format!(
            r#"{{"type":"object","properties":{{"p":{{"anyOf":[{refs}]}}}},"required":["p"],"e":{inner}}}"#
        )
    };
    let optional = format!(
        r#"{{"type":"object","properties":{{{}}}}}"#,
        members(64, r#"{"type":"string"}"#)
    );
    // Each level is in four ways the next one.
    let mut nested = numbers.clone();
    let mut deep = String::new();
    for level in 0..6 {
        let _ = write!(deep, r#""d{level}":{nested},"#);
        let next = format!(
            r##"{{"type":"object","properties":{{"k":{{"$ref":"#/d{level}"}}}},"required":["k"]}}"##
        );
        nested = format!(r#"{{"anyOf":[{}]}}"#, list(4, &next));
    }
    let deep = format!("{{{deep}{}", nested.trim_start_matches('{'));
    let arrays = format!(r#"{{"type":"array","items":{numbers},"minItems":32,"maxItems":32}}"#);
    let nullable = r#"{"type":["object","array","object","string","null"],"properties":{}}"#;
    let kinds = format!(
        r#"{{"type":[{}],"properties":{{{}}}}}"#,
        list(256, "\"object\""),
        members(64, "{}")
    );
    for (schema, text) in [
        (twice(&numbers), r#"{"p":1"#),
        (twice(&numbers), r#"{"p":[{"a":100,"b":[1,[]]}]}"#),
        (twice(&optional), r#"{"p":{"a0":"","a"#),
        (twice(&arrays), r#"{"p":[100,100,1"#),
        (twice(r#"{"type":"array"}"#), r#"{"p":[1"#),
        (twice(nullable), r#"{"p":{"#),
        (
            twice(r#"{"type":["string","number","boolean"]}"#),
            r#"{"p":1"#,
        ),
        (kinds, r#"{"a0":1,"a"#),
        (deep, r#"{"k":{"k":1"#),
    ] {
        let (stacks, _) = Grammar::of(&schema).read(text).unwrap();
        assert!(stacks <= STACK_LIMIT + MARGIN, "{stacks}: {schema:.200}");
    }
}

/// What is within the limit is followed, siblings however many.
#[test]
fn honest_schemas_are_followed() {
    let numbers: Vec<String> = (100..356).map(|n| n.to_string()).collect();
    let numbers = format!(r#"{{"enum":[{}]}}"#, numbers.join(","));
    let many = format!(
        r#"{{"type":"object","properties":{{{}}},"required":["a0"]}}"#,
        members(64, &numbers)
    );
    let grammar = Grammar::of(&many);
    let (stacks, is_whole) = grammar
        .read(r#"{"a0":100,"a10": 355,"a9":1"#)
        .unwrap_or((0, true));
    assert_eq!((stacks, is_whole), (0, true), "a9 stands before a10");
    let (stacks, is_whole) = grammar.read(r#"{"a0":100,"a9":355,"a10":111}"#).unwrap();
    assert!(stacks < 300 && is_whole, "{stacks}");
    assert!(grammar.read(r#"{"a0":100,"a9":99"#).is_err());

    let variants: Vec<String> = (0..20)
        .map(|n| {
            let members = members(20, r#"{"type":"string"}"#);
            format!(
                r#"{{"type":"object","properties":{{"kind":{{"const":"k{n}"}},{members}}},"required":["kind"]}}"#
            )
        })
        .collect();
    let grammar = Grammar::of(&format!(r#"{{"anyOf":[{}]}}"#, variants.join(",")));
    assert!(
        grammar
            .read(r#"{"kind":"k7","a1":"x","a19":""}"#)
            .unwrap()
            .1
    );
    assert!(grammar.read(r#"{"kind":"k20"#).is_err());
}

/// Members stand in the schema's order, with a comma between two of them, and none is missing that is required.
#[test]
fn members_may_be_left_out_unless_they_are_required() {
    let grammar = |required: &str| {
        let members = r#""a":{"type":"null"},"b":{"type":"null"},"c":{"type":"null"}"#;
        Grammar::of(&format!(
            r#"{{"type":"object","properties":{{{members}}},"required":[{required}]}}"#
        ))
    };
    for (required, needed) in [
        ("", ""),
        ("\"a\"", "a"),
        ("\"b\"", "b"),
        ("\"a\",\"c\"", "ac"),
    ] {
        let grammar = grammar(required);
        for present in ["", "a", "b", "c", "ab", "ac", "bc", "abc"] {
            let members = present.chars().map(|name| format!(r#""{name}": null"#));
            let text = format!("{{{}}}", members.collect::<Vec<_>>().join(" , "));
            let is_whole = grammar.read(&text).is_ok_and(|(_, is_whole)| is_whole);
            let expected = needed.chars().all(|name| present.contains(name));
            assert_eq!(is_whole, expected, "{required}: {text}");
        }
        for text in [
            r#"{"b": null,"a": null}"#,
            r#"{"a": null,}"#,
            r#"{,"a": null}"#,
            "{",
        ] {
            assert!(
                !grammar.read(text).is_ok_and(|(_, is_whole)| is_whole),
                "{text}"
            );
        }
    }
}

/// References lead to the same members again and again: what is looked at for them is bounded.
#[test]
fn what_is_not_understood_is_not_looked_at_without_end() {
    let words: Vec<String> = (0..10_000).map(|n| n.to_string()).collect();
    let refs = |name: &str| {
        let one = format!(r##"{{"$ref":"#/{name}"}}"##);
        format!(r#"{{"anyOf":[{}]}}"#, list(256, &one))
    };
    let schema = format!(
        r#"{{"a":{},"b":{},"c":{{"enum":[{}]}},"d":{},"anyOf":[{}]}}"#,
        refs("b"),
        refs("c"),
        words.join(","),
        format_args!("{{{}}}", members(10_000, "0")),
        list(200, r##"{"$ref":"#/a"},{"$ref":"#/d"}"##).replacen(r##",{"$ref":"#/d"}"##, "", 150),
    );
    let mut rules = Rules::default();
    rules.schema(&serde_json::from_str(&schema).unwrap());
    assert!(
        rules.work <= WORK_LIMIT + 2 * 256 * 10_000,
        "{}",
        rules.work
    );
    assert!(rules.text.len() < 2 * GRAMMAR_LIMIT);
}
