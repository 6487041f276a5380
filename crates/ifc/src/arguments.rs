//! The arguments of a call: a map from names to labelled values, with one serialisation.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;

use crate::json::{self, Fault, Json, JsonError, Kind};
use crate::{ArgumentPath, Label, Labeled};

/// The arguments of a tool call.
///
/// Each value is canonical JSON text with a label of its own: that of the prompt that the call comes from or, for a data
/// argument, that of the draft from which it was retained. A data argument may be a part of a value ([`ArgumentPath`]).
///
/// [`Arguments::to_json`] is the one serialisation, in the canonical form of [`json`]. A policy judges this text, the user
/// is shown it, an app is sent it, and two calls are equal if it is.
///
/// `Debug` shows labels and lengths only.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Arguments(BTreeMap<String, Labeled>);

/// Why a text is not the arguments of a call. It quotes nothing of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArgumentsError {
    /// Longer than [`Arguments::MAX_BYTES`].
    TooLong,
    /// Nested deeper than [`Arguments::MAX_DEPTH`].
    TooDeep,
    /// JSON, but not an object.
    NotAnObject,
    /// A name stands twice in one object: readers disagree about which of the values counts.
    Duplicate,
    /// Not JSON, from this byte on.
    Syntax(usize),
}

impl fmt::Display for ArgumentsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLong => write!(
                f,
                "the arguments are longer than {} bytes",
                Arguments::MAX_BYTES
            ),
            Self::TooDeep => write!(
                f,
                "the arguments are nested deeper than {} levels",
                Arguments::MAX_DEPTH
            ),
            Self::NotAnObject => f.write_str("the arguments are not a JSON object"),
            Self::Duplicate => f.write_str("in the arguments, a name stands twice in one object"),
            Self::Syntax(at) => write!(f, "the arguments are not JSON at byte {at}"),
        }
    }
}

impl std::error::Error for ArgumentsError {}

impl From<JsonError> for ArgumentsError {
    fn from(error: JsonError) -> Self {
        match error.fault {
            Fault::Syntax(_) | Fault::String(_) | Fault::Number(_) => Self::Syntax(error.offset),
            Fault::Depth => Self::TooDeep,
            Fault::Duplicate => Self::Duplicate,
            Fault::Size => Self::TooLong,
        }
    }
}

impl Arguments {
    /// The longest text that is read, in bytes: what a frame to a spoke may carry.
    pub const MAX_BYTES: usize = 1 << 20;

    /// The deepest nesting that is read. Readers on the other side stop at 128.
    pub const MAX_DEPTH: usize = json::MAX_DEPTH;

    /// No arguments at all: `{}`.
    #[must_use]
    pub fn none() -> Self {
        Self::default()
    }

    /// Reads the arguments as a model wrote them under `label`.
    ///
    /// # Errors
    /// The text is anything but one JSON object in which no name stands twice, at any depth, or it
    /// exceeds [`Arguments::MAX_BYTES`] or [`Arguments::MAX_DEPTH`].
    pub fn parse(text: &str, label: &Label) -> Result<Self, ArgumentsError> {
        // Before it is read, since a model chooses the length.
        if text.len() > Self::MAX_BYTES {
            return Err(ArgumentsError::TooLong);
        }
        let json = Json::read(text)?;
        if json
            .nodes()
            .first()
            .is_none_or(|root| root.kind != Kind::Object)
        {
            return Err(ArgumentsError::NotAnObject);
        }
        let members = json.children(0).filter_map(|(at, node)| {
            let name = json.name(node.key.as_ref()?).to_owned();
            let mut value = String::with_capacity(node.span.len());
            json.write(at, &mut value);
            Some((name, Labeled::label_tcb(value, label.clone())))
        });
        Ok(Self(members.collect()))
    }

    /// Reads the output of [`Arguments::to_labeled`], each value with its labels. Text of any other form is read as text
    /// under the join of all of its labels.
    ///
    /// # Errors
    /// As [`Arguments::parse`].
    pub fn parse_labeled(text: &Labeled) -> Result<Self, ArgumentsError> {
        let written = Self::parse(text.reveal_tcb(), &Label::bottom())?;
        let (json, spans) = written.spans();
        // A model writes blanks and orders names as it likes, and then the spans below are not those of the text.
        if json != text.reveal_tcb() {
            return Self::parse(text.reveal_tcb(), &text.label());
        }
        let labelled = |value: &Labeled, span| {
            // These spans are of this very text, so the fallback is never used.
            let unknown = || Labeled::unknown(value.reveal_tcb());
            text.slice(span).unwrap_or_else(unknown)
        };
        let values = written.0.into_iter().zip(spans);
        let values = values.map(|((name, value), span)| (name, labelled(&value, span)));
        Ok(Self(values.collect()))
    }

    /// The value of this name becomes at least as restrictive as `label`.
    #[must_use]
    pub fn restrict(mut self, name: &str, label: &Label) -> Self {
        if let Some(value) = self.0.get_mut(name) {
            let unrestricted = std::mem::replace(value, Labeled::unknown(""));
            *value = unrestricted.restrict(label);
        }
        self
    }

