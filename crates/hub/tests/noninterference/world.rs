//! Random worlds: a lattice, tools, a policy, an app, what is said, and what the screener chooses.
//!
//! One [`World`] describes two of them, [`Side::A`] and [`Side::B`], which differ in the text of
//! regions and in the tools that do not flow to [`World::limit`], and in nothing else.

use std::collections::{BTreeMap, BTreeSet};

use hub::{Apps, Drafter, Limits, Screening};
use ifc::{Call, Effect, Label, Labeled, Lattice, Order};

use crate::play::APPS;
use crate::random::{Random, hash};

/// A label as the tests see it: its taints, or `None` for ⊤. It has its own join and order, so
/// that a mistake in those of `ifc` does not hide itself.
pub(crate) type Taints = Option<BTreeSet<usize>>;

pub(crate) fn taints(label: &Label) -> Taints {
    label
        .taints()
        .map(|all| all.map(ifc::Taint::index).collect())
}

pub(crate) fn flows(from: &Label, to: &Label) -> bool {
    flows_taints(&taints(from), &taints(to))
}

pub(crate) fn flows_taints(from: &Taints, to: &Taints) -> bool {
    match (from, to) {
        (_, None) => true,
        (None, _) => false,
        (Some(from), Some(to)) => from.is_subset(to),
    }
}

pub(crate) fn union(a: &Taints, b: &Taints) -> Taints {
    let (a, b) = (a.as_ref()?, b.as_ref()?);
    Some(a.union(b).copied().collect())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    A,
    B,
}

/// A piece of text under one label. Above the limit each side has its own regions, any number of
/// them; below it both sides have the same one.
#[derive(Debug, Clone)]
pub(crate) struct Piece {
    pub(crate) a: Vec<(String, Label)>,
    pub(crate) b: Vec<(String, Label)>,
}

