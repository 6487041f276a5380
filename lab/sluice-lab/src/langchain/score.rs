//! The score of a run: its steps and its answer (SecGPT's Table 1).

use serde_json::{Map, Value};

use super::queries::{Query, Reference};

#[derive(Debug, Clone)]
pub(super) struct Score {
    /// Whether the calls were the expected ones.
    pub(super) steps: bool,
    /// From 0 to 1: how much of the answer, or of what was done, is right.
    pub(super) overall: f64,
}

impl Score {
    /// Scores a run by its executed calls in order, the letters that they typed, and the answer.
    pub(super) fn of(query: &Query, calls: &[String], typed: &str, answer: Option<&str>) -> Self {
        let overall = match (&query.reference, answer) {
            (Reference::Typed(text), _) => full(typed == text),
            (_, None) => 0.0,
            (Reference::Says(words), Some(answer)) => {
                let answer = answer.to_lowercase();
                let says = |word: &String| answer.contains(&word.to_lowercase());
                full(words.iter().all(says))
            }
            (Reference::Like(fields), Some(answer)) => likeness(fields, answer),
        };
        let (mut calls, mut expected) = (calls.to_vec(), query.steps.clone());
        if query.any_order {
            calls.sort();
            expected.sort();
        }
        Self {
            steps: calls == expected,
            overall,
        }
    }

    /// Whether nothing was wrong.
    pub(super) fn is_full(&self) -> bool {
        self.steps && self.overall >= 1.0
    }
}

fn full(right: bool) -> f64 {
    if right { 1.0 } else { 0.0 }
}

/// How alike the fields of an extraction are: the mean over all fields of one minus the normalised edit distance.
fn likeness(reference: &Map<String, Value>, answer: &str) -> f64 {
    let Some(found) = object(answer) else {
        return 0.0;
    };
    let alike = reference.iter().map(|(name, value)| {
        let own = value.as_str().unwrap_or_default().to_lowercase();
        let other = found
            .get(name)
            // A field that is not there counts like an empty one.
            .map(words)
            .unwrap_or_default()
            .to_lowercase();
        strsim::normalized_levenshtein(&own, &other)
    });
    let count = u32::try_from(reference.len()).unwrap_or(u32::MAX);
    alike.sum::<f64>() / f64::from(count.max(1))
}

/// A value as text; of a list, its values.
fn words(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => items.iter().map(words).collect::<Vec<_>>().join("; "),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// The JSON object in an answer, with words around it or without.
fn object(answer: &str) -> Option<Map<String, Value>> {
    let (from, to) = (answer.find('{')?, answer.rfind('}')?);
    serde_json::from_str(answer.get(from..=to)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(any_order: bool) -> Query {
        Query {
            text: String::new(),
            steps: ["a", "b"].map(str::to_owned).to_vec(),
            any_order,
            reference: Reference::Says(vec!["yes".to_owned()]),
            plan: Vec::new(),
            answer: Vec::new(),
            needs: Vec::new(),
        }
    }

    #[test]
    fn calls_and_answer_count_by_themselves() {
        let check = |any_order, calls: &[&str], answer: &str, expected: (bool, bool)| {
            let calls: Vec<String> = calls.iter().map(|call| (*call).to_owned()).collect();
            let score = Score::of(&query(any_order), &calls, "", Some(answer));
            let found = (score.steps, score.overall >= 1.0);
            assert_eq!(found, expected, "{calls:?} {answer}");
            assert_eq!(score.is_full(), expected == (true, true));
        };
        check(false, &["a", "b"], "Yes.", (true, true));
        check(false, &["a", "b"], "no", (true, false));
        check(false, &["b", "a"], "yes", (false, true));
        check(true, &["b", "a"], "yes", (true, true));
        check(true, &["b", "b"], "yes", (false, true));
        check(false, &["a", "b", "b"], "yes", (false, true));
        check(false, &["a"], "", (false, false));
    }

    #[test]
    fn an_extraction_is_worth_its_fields() {
        let reference: Map<String, Value> =
            serde_json::from_str(r#"{"sender": "Nora", "phone": ""}"#).unwrap();
        let like = |answer: &str| likeness(&reference, answer);
        assert!((like(r#"Here: {"sender": "nora", "phone": null}"#) - 1.0).abs() < 1e-9);
        assert!((like(r#"{"sender": "Nora", "phone": "1"}"#) - 0.5).abs() < 1e-9);
        assert!(like("no JSON").abs() < 1e-9);
    }
}
