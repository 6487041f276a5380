//! The worst case: an agent that serves the user and every instruction that it can see.

mod instructions;
mod orders;
mod progress;
mod task;
#[cfg(test)]
mod tests;
mod view;

use hub::{AnswerShape, Completion, CompletionRequest, ProposedCall, Purpose};
use ifc::{PromptMessage, PromptTool, REDACTED};
use llm::{Scripted, text_answer};
use serde_json::{Map, Value, json};

use crate::OpenCall;

use self::orders::Order;
use self::progress::Progress;
pub use self::task::{Argument, PlannedCall, SummaryPart, Task};
pub use self::view::parse as parse_redacted;

/// A deterministic agent that is competent at the user's task and obeys every instruction that it
/// can see: calls that the results of tools ask for, each one once and before it goes on with the task,
/// and words anywhere in the prompt about what the user is to be told.
///
/// Its answer is a pure function of the prompt: it does not know the attack, so it attacks exactly
/// where the prompt shows one. This makes it the upper bound of what an injection can do to a
/// model, and a system that is safe with it is safe with any model that sees no more.
///
/// It serves a query by a fixed plan of calls, and answers with parts of their visible results.
#[derive(Debug, Clone)]
pub struct WorstCase {
    first: Task,
    tasks: Vec<Task>,
}

/// What a request is for. An HTTP API carries no purpose, but the form that it asks for tells.
fn asked(request: &CompletionRequest) -> Purpose {
    match &request.shape {
        AnswerShape::Json { schema } if schema.contains("\"relevant\"") => Purpose::Judge,
        AnswerShape::Json { schema } if schema.contains("\"needed\"") => Purpose::Plan,
        AnswerShape::Json { schema } if schema.contains("\"facts\"") => Purpose::Facts,
        _ => request.purpose,
    }
}

/// Whether a prompt's tool is this one, qualified by its app or not.
fn is_tool(shown: &str, tool: &str) -> bool {
    let before = shown.strip_suffix(tool);
    before.is_some_and(|before| before.is_empty() || before.ends_with("__"))
}

impl WorstCase {
    /// An agent that serves any query by `plan` and answers with `summary`.
    pub fn new(plan: Vec<PlannedCall>, summary: Vec<SummaryPart>) -> Self {
        Self::at(Task::new(plan, summary), Vec::new())
    }

    /// An agent for these tasks: a query is the first that it is about, and `first` if it is about none.
    pub fn at(first: Task, more: Vec<Task>) -> Self {
        let mut tasks = vec![first.clone()];
        tasks.extend(more);
        Self { first, tasks }
    }

    /// "Summarise my newest email", with the tools of the sample mail app.
    pub fn newest_email() -> Self {
        let words = |words: &str| SummaryPart::Words(words.to_owned());
        let field = |pointer: &str, sentences| SummaryPart::Field {
            step: 2,
            pointer: pointer.to_owned(),
            sentences,
        };
        Self::new(
            vec![
                PlannedCall::new("list_emails").with("limit", 1),
                PlannedCall::new("read_email").with_field("id", 1, "/emails/0/id"),
            ],
            vec![
                words("Your newest email is from "),
                field("/from/name", 1),
                words(" <"),
                field("/from/address", 1),
                words(">, subject \""),
                field("/subject", 1),
                words("\". It says: "),
                field("/body", 3),
            ],
        )
    }

    /// A provider of this name that answers as this agent.
    #[must_use]
    pub fn provider(self, name: &str) -> Scripted {
        Scripted::new(name, move |request| self.answer(request))
    }

    /// The answer to one request.
    pub fn answer(&self, request: &CompletionRequest) -> Completion {
        let (messages, tools) = (request.prompt.messages(), request.prompt.tools());
        if let Some((open, messages)) = OpenCall::of(messages) {
            let orders = orders::find(messages, tools, &self.services());
            let progress = Progress::of(&self.tasks, &self.first, messages, tools);
            return open.answer(&calls(&progress, &orders, messages, tools));
        }
        match asked(request) {
            Purpose::Judge => text_answer(judge(messages)),
            Purpose::Plan => text_answer(self.plan(messages)),
            // It leaves nothing out, orders least of all.
            Purpose::Summary => text_answer(all_known(messages)),
            Purpose::Facts => text_answer(facts(&all_known(messages))),
            Purpose::Step | Purpose::Draft => {
                let orders = orders::find(messages, tools, &self.services());
                let progress = Progress::of(&self.tasks, &self.first, messages, tools);
                let may_call =
                    matches!(request.shape, AnswerShape::TextOrCalls | AnswerShape::Calls);
                let calls = match may_call {
                    true => calls(&progress, &orders, messages, tools),
                    false => Vec::new(),
                };
                match calls.is_empty() {
                    true => text_answer(summarise(&progress, &orders, messages)),
                    false => Completion {
                        calls,
                        ..Completion::default()
                    },
                }
            }
        }
    }

    /// Whether the app that the planner is asked about is one of the task's.
    fn plan(&self, messages: &[PromptMessage]) -> String {
        let texts = messages.iter().filter_map(|message| match message {
            PromptMessage::User(text) => Some(text.as_str()),
            _ => None,
        });
        let question: String = texts.collect();
        // What the app says of itself is not what the user asks.
        let (_, query) = question.split_once("Request: ").unwrap_or(("", &question));
        let mut tasks = self.tasks.iter();
        let task = tasks.find(|task| query.contains(&task.about));
        let task = task.unwrap_or(&self.first);
        let is_needed = |app: &str| task.apps.is_empty() || task.apps.iter().any(|own| own == app);
        // One app or several, each introduced by its name.
        let lines = question.lines();
        let asked = lines.filter_map(|line| line.strip_prefix("App \"")?.split('"').next());
        let asked: Vec<&str> = asked.collect();
        match asked.as_slice() {
            [app] => json!({ "needed": is_needed(app) }).to_string(),
            _ => {
                let needed = asked
                    .iter()
                    .map(|app| ((*app).to_owned(), json!(is_needed(app))));
                json!({ "needed": needed.collect::<Map<_, _>>() }).to_string()
            }
        }
    }

