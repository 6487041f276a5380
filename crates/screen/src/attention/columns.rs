//! The features of a region, by name.

use std::fmt;

/// Layers and heads that a column may name: far above any model of a size that would be used.
const MOST_HEADS: u16 = 256;

/// Columns of a table: more are refused.
const MOST_COLUMNS: usize = 16_384;

/// Which output tokens a statistic of the per-token saliency is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Over {
    /// All of them, as in the paper.
    All,
    /// Those of the arguments' values. Without arguments: all.
    Values,
    /// Those of one argument's values; of all arguments, the largest result.
    Argument,
}

/// A statistic of the saliency `A_i` of a region's tokens, summed over output tokens, layers and
/// heads. `I` is the input.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stat {
    /// `Σ_region A_i / Σ_I A_i` (§7.2).
    Sum,
    /// The same, times `|I|`, over the region's tokens (§7.2).
    Mean,
    /// A quantile, in per cent, of `A_i · |I| / Σ_I A_i` (§7.2).
    Quantile(u8),
    /// The largest `A_i` of the region by the largest of all, the score of §3.3.
    Peak,
}

/// A statistic of one head's rows at the output tokens of the arguments' values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HeadStat {
    /// The region's fraction of `|A · ∂L/∂A|`, summed over those tokens.
    Share,
    /// The logarithm of the largest attention `A`.
    Peak,
    /// The largest fraction at one of those tokens.
    Spike,
}

/// What text says without a model. A value is *in* a text if its words are, one after the
/// other, without regard to case and punctuation. Free text is what no region covers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lexical {
    /// `ln(1 + w)`, `w` words being the longest passage of a value that is in the region.
    Run,
    /// The largest part of a value, in words, that is in the region as one passage.
    Cover,
    /// The same, less the value's largest part that is in free text.
    Excess,
    /// The fraction of the values that are in the region.
    Here,
    /// The fraction of the values that are in the region and not in free text.
    OnlyHere,
    /// The fraction of the values that are in the region, and neither in free text nor in another.
    Unique,
    /// The fraction of the values' words outside free text that are in the region.
    Words,
    /// `ln(1 + c)`, `c` characters being the longest value that counts for `OnlyHere`.
    Characters,
}

/// Where a region comes from. Lengths, counts and distances are no features: they reveal the suite of a benchmark.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// 1 after the assistant's newest step.
    Newest,
    /// 1 if it comes from a tool that the draft calls.
    SameTool,
    /// 1 if a tool wrote it.
    FromTool,
    /// 1 if it is in the user's message.
    FromUser,
    /// 1 if the assistant wrote it.
    FromAssistant,
    /// 1 if the runtime wrote it in place of a result.
    FromHub,
    /// 1 if it is in the developer's message.
    FromSystem,
}

/// A feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Column {
    /// Of the per-token saliency.
    Saliency {
        /// Which output tokens.
        over: Over,
        /// Which statistic.
        stat: Stat,
        /// Its logarithm: most of these are far below their largest.
        log: bool,
    },
    /// Of one head.
    Head {
        /// The layer, from 0.
        layer: u16,
        /// The head in it, from 0.
        head: u16,
        /// Which statistic.
        stat: HeadStat,
    },
    /// Of the words.
    Lexical(Lexical),
    /// Of the place.
    Place(Place),
}

const OVER: [(Over, &str); 3] = [
    (Over::All, "all"),
    (Over::Values, "values"),
    (Over::Argument, "argument"),
];

const STAT: [(Stat, &str); 7] = [
    (Stat::Sum, "sum"),
    (Stat::Mean, "mean"),
    (Stat::Quantile(20), "q20"),
    (Stat::Quantile(50), "q50"),
    (Stat::Quantile(80), "q80"),
    (Stat::Quantile(99), "q99"),
    (Stat::Peak, "peak"),
];

/// The statistics of the paper are the first of [`STAT`].
const PAPER: usize = 6;

const HEAD: [(HeadStat, &str); 3] = [
    (HeadStat::Share, "share"),
    (HeadStat::Peak, "peak"),
    (HeadStat::Spike, "spike"),
];

const LEXICAL: [(Lexical, &str); 8] = [
    (Lexical::Run, "run"),
    (Lexical::Cover, "cover"),
    (Lexical::Excess, "excess"),
    (Lexical::Here, "here"),
    (Lexical::OnlyHere, "only-here"),
    (Lexical::Unique, "unique"),
    (Lexical::Words, "words"),
    (Lexical::Characters, "characters"),
];

const PLACE: [(Place, &str); 7] = [
    (Place::Newest, "newest"),
    (Place::SameTool, "same-tool"),
    (Place::FromTool, "from-tool"),
    (Place::FromUser, "from-user"),
    (Place::FromAssistant, "from-assistant"),
    (Place::FromHub, "from-hub"),
    (Place::FromSystem, "from-system"),
];

