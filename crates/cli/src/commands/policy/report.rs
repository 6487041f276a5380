//! `sluice policy report`: how often recorded sessions asked, what was answered, and how long that took.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Result, ensure};
use hub::trace::{Event, Flow, Record};
use serde_json::json;

use crate::exit::Exit;
use crate::json_lines::show;
use crate::observed::{self, Observed};
use crate::terminal::message;
use crate::words::counted;
use crate::{traces, verbs};

/// One task: a message of the user and all that followed.
#[derive(Debug, Default)]
struct Task {
    has_begun: bool,
    questions: usize,
    is_done: bool,
    /// The texts by which its questions were caused, each with its source.
    causes: BTreeSet<String>,
}

#[derive(Debug, Default)]
struct Report {
    tasks: Vec<Task>,
    /// Calls that change something and were allowed or asked about.
    consequential: usize,
    /// Questions of which each cause was one of an earlier question of the task.
    repeated: usize,
    /// Calls that were denied without a question.
    denied: usize,
    answers: BTreeMap<String, usize>,
    waited_ms: Vec<u64>,
}

/// Reports on these sessions, or on all.
pub(super) fn report(sessions: &[String], of_observed: bool, as_json: bool) -> Result<Exit> {
    let (mut seen, mut left_out, mut others) = (Observed::default(), 0, 0);
    let mut report = Report::default();
    let mut all = sessions.to_vec();
    if all.is_empty() {
        let files = traces::sessions()?.into_iter();
        all.extend(files.map(|it| it.to_string_lossy().into_owned()));
    }
    for session in &all {
        let records = traces::read(session)?;
        match observed::is_observed(&records) {
            true => {
                left_out += 1;
                seen.add(&records);
            }
            false => {
                others += 1;
                report.add(&records);
            }
        }
    }
    if of_observed {
        ensure!(left_out > 0, "none of these sessions had --observe");
        show(as_json, &seen.to_json(), seen.to_text().trim_end())?;
        return Ok(Exit::Done);
    }
    if left_out > 0 {
        let sessions = counted(left_out, "session", "sessions");
        message(&format!(
            "note: left out {sessions} with --observe, in which nothing was asked; see --observed"
        ));
    }
    report.show(others, as_json)
}

impl Report {
    /// Adds a session. A trace may hold several conversations.
    fn add(&mut self, records: &[Record]) {
        let mut open: BTreeMap<Option<&str>, (Task, Option<u64>)> = BTreeMap::new();
        // What was replied to the newest question. Older traces do not say it.
        let mut reply: Option<&str> = None;
        for record in records {
            let (task, asked_at) = open.entry(record.conversation.as_deref()).or_default();
            match &record.event {
                Event::User { .. } => {
                    self.tasks.push(std::mem::take(task));
                    (task.has_begun, *asked_at) = (true, None);
                }
                Event::Asked {
                    flow,
                    effect,
                    causes,
                    ..
                } => {
                    let changes = matches!(flow, Flow::Call(_)) && !effect.starts_with("read");
                    self.consequential += usize::from(changes);
                    let before = task.causes.len();
                    let texts = causes.iter();
                    task.causes
                        .extend(texts.map(|it| format!("{} {}", it.source, it.excerpt.as_str())));
                    let is_repeated = !causes.is_empty() && task.causes.len() == before;
                    self.repeated += usize::from(is_repeated);
                    task.questions += 1;
                    (task.has_begun, *asked_at) = (true, Some(record.at_ms));
                }
                Event::Replied { answer, .. } => reply = Some(answer),
                // One answer can be about several calls.
                Event::Answered { flow, answer, .. } => {
                    if let (None, Flow::Call(call), "each") = (&asked_at, flow, answer.as_str()) {
                        self.consequential += usize::from(!verbs::effect(&call.tool).reads());
                    }
                    self.answered(asked_at.take(), record, reply.take().unwrap_or(answer));
                }
                Event::Trusted { until, .. } => {
                    // The call is decided on again, and counted then.
                    self.consequential = self.consequential.saturating_sub(1);
                    let older = format!("trust for {until}");
                    self.answered(asked_at.take(), record, reply.take().unwrap_or(&older));
                }
                Event::Allowed {
                    flow: Flow::Call(call),
                    ..
                } => self.consequential += usize::from(!verbs::effect(&call.tool).reads()),
                Event::Denied {
                    flow: Flow::Call(_),
                    ..
                } => self.denied += 1,
                Event::Answer { refused, .. } => task.is_done = *refused == 0,
                _ => {}
            }
        }
        self.tasks.extend(open.into_values().map(|(task, _)| task));
        self.tasks.retain(|task| task.has_begun);
    }

