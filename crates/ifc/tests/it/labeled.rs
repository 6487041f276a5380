//! `Labeled` against a naive model: every character with its own label.

use std::ops::Range;

use crate::common::labels;
use ifc::{Label, Labeled};
use proptest::prelude::*;

#[derive(Debug, Clone, Default)]
struct Model {
    chars: Vec<(char, Label)>,
    /// Empty regions: before which character, and the label. A set, except that order and
    /// repetition do not matter.
    empties: Vec<(usize, Label)>,
}

impl Model {
    fn of(parts: &[(String, Label)]) -> Self {
        let mut model = Self::default();
        for (text, label) in parts {
            let mut part = Self::default();
            part.chars.extend(text.chars().map(|c| (c, label.clone())));
            if text.is_empty() && !label.is_bottom() {
                part.empties.push((0, label.clone()));
            }
            model.push(&part);
        }
        model
    }

    fn push(&mut self, other: &Model) {
        let offset = self.chars.len();
        self.chars.extend(other.chars.iter().cloned());
        let moved = other
            .empties
            .iter()
            .map(|(at, label)| (at + offset, label.clone()));
        self.empties.extend(moved);
    }

    fn slice(&self, range: Range<usize>) -> Self {
        let inside = |(at, _): &&(usize, Label)| range.start <= *at && *at <= range.end;
        let empties = self.empties.iter().filter(inside);
        Self {
            empties: empties
                .map(|(at, label)| (at - range.start, label.clone()))
                .collect(),
            chars: self.chars[range.clone()].to_vec(),
        }
    }

    fn replace(&self, range: Range<usize>, insert: &Model) -> Self {
        let mut whole = self.slice(0..range.start);
        whole.push(insert);
        whole.push(&self.slice(range.end..self.chars.len()));
        whole
    }

    fn restrict(&mut self, label: &Label) {
        for (_, own) in self.chars.iter_mut() {
            *own = own.join(label);
        }
        for (_, own) in &mut self.empties {
            *own = own.join(label);
        }
        if self.chars.is_empty() && self.empties.is_empty() && !label.is_bottom() {
            self.empties.push((0, label.clone()));
        }
    }

    /// The byte at which character `at` starts.
    fn byte(&self, at: usize) -> usize {
        self.chars[..at].iter().map(|(c, _)| c.len_utf8()).sum()
    }

    fn label(&self) -> Label {
        let chars = self.chars.iter().map(|(_, label)| label);
        chars
            .chain(self.empties.iter().map(|(_, label)| label))
            .collect()
    }

    /// `real` is this text, to the byte and to the label.
    fn check(&self, real: &Labeled) {
        let text: String = self.chars.iter().map(|(c, _)| c).collect();
        assert_eq!(real.reveal_tcb(), text);
        assert_eq!((real.len(), real.is_empty()), (text.len(), text.is_empty()));
        for (at, (c, label)) in self.chars.iter().enumerate() {
            let start = self.byte(at);
            for byte in start..start + c.len_utf8() {
                assert_eq!(&real.label_at(byte), label, "byte {byte} of {text:?}");
            }
        }
        assert_eq!(real.label_at(text.len()), Label::top());
        let empties: Vec<(usize, Label)> = (real.regions())
            .filter(|(span, _)| span.is_empty())
            .map(|(span, label)| (text[..span.start].chars().count(), label.clone()))
            .collect();
        assert!(
            empties.iter().all(|empty| self.empties.contains(empty))
                && self.empties.iter().all(|empty| empties.contains(empty)),
            "empty regions {empties:?}, expected {:?}",
            self.empties
        );
        assert_eq!(real.label(), self.label());
        well_formed(real);
    }
}

/// The invariant of `Labeled`: sorted, disjoint, on character boundaries, never ⊥.
fn well_formed(real: &Labeled) {
    let mut end = 0;
    for (span, label) in real.regions() {
        assert!(end <= span.start && span.start <= span.end);
        assert!(real.reveal_tcb().get(span.clone()).is_some());
        assert!(!label.is_bottom());
        end = span.end;
    }
}

fn parts() -> impl Strategy<Value = Vec<(String, Label)>> {
    proptest::collection::vec(("[aé€😀]{0,4}", labels()), 0..5)
}

fn real(parts: &[(String, Label)]) -> Labeled {
    let parts: Vec<Labeled> = parts
        .iter()
        .map(|(text, label)| Labeled::label_tcb(text.as_str(), label.clone()))
        .collect();
    Labeled::concat(&parts)
}

#[derive(Debug, Clone)]
enum Edit {
    Slice(prop::sample::Index, prop::sample::Index),
    Replace(
        prop::sample::Index,
        prop::sample::Index,
        Vec<(String, Label)>,
    ),
    Push(Vec<(String, Label)>),
    Restrict(Label),
}

fn edits() -> impl Strategy<Value = Edit> {
    let index = any::<prop::sample::Index>;
    prop_oneof![
        1 => (index(), index()).prop_map(|(a, b)| Edit::Slice(a, b)),
        2 => (index(), index(), parts()).prop_map(|(a, b, parts)| Edit::Replace(a, b, parts)),
        2 => parts().prop_map(Edit::Push),
        1 => labels().prop_map(Edit::Restrict),
    ]
}

