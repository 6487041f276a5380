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
    /// The prompt to send.
    pub prompt: Prompt,
    /// Marker number (from 1) to region: marker `n` is `regions[n - 1]`.
    pub regions: Vec<RegionId>,
    /// Regions that are not shown, each with the marked region that stands for it too.
    companions: Vec<(RegionId, RegionId)>,
    /// The regions that are left for the judge to decide, and those that are relevant in any case; `None` leaves all.
    left: Option<(BTreeSet<RegionId>, BTreeSet<RegionId>)>,
}

impl Consultation {
    /// Leaves only the regions `unset` for the judge to decide. Of the others, those in `relevant` are relevant.
    #[must_use]
    pub fn settle(self, unset: BTreeSet<RegionId>, relevant: BTreeSet<RegionId>) -> Self {
        let left = Some((unset, relevant));
        Self { left, ..self }
    }

    /// The regions that these marker numbers name; `None` if one of them is not a marker. A tool's parameters, which the
    /// judge is not shown, go with its description.
    #[must_use]
    pub fn resolve(&self, markers: impl IntoIterator<Item = usize>) -> Option<BTreeSet<RegionId>> {
        let mut wanted = BTreeSet::new();
        for marker in markers {
            wanted.insert(*self.regions.get(marker.checked_sub(1)?)?);
        }
        // A companion is never the first of a pair, so the set may grow in this loop.
        for (shown, companion) in &self.companions {
            if wanted.contains(shown) {
                wanted.insert(*companion);
            }
        }
        if let Some((unset, relevant)) = &self.left {
            wanted.retain(|region| unset.contains(region));
            wanted.extend(relevant);
        }
        Some(wanted)
    }
}

/// The history as one transcript with regions marked `«REGION_n:nonce» … «/REGION_n:nonce»`,
/// between the judge's instructions (`before`, as system message) and their repetition
/// (`after`): prompt sandwiching. `{nonce}` and `{regions}` in both are filled in.
///
/// `before` and `after` are `'static`: only the developer's own literals can stand there.
///
/// `None` if the nonce occurs in the history, which with 64 random bits is a guess of an attacker. Everything is relevant then.
pub fn consult(
    history: &History,
    nonce: &Nonce,
    before: &'static str,
    after: &'static str,
) -> Option<Consultation> {
    let mut transcript = Transcript {
        nonce,
        has_nonce: false,
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
    // A text that knows the nonce could end its own region and begin another.
    if transcript.has_nonce {
        return None;
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
        // The judge reads everything, so its provider needs a clearance for all of it.
        label: history.label(),
        messages,
        beside: Vec::new(),
        tools: Vec::new(),
        kept,
        masked: 0,
        is_marked: false,
    };
    Some(Consultation {
        prompt,
        regions,
        companions,
        left: None,
    })
}

struct Transcript<'a> {
    nonce: &'a Nonce,
    /// Whether a name or text of the history has the nonce in it.
    has_nonce: bool,
    text: String,
    regions: Vec<RegionId>,
    companions: Vec<(RegionId, RegionId)>,
    next: u32,
}

impl Transcript<'_> {
    /// A tool's line. Its parameters are long and not shown, but their regions have numbers, and the judge must be able to
    /// choose them.
    fn tool(&mut self, tool: &Tool) {
        let shown_before = self.regions.len();
        self.line("tool", Some(&tool.name), &tool.description);
        let mut of_description: Vec<RegionId> =
            self.regions.iter().skip(shown_before).copied().collect();
        // Numbered where `History::numbered` numbers them. One number out of step, and the judge would choose other
        // regions than it has read.
        for _ in tool.parameters.regions() {
            if of_description.is_empty() {
                self.text.push_str("parameters of ");
                self.text.push_str(&tool.name);
                self.text.push_str(": ");
                of_description.push(self.marked("parameters"));
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
        let has_nonce = |text: &str| text.contains(&self.nonce.0);
        self.has_nonce |= has_nonce(source) || name.is_some_and(has_nonce);
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

    /// The number of the next region in reading order.
    fn number(&mut self) -> RegionId {
        let region = RegionId(self.next);
        self.next = self.next.saturating_add(1);
        region
    }
}
