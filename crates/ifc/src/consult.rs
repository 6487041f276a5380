//! A view of the whole history for a judge, with every region marked (RTBAS §7.1).

use std::collections::BTreeSet;
use std::fmt;

use crate::{History, Labeled, Message, Prompt, PromptMessage, RegionId, Tool};

/// Fresh randomness in region markers, so that text inside a region cannot imitate one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Nonce(String);

impl Nonce {
    /// A nonce of 64 random bits, as 16 hexadecimal digits. The caller brings the randomness.
    pub fn from_random(bits: u64) -> Self {
        Self(format!("{bits:016x}"))
    }
}

impl fmt::Display for Nonce {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A prompt for a judge, and the regions that it may name.
///
/// The judge reads everything, so the prompt's label is the join of the whole history, and the
/// answer may be used for one thing only: to choose a label.
#[derive(Debug)]
pub struct Consultation {
    /// What to send.
    pub prompt: Prompt,
    /// Marker number (from 1) to region: marker `n` is `regions[n - 1]`.
    pub regions: Vec<RegionId>,
    /// Regions that are not shown, each with the marked region that stands for it too.
    companions: Vec<(RegionId, RegionId)>,
    /// What is left for the judge to decide, if not everything; and what is relevant anyway.
    left: Option<(BTreeSet<RegionId>, BTreeSet<RegionId>)>,
}

impl Consultation {
    /// Leaves only the regions `open` for the judge to decide. Of the others those in `relevant`
    /// are relevant and the rest is not, whatever the judge says.
    #[must_use]
    pub fn settle(self, open: BTreeSet<RegionId>, relevant: BTreeSet<RegionId>) -> Self {
        let left = Some((open, relevant));
        Self { left, ..self }
    }

    /// The regions that these marker numbers name; `None` if one of them is not a marker.
    ///
    /// A tool's parameters go with its description: the judge is not shown them, and a tool that
    /// may be read about but not called would help nobody.
    #[must_use]
    pub fn resolve(&self, markers: impl IntoIterator<Item = usize>) -> Option<BTreeSet<RegionId>> {
        let mut wanted = BTreeSet::new();
        for marker in markers {
            wanted.insert(*self.regions.get(marker.checked_sub(1)?)?);
        }
        let goes_along = |(with, _): &&(RegionId, RegionId)| wanted.contains(with);
        let along: Vec<RegionId> = (self.companions.iter().filter(goes_along))
            .map(|(_, region)| *region)
            .collect();
        wanted.extend(along);
        if let Some((open, relevant)) = &self.left {
            wanted.retain(|region| open.contains(region));
            wanted.extend(relevant);
        }
        Some(wanted)
    }
}

/// Why no consultation can be made. The screener then answers "everything".
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum ConsultError {
    /// The nonce occurs in the history. With 64 random bits somebody must have guessed.
    NonceInHistory,
}

impl fmt::Display for ConsultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NonceInHistory => f.write_str("the marker nonce occurs in the history"),
        }
    }
}

impl std::error::Error for ConsultError {}

/// The history as one transcript with regions marked `«REGION_n:nonce» … «/REGION_n:nonce»`,
/// between the judge's instructions (`before`, as system message) and their repetition
/// (`after`): prompt sandwiching. `{nonce}` and `{regions}` in both are filled in.
///
/// `before` and `after` are `'static`: only the developer's own literals can stand there.
///
/// # Errors
/// [`ConsultError`]; treat it as "everything is relevant".
pub fn consult(
    history: &History,
    nonce: &Nonce,
    before: &'static str,
    after: &'static str,
) -> Result<Consultation, ConsultError> {
    let mut transcript = Transcript {
        nonce,
        text: String::new(),
        regions: Vec::new(),
        companions: Vec::new(),
        next: 0,
    };
    // In the order of `History::numbered`, tools first: the numbers of the markers are those of the regions.
    for tool in history.tools() {
        transcript.tool(tool);
    }
    for (_, message) in history.messages() {
        match message {
            Message::System(text) => transcript.line("system", None, text),
            Message::User(text) => transcript.line("user", None, text),
            Message::Memory(text) => transcript.line("memory", None, text),
            Message::Assistant { text, calls } => {
                transcript.line("assistant", None, text);
                for call in calls {
                    transcript.line("call", Some(&call.tool), &call.arguments);
                }
            }
            Message::Result { tool, content, .. } => {
                transcript.line("result", Some(tool), content);
            }
        }
    }
    // A text that knows the nonce could end its own region and begin another: then nothing that the judge says of
    // regions counts.
    if transcript.occurs(history) {
        return Err(ConsultError::NonceInHistory);
    }
    let Transcript {
        text,
        regions,
        companions,
        ..
    } = transcript;
    let fill = |template: &str| {
        let count = regions.len().to_string();
        template
            .replace("{nonce}", &nonce.0)
            .replace("{regions}", &count)
    };
    let messages = vec![
        PromptMessage::System(fill(before)),
        PromptMessage::User(format!("{text}\n{}", fill(after))),
    ];
    let kept = regions.len();
    let prompt = Prompt {
        // The judge sees everything, so its provider needs a clearance for all of it.
        label: history.label(),
        messages,
        images: Vec::new(),
        tools: Vec::new(),
        kept,
        masked: 0,
    };
    Ok(Consultation {
        prompt,
        regions,
        companions,
        left: None,
    })
}