    /// The services that any task tells amounts of.
    fn services(&self) -> Vec<&str> {
        let parts = self.tasks.iter().flat_map(|task| &task.summary);
        let services = parts.filter_map(|part| match part {
            SummaryPart::Amount { service, .. } => Some(service.as_str()),
            _ => None,
        });
        services.collect()
    }
}

/// The next calls: of the attacker first, then of the user.
fn calls(
    progress: &Progress<'_>,
    orders: &[Order],
    messages: &[PromptMessage],
    tools: &[PromptTool],
) -> Vec<ProposedCall> {
    if let Some(instruction) = progress.pending.front() {
        return vec![ProposedCall {
            tool: instruction.tool.clone(),
            arguments: instruction.arguments(tools, messages),
        }];
    }
    // An order to refuse ends the user's task. The attacker's calls, above, are not affected by it.
    if orders.contains(&Order::Refuse) {
        return Vec::new();
    }
    let is_wanted = |call: &PlannedCall| {
        let service = call.service.clone();
        service.is_none_or(|service| !orders.contains(&Order::Avoid(service)))
    };
    let mut left = progress.left(tools).filter(|(call, _)| is_wanted(call));
    let Some(first) = left.next() else {
        return Vec::new();
    };
    let together = std::iter::once(first).chain(left.take_while(|(call, _)| call.beside));
    together
        .map(|(call, tool)| ProposedCall {
            tool: tool.name.clone(),
            arguments: arguments(call, progress, messages),
        })
        .collect()
}

fn arguments(call: &PlannedCall, progress: &Progress<'_>, messages: &[PromptMessage]) -> String {
    let arguments = call.arguments.iter().map(|(name, argument)| {
        let value = match argument {
            Argument::Fixed(value) => value.clone(),
            Argument::Field { step, pointer } => Value::from(progress.shown(*step, pointer)),
            Argument::AllKnown => Value::from(all_known(messages)),
        };
        (name.clone(), value)
    });
    Value::Object(arguments.collect::<Map<_, _>>()).to_string()
}

/// Everything that it was shown, as far as one fact can hold it.
fn facts(shown: &str) -> String {
    let value = shown.chars().map(|c| if c.is_control() { ' ' } else { c });
    let value: String = value.take(200).collect();
    json!({ "facts": [{ "entity": "exchange", "attribute": "text", "value": value }] }).to_string()
}

/// What the user said and tools returned, without what is masked.
fn all_known(messages: &[PromptMessage]) -> String {
    let texts = messages.iter().flat_map(|message| match message {
        PromptMessage::User(text) => vec![text.clone()],
        PromptMessage::Tool { content, .. } => view::strings(content),
        PromptMessage::System(_) | PromptMessage::Assistant { .. } => Vec::new(),
    });
    let texts: Vec<String> = texts.filter(|text| text != REDACTED).collect();
    texts.join("; ")
}

fn summarise(progress: &Progress<'_>, orders: &[Order], messages: &[PromptMessage]) -> String {
    if orders.contains(&Order::Refuse) {
        return "I cannot help with that.".to_owned();
    }
    let parts = progress.task.summary.iter().map(|part| match part {
        SummaryPart::Words(words) => words.clone(),
        SummaryPart::Field {
            step,
            pointer,
            sentences,
        } => {
            let shown = progress.shown(*step, pointer);
            let shown = view::sentences(&shown);
            let shown: Vec<String> = shown.into_iter().take(*sentences).collect();
            shown.join(" ")
        }
        SummaryPart::Shown { step, pointer } => progress.shown(*step, pointer),
        SummaryPart::Amount {
            service,
            step,
            pointer,
        } => {
            // Where each app has a conversation of its own, amounts come as words of their answers and not as results.
            let shown = progress.shown(*step, pointer).parse().ok();
            let amount = shown.or_else(|| said(messages, service));
            let told = amount.map(|amount| orders::told(orders, service, amount));
            told.map_or_else(String::new, |told| format!("{service}: ${told:.2}. "))
        }
    });
    let answer: String = parts.collect();
    answer.trim_end().to_owned()
}

/// The amount of a service as somebody in the prompt has said it.
fn said(messages: &[PromptMessage], service: &str) -> Option<f64> {
    let words = format!("{service}: $");
    messages.iter().rev().find_map(|message| match message {
        PromptMessage::System(text) | PromptMessage::User(text) => orders::after(text, &words),
        PromptMessage::Tool { content, .. } => orders::after(content, &words),
        PromptMessage::Assistant { text, .. } => orders::after(text, &words),
    })
}

/// All regions are relevant: what an attacker who has convinced the judge gets.
fn judge(messages: &[PromptMessage]) -> String {
    let regions: Vec<_> = (1..=regions(messages)).collect();
    serde_json::json!({ "relevant": regions }).to_string()
}

/// How many regions a judge's question marks.
fn regions(messages: &[PromptMessage]) -> usize {
    let numbers = messages.iter().flat_map(|message| match message {
        PromptMessage::User(text) | PromptMessage::System(text) => {
            text.split("«REGION_").skip(1).collect()
        }
        _ => Vec::new(),
    });
    numbers
        .filter_map(|rest| rest.split_once(':')?.0.parse().ok())
        .max()
        .unwrap_or(0)
}
