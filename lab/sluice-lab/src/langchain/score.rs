//! What a run is worth: its steps and its answer, and what kind of mistake it made (SecGPT's Tables 1 and 2).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::queries::{Query, Reference};

/// The mark of one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Score {
    /// Whether the calls were the expected ones.
    pub(super) steps: bool,
    /// From 0 to 1: whether the answer, or what was done, is right; for extraction how much of it.
    pub(super) overall: f64,
    /// What was wrong.
    pub(super) mistakes: Vec<Mistake>,
}

/// SecGPT's categories of mistakes (Table 2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Mistake {
    /// A call was made more often than expected.
    CalledTwice,
    /// A tool was called that was not expected.
    Unexpected,
    /// A tool was not called that was expected.
    NotCalled,
    /// The calls were the expected ones in another order.
    Order,
    /// The answer is wrong, or there is none.
    Answer,
}

/// Marks a run by the calls that were really executed, in their order, what they typed, and the answer.
pub(super) fn score(query: &Query, calls: &[String], typed: &str, answer: Option<&str>) -> Score {
    let worth = match (&query.reference, answer) {
        (Reference::Typed(text), _) => whole(typed == text),
        (_, None) => 0.0,
        (Reference::Says(words), Some(answer)) => {
            let answer = answer.to_lowercase();
            whole(
                words
                    .iter()
                    .all(|word| answer.contains(&word.to_lowercase())),
            )
        }
        (Reference::Like(fields), Some(answer)) => likeness(fields, answer),
    };
    let mut mistakes: Vec<Mistake> = step_mistake(query, calls).into_iter().collect();
    let steps = mistakes.is_empty();
    if worth < 1.0 {
        mistakes.push(Mistake::Answer);
    }
    Score {
        steps,
        overall: worth,
        mistakes,
    }
}

fn whole(right: bool) -> f64 {
    if right { 1.0 } else { 0.0 }
}

/// What is wrong with the calls, if anything.
fn step_mistake(query: &Query, calls: &[String]) -> Option<Mistake> {
    let expected = &query.steps;
    if calls == expected {
        return None;
    }
    let count = |of: &[String], tool: &String| of.iter().filter(|call| *call == tool).count();
    // The first that applies: a call of another tool explains what is missing, and what is missing explains the order.
    if calls.iter().any(|tool| !expected.contains(tool)) {
        return Some(Mistake::Unexpected);
    }
    if expected
        .iter()
        .any(|tool| count(calls, tool) < count(expected, tool))
    {
        return Some(Mistake::NotCalled);
    }
    if calls.len() > expected.len() {
        return Some(Mistake::CalledTwice);
    }
    (!query.any_order).then_some(Mistake::Order)
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

    fn query(steps: &[&str], any_order: bool) -> Query {
        Query {
            text: String::new(),
            steps: steps.iter().map(|step| (*step).to_owned()).collect(),
            any_order,
            reference: Reference::Says(vec!["yes"]),
            plan: Vec::new(),
            answer: Vec::new(),
            needs: Vec::new(),
        }
    }

    fn check(expected: &Query, calls: &[&str], answer: &str, mistakes: &[Mistake]) {
        let calls: Vec<String> = calls.iter().map(|call| (*call).to_owned()).collect();
        let score = score(expected, &calls, "", Some(answer));
        assert_eq!(score.mistakes, mistakes, "{calls:?}");
        let is_step = |mistake: &Mistake| *mistake != Mistake::Answer;
        assert_eq!(score.steps, !mistakes.iter().any(is_step));
    }

    #[test]
    fn each_mistake_is_told_from_the_others() {
        let two = query(&["a", "b"], false);
        check(&two, &["a", "b"], "Yes.", &[]);
        check(&two, &["a", "b"], "no", &[Mistake::Answer]);
        check(&two, &["b", "a"], "yes", &[Mistake::Order]);
        check(&two, &["a"], "yes", &[Mistake::NotCalled]);
        check(&two, &["a", "b", "b"], "yes", &[Mistake::CalledTwice]);
        check(&two, &["a", "c", "b"], "yes", &[Mistake::Unexpected]);
        check(&two, &[], "", &[Mistake::NotCalled, Mistake::Answer]);
        check(&query(&["a", "b"], true), &["b", "a"], "yes", &[]);
        check(
            &query(&["a", "b"], true),
            &["b", "b"],
            "yes",
            &[Mistake::NotCalled],
        );
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