    /// The same for the values at this place. If the argument has not the form that leads there, all of it becomes so.
    #[must_use]
    pub fn restrict_at(mut self, path: &ArgumentPath, label: &Label) -> Self {
        let Some(value) = self.0.get_mut(path.argument()) else {
            return self;
        };
        let Some(places) = path.places(value.reveal_tcb()) else {
            return self.restrict(path.argument(), label);
        };
        for place in places {
            // A part that is as restrictive already needs no region of its own.
            let part = value.slice(place.clone());
            let part = part.filter(|part| !label.flows_to(&part.label()));
            let restricted = part.and_then(|part| value.replace(place, &part.restrict(label)));
            if let Some(restricted) = restricted {
                *value = restricted;
            }
        }
        self
    }

    /// The same with another value, given as JSON text, at one of the places of a path. It gets the label of the value
    /// that it replaces. `None` if there is no such place, it is in a string, or the text is not JSON.
    #[must_use]
    pub fn with_value(mut self, path: &ArgumentPath, nth: usize, value: &str) -> Option<Self> {
        let mut canonical = String::new();
        Json::read(value).ok()?.write(0, &mut canonical);
        let argument = self.0.get_mut(path.argument())?;
        if argument.reveal_tcb().starts_with('"') && !path.is_whole() {
            return None;
        }
        let place = path.places(argument.reveal_tcb())?.into_iter().nth(nth)?;
        let label = argument.slice(place.clone())?.label();
        *argument = argument.replace(place, &Labeled::label_tcb(canonical, label))?;
        Some(self)
    }

    /// The values at this place, with their labels, in order; empty if there is no such argument or member. `None` if
    /// the argument has not the form that leads there.
    #[must_use]
    pub fn at(&self, path: &ArgumentPath) -> Option<Vec<Labeled>> {
        let Some(value) = self.0.get(path.argument()) else {
            return Some(Vec::new());
        };
        let places = path.places(value.reveal_tcb())?.into_iter();
        places.map(|place| value.slice(place)).collect()
    }

    /// The join of the labels of the values at this place; `Some(None)` if there are none. `None` as in
    /// [`Arguments::at`].
    pub(crate) fn label_at(&self, path: &ArgumentPath) -> Option<Option<Label>> {
        let Some(value) = self.0.get(path.argument()) else {
            return Some(None);
        };
        let places = path.places(value.reveal_tcb())?;
        let labels = places.iter().map(|place| value.label_in(place));
        Some(labels.reduce(|all, label| all.join(&label)))
    }

