//! The texts of a history, with the numbers of their regions.

use std::collections::HashMap;
use std::ops::Range;

use ifc::{History, Label, Labeled, Message, RegionId};

/// What wrote a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Writer<'a> {
    /// The developer, the user, or who describes a tool.
    Given,
    /// The model.
    Model,
    /// A tool, in answer to a call with these arguments.
    Tool {
        /// The tool.
        tool: &'a str,
        /// The call's arguments: JSON text.
        arguments: &'a str,
    },
}

/// One text of a history.
#[derive(Debug, Clone)]
pub struct Passage<'a> {
    /// Who wrote it.
    pub writer: Writer<'a>,
    /// The whole text.
    pub text: &'a str,
    /// Its labelled regions, in order.
    pub regions: Vec<(RegionId, Range<usize>, &'a Label)>,
}

impl Passage<'_> {
    /// The stretches that are in no region.
    pub fn unlabelled(&self) -> impl Iterator<Item = &str> {
        // Regions are in order and do not overlap: each gap lies between the end of one and the
        // start of the next.
        let starts = std::iter::once(0).chain(self.regions.iter().map(|(_, span, _)| span.end));
        let ends = self.regions.iter().map(|(_, span, _)| span.start);
        let ends = ends.chain([self.text.len()]);
        let gaps = starts.zip(ends);
        let gaps = gaps.filter_map(|(start, end)| self.text.get(start..end));
        gaps.filter(|gap| !gap.is_empty())
    }
}

/// The texts of a history in reading order; their regions have the numbers of
/// [`History::regions`].
pub fn passages(history: &History) -> Vec<Passage<'_>> {
    let mut next = 0;
    let mut found = Vec::new();
    let mut take = |writer, text| found.push(passage(writer, text, &mut next));
    // In the order of `History::regions`, which numbers the regions of descriptions before those of
    // messages.
    for tool in history.tools() {
        take(Writer::Given, &tool.description);
        take(Writer::Given, &tool.parameters);
    }
    let mut asked = HashMap::new();
    for (_, message) in history.messages() {
        match message {
            Message::System(text) | Message::User(text) | Message::Memory(text) => {
                take(Writer::Given, text);
            }
            Message::Assistant { text, calls } => {
                take(Writer::Model, text);
                for call in calls {
                    take(Writer::Model, &call.arguments);
                    asked.insert(call.id, call.arguments.reveal_tcb());
                }
            }
            Message::Result {
                call,
                tool,
                content,
                ..
            } => {
                let arguments = asked.get(call).copied().unwrap_or_default();
                take(Writer::Tool { tool, arguments }, content);
            }
        }
    }
    found
}

fn passage<'a>(writer: Writer<'a>, text: &'a Labeled, next: &mut u32) -> Passage<'a> {
    let regions = text.regions().map(|(span, label)| {
        let id = RegionId(*next);
        *next = next.saturating_add(1);
        (id, span, label)
    });
    Passage {
        writer,
        regions: regions.collect(),
        text: text.reveal_tcb(),
    }
}

/// Every region with its text.
pub fn region_texts<'a>(passages: &'a [Passage<'a>]) -> impl Iterator<Item = (RegionId, &'a str)> {
    passages.iter().flat_map(|passage| {
        let regions = passage.regions.iter();
        regions.map(|(id, span, _)| (*id, passage.text.get(span.clone()).unwrap_or_default()))
    })
}
