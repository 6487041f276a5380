//! Random worlds: a lattice, tools, a policy, an app, what is said, and what the screener chooses.
//!
//! One [`World`] describes two of them, [`Side::A`] and [`Side::B`], which differ in the text of
//! regions and in the tools that do not flow to [`World::limit`], and in nothing else.

use std::collections::BTreeMap;

use hub::{Apps, Drafter, Filling, Limits, Screening};
use ifc::{Call, Effect, Label, Labeled};

use super::addresses;
use super::asks::{Form, Service, collaborates};
use super::kept::Kept;
use super::labels::{Taints, flows, flows_taints};
use super::maker::{Maker, pool, sentence};
use super::nested::Nests;
use super::random::{Random, hash};

/// The apps of a world.
pub(crate) const APPS: [&str; 2] = ["app", "other"];

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
    /// The label instead of `label` in results of calls with some arguments: rules may look at
    /// arguments.
    pub(crate) peculiar: Option<Label>,
}

impl Field {
    /// Its label in the result of a call with these arguments.
    pub(crate) fn of(&self, arguments: &str) -> &Label {
        let peculiar = self.peculiar.as_ref();
        peculiar
            .filter(|_| peculiar_to(arguments))
            .unwrap_or(&self.label)
    }

    /// The label of the part at this position of it.
    pub(crate) fn part(&self, at: usize, arguments: &str) -> Label {
        let label = self.of(arguments);
        if at.is_multiple_of(2) {
            label.clone()
        } else {
            label.join(&self.more)
        }
    }

    /// Every label that it may have.
    pub(crate) fn labels(&self) -> impl Iterator<Item = &Label> {
        [&self.label, &self.more].into_iter().chain(&self.peculiar)
    }
}

/// Whether results are labelled in another way for these arguments, their data included.
fn peculiar_to(arguments: &str) -> bool {
    hash(&["result", arguments]).is_multiple_of(2)
}

/// Which values a data argument accepts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Accepts {
    /// Words of a form, which most have.
    Form,
    /// Words that stood in a result of a tool, at a label below that of the control part.
    Among,
}

/// What a model puts into an argument that only carries something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Carries {
    /// There is no such argument.
    Nothing,
    /// A word that depends on every byte which the model is shown.
    Digest,
    /// One of the first words of the results that it is shown.
    Word,
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
    /// The limit of its data argument, if it has one.
    pub(crate) data_limit: Option<Label>,
    /// Values of the data argument that may have this label as well.
    pub(crate) accepts: Option<(Accepts, Label)>,
    pub(crate) effect: Effect,
    /// Whether the user is asked even where the label flows.
    pub(crate) always_ask: bool,
    /// How often it fails, in percent.
    pub(crate) errors: usize,
}

