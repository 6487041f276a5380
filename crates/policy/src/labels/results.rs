//! The labels of the bytes of a tool's result.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::ops::Range;

use ifc::{Arguments, KnownResult, Label, Labeled};
use serde_json::Value;

use super::error_text::ErrorText;
use super::form::Form;
use super::list::{List, Piece};
use super::painter::{Chosen, Painter, Parts};
use super::path::LabelPath;
use super::rule::LabelRule;
use super::single::Single;
use super::when::{ArgumentIs, Met, When};
use crate::formats::{Document, Format, Kind, Node, ParseError};

/// Most characters of the trusted fields of one result that could spell words. Strangers who fill in several fields of a
/// record could spell an instruction with all of them; above this number none of these fields is trusted.
const MAX_FREE: usize = 32;

/// The label rules of one tool's results.
///
/// Every byte gets a label:
/// - a value that rules select has the *join* of their labels, and so has everything inside it. A rule whose conditions
///   certainly do not hold for the call is left out. If it is not known whether they hold, the value has
///   [`worst`](Self::worst);
/// - a value that no rule selects, and a key that no rule names, has [`worst`](Self::worst), so an attacker who adds a field
///   gains nothing;
/// - the rest is structure: brackets, commas, white space, and keys that a rule names. It can have a label of its own, since
///   it tells only the number of elements and which values are containers.
///
/// Text that is not of the [`Format`] has `worst` as a whole.
///
/// # Why the spans are right
/// A serializer writes each value as one token, and every reader of the format finds the tokens that it wrote. Text of an
/// attacker is inside the token of its field. So the spans are right if we find the same tokens as every other reader. Texts
/// about which readers disagree (duplicate keys, tabs and line breaks that only some know, comments, anchors, lone
/// surrogates) are not read, and have `worst`. A tool that joins text without a serializer does not keep the format: its
/// results are [`Format::Text`], or [`Format::Lines`]: there, all that follows the first value which a stranger may have
/// written has `worst`.
///
/// In lines the spans may be wrong: a title that a tool writes on a line of its own may be `Status: open`. So a value has a
/// lower label than `worst` only for its form, and no field beside it changes its label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResultLabels {
    format: Format,
    rules: Vec<LabelRule>,
    structure: Label,
    worst: Label,
    /// Every key that some rule names.
    names: BTreeSet<String>,
    errors: Vec<ErrorText>,
}

impl ResultLabels {
    /// Rules for JSON, the label of values that no rule names, and the label of the structure.
    ///
    /// `rest` can only add: the worst label is at least the join of all labels in the rules. Without `rest` it is that join,
    /// or ⊤ if the join is ⊥ or if rules have conditions on calls, since no rule describes the results of other calls.
    /// `structure` is the worst label if not given.
    pub fn new(rules: Vec<LabelRule>, rest: Option<Label>, structure: Option<Label>) -> Self {
        let unless = rules.iter().filter_map(|rule| rule.unless.as_ref());
        // Rules for other calls and both labels of `unless` count as well.
        let named: Label = rules.iter().flat_map(LabelRule::labels).collect();
        let named = structure.iter().fold(named, |all, label| all.join(label));
        let by_call = rules.iter().any(|rule| !rule.when.is_empty());
        let worst = match rest {
            Some(rest) => named.join(&rest),
            None if named.is_bottom() || by_call => Label::top(),
            None => named,
        };
        let names = rules.iter().flat_map(|rule| rule.path.names());
        // The author of the rule chose the name of a sibling, as the names in a path.
        let siblings = unless.flat_map(|unless| unless.siblings.iter());
        let siblings = siblings.map(|sibling| sibling.name.as_str());
        Self {
            format: Format::Json,
            names: names.chain(siblings).map(str::to_owned).collect(),
            structure: structure.unwrap_or_else(|| worst.clone()),
            worst,
            rules,
            errors: Vec::new(),
        }
    }

    /// The same rules for another format.
    #[must_use]
    pub fn with_format(self, format: Format) -> Self {
        Self { format, ..self }
    }

    /// The same rules for a tool that writes these errors itself.
    #[must_use]
    pub fn with_errors(self, errors: Vec<ErrorText>) -> Self {
        Self { errors, ..self }
    }

