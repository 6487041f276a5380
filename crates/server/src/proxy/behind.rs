//! What a proxy knows beside its requests: the gateway at which its client calls tools, and who wrote some texts.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, RwLock};

use hub::recognise::restricted;
use hub::state::hex;
use hub::{Apps, OtherTools, Permits};
use ifc::{Call, Label, Labeled};

use super::transcript::Digest;
use crate::locks::{lock, read, write};
use crate::parts::GatewayTool;

/// Letters of a known text that is found by its exact words; as many as are recognised at all.
const MIN_KNOWN: usize = 32;

/// The gateway at which the client of a proxy calls tools. There is one client then: all have one session there.
#[derive(Clone)]
pub struct Behind {
    /// The name of the gateway among the client's MCP servers.
    pub server: String,
    /// The gateway's tools, which may change while it runs.
    pub tools: Arc<dyn Fn() -> Vec<GatewayTool> + Send + Sync>,
    /// What is shared with the gateway.
    pub permits: Arc<Mutex<Permits>>,
    /// The session that the client has there.
    pub session: String,
    /// The label of what its programs read by themselves.
    pub files: Label,
    /// The secrets of all that it may be given, and what a stranger may write of it.
    pub whole: [Label; 2],
    /// Which of the client's own tools start programs ([`Permits::starts_program`]).
    pub starts: Arc<dyn Fn(&str) -> bool + Send + Sync>,
    /// Whether the result of this call of a tool of the client's own may be made from all that the client was given: the answer
    /// of another of its conversations, or a command that reads what the client has saved.
    pub gathers: Arc<dyn Fn(&Call) -> bool + Send + Sync>,
}

impl Behind {
    /// The same for one tenant of several.
    pub(super) fn of_tenant(mut self, tenant: &Digest) -> Self {
        self.session = hex(tenant);
        self.permits().open(&self.session);
        self
    }

    /// What may be behind a read at the gateway, and behind any other call, no matter what its conversation shows. A program of a
    /// stranger's may run without any call: git's, for one.
    pub(super) fn suspected(&self) -> [Label; 2] {
        let [secrets, strangers] = &self.whole;
        let given = self.permits().behind(&self.session);
        // That something is read changes nothing. What it is asked with leaves.
        let reads = given.beyond(&self.files).meet(secrets);
        [reads, given.join(&self.files.meet(strangers))]
    }

    /// The label of the result of a call of the client's own tool, beside the tool's rules.
    pub(super) fn gathered(&self, call: &Call) -> Label {
        match (self.gathers)(call) {
            true => self.given(),
            false => Label::bottom(),
        }
    }

    /// The label of everything that the client was given, here or at the gateway.
    pub(super) fn given(&self) -> Label {
        self.permits().given(&self.session)
    }

    /// The client gets a call of a tool of its own.
    pub(super) fn calls_own(&self, tool: &str) {
        if (self.starts)(tool) {
            self.permits().starts_program(&self.session);
        }
    }

    pub(super) fn permits(&self) -> MutexGuard<'_, Permits> {
        lock(&self.permits)
    }
}

/// The tools of a client: its own, which have the rules of one app, and those of a gateway.
#[derive(Clone)]
pub(super) struct ClientTools {
    pub(super) apps: Apps,
    /// The labels of the gateway's names and descriptions, by the names that the client has.
    labels: BTreeMap<String, (Label, Label)>,
}

impl ClientTools {
    pub(super) fn new(app: &str, behind: Option<&Behind>) -> Self {
        let Some(behind) = behind else {
            return Self {
                apps: Apps::One(app.to_owned()),
                labels: BTreeMap::new(),
            };
        };
        let (mut others, mut labels) = (OtherTools::new(), BTreeMap::new());
        let (mut seen, mut ambiguous) = (BTreeSet::new(), BTreeSet::new());
        for tool in (behind.tools)() {
            for name in names(&behind.server, &tool.name) {
                if !seen.insert(name.clone()) {
                    ambiguous.insert(name);
                    continue;
                }
                let own = (tool.app.clone(), tool.tool.clone());
                others.insert(name.clone(), own);
                labels.insert(name, (tool.named.clone(), tool.described.clone()));
            }
        }
        // A name that two tools share is unknown, and has the rules of an unknown tool.
        others.retain(|name, _| !ambiguous.contains(name));
        labels.retain(|name, _| !ambiguous.contains(name));
        Self {
            apps: Apps::Client(app.to_owned(), Arc::new(others)),
            labels,
        }
    }

