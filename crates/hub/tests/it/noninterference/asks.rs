//! What the app of a world may ask other apps for, and what these answer.

use std::collections::BTreeMap;
use std::sync::Arc;

use hub::isc::{Functionality, Offer, Schema, ServedBy};
use hub::{Filling, Screening};
use ifc::{Effect, Exceeded, Label, Rule, Stage};
use serde_json::{Value, json};

use super::compare::Counts;
use super::holds::{holds, worlds};
use super::maker::{Maker, sentence};
use super::random::{Random, hash};
use super::world::{APPS, Carries, Choice, Field, ToolSpec, World};

/// The apps that serve something. None of them is in the user's conversation.
const SERVERS: [&str; 2] = ["server", "desk"];

/// Who may serve what it does not ask for itself, so that others can ask it in a circle.
const ASKER: &str = APPS[0];

/// A functionality, the tools that serve it, and what the policy says of its messages.
#[derive(Debug, Clone)]
pub(crate) struct Service {
    pub(crate) name: String,
    /// At most one of each serving app.
    pub(crate) tools: Vec<ToolSpec>,
    /// The label of what an app says that serves it.
    pub(crate) taint: Label,
    pub(crate) form: Form,
    /// Whether the app that serves it does so by a conversation of its own.
    pub(crate) conversed: bool,
    /// How long a request may be.
    longest: usize,
    /// The limit of probes and requests.
    serves: Label,
    /// The limit of responses.
    receives: Label,
    strict: bool,
    exceeded: Exceeded,
}

/// The form of a response.
#[derive(Debug, Clone)]
pub(crate) enum Form {
    /// The result as it is, up to this length.
    Text(usize),
    /// An object: the echo, and a property for each field of the tool, of these kinds in turn.
    Object(Vec<Kind>),
}

#[derive(Debug, Clone, Copy)]
pub(crate) enum Kind {
    Text(usize),
    Integer,
    OneOf,
    Array(usize),
}

/// In which worlds an app asks others: of so many those with this remainder. In none of these are two apps
/// together, which ask nobody.
const COLLABORATE: (u64, u64) = (3, 1);

/// Whether an app asks others in the world of this seed.
pub(crate) fn collaborates(seed: u64) -> bool {
    seed % COLLABORATE.0 == COLLABORATE.1
}

/// A tool has fewer fields.
const KINDS: usize = 4;

/// Tokens of JSON that are of hardly any agreed form. The last one is none that readers agree about.
const WRONG: [&str; 7] = [
    "7",
    "null",
    "true",
    "\"\"",
    "[[]]",
    r#"{"k":1}"#,
    r#"{"k":1,"k":2}"#,
];

impl Service {
    /// One to three of them.
    pub(crate) fn some(maker: &mut Maker) -> Vec<Self> {
        let count = 1 + maker.random.below(3);
        (0..count).map(|at| Self::random(maker, at)).collect()
    }

    /// The least one, served by one tool. Responses above this limit are denied.
    pub(crate) fn least(tool: &ToolSpec, form: Form, receives: Label) -> Self {
        let app = SERVERS[0];
        Self {
            name: "s0".to_owned(),
            tools: vec![ToolSpec {
                app,
                ..tool.clone()
            }],
            taint: Label::bottom(),
            form,
            conversed: false,
            longest: 40,
            serves: Label::top(),
            receives,
            strict: false,
            exceeded: Exceeded::Deny,
        }
    }