    /// Whether a condition is about the user of the session.
    pub(crate) fn names_user(&self) -> bool {
        let mut conditions = self.rules.iter().flat_map(|rule| &rule.when);
        conditions.any(|when| when.is == ArgumentIs::User)
    }

    /// The same rules in a session of this user.
    pub(crate) fn for_user(&mut self, user: &str) {
        let conditions = self.rules.iter_mut().flat_map(|rule| &mut rule.when);
        for when in conditions.filter(|when| when.is == ArgumentIs::User) {
            when.is = ArgumentIs::OneOf(vec![user.to_owned()]);
        }
    }

    /// One label for all results of the tool.
    pub fn uniform(label: Label) -> Self {
        Self::new(Vec::new(), Some(label), None)
    }

    /// The format of the results.
    pub fn format(&self) -> Format {
        self.format
    }

    /// The most restrictive label of a result of the tool: that of errors, of text that is not of the format, and of
    /// everything that no rule names.
    pub fn worst(&self) -> &Label {
        &self.worst
    }

    /// Every key that some rule names.
    pub(super) fn named(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// The rules.
    pub fn rules(&self) -> &[LabelRule] {
        &self.rules
    }

    /// The rules with conditions, and whether they count for a call with these arguments.
    pub fn conditions(&self, arguments: &Arguments) -> impl Iterator<Item = (&LabelRule, Met)> {
        let rules = self.rules.iter().zip(self.met(arguments));
        rules.filter(|(rule, _)| !rule.when.is_empty())
    }

    /// Whether each rule counts for a call with these arguments.
    pub(super) fn met(&self, arguments: &Arguments) -> Vec<Met> {
        let conditions: Vec<&When> = self.rules.iter().flat_map(|rule| &rule.when).collect();
        let met = |when: &When| when.met(arguments, &conditions);
        let counts = |rule: &LabelRule| Met::all(rule.when.iter().map(met));
        self.rules.iter().map(counts).collect()
    }

    /// Labels the result of a call without arguments. Never fails; see the type.
    pub fn label(&self, text: String) -> Labeled {
        self.label_for(&Arguments::none(), text)
    }

    /// Labels the result of a call with these arguments. Never fails; see the type.
    ///
    /// These are the labels of the text by itself. The caller joins them with the label of the call.
    pub fn label_for(&self, arguments: &Arguments, text: String) -> Labeled {
        if self.rules.is_empty() {
            return Labeled::label_tcb(text, self.worst.clone());
        }
        // After any error all of the text has the worst label.
        let regions = self.regions(arguments, &text).ok();
        let labeled = regions.and_then(|regions| Labeled::with_regions_tcb(text.as_str(), regions));
        labeled.unwrap_or_else(|| Labeled::label_tcb(text, self.worst.clone()))
    }

    /// Labels the error of a call: trusted and public if it is one of the tool's own words, and else as restrictive as any
    /// result, since it may quote anything.
    pub fn label_error(&self, arguments: &Arguments, text: String) -> Labeled {
        let mut errors = self.errors.iter();
        match errors.any(|error| error.matches(arguments, &text)) {
            true => Labeled::trusted_tcb(text),
            false => Labeled::label_tcb(text, self.worst.clone()),
        }
    }

    /// Removes from `wanted` the known values at a path of this result. A result that is not of the format has none.
    pub(crate) fn take_known(
        &self,
        result: &KnownResult<'_>,
        path: &LabelPath,
        wanted: &mut Vec<Single<'_>>,
    ) {
        let Ok(document) = Document::parse(result.reveal_tcb(), self.format) else {
            return;
        };
        let Ok(values) = document.values() else {
            return;
        };
        let is_wanted = |value: &&Value| {
            let single = Single::of(value);
            single.is_some_and(|single| wanted.contains(&single))
        };
        let selected = path.select(document.value()).filter(is_wanted);
        let selected: Vec<&Value> = selected.collect();
        // Most results have none of them, and then the places need not be computed.
        if selected.is_empty() {
            return;
        }
        let places = places(&values);
        for value in selected {
            let node = place_of(&places, value).and_then(|at| document.nodes().get(at));
            // Each place counts by its own label, since an attacker may have written the same value into the list.
            if node.is_some_and(|node| result.knows(document.painted(node))) {
                wanted.retain(|one| Some(*one) != Single::of(value));
            }
        }
    }

    fn regions(
        &self,
        arguments: &Arguments,
        text: &str,
    ) -> Result<Vec<(Range<usize>, Label)>, ParseError> {
        let document = Document::parse(text, self.format)?;
        let free = Cell::new(0);
        let mut chosen = self.chosen(arguments, &document, &free)?;
        if free.get() > MAX_FREE {
            chosen = self.chosen(arguments, &document, &free)?;
        }
        let painter = Painter {
            document: &document,
            names: &self.names,
            structure: &self.structure,
            worst: &self.worst,
        };
        let mut regions = painter.paint(&chosen);
        if let Some(end) = self.broken_at(&document, &chosen) {
            regions.retain(|(span, _)| span.start < end);
            if let Some((span, _)) = regions.last_mut() {
                span.end = span.end.min(end);
            }
            regions.push((end..text.len(), self.worst.clone()));
        }
        Ok(regions)
    }

    /// The end of the first value of lines that is a stranger's or a secret and may have line breaks: any line behind it may be
    /// a part of it. `None` if no value follows.
    fn broken_at(&self, document: &Document<'_>, chosen: &[Option<Chosen>]) -> Option<usize> {
        if self.format != Format::Lines {
            return None;
        }
        // For each node so far: whether a value in it may have line breaks, if a rule selects it or what it is in.
        let mut known: Vec<Option<bool>> = Vec::new();
        let mut end = None;
        for (node, own) in document.nodes().iter().zip(chosen) {
            let outer = node.parent.and_then(|at| known.get(at).copied().flatten());
            let own = own.as_ref().map(|own| own.may_break);
            let may_break = own.map(|own| own || outer == Some(true)).or(outer);
            known.push(may_break);
            let is_value = matches!(node.kind, Kind::String | Kind::Null);
            if is_value && end.is_some() {
                return end;
            }
            if is_value && may_break.unwrap_or(!self.worst.is_bottom()) {
                end = Some(node.span.end);
            }
        }
        None
    }

    /// For each node the join of the rules that select it and count. `free` counts the characters of trusted values that
    /// could spell words.
    fn chosen(
        &self,
        arguments: &Arguments,
        document: &Document<'_>,
        free: &Cell<usize>,
    ) -> Result<Vec<Option<Chosen>>, ParseError> {
        let values = document.values()?;
        let places = places(&values);
        let mut chosen: Vec<Option<Chosen>> = vec![None; document.nodes().len()];
        let counting = self.rules.iter().zip(self.met(arguments));
        for (rule, met) in counting.filter(|(_, met)| *met != Met::No) {
            for value in rule.path.select(document.value()) {
                let at = place_of(&places, value);
                // A value outside of the document is an error of the query.
                let (at, slot) =
                    at.and_then(|at| Some((at, chosen.get_mut(at)?)))
                        .ok_or(ParseError {
                            offset: 0,
                            message: "a path selects what is not there",
                        })?;
                // Only a rule that certainly counts may give a low label.
                let node = document.nodes().get(at).filter(|_| met == Met::Yes);
                let new = match node {
                    Some(node) => {
                        let holder = node.parent.and_then(|at| values.get(at)).copied();
                        let holder = holder.filter(|it| it.is_object() && !self.format.is_lines());
                        self.say(rule, document, node, holder, free)
                    }
                    None => self.unsaid(rule),
                };
                *slot = Some(match slot.take() {
                    None => new,
                    Some(chosen) => chosen.join(new),
                });
            }
        }
        Ok(chosen)
    }

    /// The labels of a value if it is not known whether the rule counts.
    fn unsaid(&self, rule: &LabelRule) -> Chosen {
        Chosen {
            label: self.worst.clone(),
            key: rule.key.as_ref().map(|_| self.worst.clone()),
            parts: Parts::None,
            may_break: true,
        }
    }

    /// The labels that a rule gives a value.
    fn say(
        &self,
        rule: &LabelRule,
        document: &Document<'_>,
        node: &Node,
        holder: Option<&Value>,
        free: &Cell<usize>,
    ) -> Chosen {
        let low = rule.low(holder);
        let is_lines = self.format.is_lines();
        let formed = |form: Option<&Form>, text: &str, low: &Label| match form {
            Some(form) => self.formed(rule, form, text, low, free),
            None => low.clone(),
        };
        let key = rule.key.as_ref().map(|label| {
            let is_known = rule.has_key(document, node) && (rule.key_form.is_some() || !is_lines);
            let key = node.key.as_ref().filter(|_| is_known);
            key.map_or_else(
                || self.worst.clone(),
                |key| formed(rule.key_form.as_ref(), document.slice(&key.inner), label),
            )
        });
        let (label, parts) = match (&rule.form, rule.list) {
            (Some(form), Some(list)) => {
                let of = |text: &str| formed(Some(form), text, &low);
                self.list((form, list), &low, document, node, &of)
            }
            (form, _) => {
                let form = form.as_ref();
                let label = match form.map_or(!is_lines, |form| form.matches(document, node)) {
                    true => formed(form, document.slice(&node.inner), &low),
                    false => self.worst.clone(),
                };
                let head = rule.head.as_ref();
                let head = head.and_then(|head| Some((head, head.find(document, node)?)));
                let head = head.map(|(head, (span, token))| {
                    Parts::Head(span, formed(Some(&head.form), token, &head.label))
                });
                (label, head.unwrap_or(Parts::None))
            }
        };
        let is_typed = |form: &Form| form.is_typed() && form.matches(document, node);
        let is_typed = rule.list.is_none() && rule.form.as_ref().is_some_and(is_typed);
        let is_by_strangers = rule.form.is_some() && !self.worst.meet(&rule.strangers).is_bottom();
        let is_labelled = is_by_strangers || !label.is_bottom();
        let may_break = is_labelled && !is_typed;
        Chosen {
            label,
            key,
            parts,
            may_break,
        }
    }

    /// The label of a value of a form, which would have the label `low` if no stranger could have chosen it.
    fn formed(
        &self,
        rule: &LabelRule,
        form: &Form,
        text: &str,
        low: &Label,
        free: &Cell<usize>,
    ) -> Label {
        let strangers = self.worst.meet(&rule.strangers);
        if strangers.flows_to(low) {
            return low.clone();
        }
        let spelled = form.spells(text);
        free.set(free.get().saturating_add(spelled));
        if spelled > 0 && free.get() > MAX_FREE {
            return self.worst.clone();
        }
        let is_vouched = rule.destination && !self.format.is_lines();
        match form.is_chosen(text) && !is_vouched {
            true => low.join(&strangers.formed()),
            false => low.clone(),
        }
    }

    /// The label of a list in a text, and the labels of its pieces. `of` is the label of an element of the form.
    fn list(
        &self,
        (form, list): (&Form, List),
        low: &Label,
        document: &Document<'_>,
        node: &Node,
        of: &dyn Fn(&str) -> Label,
    ) -> (Label, Parts) {
        // The number of elements is structure.
        let around = low.join(&self.structure);
        // `null` is an empty list, as it is a value of every form.
        if node.kind == Kind::Null {
            return (around, Parts::None);
        }
        let Some(pieces) = list.pieces(document, node) else {
            return (self.worst.clone(), Parts::None);
        };
        let formed = |piece: &Piece| form.matches_element(document, &piece.span);
        let label = |piece: &Piece| match piece.is_element {
            true if formed(piece) => of(document.slice(&piece.span)),
            true => self.worst.clone(),
            false => around.clone(),
        };
        let parts: Vec<(Range<usize>, Label)> = pieces
            .iter()
            .map(|it| (it.span.clone(), label(it)))
            .collect();
        // The label of the whole text counts if a second rule selects it.
        let whole = parts.iter().fold(around, |all, (_, label)| all.join(label));
        (whole, Parts::List(parts))
    }
}

/// The address and node number of each value, sorted. A query returns references, so values are found by address.
pub(super) fn places(values: &[&Value]) -> Vec<(usize, usize)> {
    let values = values.iter().enumerate();
    let places = values.map(|(at, value)| (std::ptr::from_ref(*value).addr(), at));
    let mut places: Vec<(usize, usize)> = places.collect();
    // No two values share an address, and nothing moves while the document is borrowed.
    places.sort_unstable();
    places
}

/// The number of a value's node.
pub(super) fn place_of(places: &[(usize, usize)], value: &Value) -> Option<usize> {
    let address = std::ptr::from_ref(value).addr();
    let found = places.binary_search_by_key(&address, |(address, _)| *address);
    let place = found.ok().and_then(|found| places.get(found));
    place.map(|(_, at)| *at)
}