/// More taints than a world's labels have. A lattice has one more at least, of the other dimension.
pub(crate) const TAINTS: usize = 127;

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
    /// What the app may ask others for.
    pub(crate) services: Vec<Service>,
    /// What the user has allowed for good.
    pub(crate) kept: Vec<Kept>,
    /// What the model puts into an argument of each call.
    pub(crate) carries: Carries,
    /// Where in the arguments.
    pub(crate) nests: Nests,
    /// How the arguments of calls come about.
    pub(crate) filling: Filling,
    /// Whether the model reads before it does anything else.
    pub(crate) reads: bool,
    /// Whether the model does with the text above L what it would not do without.
    pub(crate) delegates: bool,
    /// What an address in an answer may depend on; `None`: nobody speaks of addresses, and the policy does not
    /// know.
    pub(crate) address_limit: Option<Label>,
    /// The taints below this number are about integrity, and the others about confidentiality.
    pub(crate) integrity: usize,
    /// What the providers are cleared for that take the steps; without one, nothing is masked for them.
    pub(crate) clearances: Vec<Label>,
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
        let collaborates = collaborates(seed);
        let has_strangers = random.chance(40);
        // Texts speak of one more than both sides have, which only one of them may know.
        let spoken_of = count + usize::from(has_strangers);
        let labels = pool.clone();
        let mut maker = Maker {
            random,
            pool,
            limit: limit.clone(),
            tools: (0..spoken_of)
                .map(|at| shown(joint, at))
                .chain(collaborates.then(|| "ask__s0".to_owned()))
                .collect(),
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
        let services = match collaborates {
            true => Service::some(&mut maker),
            false => Vec::new(),
        };
        let random = &mut maker.random;
        let limits = Limits {
            steps,
            calls_per_step: 3,
            repeats: 1 + random.below(3),
            result_bytes: *random.pick(&[1 << 20, 1 << 20, 150, 60]),
            // In a third small enough for summaries.
            prompt_bytes: match seed % 3 {
                1 => 100 + usize::try_from(seed % 5).unwrap() * 150,
                _ => 1 << 20,
            },
            // Rarely small enough to stop a conversation.
            history_bytes: if random.chance(5) { 4000 } else { 1 << 22 },
            hops: 1 + random.below(3),
            serving_steps: 2 + random.below(4),
            ..Limits::default()
        };
        let mut world = Self {
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
            services,
            kept: Vec::new(),
            carries: Carries::Nothing,
            nests: Nests::Not,
            filling: Filling::Lazy,
            reads: false,
            delegates: false,
            address_limit: None,
            integrity: TAINTS,
            clearances: Vec::new(),
        };
        world.kept = Kept::some(&world, &labels);
        world.label_by_arguments(&labels);
        world
    }

    /// In half of the worlds every other field has a label that depends on the arguments of its call. It takes
    /// its own chance, so that the rest of the world is what it would be without.
    fn label_by_arguments(&mut self, labels: &[Label]) {
        if self.seed.is_multiple_of(2) {
            return;
        }
        let mut random = Random::new(hash(&["labels by arguments", &self.seed.to_string()]));
        let serving = self
            .services
            .iter_mut()
            .flat_map(|service| &mut service.tools);
        let tools = self.tools.iter_mut().chain(serving);
        for field in tools.flat_map(|tool| &mut tool.fields) {
            if random.chance(50) {
                field.peculiar = Some(random.pick(labels).clone());
            }
        }
    }

    /// A world of this seed in which the answers of both apps are put together.
    pub(crate) fn of_answers(seed: u64) -> Self {
        let mut world = Self::random(seed);
        // There are two tools at least, and their texts are as labelled as answers are.
        let tools = std::mem::take(&mut world.tools).into_iter();
        world.services.clear();
        let texts = tools.filter(|tool| tool.only.is_none());
        let texts = texts.map(|tool| tool.description).take(APPS.len());
        world.gathered = texts.collect();
        world
    }

    /// A world of this seed with one conversation, most prompts of which are too long.
    pub(crate) fn too_long(seed: u64) -> Self {
        let mut world = Self::random(seed);
        world.fresh.clear();
        world.limits.prompt_bytes = 60 + usize::try_from(seed % 4).unwrap() * 60;
        world.limits.result_bytes = 1 << 20;
        if seed.is_multiple_of(2) {
            // More of its prompts are at the label that is looked at.
            world.screening = Screening::Eager;
        }
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
        let serving = self.services.iter().flat_map(|service| &service.tools);
        let mut tools = self.tools.iter().chain(serving);
        tools.find(|tool| tool.app == call.app && tool.name == call.tool)
    }

    /// The functionality that a tool serves by one call of it.
    pub(crate) fn service(&self, spec: &ToolSpec) -> Option<&Service> {
        let serves = |service: &&Service| {
            !service.conversed
                && service
                    .tools
                    .iter()
                    .any(|own| own.app == spec.app && own.name == spec.name)
        };
        self.services.iter().find(serves)
    }

    fn form_of(&self, spec: &ToolSpec) -> Option<&Form> {
        Some(&self.service(spec)?.form)
    }

    /// The tools of one side.
    pub(crate) fn tools_on(&self, side: Side) -> impl Iterator<Item = &ToolSpec> {
        let has = move |spec: &&ToolSpec| spec.only.is_none_or(|only| only == side);
        self.tools.iter().filter(has)
    }

    /// The tools that an app has in a conversation in which it serves.
    pub(crate) fn tools_of(&self, app: &str) -> impl Iterator<Item = &ToolSpec> {
        let conversed = self.services.iter().filter(|service| service.conversed);
        let all = conversed.flat_map(|service| &service.tools);
        all.filter(move |spec| spec.app == app)
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
        let mut own = Random::new(call ^ if side == Side::A { 1 } else { 2 });
        if let Some(text) = self.form_of(spec).and_then(|form| {
            let above = |label: &Label| self.above(label);
            form.message(spec, &arguments, above, &mut same, &mut own)
        }) {
            return Ok(text);
        }
        let mut text = format!("echo: {}\n", arguments.replace('\n', " "));
        for field in &spec.fields {
            let parts = if self.above(field.of(&arguments)) {
                own.below(3)
            } else {
                same.below(3)
            };
            let parts = (0..=parts).map(|part| {
                let random = if self.above(&field.part(part, &arguments)) {
                    &mut own
                } else {
                    &mut same
                };
                let tools = (0..self.tools.len()).map(|at| shown(self.joint, at));
                let address = match &self.address_limit {
                    Some(_) => addresses::spoken(random),
                    None => String::new(),
                };
                sentence(random, &tools.collect::<Vec<_>>()) + &address
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
pub(crate) fn name(joint: bool, at: usize) -> (&'static str, String) {
    match joint {
        true => (APPS[at % 2], format!("t{}", at / 2)),
        false => (APPS[0], format!("t{at}")),
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
