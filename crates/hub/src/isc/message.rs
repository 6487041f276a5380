//! Messages against their schemas, and what a receiver gets of them.

use std::fmt;
use std::ops::Range;

use ifc::{Label, Labeled};

use super::json::{self, Kind, Node};
use super::schema::{Schema, Shape};

/// The mark in place of a value that is not of the agreed form. It is a string of JSON.
const LEFT_OUT: &str = "\"[left out: not of the agreed form]\"";

/// Why a message is not of the agreed form, in one line. It quotes the schema, and nothing of the message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed(String);

impl Malformed {
    /// Not one JSON value, or one that is too deep, or that readers disagree about.
    fn not_json() -> Self {
        Self("it is not a JSON value".to_owned())
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Malformed {}

/// A message as its receiver gets it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Admitted {
    /// The message.
    pub message: Labeled,
    /// How many values were left out since they are not of the agreed form.
    pub left_out: usize,
}

impl Schema {
    /// Checks a text that must be a message of this form as a whole.
    pub fn check(&self, text: &str) -> Result<(), Malformed> {
        let node = json::read(text).ok_or_else(Malformed::not_json)?;
        match node.is_fit() {
            true => self.check_all(&node, "it"),
            false => Err(Malformed::not_json()),
        }
    }

    /// What a receiver gets of a labelled text that should be a message of this form.
    ///
    /// Every character keeps its label, and free text also gets `taint`, the label of the sender's words. Numbers,
    /// booleans, choices, dates and ids have no room for words. Blanks, the order of members and the choice of escapes
    /// do not pass.
    ///
    /// Whether a value is of its form is as secret as the value, so a wrong value is left out by itself: dropping the
    /// message would reveal a secret to a reader who may see the rest. For the same reason all of an object or array is
    /// at least as restrictive as its braces, names and commas.
    ///
    /// For a schema that is a string, the text is this string and no JSON.
    ///
    /// # Errors
    /// The message is not of this form at its root. That this is so has the label of the whole text.
    pub fn admit(&self, content: &Labeled, taint: &Label) -> Result<Admitted, Malformed> {
        let text = content.reveal_tcb();
        if let Shape::Text { longest } = self.shape {
            // In characters, as JSON Schema counts them, and before anything else: the limit is all that bounds free
            // text.
            too_long(text.chars().count(), longest, "it")?;
            // Its length decides over all of it, so all of it has one label.
            let message = Labeled::label_tcb(text, content.label()).restrict(taint);
            return Ok(Admitted {
                message,
                left_out: 0,
            });
        }
        let node = json::read(text).ok_or_else(Malformed::not_json)?;
        self.check_own(&node, "it")?;
        let mut cut = Cut {
            content,
            regions: content.regions().collect(),
            taint,
            left_out: 0,
        };
        let message = cut.value(self, &node);
        Ok(Admitted {
            message,
            left_out: cut.left_out,
        })
    }

    fn check_all(&self, node: &Node, at: &str) -> Result<(), Malformed> {
        self.check_own(node, at)?;
        let (Kind::Object(values, _) | Kind::Array(values, _)) = &node.kind else {
            return Ok(());
        };
        values.iter().try_for_each(|value| {
            let schema = self.of(value).ok_or_else(|| extra(at))?;
            match value.name.as_str() {
                "" => schema.check_all(value, &format!("an item of {at}")),
                name => schema.check_all(value, name),
            }
        })
    }

    /// The schema of a member or an item of a value of this form.
    fn of(&self, value: &Node) -> Option<&Self> {
        match &self.shape {
            Shape::Object(properties) => Some(&properties.get(&value.name)?.schema),
            Shape::Array { items, .. } => Some(items),
            _ => None,
        }
    }

