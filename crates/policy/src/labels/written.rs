//! Who wrote which parts of a result.

use std::ops::Range;

use ifc::{Arguments, Label, Labeled};

use super::by::By;
use super::results::{ResultLabels, place_of, places};
use super::rule::LabelRule;
use super::when::Met;
use crate::formats::Document;

/// A part of a result, how its writer is known, and the writer's name there.
pub(crate) type Written = (Range<usize>, String, String);

impl ResultLabels {
    /// Who wrote which parts of a result with these labels, in the order of their beginnings.
    pub(crate) fn written(&self, arguments: &Arguments, result: &Labeled) -> Vec<Written> {
        let text = result.reveal_tcb();
        let met = self.met(arguments);
        let counts = |(rule, met)| (met == Met::Yes).then_some(rule);
        let rules = self.rules().iter().zip(met).filter_map(counts);
        let rules = rules.filter_map(|rule| Some((rule, rule.by.as_ref()?)));
        let rules: Vec<_> = rules.collect();
        let Some(document) = Document::parse(text, self.format())
            .ok()
            .filter(|_| !rules.is_empty())
        else {
            return Vec::new();
        };
        let Ok(values) = document.values() else {
            return Vec::new();
        };
        let places = places(&values);
        let node_of = |value| place_of(&places, value).and_then(|at| document.nodes().get(at));
        let label_at =
            |span: Range<usize>| result.slice(span).map_or(Label::top(), |it| it.label());
        let mut written = Vec::new();
        for (rule, by) in rules {
            let of_call = by.of_call(arguments);
            for value in rule.path.select(document.value()) {
                let Some(node) = node_of(value) else { continue };
                let span = document.painted(node);
                let beside = |name: &str, believed: bool| {
                    let holder = node.parent.and_then(|at| values.get(at))?;
                    let sibling = holder.as_object()?.get(name)?;
                    let label = label_at(document.painted(node_of(sibling)?));
                    // What is above the value would otherwise decide how the value is labelled.
                    let secret = label.unendorsed().beyond(&rule.strangers);
                    let is_own = label.unendorsed().meet(&rule.strangers).is_bottom();
                    let is_known = (is_own || believed) && secret.flows_to(&label_at(span.clone()));
                    sibling.as_str().filter(|_| is_known).map(str::to_owned)
                };
                let writer = match by {
                    // A stranger's line may look like the sibling.
                    By::Sibling { .. } if self.format().is_lines() => None,
                    By::Sibling { name, believed } => beside(name, *believed),
                    _ => of_call.clone(),
                };
                written.extend(writer.map(|writer| (span, by.name(), writer)));
            }
        }
        written.sort_by_key(|(span, ..)| (span.start, span.end));
        // A part that two rules give a writer has none that is known.
        let mut ends = 0;
        let mut doubtful = Vec::new();
        for (at, (span, ..)) in written.iter().enumerate() {
            if span.start < ends {
                doubtful.extend([at.saturating_sub(1), at]);
            }
            ends = ends.max(span.end);
        }
        let numbered = written.into_iter().enumerate();
        let known = numbered.filter(|(at, _)| !doubtful.contains(at));
        known.map(|(_, written)| written).collect()
    }

    /// The sibling that names the writer of a rule's values, if no rule trusts such a text, so that it never does.
    pub fn untrusted_sibling<'r>(&self, rule: &'r LabelRule) -> Option<&'r str> {
        let By::Sibling {
            name,
            believed: false,
        } = rule.by.as_ref()?
        else {
            return None;
        };
        let is_trusted = |label: &Label| label.meet(&rule.strangers).is_bottom();
        let quoted = [format!("'{name}'"), format!("\"{name}\"")];
        let is_known = |other: &LabelRule| {
            let path = other.path.as_str();
            // It labels the sibling, or all around it.
            let selects = rule.path.as_str().starts_with(path)
                || path.ends_with(&format!(".{name}"))
                || path.ends_with('*')
                || quoted.iter().any(|name| path.contains(name));
            let lower = other.unless.as_ref().map(|unless| &unless.label);
            selects && (is_trusted(&other.label) || lower.is_some_and(is_trusted))
        };
        let is_named = is_trusted(self.worst()) || self.rules().iter().any(is_known);
        (!is_named).then_some(name)
    }

    /// Whether a rule says who wrote its values.
    pub(crate) fn names_writers(&self) -> bool {
        self.rules().iter().any(|rule| rule.by.is_some())
    }
}