fn by_name<T: Copy>(table: &[(T, &'static str)], name: &str) -> Option<T> {
    table
        .iter()
        .find(|(_, own)| *own == name)
        .map(|(it, _)| *it)
}

fn name_of<T: Copy + PartialEq>(table: &[(T, &'static str)], it: T) -> &'static str {
    let found = table.iter().find(|(own, _)| *own == it);
    found.map_or("unnamed", |(_, name)| name)
}

impl Column {
    /// The column of this name, such as `all.sum`, `values.ln.mean`, `head.15.3.share`,
    /// `text.run` or `place.newest`.
    pub fn parse(name: &str) -> Option<Self> {
        let number = |text: &str| -> Option<u16> {
            let number: u16 = text.parse().ok()?;
            // One spelling per column: `+1` or `01` would be the same head under another name, and
            // pass the check for columns that are given twice.
            (number < MOST_HEADS && number.to_string() == text).then_some(number)
        };
        let parts: Vec<&str> = name.split('.').collect();
        match parts.as_slice() {
            ["head", layer, head, stat] => Some(Self::Head {
                layer: number(layer)?,
                head: number(head)?,
                stat: by_name(&HEAD, stat)?,
            }),
            ["text", what] => by_name(&LEXICAL, what).map(Self::Lexical),
            ["place", what] => by_name(&PLACE, what).map(Self::Place),
            [over, stat] => Some(Self::Saliency {
                over: by_name(&OVER, over)?,
                stat: by_name(&STAT, stat)?,
                log: false,
            }),
            [over, "ln", stat] => Some(Self::Saliency {
                over: by_name(&OVER, over)?,
                stat: by_name(&STAT, stat)?,
                log: true,
            }),
            _ => None,
        }
    }
}

impl fmt::Display for Column {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Saliency { over, stat, log } => {
                let log = if log { "ln." } else { "" };
                write!(f, "{}.{log}{}", name_of(&OVER, over), name_of(&STAT, stat))
            }
            Self::Head { layer, head, stat } => {
                write!(f, "head.{layer}.{head}.{}", name_of(&HEAD, stat))
            }
            Self::Lexical(what) => write!(f, "text.{}", name_of(&LEXICAL, what)),
            Self::Place(what) => write!(f, "place.{}", name_of(&PLACE, what)),
        }
    }
}

/// The columns of a table, in order, each once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Columns(Vec<Column>);

/// Why names are no columns.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ColumnsError {
    /// There is no such feature.
    #[error("there is no feature `{0}`; train the classifier again with this version")]
    Unknown(String),
    /// A name is given twice.
    #[error("the feature `{0}` is given twice; leave one out")]
    Twice(String),
    /// None, or too many.
    #[error("{0} features, but 1 to {MOST_COLUMNS} are allowed; choose fewer")]
    Count(usize),
}

impl Columns {
    /// The six features of §7.2, over all output tokens.
    pub fn paper() -> Self {
        let stats = STAT.iter().take(PAPER);
        let column = |(stat, _): &(Stat, _)| Column::Saliency {
            over: Over::All,
            stat: *stat,
            log: false,
        };
        Self(stats.map(column).collect())
    }

    /// Everything that can be measured with a model of so many layers and heads.
    pub fn full(layers: u16, heads: u16) -> Self {
        let mut columns = Vec::new();
        for (over, _) in OVER {
            for (stat, _) in STAT {
                let saliency = |log| Column::Saliency { over, stat, log };
                columns.extend([saliency(false), saliency(true)]);
            }
        }
        columns.extend(LEXICAL.map(|(what, _)| Column::Lexical(what)));
        columns.extend(PLACE.map(|(what, _)| Column::Place(what)));
        for layer in 0..layers.min(MOST_HEADS) {
            for head in 0..heads.min(MOST_HEADS) {
                columns.extend(HEAD.map(|(stat, _)| Column::Head { layer, head, stat }));
            }
        }
        // A table that `parse` would refuse must not be written.
        columns.truncate(MOST_COLUMNS);
        Self(columns)
    }

    /// The columns of these names.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, ColumnsError> {
        let mut columns = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for name in names {
            let column = Column::parse(name);
            let column = column.ok_or_else(|| ColumnsError::Unknown(name.to_owned()))?;
            if !seen.insert(column) {
                return Err(ColumnsError::Twice(name.to_owned()));
            }
            columns.push(column);
        }
        match columns.len() {
            1..=MOST_COLUMNS => Ok(Self(columns)),
            count => Err(ColumnsError::Count(count)),
        }
    }

    /// Their names, in order.
    pub fn names(&self) -> impl ExactSizeIterator<Item = String> {
        self.0.iter().map(Column::to_string)
    }

    /// The columns, in order.
    pub fn as_slice(&self) -> &[Column] {
        &self.0
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}
