//! The monitor's own work in one step: label a result, find the step's label, redact, decide.
//!
//! On a history of 100 messages with 300 regions. Own harness, since what counts is the 99th
//! percentile: the target is below 100 µs for all of it. `cargo bench -p ifc` prints the figures.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a program of its own, which prints, and fails by panicking"
)]

use std::collections::BTreeSet;
use std::hint::black_box;
use std::ops::Range;
use std::time::{Duration, Instant};

use ifc::{
    Arguments, Call, CallId, Decision, Effect, History, Label, Labeled, Lattice, Monitor, Order,
    Policy, PolicyError, RegionId, Relevance, Rule, Sink, Tool, redact,
};

const ARGUMENTS: &str = r#"{"to":"bob@example.com","subject":"Lunch","body":"At noon."}"#;
const MESSAGES: usize = 100;
const REGIONS: usize = 300;
const TARGET: Duration = Duration::from_micros(100);
const WARM_UP: usize = 2_000;
const ITERATIONS: usize = 50_000;

fn main() {
    // `cargo test --benches` runs this too, without `--bench`: then it only has to work.
    let measured = std::env::args().any(|arg| arg == "--bench");
    let (warm_up, iterations) = if measured {
        (WARM_UP, ITERATIONS)
    } else {
        (0, 3)
    };
    let world = World::new();
    let mut parts = PARTS.map(|name| Samples::new(name, iterations));
    for at in 0..warm_up + iterations {
        let times = world.step(at);
        for (samples, time) in parts.iter_mut().zip(times) {
            if at >= warm_up {
                samples.0.push(time);
            }
        }
    }
    println!(
        "{MESSAGES} messages, {REGIONS} regions, {} bytes; {iterations} steps",
        world.history.bytes()
    );
    println!("{:<30}{:>12}{:>12}{:>12}", "", "p50", "p99", "max");
    for samples in &mut parts {
        samples.print();
    }
    let p99 = parts[0].percentile(99);
    let verdict = if p99 < TARGET { "met" } else { "missed" };
    println!("target: p99 of a step below {TARGET:?}: {verdict}, p99 {p99:?}");
}

/// What is measured: all of it together, then each part.
const PARTS: [&str; 7] = [
    "step (label+redact+decide)",
    "  label a result",
    "  label of the step",
    "  redact",
    "  decide, allowed",
    "  decide, with a question",
    // No part of the step: the same decision where every past call is one of the same tool.
    "decide, 50 calls of the tool",
];