/// Characters `a..b`, ordered, and the same span in bytes.
fn span(
    model: &Model,
    a: &prop::sample::Index,
    b: &prop::sample::Index,
) -> (Range<usize>, Range<usize>) {
    let (a, b) = (
        a.index(model.chars.len() + 1),
        b.index(model.chars.len() + 1),
    );
    let chars = a.min(b)..a.max(b);
    (
        chars.clone(),
        model.byte(chars.start)..model.byte(chars.end),
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn editing_keeps_every_label_with_its_character(
        start in parts(),
        edits in proptest::collection::vec(edits(), 0..6),
    ) {
        let (mut model, mut text) = (Model::of(&start), real(&start));
        model.check(&text);
        for edit in &edits {
            match edit {
                Edit::Slice(a, b) => {
                    let (chars, bytes) = span(&model, a, b);
                    // What is cut out of the middle of a region keeps its label, be it empty.
                    prop_assume!(!chars.is_empty());
                    model = model.slice(chars);
                    text = text.slice(bytes).unwrap();
                }
                Edit::Replace(a, b, parts) => {
                    let (chars, bytes) = span(&model, a, b);
                    model = model.replace(chars, &Model::of(parts));
                    text = text.replace(bytes, &real(parts)).unwrap();
                }
                Edit::Push(parts) => {
                    model.push(&Model::of(parts));
                    text.push(&real(parts));
                }
                Edit::Restrict(label) => {
                    model.restrict(label);
                    text = text.restrict(label);
                }
            }
            model.check(&text);
        }
    }

    /// An empty slice is labelled by what it was cut out of: nothing, or the region around it.
    #[test]
    fn an_empty_slice_keeps_the_label_around_it(parts in parts(), at in any::<prop::sample::Index>()) {
        let (model, text) = (Model::of(&parts), real(&parts));
        let at = at.index(model.chars.len() + 1);
        let byte = model.byte(at);
        let slice = text.slice(byte..byte).unwrap();
        well_formed(&slice);
        prop_assert!(slice.is_empty());
        let here = model.slice(at..at);
        prop_assert!(here.label().flows_to(&slice.label()));
        if let (Some(before), Some(after)) = (at.checked_sub(1), model.chars.get(at)) {
            let around = model.chars[before].1.join(&after.1);
            prop_assert!(slice.label().flows_to(&here.label().join(&around)));
            let inside = (text.regions()).any(|(span, _)| span.start < byte && byte < span.end);
            prop_assert!(!inside || after.1.flows_to(&slice.label()));
        } else {
            prop_assert_eq!(slice.label(), here.label());
        }
    }

    #[test]
    fn ranges_that_cut_a_character_or_leave_the_text_are_refused(
        parts in parts(), start in 0usize..24, end in 0usize..24,
    ) {
        let text = real(&parts);
        let range = Range { start, end };
        let valid = text.reveal_tcb().get(range.clone()).is_some();
        prop_assert_eq!(text.slice(range.clone()).is_some(), valid);
        prop_assert_eq!(text.replace(range, &Labeled::unknown("x")).is_some(), valid);
    }

    #[test]
    fn regions_are_laid_over_a_text_or_refused(
        text in "[aé€😀]{0,5}",
        regions in proptest::collection::vec((0usize..12, 0usize..12, labels()), 0..4),
    ) {
        let regions: Vec<(Range<usize>, Label)> =
            regions.into_iter().map(|(start, end, label)| (Range { start, end }, label)).collect();
        let bad = |span: &Range<usize>| text.get(span.clone()).is_none();
        let overlap = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        let overlaps = (regions.iter().enumerate())
            .any(|(at, (a, _))| regions[..at].iter().any(|(b, _)| overlap(a, b)));
        let got = Labeled::with_regions_tcb(text.as_str(), regions.clone());
        if overlaps || regions.iter().any(|(span, _)| bad(span)) {
            prop_assert!(got.is_none());
        } else {
            let mut model = Model::of(&[(text.clone(), Label::bottom())]);
            for (span, label) in regions.iter().filter(|(_, label)| !label.is_bottom()) {
                let chars = text[..span.start].chars().count()..text[..span.end].chars().count();
                if chars.is_empty() {
                    model.empties.push((chars.start, label.clone()));
                }
                for (_, own) in &mut model.chars[chars] {
                    *own = label.clone();
                }
            }
            model.check(&got.unwrap());
        }
    }
}

#[test]
fn regions_that_overlap_are_refused() {
    let lay = |spans: &[Range<usize>]| {
        let regions = spans.iter().map(|span| (span.clone(), Label::top()));
        Labeled::with_regions_tcb("abcdef", regions)
    };
    for spans in [[0..3, 2..5], [2..5, 0..3], [0..6, 2..3], [1..2, 1..2]] {
        assert!(lay(&spans).is_none(), "{spans:?}");
    }
    for spans in [[0..3, 3..5], [4..5, 0..1], [2..2, 2..4]] {
        assert!(lay(&spans).is_some(), "{spans:?}");
    }
}

#[test]
fn unknown_text_is_top() {
    assert_eq!(Labeled::unknown("x").label(), Label::top());
    assert_eq!(Labeled::unknown("").label(), Label::top());
    assert_eq!(Labeled::trusted_tcb("x").label(), Label::bottom());
}

/// A log shows sizes, never text.
#[test]
fn debug_does_not_reveal() {
    let text = Labeled::unknown("the password is swordfish");
    assert_eq!(format!("{text:?}"), "Labeled(25 bytes, 1 regions)");
}
