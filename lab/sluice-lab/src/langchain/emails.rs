//! Email extraction: sender, phone, address, action items, topic and tone, with no app.

use anyhow::{Context, Result};
use models::SummaryPart;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::queries::{Benchmark, Query, Reference};

const EMAILS: &str = include_str!("emails.toml");
const ASK: &str = "Extract from this e-mail as one JSON object: sender, phone, address, action_items, topic, tone. \
Every value is a string, and empty if the e-mail does not say it.";

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Emails {
    email: Vec<Email>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Email {
    text: String,
    sender: String,
    phone: String,
    address: String,
    action_items: String,
    topic: String,
    tone: String,
}

/// 42 e-mails, as many as LangChain has.
pub(super) fn benchmark() -> Result<Benchmark> {
    let emails: Emails = toml::from_str(EMAILS).context("emails.toml")?;
    Ok(Benchmark {
        name: "email-extraction",
        category: "No apps",
        apps: Vec::new(),
        queries: emails.email.into_iter().map(query).collect(),
    })
}

fn query(email: Email) -> Query {
    let fields = [
        ("sender", email.sender),
        ("phone", email.phone),
        ("address", email.address),
        ("action_items", email.action_items),
        ("topic", email.topic),
        ("tone", email.tone),
    ];
    let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value)));
    let reference: Map<String, Value> = fields.into_iter().collect();
    Query {
        // A query is one argument of a command line, and in a chat one line.
        text: format!("{ASK} {}", email.text.trim()),
        steps: Vec::new(),
        any_order: false,
        // The model without mistakes answers with the reference itself.
        answer: vec![SummaryPart::Words(
            Value::Object(reference.clone()).to_string(),
        )],
        reference: Reference::Like(reference),
        plan: Vec::new(),
        needs: Vec::new(),
    }
}