struct Samples(Vec<Duration>, &'static str);

impl Samples {
    fn new(name: &'static str, count: usize) -> Self {
        Self(Vec::with_capacity(count), name)
    }

    fn percentile(&mut self, percent: usize) -> Duration {
        self.0.sort_unstable();
        self.0[(self.0.len() * percent / 100).min(self.0.len() - 1)]
    }

    fn print(&mut self) {
        let (p50, p99, max) = (
            self.percentile(50),
            self.percentile(99),
            self.percentile(100),
        );
        let name = self.1;
        println!("{name:<30}{p50:>12.2?}{p99:>12.2?}{max:>12.2?}");
    }
}

/// A long conversation with a mailbox, and what its next step needs.
struct World {
    history: History,
    /// The call whose result arrives now.
    open: CallId,
    result: String,
    spans: Vec<(Range<usize>, Label)>,
    step: Label,
    relevance: Relevance,
    limit: Label,
    /// A conversation in which every call was one like the call that is decided on.
    repeated: History,
}

impl World {
    fn new() -> Self {
        let lattice = Lattice::new(
            &Order::Categories(["email", "web", "drive"].map(String::from).to_vec()),
            &Order::Categories(["card", "health"].map(String::from).to_vec()),
        );
        let lattice = lattice.unwrap();
        let email = lattice.label("untrusted:email").unwrap();
        let [web, card] = ["untrusted:web", "secret:card"].map(|name| lattice.label(name).unwrap());
        let fields = [&web, &card];

        let (result, spans) = mail(&fields);
        let tool = |at| Tool {
            label: Label::bottom(),
            name: format!("tool_{at}"),
            description: Labeled::trusted_tcb("Does one thing, and says so in one sentence."),
            parameters: Labeled::trusted_tcb(
                r#"{"type":"object","properties":{"query":{"type":"string"}},"required":["query"]}"#,
            ),
        };
        let mut history = History::new((0..10).map(tool).collect());
        history.push_system(Labeled::trusted_tcb("You are an assistant. ".repeat(20)));
        let numbers = Labeled::label_tcb("4111 1111 1111 1111", card.clone());
        let between = Labeled::trusted_tcb(" or ");
        let cards: Vec<&Labeled> = (0..63)
            .map(|at| if at % 2 == 0 { &numbers } else { &between })
            .collect();
        history.push_user(Labeled::concat(cards));
        for at in 0..49 {
            let id = Self::call(&mut history, at, &email);
            let content = Labeled::with_regions_tcb(result.as_str(), spans.iter().cloned());
            // A fourth label in the history: some steps saw more than others.
            let step = if at % 4 == 0 {
                email.join(&web)
            } else {
                email.clone()
            };
            history.push_result(&step, id, content.unwrap());
        }
        assert_eq!(history.messages().len(), MESSAGES);
        assert_eq!(history.regions().count(), REGIONS);
        let open = Self::call(&mut history, 49, &email);
        let relevant: BTreeSet<RegionId> = (history.regions())
            .filter(|region| region.label.flows_to(&email))
            .map(|region| region.id)
            .collect();
        Self {
            history,
            open,
            result,
            spans,
            relevance: Relevance::Only(relevant),
            repeated: Self::repeated(&email),
            step: email,
            limit: web,
        }
    }

    /// Fifty mails of a kilobyte, each sent and answered. Whether an irreversible call was made before
    /// is found by comparing it with each of them.
    fn repeated(label: &Label) -> History {
        let mut history = History::new(Vec::new());
        history.push_user(Labeled::trusted_tcb("Write to all of them."));
        let body = "Lorem ipsum dolor sit amet. ".repeat(36);
        for at in 0..50 {
            let text =
                format!(r#"{{"to":"bob{at}@example.com","subject":"Lunch","body":"{body}"}}"#);
            let calls = [("send_email".to_owned(), Labeled::trusted_tcb(text))];
            let ids = history.push_assistant(label, Labeled::trusted_tcb(""), calls);
            history.push_result(label, ids[0], Labeled::trusted_tcb("sent"));
        }
        history
    }

    /// One call of the model; its arguments are a region.
    fn call(history: &mut History, at: usize, label: &Label) -> CallId {
        let arguments = Labeled::trusted_tcb(format!(r#"{{"query":"newest email number {at}"}}"#));
        let calls = [(format!("tool_{}", at % 10), arguments)];
        let ids = history.push_assistant(label, Labeled::trusted_tcb(""), calls);
        ids[0]
    }

    fn call_at(&self, label: &Label) -> Call {
        Call {
            app: "mail".to_owned(),
            tool: "send_email".to_owned(),
            arguments: Arguments::parse(ARGUMENTS, label).unwrap(),
            label: label.clone(),
        }
    }

    /// One step; the times of all parts, in the order of [`PARTS`].
    fn step(&self, at: usize) -> [Duration; 7] {
        // What the step consumes is made beforehand.
        let mut history = self.history.clone();
        let (text, spans) = (self.result.clone(), self.spans.clone());
        let monitor = Monitor::new();
        let (free, bound) = (Limit(self.step.clone()), Limit(self.limit.clone()));

        let clock = Instant::now();
        let content = Labeled::with_regions_tcb(text, spans).unwrap();
        history.push_result(&self.step, self.open, content);
        let labelled = clock.elapsed();
        // Half of the steps are screened, half take the history's label first (lazy refinement).
        let label = match at % 2 {
            0 => history.label_of(&self.relevance),
            _ => history.label().join(&self.step),
        };
        let found = clock.elapsed();
        let prompt = black_box(redact(&history, &self.step));
        let redacted = clock.elapsed();
        // The model writes the calls, and reading them is no part of a decision.
        let calls = [prompt.label(), &label, &self.step].map(|label| self.call_at(label));
        let [allowed, asked, again] = calls;
        let clock = Instant::now();
        let allowed = monitor.decide(&free, &history, allowed);
        let decided = clock.elapsed();
        let asked = monitor.decide(&bound, &history, asked);
        let both = clock.elapsed();
        let monitor = Monitor::new();
        let clock = Instant::now();
        let again = monitor.decide(&free, &self.repeated, again);
        let compared = clock.elapsed();

        assert!(matches!(black_box(again), Decision::Allow(_)));
        assert!(matches!(black_box(allowed), Decision::Allow(_)));
        let Decision::Ask(question) = black_box(asked) else {
            panic!("the limit holds nothing back");
        };
        assert!(question.causes().len() > MESSAGES / 4);
        [
            redacted + both,
            labelled,
            found - labelled,
            redacted - found,
            decided,
            both - decided,
            compared,
        ]
    }
}

/// A mail as an app returns it, with two labelled fields. Under the label of a step, the text
/// between them is labelled as well.
fn mail(labels: &[&Label]) -> (String, Vec<(Range<usize>, Label)>) {
    let (mut text, mut spans) = (String::from("{"), Vec::new());
    for (at, label) in labels.iter().enumerate() {
        text.push_str(&format!(r#""field_{at}":""#));
        let start = text.len();
        text.push_str(&"Lorem ipsum dolor sit amet. ".repeat(at * 20 + 2));
        spans.push((start..text.len(), (*label).clone()));
        text.push_str("\",");
    }
    text.push('}');
    (text, spans)
}

/// The same limit for every call.
struct Limit(Label);

impl Policy for Limit {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        match sink {
            Sink::Call(_) => Ok(Rule::asking(
                "mail.send_email.limit",
                Effect::Irreversible,
                self.0.clone(),
            )),
            Sink::Answer(_) => Ok(Rule::asking(
                "mail.answer.limit",
                Effect::Read,
                Label::top(),
            )),
            _ => Err(PolicyError("no rule".to_owned())),
        }
    }
}