    fn answered(&mut self, asked_at: Option<u64>, record: &Record, answer: &str) {
        if let Some(asked) = asked_at {
            self.waited_ms.push(record.at_ms.saturating_sub(asked));
            *self.answers.entry(answer.to_owned()).or_default() += 1;
        }
    }

    fn show(mut self, sessions: usize, as_json: bool) -> Result<Exit> {
        self.waited_ms.sort_unstable();
        let median = self.waited_ms.get(self.waited_ms.len() / 2);
        let longest = self.waited_ms.last();
        // Tasks with so many questions, and how many of them ended with an answer and no refusal.
        let with = |is: fn(usize) -> bool| {
            let of = self.tasks.iter().filter(|task| is(task.questions));
            [of.clone().count(), of.filter(|task| task.is_done).count()]
        };
        let groups = [with(|it| it == 0), with(|it| it == 1), with(|it| it > 1)];
        let [none, one, more] = groups.map(|[tasks, done]| json!({"tasks": tasks, "done": done}));
        let questions: usize = self.tasks.iter().map(|task| task.questions).sum();
        let unanswered = questions.saturating_sub(self.answers.values().sum());
        let line = json!({
            "kind": "report",
            "sessions": sessions,
            "without_question": none,
            "with_one": one,
            "with_more": more,
            "questions": questions,
            "consequential_calls": self.consequential,
            "repeated_causes": self.repeated,
            "denied_calls": self.denied,
            "answers": self.answers,
            "unanswered": unanswered,
            "median_answer_ms": median,
            "longest_answer_ms": longest,
        });
        let tasks = counted(self.tasks.len(), "task", "tasks");
        let mut text = format!("{tasks} in {}", counted(sessions, "session", "sessions"));
        let names = ["without a question", "with one question", "with more"];
        for (name, [tasks, done]) in names.into_iter().zip(groups) {
            text += &format!(
                "\n  {name:<20}{tasks}, {done} of them ended with an answer and nothing refused"
            );
        }
        let per = |count: usize| {
            let hundredths = (questions * 100 + count / 2).checked_div(count);
            let shown = hundredths.map(|it| format!("{}.{:02}", it / 100, it % 100));
            shown.unwrap_or_else(|| "-".to_owned())
        };
        text += &format!(
            "\n{}: {} per task, {} per call that changes something ({})",
            counted(questions, "question", "questions"),
            per(self.tasks.len()),
            per(self.consequential),
            self.consequential
        );
        let answers = self.answers.iter();
        let answers: Vec<String> = answers.map(|(it, count)| format!("{count} {it}")).collect();
        text += &format!("\n  answers             {}", answers.join(", "));
        // The session ended, or the client gave up.
        text += &format!("\n  without an answer   {unanswered}");
        text += &format!("\n  repeated causes     {}", self.repeated);
        text += &format!("\n  denied by a rule    {}", self.denied);
        if let (Some(median), Some(longest)) = (median, longest) {
            let [median, longest] =
                [median, longest].map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100));
            text += &format!("\n  time to answer      median {median}, longest {longest}");
        }
        show(as_json, &line, &text)?;
        Ok(Exit::Done)
    }
}