    /// The label of everything outside of these places.
    #[must_use]
    pub fn label_but<'p>(&self, paths: impl Iterator<Item = &'p ArgumentPath> + Clone) -> Label {
        // Most calls have no data arguments.
        if paths.clone().next().is_none() {
            return self.label();
        }
        let mut label = Label::bottom();
        for (name, value) in &self.0 {
            for piece in outside(name, value, paths.clone()) {
                label.absorb(&value.label_in(&piece));
            }
        }
        label
    }

    /// Whether these are the same names and values, whatever their labels, apart from the values at these places. The
    /// number of values at a place must be the same.
    #[must_use]
    pub fn same_but<'p>(
        &self,
        other: &Self,
        paths: impl Iterator<Item = &'p ArgumentPath> + Clone,
    ) -> bool {
        let around = |name: &str, value: &'_ Labeled| -> Vec<String> {
            let text = value.reveal_tcb();
            let pieces = outside(name, value, paths.clone()).into_iter();
            pieces
                .map(|piece| text.get(piece).unwrap_or_default().to_owned())
                .collect()
        };
        self.0.keys().eq(other.0.keys())
            && (self.0.iter().zip(other.0.values()))
                .all(|((name, value), other)| around(name, value) == around(name, other))
    }

    /// The places whose labels do not flow to this one, as deep inside as labels differ, each with the join of the
    /// labels there.
    #[must_use]
    pub fn beyond(&self, label: &Label) -> BTreeMap<ArgumentPath, Label> {
        let mut found = BTreeMap::new();
        for (name, value) in &self.0 {
            match Json::read(value.reveal_tcb()) {
                Ok(json) => {
                    collect_beyond(value, &json, 0, &ArgumentPath::of(name), label, &mut found);
                }
                // Values are canonical, so this does not happen.
                Err(_) => {
                    found.insert(ArgumentPath::of(name), value.label());
                }
            }
        }
        found
    }

    /// The same values, labelled as if the user had vouched for nothing.
    pub(crate) fn unendorsed(&self) -> Self {
        let values = self.0.iter();
        Self(
            values
                .map(|(name, value)| (name.clone(), value.unendorsed()))
                .collect(),
        )
    }

    /// The value of this name: JSON text in canonical form.
    pub fn get(&self, name: &str) -> Option<&Labeled> {
        self.0.get(name)
    }

    /// Names and values, sorted by name.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&str, &Labeled)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The join of the labels of all values; ⊥ without any.
    #[must_use]
    pub fn label(&self) -> Label {
        let labels = self.0.values().flat_map(|value| value.regions());
        labels.map(|(_, label)| label).collect()
    }

    /// Whether names and values are the same, whatever their labels.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        let text = |value: &Labeled, other: &Labeled| value.reveal_tcb() == other.reveal_tcb();
        self.len() == other.len()
            && (self.0.iter().zip(&other.0))
                .all(|((a, value), (b, other))| a == b && text(value, other))
    }

    /// One text for all spellings of the same values: numbers by value, and no member that is null, an empty list or at
    /// one of these places.
    #[must_use]
    pub fn by_value<'p>(&self, data: impl Iterator<Item = &'p ArgumentPath> + Clone) -> String {
        let mut out = String::new();
        self.write_by_value(|_| true, data, &mut out);
        out
    }

    /// The same of the arguments with some names.
    pub(crate) fn write_by_value<'p>(
        &self,
        counts: impl Fn(&str) -> bool,
        data: impl Iterator<Item = &'p ArgumentPath> + Clone,
        out: &mut String,
    ) {
        let write = |(name, value): (&str, &str), out: &mut String| {
            let paths = data.clone().filter(|path| path.argument() == name);
            let places = paths.filter_map(|path| path.places(value)).flatten();
            json::by_value(value, &places.collect::<Vec<_>>(), out);
        };
        let values = self.0.iter().filter(|(name, _)| counts(name));
        let values =
            values.map(|(name, value)| (name.as_str(), (name.as_str(), value.reveal_tcb())));
        json::write_object(values, write, out);
    }

    /// The canonical text, each value with its labels.
    #[must_use]
    pub fn to_labeled(&self) -> Labeled {
        let (json, spans) = self.spans();
        let values = self.0.values().zip(spans);
        let regions = values.flat_map(|(value, span)| {
            let regions = value.regions();
            regions.map(move |(of_value, label)| {
                let region = span.start + of_value.start..span.start + of_value.end;
                (region, label.clone())
            })
        });
        let labelled = Labeled::with_regions_tcb(json, regions);
        // The spans are of this text and do not overlap.
        labelled.unwrap_or_else(|| Labeled::unknown(self.to_json()))
    }

    /// The canonical text, and the span of each value in it.
    fn spans(&self) -> (String, Vec<Range<usize>>) {
        let members = self.0.iter();
        let members = members.map(|(name, value)| (name.as_str(), value.reveal_tcb()));
        let (mut json, mut spans) = (String::new(), Vec::with_capacity(self.len()));
        let write = |value: &str, out: &mut String| {
            let start = out.len();
            out.push_str(value);
            spans.push(start..out.len());
        };
        json::write_object(members, write, &mut json);
        (json, spans)
    }

    /// The canonical text. Only for the trusted computing base, as [`Labeled::reveal_tcb`].
    #[must_use]
    pub fn to_json(&self) -> String {
        self.spans().0
    }
}

/// The pieces of an argument's value that lie outside of all of these places: one more than there are places.
fn outside<'p>(
    name: &str,
    value: &Labeled,
    paths: impl Iterator<Item = &'p ArgumentPath>,
) -> Vec<Range<usize>> {
    let of_argument = paths.filter(|path| path.argument() == name);
    let places = of_argument.filter_map(|path| path.places(value.reveal_tcb()));
    let mut places: Vec<Range<usize>> = places.flatten().collect();
    // An outer place comes before those inside of it, which are skipped.
    places.sort_by_key(|place| (place.start, std::cmp::Reverse(place.end)));
    let mut pieces = Vec::with_capacity(places.len() + 1);
    let mut from = 0;
    for place in places {
        if place.start < from {
            continue;
        }
        pieces.push(from..place.start);
        from = place.end;
    }
    pieces.push(from..value.len());
    pieces
}

/// Adds the value of this number if it is beyond `label`, or its parts if they have labels of their own.
fn collect_beyond(
    value: &Labeled,
    json: &Json<'_>,
    of: usize,
    path: &ArgumentPath,
    label: &Label,
    found: &mut BTreeMap<ArgumentPath, Label>,
) {
    let Some(node) = json.nodes().get(of) else {
        return;
    };
    let whole = value.label_in(&node.span);
    if whole.flows_to(label) {
        return;
    }
    // If the text around the parts is beyond the label, the whole is one value.
    let children = json.children(of).map(|(_, child)| &child.span);
    let starts = children.clone().map(|span| span.start);
    let ends = std::iter::once(node.span.start).chain(children.map(|span| span.end));
    let mut around = ends.zip(starts.chain([node.span.end]));
    if node.children == 0 || !around.all(|(from, to)| value.label_in(&(from..to)).flows_to(label)) {
        // All elements of a list have the same path.
        let known = found.entry(path.clone()).or_default();
        *known = known.join(&whole);
        return;
    }
    for (at, child) in json.children(of) {
        let path = match &child.key {
            Some(key) => path.member(json.name(key)),
            None => path.elements(),
        };
        collect_beyond(value, json, at, &path, label, found);
    }
}

impl fmt::Debug for Arguments {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes: usize = (self.0.values()).map(Labeled::len).sum();
        write!(
            f,
            "Arguments({} values, {bytes} bytes, {:?})",
            self.len(),
            self.label()
        )
    }
}