    fn random(maker: &mut Maker, at: usize) -> Self {
        let offers = *maker.random.pick(&[1, 1, 2]);
        let tool = |maker: &mut Maker, app: &'static str| {
            let mut tool = ToolSpec {
                app,
                name: format!("serve{at}"),
                ..maker.tool(0)
            };
            // Most calls may run: the messages around them are what is new here.
            if maker.random.chance(60) {
                (tool.limit, tool.odd_limit) = (Some(Label::top()), Label::top());
            }
            tool
        };
        // Each can ask for what the other one serves.
        let mut apps = SERVERS.to_vec();
        apps.rotate_left(at % SERVERS.len());
        // The first can always be asked for.
        if at > 1 && maker.random.chance(50) {
            apps.insert(0, ASKER);
        }
        let tools = apps
            .iter()
            .take(offers)
            .map(|app| tool(maker, app))
            .collect();
        let mut limit = |most: usize| match maker.random.below(10) {
            at if at < most => Label::top(),
            _ => maker.label(),
        };
        let (serves, receives) = (limit(9), limit(4));
        let taint = maker.label();
        let random = &mut maker.random;
        let kind = |random: &mut Random| match random.below(5) {
            0 => Kind::Integer,
            1 => Kind::OneOf,
            2 => Kind::Array(1 + random.below(3)),
            _ => Kind::Text(*random.pick(&[16, 40, 400])),
        };
        Self {
            name: format!("s{at}"),
            tools,
            taint,
            form: match random.below(3) {
                0 => Form::Text(*random.pick(&[40, 70, 120])),
                _ => Form::Object((0..KINDS).map(|_| kind(random)).collect()),
            },
            longest: *random.pick(&[4, 40, 40, 40]),
            conversed: random.chance(60),
            serves,
            receives,
            strict: random.chance(15),
            exceeded: *random.pick(&[Exceeded::Ask, Exceeded::Ask, Exceeded::Deny]),
        }
    }

    /// Whether the user is asked about each of its messages.
    pub(crate) fn is_strict(&self) -> bool {
        self.strict
    }

    pub(crate) fn functionality(&self) -> Arc<Functionality> {
        let request = json!({
            "type": "object",
            "properties": {
                "a": {"type": "string", "maxLength": self.longest},
                "b": {"type": "string", "maxLength": self.longest},
            },
            "required": ["a"],
        });
        let offer = |tool: &ToolSpec| Offer {
            app: tool.app.to_owned(),
            by: match self.conversed {
                true => ServedBy::Conversation,
                false => ServedBy::Tool(tool.name.clone()),
            },
            taint: self.taint.clone(),
        };
        Arc::new(Functionality {
            name: self.name.clone(),
            description: "what other apps know".to_owned(),
            request: Schema::read(&request).unwrap(),
            response: Schema::read(&self.form.schema()).unwrap(),
            offers: self.tools.iter().map(offer).collect(),
        })
    }

    /// What the policy says of its messages.
    pub(crate) fn rule(&self, stage: Stage) -> Rule {
        Rule {
            same_by: None,
            counted: None,
            limit: match stage {
                Stage::Response => self.receives.clone(),
                _ => self.serves.clone(),
            },
            exceeded: self.exceeded,
            arguments: BTreeMap::new(),
            effect: Effect::Read,
            name: format!("{}.messages", self.name),
            always_ask: self.strict,
            approvers: None,
        }
    }
}

impl Form {
    fn schema(&self) -> Value {
        let kinds = match self {
            Self::Text(longest) => return json!({"type": "string", "maxLength": longest}),
            Self::Object(kinds) => kinds.iter().enumerate(),
        };
        let fields = kinds.map(|(at, kind)| (format!("f{at}"), kind.schema()));
        let echo = json!({"type": "string", "maxLength": 40});
        let all = std::iter::once(("echo".to_owned(), echo)).chain(fields);
        json!({
            "type": "object",
            "properties": all.collect::<serde_json::Map<_, _>>(),
            "required": ["echo"],
        })
    }

    /// What a tool returns for it, each member in a line; `None` where any text will do. Where the label
    /// of a field is above the limit, each side has its own value, of the right form or not.
    pub(crate) fn message(
        &self,
        spec: &ToolSpec,
        arguments: &str,
        above: impl Fn(&Label) -> bool,
        same: &mut Random,
        own: &mut Random,
    ) -> Option<String> {
        let Self::Object(kinds) = self else {
            return None;
        };
        let echoed: Value = serde_json::from_str(arguments).unwrap();
        let mut text = format!("{{\"echo\":{}\n", echoed["a"]);
        for (field, kind) in spec.fields.iter().zip(kinds) {
            let value = kind.value(field, arguments, &above, same, own);
            text += &format!(",\"{}\":{value}\n", field.name);
        }
        Some(text + "}")
    }
}

impl Kind {
    fn schema(self) -> Value {
        match self {
            Self::Text(longest) => json!({"type": "string", "maxLength": longest}),
            Self::Integer => json!({"type": "integer", "minimum": 0, "maximum": 50}),
            Self::OneOf => json!({"type": "string", "enum": ["x", "y"]}),
            Self::Array(most) => json!({
                "type": "array",
                "items": {"type": "string", "maxLength": 40},
                "maxItems": most,
            }),
        }
    }