    /// Checks a value, but not the values in it.
    fn check_own(&self, node: &Node, at: &str) -> Result<(), Malformed> {
        let malformed = |problem: String| Err(Malformed(problem));
        let wrong = |wanted| malformed(format!("{at} is not {wanted}"));
        let allowed = |is: bool| match is {
            true => Ok(()),
            false => malformed(format!("{at} has a value that is not allowed")),
        };
        match (&self.shape, &node.kind) {
            // First of all: two readers would see two values, and one of them is not the one that is checked here.
            (_, Kind::Unfit) => Err(Malformed::not_json()),
            (Shape::Object(properties), Kind::Object(members, _)) => {
                // A property that no schema names would be room without a limit, and a receiver may read it.
                if members.iter().any(|member| self.of(member).is_none()) {
                    return Err(extra(at));
                }
                let has = |name: &String| members.iter().any(|member| member.name == *name);
                let missing = properties
                    .iter()
                    .find(|(name, property)| property.required && !has(name));
                missing.map_or(Ok(()), |(name, _)| malformed(format!("{name} is missing")))
            }
            (Shape::Object(_), _) => wrong("an object"),
            (Shape::Array { most, .. }, Kind::Array(items, _)) => too_long(items.len(), *most, at),
            (Shape::Array { .. }, _) => wrong("an array"),
            (Shape::Text { longest }, Kind::Text(text)) => {
                too_long(text.chars().count(), *longest, at)
            }
            (Shape::Formed(format), Kind::Text(text)) => allowed(format.holds(text)),
            (Shape::OneOf(values), Kind::Text(text)) => allowed(values.contains(text)),
            (Shape::Text { .. } | Shape::Formed(_) | Shape::OneOf(_), _) => wrong("a string"),
            (Shape::Number(bounds), Kind::Number { nearest, .. }) => {
                allowed(bounds.contains(*nearest))
            }
            (Shape::Number(_), _) => wrong("a number"),
            // `2.0` is an integer by JSON Schema.
            (
                Shape::Integer(bounds),
                Kind::Number {
                    nearest,
                    is_whole: true,
                },
            ) => allowed(bounds.contains(*nearest)),
            (Shape::Integer(_), _) => wrong("an integer"),
            (Shape::Boolean, Kind::Boolean) => Ok(()),
            (Shape::Boolean, _) => wrong("true or false"),
        }
    }
}

fn extra(at: &str) -> Malformed {
    Malformed(format!("{at} has a property too many"))
}

fn too_long(length: usize, most: usize, at: &str) -> Result<(), Malformed> {
    match length <= most {
        true => Ok(()),
        false => {
            let problem = format!("{at} has more than {most} characters or items");
            Err(Malformed(problem))
        }
    }
}

/// Cuts a message out of a labelled text.
struct Cut<'a> {
    content: &'a Labeled,
    regions: Vec<(Range<usize>, &'a Label)>,
    taint: &'a Label,
    left_out: usize,
}

impl Cut<'_> {
    /// A value that is of its form, at least on its outside.
    fn value(&mut self, schema: &Schema, node: &Node) -> Labeled {
        let (begin, end, values, frame) = match &node.kind {
            Kind::Object(values, frame) => ("{", "}", values, frame),
            Kind::Array(values, frame) => ("[", "]", values, frame),
            _ => return self.leaf(schema, node),
        };
        // Braces, names and commas say which members there are and how many items, and so decide over the form.
        let frame = self.labels(frame);
        let mut out = Labeled::label_tcb(begin, frame.clone());
        for (at, value) in values.iter().enumerate() {
            let mut before = String::from(if at > 0 { "," } else { "" });
            if begin == "{" {
                // The name is the schema's; that it is here is the sender's choice.
                before += &serde_json::Value::from(value.name.as_str()).to_string();
                before.push(':');
            }
            out.push(&Labeled::label_tcb(before, frame.clone()));
            if let Some(schema) = schema.of(value) {
                out.push(&self.checked(schema, value).restrict(&frame));
            }
        }
        out.push(&Labeled::label_tcb(end, frame));
        out
    }

    /// A value without values in it. One part of it out of its form leaves out all of it, so it has one label.
    fn leaf(&self, schema: &Schema, node: &Node) -> Labeled {
        let value = match &node.kind {
            // In one form: the sender's choice of escapes does not pass.
            Kind::Text(text) => serde_json::Value::from(text.as_str()).to_string(),
            _ => {
                let token = self.content.reveal_tcb().get(node.span.clone());
                token.unwrap_or_default().to_owned()
            }
        };
        let value = Labeled::label_tcb(value, self.label(&node.span));
        match schema.shape {
            Shape::Text { .. } => value.restrict(self.taint),
            _ => value,
        }
    }

    /// A value, or the mark in place of one that is not of its form.
    fn checked(&mut self, schema: &Schema, node: &Node) -> Labeled {
        match schema.check_own(node, "") {
            Ok(()) => self.value(schema, node),
            Err(_) => {
                self.left_out += 1;
                Labeled::label_tcb(LEFT_OUT, self.label(&node.span))
            }
        }
    }

    fn labels(&self, spans: &[Range<usize>]) -> Label {
        let labels = spans.iter().map(|span| self.label(span));
        labels.fold(Label::bottom(), |all, label| all.join(&label))
    }

    /// The join of all labels in a span, those of empty regions at its ends too.
    fn label(&self, span: &Range<usize>) -> Label {
        let first = self
            .regions
            .partition_point(|(region, _)| region.end < span.start);
        let touching = self.regions.iter().skip(first);
        let touching = touching.take_while(|(region, _)| region.start <= span.end);
        let within = touching.filter(|(region, _)| {
            region.is_empty() || (region.start < span.end && span.start < region.end)
        });
        within.map(|(_, label)| *label).collect()
    }
}
