//! The meaning of an app's claims about the labels of its results (`_meta.ifc`).

use std::collections::BTreeMap;

use ifc::Label;

/// The meaning of the claims that are known, and of all others.
///
/// A claim can only restrict the label that the rules give. An unknown claim restricts by `rest`, and so does a result
/// without a claim for an axis that has a meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// By axis and value.
    pub known: BTreeMap<String, BTreeMap<String, Label>>,
    /// The most restrictive label.
    pub rest: Label,
}

impl Claims {
    /// The label by which these claims, each `AXIS:VALUE`, restrict a result.
    #[must_use]
    pub fn label(&self, claims: &[String]) -> Label {
        let claims: Vec<Option<(&str, &str)>> =
            claims.iter().map(|claim| claim.split_once(':')).collect();
        let of = |claim: &Option<(&str, &str)>| {
            let (axis, value) = (*claim)?;
            self.known.get(axis)?.get(value).cloned()
        };
        let is_claimed = |axis: &String| claims.iter().flatten().any(|(own, _)| own == axis);
        // An axis that the configuration does not name is ignored. A claim without an axis counts as an unknown one.
        let counts = |claim: &&Option<(&str, &str)>| {
            claim.is_none_or(|(axis, _)| self.known.contains_key(axis))
        };
        let said = claims.iter().filter(counts);
        let said = said.map(|claim| of(claim).unwrap_or_else(|| self.rest.clone()));
        let said: Label = said.collect();
        // An app must not gain by leaving a claim out.
        match self.known.keys().all(is_claimed) {
            true => said,
            false => said.join(&self.rest),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ifc::{Dimension, Lattice};

    fn label(claims: &[&str]) -> Label {
        let lattice = Lattice::four_point();
        let untrusted = lattice.whole(Dimension::Integrity);
        let known = |axis: &str, values: Vec<(&str, Label)>| {
            let values = values.into_iter();
            let values = values.map(|(value, label)| (value.to_owned(), label));
            (axis.to_owned(), values.collect())
        };
        let trusted = ("trusted", Label::bottom());
        let claims: Vec<String> = claims.iter().map(|claim| (*claim).to_owned()).collect();
        Claims {
            known: BTreeMap::from([known("integrity", vec![trusted, ("untrusted", untrusted)])]),
            rest: Label::top(),
        }
        .label(&claims)
    }

    #[test]
    fn claims_restrict_and_what_is_not_known_is_the_worst() {
        let untrusted = Lattice::four_point().whole(Dimension::Integrity);
        assert_eq!(label(&["integrity:trusted"]), Label::bottom());
        assert_eq!(label(&["integrity:untrusted"]), untrusted);
        // The worse of two counts.
        assert_eq!(
            label(&["integrity:trusted", "integrity:untrusted"]),
            untrusted
        );
        assert_eq!(
            label(&["integrity:trusted", "confidentiality:x"]),
            Label::bottom()
        );
        for worst in [
            &[] as &[&str],
            &["integrity:TRUSTED"],
            &["integrity:"],
            &["trusted"],
            &["unreadable"],
            &["confidentiality:public"],
            &["integrity:trusted", "integrity:maybe"],
            &["integrity:trusted", "unreadable"],
        ] {
            assert_eq!(label(worst), Label::top(), "{worst:?}");
        }
    }
}