    /// A value. Where it has parts, each begins with `|` or a tab, which belong to it.
    fn value(
        self,
        field: &Field,
        arguments: &str,
        above: &impl Fn(&Label) -> bool,
        same: &mut Random,
        own: &mut Random,
    ) -> String {
        let is_above = above(field.of(arguments));
        let random = if is_above { &mut *own } else { &mut *same };
        if random.chance(if is_above { 30 } else { 10 }) {
            return (*random.pick(&WRONG)).to_owned();
        }
        let count = 1 + random.below(3);
        let number = random.below(60);
        let part = |at: usize| {
            let random = if above(&field.part(at, arguments)) {
                &mut *own
            } else {
                &mut *same
            };
            sentence(random, &["t0".to_owned(), "ask__s0".to_owned()])
        };
        let parts: Vec<String> = match self {
            Self::Integer => return number.to_string(),
            Self::OneOf => return format!("\"{}\"", ["x", "y", "z"][number % 3]),
            Self::Text(_) | Self::Array(_) => (0..count).map(part).collect(),
        };
        match self {
            Self::Array(_) => format!("[\"{}\"]", parts.join("\"\t,\"")),
            _ => format!("\"{}\"", parts.join("|")),
        }
    }
}

/// Apps that ask each other learn nothing above L of it: not what a response says there, not whether it is
/// of its form there, and not whether anybody let it pass for what it says there.
#[test]
fn what_an_app_is_answered_above_a_label_is_not_seen_at_it() {
    let asked = ask(400, false);
    if asked["pairs"] >= 400 {
        assert!(asked["messages"] > 100 && asked["responses"] > 50 && asked["covered"] > 40);
        assert!(asked["dropped"] > 15 && asked["withheld"] > 30);
    }
}

/// The same where conversations answer, and ask further apps: in a circle, too, and through more of them
/// than may wait.
#[test]
fn what_a_conversation_answers_above_a_label_is_not_seen_at_it() {
    let asked = ask(500, true);
    if asked["pairs"] >= 500 {
        assert!(asked["messages"] > 100 && asked["responses"] > 50 && asked["covered"] > 40);
        assert!(asked["served"] > 100 && asked["nested"] > 20 && asked["turned away"] > 20);
        assert!(asked["dropped"] > 15 && asked["withheld"] > 30);
    }
}

/// The same where requests carry data by the limits of the tools that serve them.
#[test]
fn what_a_request_carries_stays_at_its_label() {
    let mut totals = Counts::default();
    for seed in worlds(300) {
        let mut world = asking(seed);
        let mut random = Random::new(hash(&["of requests", &seed.to_string()]));
        world.screening = Screening::CHECKED;
        world.carries = *random.pick(&[Carries::Digest, Carries::Word]);
        world.filling =
            *random.pick(&[Filling::Lazy, Filling::Lazy, Filling::Eager, Filling::Exact]);
        for choice in world.choices.iter_mut().flatten() {
            if random.chance(70) {
                *choice = Choice::Everything;
            }
        }
        for service in &mut world.services {
            service.conversed = false;
            for tool in &mut service.tools {
                tool.data_limit = random.chance(80).then(Label::top);
                if random.chance(60) {
                    (tool.limit, tool.odd_limit) = (Some(world.limit.clone()), world.limit.clone());
                }
            }
        }
        let (compared, _) = holds(&world);
        totals.join(&compared);
    }
    println!("{totals:?}");
    if totals["pairs"] >= 300 {
        assert!(totals["carried"] > 15 && totals["messages"] > 100);
    }
}

/// Compares pairs of worlds in which apps have little to do but ask others.
fn ask(count: u64, conversed: bool) -> Counts {
    let mut asked = Counts::default();
    for seed in worlds(count) {
        let mut world = asking(seed);
        for service in &mut world.services {
            service.conversed = conversed;
        }
        let (compared, _) = holds(&world);
        asked.join(&compared);
    }
    println!("{asked:?}");
    asked
}

/// A world with little else to do than to ask other apps, and a user who often says yes.
fn asking(seed: u64) -> World {
    let mut world = World::random(COLLABORATE.0 * seed + COLLABORATE.1);
    world.tools.retain(|tool| tool.only.is_none());
    world.tools.truncate(1);
    world.yes = [0, 50, 50, 100][usize::try_from(seed % 4).unwrap()];
    world.answer_limit = Some(Label::top());
    assert!(!world.services.is_empty(), "world {seed} has nobody to ask");
    world
}
