//! What the models of a server have been found not to know.

use std::sync::{Mutex, MutexGuard, PoisonError};

use ifc::Label;

use super::form::Form;

/// Models that are remembered for each label of prompts: more than anybody uses with one server. The clients of a
/// proxy name the models, so there must be a limit.
const MAX_MODELS: usize = 16;

/// What a model may not know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Feature {
    /// A way to ask for JSON.
    Json(Form),
    /// `max_tokens` for the limit on generated tokens. The newer models of the original take `max_completion_tokens`
    /// alone, which many compatible servers do not know.
    MaxTokens,
}

/// The features of a server's API that its models have been found not to know.
///
/// What an answer shows of them has the label of its prompt: a mail can ask a model to answer in prose, and a refusal
/// may quote it. So it counts where that label flows to the prompt's, and no prompt below it is sent in another way
/// because of it.
#[derive(Debug, Default)]
pub(super) struct Unknown(Mutex<Vec<Found>>);

/// A feature that a model was found not to know.
#[derive(Debug, PartialEq)]
struct Found {
    label: Label,
    model: String,
    feature: Feature,
}

impl Unknown {
    /// The ways to ask for JSON that are left for a prompt with this label. The last one always is.
    pub(super) fn left(&self, label: &Label, model: &str) -> Vec<Form> {
        let left = Form::ALL.into_iter();
        left.filter(|form| *form == Form::Words || self.knows(label, model, Feature::Json(*form)))
            .collect()
    }

    /// Whether a model counts as knowing a feature for a prompt with this label: no answer to a prompt whose label
    /// flows to this one has shown otherwise.
    pub(super) fn knows(&self, label: &Label, model: &str, feature: Feature) -> bool {
        let found = self.lock();
        let mut found = found.iter();
        !found.any(|it| it.feature == feature && it.model == model && it.label.flows_to(label))
    }

    /// Remembers that a model does not know a feature, as an answer to a prompt with this label has shown.
    pub(super) fn remember(&self, label: &Label, model: &str, feature: Feature) {
        /// Of one model.
        const FEATURES: usize = Form::ALL.len() + 1;
        let mut found = self.lock();
        let new = Found {
            label: label.clone(),
            model: model.to_owned(),
            feature,
        };
        // Counted by label: that there was no room tells nothing of other labels.
        let same = found.iter().filter(|it| it.label == *label).count();
        // When full, nothing is remembered: the cost is one more refused request each time, never a wrong way of
        // asking.
        if same < MAX_MODELS * FEATURES && !found.contains(&new) {
            found.push(new);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Found>> {
        // Nothing that holds it can stop half-way.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use ifc::Lattice;

    use super::*;

    /// What a prompt that a stranger's words are in has shown changes nothing for one that has none.
    #[test]
    fn what_a_prompt_has_shown_counts_for_none_below_it() {
        let lattice = Lattice::four_point();
        let [mail, secret] = ["untrusted", "secret"].map(|name| lattice.label(name).unwrap());
        let (bottom, both) = (Label::bottom(), mail.join(&secret));
        let unknown = Unknown::default();
        unknown.remember(&mail, "m", Feature::Json(Form::Format));
        assert_eq!(unknown.left(&bottom, "m"), Form::ALL);
        assert_eq!(unknown.left(&secret, "m"), Form::ALL);
        assert_eq!(unknown.left(&mail, "other"), Form::ALL);
        for label in [&mail, &both] {
            assert_eq!(unknown.left(label, "m"), [Form::Call, Form::Words]);
        }
        unknown.remember(&bottom, "m", Feature::Json(Form::Call));
        assert_eq!(unknown.left(&secret, "m"), [Form::Format, Form::Words]);
        assert_eq!(unknown.left(&both, "m"), [Form::Words]);
        unknown.remember(&bottom, "m", Feature::Json(Form::Words));
        assert_eq!(unknown.left(&both, "m"), [Form::Words]);
        unknown.remember(&mail, "m", Feature::MaxTokens);
        let knows = |label: &Label| unknown.knows(label, "m", Feature::MaxTokens);
        assert_eq!(
            [&bottom, &secret, &mail, &both].map(knows),
            [true, true, false, false]
        );
        assert!(unknown.knows(&mail, "other", Feature::MaxTokens));
    }

    /// A client that names a new model with each request fills no memory, and only that of its label.
    #[test]
    fn what_is_remembered_is_bounded_for_each_label() {
        let (bottom, top) = (Label::bottom(), Label::top());
        let unknown = Unknown::default();
        for n in 0..10_000 {
            unknown.remember(&top, &format!("m{n}"), Feature::Json(Form::Format));
        }
        assert!(unknown.lock().len() <= 100);
        unknown.remember(&bottom, "m", Feature::Json(Form::Format));
        assert_eq!(unknown.left(&bottom, "m"), [Form::Call, Form::Words]);
    }
}