impl Piece {
    pub(crate) fn on(&self, side: Side) -> &[(String, Label)] {
        match side {
            Side::A => &self.a,
            Side::B => &self.b,
        }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Text(pub(crate) Vec<Piece>);

impl Text {
    pub(crate) fn on(&self, side: Side) -> Labeled {
        let regions = self.0.iter().flat_map(|piece| piece.on(side));
        let parts: Vec<Labeled> = regions
            .map(|(text, label)| Labeled::label_tcb(text.as_str(), label.clone()))
            .collect();
        Labeled::concat(&parts)
    }
}

/// One line of a tool's results: `name: value`. A value may have several regions, whose labels
/// are `label` and, every other one, `label ⊔ more`.
#[derive(Debug, Clone)]
pub(crate) struct Field {
    pub(crate) name: String,
    pub(crate) label: Label,
    pub(crate) more: Label,
}

impl Field {
    /// The label of the part at this position.
    pub(crate) fn part(&self, at: usize) -> Label {
        if at.is_multiple_of(2) {
            self.label.clone()
        } else {
            self.label.join(&self.more)
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct ToolSpec {
    pub(crate) app: &'static str,
    /// As the app calls it.
    pub(crate) name: String,
    /// The label of the name.
    pub(crate) label: Label,
    /// The side that has it, if only one has. Then its name is above the limit, and the other side
    /// has another such tool.
    pub(crate) only: Option<Side>,
    pub(crate) description: Text,
    pub(crate) parameters: Text,
    pub(crate) fields: Vec<Field>,
    /// `None`: the policy has no rule for it.
    pub(crate) limit: Option<Label>,
    /// The limit where the arguments have an odd hash: rules may look at arguments.
    pub(crate) odd_limit: Label,
    pub(crate) effect: Effect,
    /// Whether the user is asked even where the label flows.
    pub(crate) always_ask: bool,
    /// How often it fails, in percent.
    pub(crate) errors: usize,
}

/// How often each way to screen comes up.
const SCREENINGS: [Screening; 8] = [
    Screening::Eager,
    Screening::Eager,
    Screening::Drafted(Drafter::Own),
    Screening::Drafted(Drafter::Other),
    Screening::LAZY,
    Screening::LAZY,
    Screening::CHECKED,
    Screening::CHECKED,
];

/// What the screener chooses before a step. Below the limit it is the same on both sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Every region; it says so, or it fails, or it names a region that there is not.
    Everything,
    Failure,
    UnknownRegion,
    /// Regions below the limit only: the n-th where bit n is set.
    Below(u64),
    /// The same, and at least one region above, if there is one.
    Above(u64),
}

#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) seed: u64,
    /// `L`: what the observer may see.
    pub(crate) limit: Label,
    pub(crate) system: Text,
    /// Whether there are two apps in the conversation, with tools of the same names, or one.
    pub(crate) joint: bool,
    pub(crate) tools: Vec<ToolSpec>,
    pub(crate) turns: Vec<Text>,
    /// What each app has said by itself, where their answers are put together and there are no tools.
    pub(crate) gathered: Vec<Text>,
    /// What the final answer may show without a question; `None`: the policy does not know.
    pub(crate) answer_limit: Option<Label>,
    /// By turn and step; what is missing is [`Choice::Everything`].
    pub(crate) choices: Vec<Vec<Choice>>,
    pub(crate) screening: Screening,
    pub(crate) limits: Limits,
    /// Calls that the user says yes to, in percent; which, the call decides.
    pub(crate) yes: usize,
    /// What earlier sessions left, oldest first; `None`: there is no memory.
    pub(crate) memories: Option<Vec<Piece>>,
    /// What may be remembered; `None`: the policy does not know.
    pub(crate) memory_limit: Option<Label>,
    /// The turns that begin a new conversation, which is told of the others by memory alone.
    pub(crate) fresh: Vec<bool>,
}

impl World {
    /// The world of this seed.
    pub(crate) fn random(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let pool = pool(&mut random);
        let below_top: Vec<&Label> = pool.iter().filter(|label| !label.is_top()).collect();
        let limit = (*random.pick(&below_top)).clone();
        let count = 2 + random.below(3);
        let joint = seed.is_multiple_of(3);
        let has_strangers = random.chance(40);
        // Texts speak of one more than both sides have, which only one of them may know.
        let spoken_of = count + usize::from(has_strangers);
        let mut maker = Maker {
            random,
            pool,
            limit: limit.clone(),
            tools: (0..spoken_of).map(|at| shown(joint, at)).collect(),
            joint,
        };
        let system = maker.text(2);
        let mut tools: Vec<ToolSpec> = (0..count).map(|at| maker.tool(at)).collect();
        if has_strangers {
            maker.strangers(&mut tools);
        }
        let mut turns = (0..1 + maker.random.below(3))
            .map(|_| maker.text(3))
            .collect::<Vec<_>>();
        let steps = 2 + maker.random.below(5);
        let choices = turns.iter().map(|_| maker.choices(steps)).collect();
        let answer_limit = match maker.random.below(20) {
            0 => None,
            1..=4 => Some(maker.label()),
            _ => Some(Label::top()),
        };
        let memories = seed.is_multiple_of(2).then(|| maker.memories(&mut turns));
        let memory_limit = match maker.random.below(10) {
            0 => None,
            1 => Some(maker.label()),
            _ => Some(Label::top()),
        };
        let fresh = turns.iter().map(|_| maker.random.chance(50)).collect();
        let random = &mut maker.random;
        let limits = Limits {
            steps,
            calls_per_step: 3,
            repeats: 1 + random.below(3),
            result_bytes: *random.pick(&[1 << 20, 1 << 20, 150, 60]),
            // Rarely small enough to stop a conversation.
            history_bytes: if random.chance(5) { 4000 } else { 1 << 22 },
            ..Limits::default()
        };
        Self {
            seed,
            limit,
            system,
            joint,
            tools,
            turns,
            gathered: Vec::new(),
            answer_limit,
            choices,
            screening: match *random.pick(&SCREENINGS) {
                // A check is rare: few drafts come to one.
                _ if seed % 5 == 4 => Screening::CHECKED,
                screening => screening,
            },
            limits,
            yes: *random.pick(&[0, 0, 50, 100]),
            memories,
            memory_limit,
            fresh,
        }
    }

    /// A world of this seed in which the answers of both apps are put together.
    pub(crate) fn of_answers(seed: u64) -> Self {
        let mut world = Self::random(seed);
        // There are two tools at least, and their texts are as labelled as answers are.
        let tools = std::mem::take(&mut world.tools).into_iter();
        let texts = tools.filter(|tool| tool.only.is_none());
        let texts = texts.map(|tool| tool.description).take(APPS.len());
        world.gathered = texts.collect();
        world
    }

    /// The apps of the conversation.
    pub(crate) fn apps(&self) -> Apps {
        if !self.gathered.is_empty() {
            return Apps::Each(APPS.map(str::to_owned).into());
        }
        let apps: &[&str] = if self.joint { &APPS } else { &APPS[..1] };
        Apps::of(apps.iter().map(|app| (*app).to_owned()))
    }

    /// What the model calls a tool.
    pub(crate) fn shown(&self, spec: &ToolSpec) -> String {
        self.apps().shown(spec.app, &spec.name)
    }

    pub(crate) fn tool(&self, call: &Call) -> Option<&ToolSpec> {
        let mut tools = self.tools.iter();
        tools.find(|tool| tool.app == call.app && tool.name == call.tool)
    }

    /// The tools of one side.
    pub(crate) fn tools_on(&self, side: Side) -> impl Iterator<Item = &ToolSpec> {
        let has = move |spec: &&ToolSpec| spec.only.is_none_or(|only| only == side);
        self.tools.iter().filter(has)
    }

    /// Whether text of this label may differ between the sides.
    pub(crate) fn above(&self, label: &Label) -> bool {
        !flows(label, &self.limit)
    }

    /// Whether there is a region above the limit from the start.
    pub(crate) fn has_secrets(&self) -> bool {
        let texts = std::iter::once(&self.system)
            .chain(&self.turns)
            .chain(&self.gathered)
            .chain((self.tools.iter()).flat_map(|tool| [&tool.description, &tool.parameters]));
        let pieces = texts.flat_map(|text| &text.0);
        let mut pieces = pieces.chain(self.memories.iter().flatten());
        pieces.any(|piece| piece.a.iter().any(|(_, label)| self.above(label)))
    }

    /// What the app answers: `Ok` its text, `Err` an error. It echoes its arguments, and each
    /// field below the limit is a function of the call alone.
    pub(crate) fn answer(&self, side: Side, call: &Call) -> Result<String, String> {
        let Some(spec) = self.tool(call) else {
            return Err("no such tool".to_owned());
        };
        let arguments = call.arguments.to_json();
        let seed = self.seed.to_string();
        let tool = self.apps().shown(&call.app, &call.tool);
        let call = hash(&[&seed, &tool, &arguments]);
        let mut same = Random::new(call);
        if same.chance(spec.errors) {
            return Err(format!("error: {}", same.word()));
        }
        let mut text = format!("echo: {}\n", arguments.replace('\n', " "));
        let mut own = Random::new(call ^ if side == Side::A { 1 } else { 2 });
        for field in &spec.fields {
            let parts = if self.above(&field.label) {
                own.below(3)
            } else {
                same.below(3)
            };
            let parts = (0..=parts).map(|part| {
                let random = if self.above(&field.part(part)) {
                    &mut own
                } else {
                    &mut same
                };
                let tools = (0..self.tools.len()).map(|at| shown(self.joint, at));
                sentence(random, &tools.collect::<Vec<_>>())
            });
            let parts: Vec<String> = parts.collect();
            text += &format!("{}: {}\n", field.name, parts.join("|"));
        }
        Ok(text)
    }
}

/// What the model calls the tool at this position.
fn shown(joint: bool, at: usize) -> String {
    let (app, name) = name(joint, at);
    match joint {
        true => Call::qualified(app, &name),
        false => name,
    }
}

/// The app of the tool at this position, and what it calls it.
fn name(joint: bool, at: usize) -> (&'static str, String) {
    match joint {
        true => (APPS[at % 2], format!("t{}", at / 2)),
        false => (APPS[0], format!("t{at}")),
    }
}

/// What queries and memories are about, so that one finds the other.
const TOPICS: [&str; 4] = ["heron", "delivery", "tea", "friday"];

/// A few words, often with an instruction that the model may obey.
fn sentence(random: &mut Random, tools: &[String]) -> String {
    let mut words: Vec<String> = (0..random.below(3)).map(|_| random.word()).collect();
    if random.chance(40) {
        // An argument that no other call has, or one that many have.
        let argument = if random.chance(70) {
            random.word()
        } else {
            "same".to_owned()
        };
        words.push(format!("do:{}:{argument};", random.pick(tools)));
    }
    words.join(" ") + if words.is_empty() { "" } else { " " }
}

/// ⊥, ⊤, and some labels of a random lattice, small ones and such as do not fit two words.
fn pool(random: &mut Random) -> Vec<Label> {
    let names = |count: usize| (0..count).map(|at| format!("n{at}")).collect::<Vec<_>>();
    let chain = |bottom: &str| std::iter::once(bottom.to_owned()).chain(names(4)).collect();
    let integrity = match random.below(5) {
        0 => Order::TwoPoint,
        1 => Order::Levels(chain("trusted")),
        2 => Order::Categories(names(4)),
        _ => Order::Categories(names(200)),
    };
    let names = |count: usize| (0..count).map(|at| format!("m{at}")).collect::<Vec<_>>();
    let chain = |bottom: &str| std::iter::once(bottom.to_owned()).chain(names(3)).collect();
    let confidentiality = match random.below(4) {
        0 => Order::TwoPoint,
        1 => Order::Levels(chain("public")),
        2 => Order::Categories(names(3)),
        _ => Order::Readers(names(3)),
    };
    let lattice = Lattice::new(&integrity, &confidentiality).unwrap();
    let mut all: Vec<&str> = lattice.names().collect();
    // Of many taints those around the ends of words, where labels have paths of their own.
    let near = [0, 63, 64, 127, 128, 129, 160, 191, 192, 199].map(|at| format!("untrusted:n{at}"));
    if all.len() > 100 {
        all.retain(|name| !name.contains(":n") || near.iter().any(|near| near == name));
    }
    let mut pool = vec![Label::bottom(), Label::top()];
    // Mostly labels as the lattice has them, and some joins: the tests do not lean on joins alone.
    for _ in 0..6 {
        let label = lattice.label(random.pick::<&str>(&all)).unwrap();
        let join = random.chance(30);
        pool.push(if join {
            random.pick(&pool).join(&label)
        } else {
            label
        });
    }
    pool
}

struct Maker {
    random: Random,
    pool: Vec<Label>,
    limit: Label,
    /// What the model calls them.
    tools: Vec<String>,
    joint: bool,
}

impl Maker {
    fn label(&mut self) -> Label {
        if self.random.chance(30) {
            return Label::bottom();
        }
        self.random.pick(&self.pool).clone()
    }

    fn text(&mut self, pieces: usize) -> Text {
        let pieces = (0..=self.random.below(pieces)).map(|_| self.piece());
        Text(pieces.collect())
    }

    fn piece(&mut self) -> Piece {
        let label = self.label();
        if flows(&label, &self.limit) {
            let region = vec![(sentence(&mut self.random, &self.tools), label)];
            return Piece {
                a: region.clone(),
                b: region,
            };
        }
        let mut side = || -> Vec<(String, Label)> {
            let regions = 1 + self.random.below(3);
            let region = |_| {
                let extra = self.random.pick(&self.pool).clone();
                let own = if self.random.chance(70) {
                    label.clone()
                } else {
                    label.join(&extra)
                };
                (sentence(&mut self.random, &self.tools), own)
            };
            (0..regions).map(region).collect()
        };
        Piece {
            a: side(),
            b: side(),
        }
    }

    /// Memories, and a word or two in each turn by which they are found. Above the limit each side has
    /// its own, of either.
    fn memories(&mut self, turns: &mut [Text]) -> Vec<Piece> {
        for turn in turns {
            for _ in 0..=self.random.below(2) {
                let mut topic = self.piece();
                let sides = topic.a.iter_mut().chain(&mut topic.b);
                let above = |label: &Label| !flows(label, &self.limit);
                let same = *self.random.pick(&TOPICS);
                for (text, label) in sides {
                    let own = *self.random.pick(&TOPICS);
                    *text = format!("{} ", if above(label) { own } else { same });
                }
                turn.0.push(topic);
            }
        }
        let count = self.random.below(16);
        let memory = |_| {
            let mut memory = self.piece();
            let same = *self.random.pick(&TOPICS);
            let is_above = memory.a.iter().any(|(_, label)| !flows(label, &self.limit));
            if is_above && self.random.chance(30) {
                memory.b.clear();
            }
            for (text, label) in memory.a.iter_mut().chain(&mut memory.b) {
                let own = *self.random.pick(&TOPICS);
                *text += if flows(label, &self.limit) { same } else { own };
            }
            memory
        };
        (0..count).map(memory).collect()
    }

    fn tool(&mut self, at: usize) -> ToolSpec {
        let fields = (0..self.random.below(4)).map(|at| Field {
            name: format!("f{at}"),
            label: self.label(),
            more: self.random.pick(&self.pool).clone(),
        });
        let fields = fields.collect();
        let description = self.text(2);
        let parameters = if self.random.chance(70) {
            Text::default()
        } else {
            self.text(1)
        };
        let limit = match self.random.below(10) {
            0 => None,
            1..=3 => Some(Label::top()),
            4..=5 => Some(self.limit.clone()),
            _ => Some(self.label()),
        };
        let odd_limit = match &limit {
            Some(limit) if self.random.chance(80) => limit.clone(),
            _ => self.label(),
        };
        // Most names are the user's. Few are above the limit: no step at the limit can call them.
        let label = match self.random.below(10) {
            0..=5 => Label::bottom(),
            6 => self.label(),
            _ => self.label().meet(&self.limit),
        };
        let (app, name) = name(self.joint, at);
        ToolSpec {
            app,
            name,
            label,
            only: None,
            description,
            parameters,
            fields,
            limit,
            odd_limit,
            effect: *(self.random).pick(&[Effect::Read, Effect::Write, Effect::Irreversible]),
            always_ask: self.random.chance(5),
            errors: *self.random.pick(&[0, 0, 20]),
        }
    }

    /// Tools above the limit that each side has for itself, anywhere among the others.
    fn strangers(&mut self, tools: &mut Vec<ToolSpec>) {
        let (all, limit) = (self.pool.clone(), self.limit.clone());
        let above: Vec<&Label> = all.iter().filter(|label| !flows(label, &limit)).collect();
        let known = *self.random.pick(&[Side::A, Side::B]);
        for side in [Side::A, Side::B] {
            for at in 0..=self.random.below(2) {
                let mut tool = self.tool(self.tools.len() - 1);
                // The others have names that nobody guesses.
                if at > 0 || side != known {
                    tool.name = self.random.word();
                }
                tool.label = (*self.random.pick(&above)).clone();
                tool.only = Some(side);
                let place = self.random.below(tools.len() + 1);
                tools.insert(place, tool);
            }
        }
    }

    fn choices(&mut self, steps: usize) -> Vec<Choice> {
        let choice = |_| match self.random.below(14) {
            0 => Choice::Everything,
            1 => *(self.random).pick(&[Choice::Failure, Choice::UnknownRegion]),
            2..=3 => Choice::Above(self.random.bits()),
            4 => Choice::Below(0),
            5 => Choice::Below(u64::MAX),
            _ => Choice::Below(self.random.bits()),
        };
        (0..steps).map(choice).collect()
    }
}

/// The labels of words: which word came with which label. A word may come twice, with two labels.
#[derive(Debug, Default)]
pub(crate) struct Words(BTreeMap<String, Vec<Taints>>);

impl Words {
    pub(crate) fn learn(&mut self, text: &str, label: &Taints) {
        for word in words(text) {
            let known = self.0.entry(word.to_owned()).or_default();
            if !known.contains(label) {
                known.push(label.clone());
            }
        }
    }

    /// The first word of `text` that may not be seen at `label`.
    pub(crate) fn secret_in<'a>(&self, text: &'a str, label: &Taints) -> Option<&'a str> {
        words(text).find(|word| match self.0.get(*word) {
            Some(known) => !known.iter().any(|own| flows_taints(own, label)),
            None => true,
        })
    }
}

/// The words that somebody made up: `w…` of worlds, `m…` of the model.
pub(crate) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric())
        .filter(|word| word.len() == 13 && word.starts_with(['w', 'm']))
}
