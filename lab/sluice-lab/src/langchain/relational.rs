//! Relational data: 21 questions over people, places and foods (`relational.toml`).

use anyhow::{Context, Result};
use models::{PlannedCall, SummaryPart};
use serde::Deserialize;

use super::queries::{Benchmark, Query, Reference};

const QUESTIONS: &str = include_str!("relational.toml");

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Questions {
    question: Vec<Question>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    text: String,
    steps: Vec<String>,
    answer: String,
    words: Vec<String>,
    #[serde(default)]
    any_order: bool,
}

/// Three apps with 17 tools.
pub(super) fn benchmark() -> Result<Benchmark> {
    let questions: Questions = toml::from_str(QUESTIONS).context("relational.toml")?;
    let queries: Option<Vec<Query>> = questions.question.into_iter().map(query).collect();
    Ok(Benchmark {
        name: "relational-data",
        category: "Multiple apps collaboration",
        apps: ["people", "places", "foods"].map(str::to_owned).to_vec(),
        queries: queries.context("relational.toml: a step or an answer is not of its form")?,
    })
}

fn query(question: Question) -> Option<Query> {
    let plan: Vec<PlannedCall> = question
        .steps
        .iter()
        .map(|step| call(step))
        .collect::<Option<_>>()?;
    let steps: Vec<String> = plan.iter().map(|call| call.tool.clone()).collect();
    let mut needs: Vec<String> = steps.iter().map(|tool| app(tool).to_owned()).collect();
    needs.sort();
    needs.dedup();
    Some(Query {
        text: question.text,
        steps,
        any_order: question.any_order,
        reference: Reference::Says(question.words),
        plan,
        answer: answer(&question.answer)?,
        needs,
    })
}

/// `TOOL`, `TOOL PARAMETER=VALUE` or `TOOL PARAMETER=STEP:/pointer`.
fn call(step: &str) -> Option<PlannedCall> {
    let Some((tool, parameter)) = step.split_once(' ') else {
        return Some(PlannedCall::new(step));
    };
    let (name, value) = parameter.split_once('=')?;
    let call = PlannedCall::new(tool);
    Some(match place(value) {
        Some((step, pointer)) => call.with_field(name, step, pointer),
        None => call.with(name, value),
    })
}

/// A text with `{STEP:/pointer}` in it.
fn answer(text: &str) -> Option<Vec<SummaryPart>> {
    let mut parts = Vec::new();
    for piece in text.split_inclusive('}') {
        let (words, shown) = piece.split_once('{').unwrap_or((piece, ""));
        if !words.is_empty() {
            parts.push(SummaryPart::Words(words.to_owned()));
        }
        if let Some(shown) = shown.strip_suffix('}') {
            let (step, pointer) = place(shown)?;
            parts.push(SummaryPart::Shown {
                step,
                pointer: pointer.to_owned(),
            });
        }
    }
    Some(parts)
}

fn place(text: &str) -> Option<(usize, &str)> {
    let (step, pointer) = text.split_once(':')?;
    Some((step.parse().ok()?, pointer))
}

fn app(tool: &str) -> &'static str {
    if tool.contains("user") {
        "people"
    } else if tool.contains("food") {
        "foods"
    } else {
        "places"
    }
}
