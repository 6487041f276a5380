//! Draws the parts of a world: labels, texts, tools, memories and choices.

use ifc::{Effect, Label, Lattice, Order};

use super::labels::flows;
use super::random::Random;
use super::world::{Choice, Field, Piece, Side, Text, ToolSpec, name};

/// What queries and memories are about, so that one finds the other.
const TOPICS: [&str; 4] = ["heron", "delivery", "tea", "friday"];

/// A few words, often with an instruction that the model may obey.
pub(crate) fn sentence(random: &mut Random, tools: &[String]) -> String {
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

/// ⊥, ⊤, and some labels of a random lattice, small ones and such as need both words of a label.
pub(crate) fn pool(random: &mut Random) -> Vec<Label> {
    let names = |count: usize| (0..count).map(|at| format!("n{at}")).collect::<Vec<_>>();
    let chain = |bottom: &str| std::iter::once(bottom.to_owned()).chain(names(4)).collect();
    let integrity = match random.below(5) {
        0 => Order::TwoPoint,
        1 => Order::Levels(chain("trusted")),
        2 => Order::Categories(names(4)),
        _ => Order::Categories(names(120)),
    };
    let names = |count: usize| (0..count).map(|at| format!("m{at}")).collect::<Vec<_>>();
    let chain = |bottom: &str| std::iter::once(bottom.to_owned()).chain(names(3)).collect();
    let confidentiality = match random.below(3) {
        0 => Order::TwoPoint,
        1 => Order::Levels(chain("public")),
        _ => Order::Categories(names(3)),
    };
    let lattice = Lattice::new(&integrity, &confidentiality).unwrap();
    let mut all: Vec<&str> = lattice.names().collect();
    // Of many taints those around the ends of words.
    let near = [0, 63, 64, 65, 119].map(|at| format!("untrusted:n{at}"));
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

pub(crate) struct Maker {
    pub(crate) random: Random,
    pub(crate) pool: Vec<Label>,
    pub(crate) limit: Label,
    /// What the model calls them.
    pub(crate) tools: Vec<String>,
    pub(crate) joint: bool,
}

impl Maker {
    pub(crate) fn label(&mut self) -> Label {
        if self.random.chance(30) {
            return Label::bottom();
        }
        self.random.pick(&self.pool).clone()
    }

    pub(crate) fn text(&mut self, pieces: usize) -> Text {
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
    pub(crate) fn memories(&mut self, turns: &mut [Text]) -> Vec<Piece> {
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

    pub(crate) fn tool(&mut self, at: usize) -> ToolSpec {
        let fields = (0..self.random.below(4)).map(|at| Field {
            name: format!("f{at}"),
            label: self.label(),
            more: self.random.pick(&self.pool).clone(),
            peculiar: None,
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
            data_limit: None,
            accepts: None,
            effect: *(self.random).pick(&[Effect::Read, Effect::Write, Effect::Irreversible]),
            always_ask: self.random.chance(5),
            errors: *self.random.pick(&[0, 0, 20]),
        }
    }

    /// Tools above the limit that each side has for itself, anywhere among the others.
    pub(crate) fn strangers(&mut self, tools: &mut Vec<ToolSpec>) {
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

    pub(crate) fn choices(&mut self, steps: usize) -> Vec<Choice> {
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