    /// The labels of the name and of the description of a tool of the gateway.
    pub(super) fn labels(&self, name: &str) -> Option<&(Label, Label)> {
        self.labels.get(name)
    }
}

/// The names that clients give a tool of an MCP server: Claude Code and Codex the one, opencode the other. Some have no `-`.
fn names(server: &str, tool: &str) -> BTreeSet<String> {
    let written = [format!("mcp__{server}__{tool}"), format!("{server}_{tool}")];
    let plain = written.clone().map(|name| name.replace('-', "_"));
    written.into_iter().chain(plain).collect()
}

/// Texts of which it is known who wrote them, such as the rule files of a workspace and the instructions of MCP servers. A
/// handle: texts can be added while the proxy runs.
#[derive(Clone, Default)]
pub struct LabelledTexts(Arc<RwLock<Vec<Arc<Labeled>>>>);

impl LabelledTexts {
    /// Adds a text.
    pub fn add(&self, text: &str, label: Label) {
        let text = Arc::new(Labeled::label_tcb(text.trim(), label));
        let mut all = write(&self.0);
        all.push(text);
    }

    pub(super) fn all(&self) -> Vec<Arc<Labeled>> {
        let all = read(&self.0);
        all.clone()
    }
}

/// A text that an agent's program has put between the messages: where a known text stands in it, it has the label of that,
/// and the rest has `label`.
pub(super) fn inserted(text: String, known: &[Arc<Labeled>], label: &Label) -> Labeled {
    let long = known.iter().filter(|own| own.len() >= MIN_KNOWN);
    let (mut parts, mut end) = (Vec::new(), 0);
    for (span, own) in found(&text, long, |_| true) {
        parts.push((end..span.start, label.clone()));
        end = span.end;
        parts.push((span, own));
    }
    parts.push((end..text.len(), label.clone()));
    let all = Labeled::with_regions_tcb(text.clone(), parts);
    all.unwrap_or_else(|| Labeled::label_tcb(text, label.clone()))
}

/// A user's message: known texts that are whole lines of it, such as what was piped into the agent, keep their labels,
/// however short they are.
pub(super) fn quoted(text: Labeled, known: &[Arc<Labeled>]) -> Labeled {
    let words = text.reveal_tcb();
    let is_whole = |span: &Range<usize>| {
        let before = words
            .get(..span.start)
            .and_then(|it| it.split('\n').next_back());
        let behind = words.get(span.end..).and_then(|it| it.split('\n').next());
        [before, behind].map(|it| it.is_some_and(|it| it.trim().is_empty())) == [true; 2]
    };
    let parts = found(words, known.iter(), is_whole);
    restricted(text, &parts)
}

/// Where known texts stand in a text, in order and without overlaps.
fn found<'a>(
    text: &str,
    known: impl Iterator<Item = &'a Arc<Labeled>>,
    is_meant: impl Fn(&Range<usize>) -> bool,
) -> Vec<(Range<usize>, Label)> {
    let mut spans: Vec<(Range<usize>, Label)> = Vec::new();
    for own in known.filter(|own| !own.is_empty()) {
        let words = own.reveal_tcb();
        let all = text.match_indices(words);
        let all = all.map(|(at, _)| at..at + words.len());
        spans.extend(all.filter(&is_meant).map(|span| (span, own.label())));
    }
    spans.sort_by_key(|(span, _)| (span.start, Reverse(span.end)));
    let mut end = 0;
    spans.retain_mut(|(span, _)| {
        span.start = span.start.max(end);
        end = end.max(span.end);
        span.start < span.end
    });
    spans
}