struct Transcript<'a> {
    nonce: &'a Nonce,
    text: String,
    regions: Vec<RegionId>,
    companions: Vec<(RegionId, RegionId)>,
    next: u32,
}

/// What stands for a tool's parameters where no region of its description can stand for them.
const PARAMETERS: &str = "parameters";

impl Transcript<'_> {
    /// A tool's line. Its parameters are long and not shown, but their regions count: the numbers
    /// must stay in step, and the judge must be able to keep them.
    fn tool(&mut self, tool: &Tool) {
        let shown_before = self.regions.len();
        self.line("tool", Some(&tool.name), &tool.description);
        let mut of_description: Vec<RegionId> =
            self.regions.iter().skip(shown_before).copied().collect();
        // Numbered where `History::numbered` numbers them: one number out of step, and the judge would choose other
        // regions than it has read.
        for _ in tool.parameters.regions() {
            if of_description.is_empty() {
                self.text.push_str("parameters of ");
                self.text.push_str(&tool.name);
                self.text.push_str(": ");
                of_description.push(self.marked(PARAMETERS));
                self.text.push('\n');
                continue;
            }
            let region = self.number();
            let pairs = of_description.iter().map(|shown| (*shown, region));
            self.companions.extend(pairs);
        }
    }

    fn line(&mut self, role: &str, name: Option<&str>, text: &Labeled) {
        self.text.push_str(role);
        if let Some(name) = name {
            self.text.push(' ');
            self.text.push_str(name);
        }
        self.text.push_str(": ");
        let source = text.reveal_tcb();
        let mut copied = 0;
        for (span, _) in text.regions() {
            self.text
                .push_str(source.get(copied..span.start).unwrap_or_default());
            self.marked(source.get(span.clone()).unwrap_or_default());
            copied = span.end;
        }
        self.text.push_str(source.get(copied..).unwrap_or_default());
        self.text.push('\n');
    }

    /// Appends `inside` between the markers of the next region.
    fn marked(&mut self, inside: &str) -> RegionId {
        let region = self.number();
        self.regions.push(region);
        let (marker, nonce) = (self.regions.len(), self.nonce);
        self.text.push_str(&format!(
            "«REGION_{marker}:{nonce}»{inside}«/REGION_{marker}:{nonce}»"
        ));
        region
    }

    /// Takes the number of the next region in reading order.
    fn number(&mut self) -> RegionId {
        let region = RegionId(self.next);
        self.next = self.next.saturating_add(1);
        region
    }

    fn occurs(&self, history: &History) -> bool {
        let in_text = |text: &Labeled| text.reveal_tcb().contains(&self.nonce.0);
        history
            .tools()
            .iter()
            .any(|tool| tool.name.contains(&self.nonce.0) || in_text(&tool.description))
            || history.messages().any(|(_, message)| match message {
                Message::System(text) | Message::User(text) | Message::Memory(text) => {
                    in_text(text)
                }
                Message::Assistant { text, calls } => {
                    in_text(text)
                        || calls.iter().any(|call| {
                            in_text(&call.arguments) || call.tool.contains(&self.nonce.0)
                        })
                }
                Message::Result { content, .. } => in_text(content),
            })
    }
}
