//! App manifests (`sluice-app.toml`), and the rules of tools wherever they stand.

use std::collections::BTreeMap;
use std::ops::Range;

use ifc::{ArgumentPath, Effect, Label};
use policy::{After, Audience, Parameters, ToolRule};

use crate::accepts::AmongSource;
use crate::after::after;
use crate::audience::audience;
use crate::call_rules::{ArgumentDraft, Source, argument_limits, conditions, parameters};
use crate::desk::approvers;
use crate::diagnostics::File;
use crate::examples::{self, Example};
use crate::label_rules::{LabelDraft, Shapes, result_labels, shapes};
use crate::toml_reader::{Context, Table, parse};

/// What a manifest says.
#[derive(Debug, Default)]
pub(crate) struct Manifest {
    /// The SHA-256 of its text.
    pub(crate) digest: [u8; 32],
    pub(crate) description: Option<String>,
    pub(crate) command: Vec<String>,
    pub(crate) descriptions: Option<Label>,
    /// What several tools return.
    pub(crate) shapes: Shapes,
    pub(crate) tools: BTreeMap<String, ToolDraft>,
    /// The tool that serves each functionality, which counts if the user has predefined it. Only the user can let a
    /// conversation serve one: it may call any of the app's tools.
    pub(crate) offers: BTreeMap<String, String>,
}

/// The place of a key.
#[derive(Debug, Clone)]
pub(crate) struct Written {
    pub(crate) file: File,
    pub(crate) span: Range<usize>,
}

/// The keys of a tool that were written. The others come from the manifest, or from the defaults.
#[derive(Debug, Default, Clone)]
pub(crate) struct ToolDraft {
    pub(crate) effect: Option<Effect>,
    pub(crate) limit: Option<Label>,
    /// The place of the limit, or of the tool if it has none.
    pub(crate) written: Option<Written>,
    /// The places of other keys.
    pub(crate) places: BTreeMap<&'static str, Written>,
    /// What its calls move by themselves.
    pub(crate) carries: Option<Label>,
    /// The recipients of its calls, and what they may read.
    pub(crate) audience: Option<Audience>,
    pub(crate) parameters: Option<Parameters>,
    pub(crate) arguments: BTreeMap<ArgumentPath, ArgumentDraft>,
    /// The argument whose value selects the rule.
    pub(crate) select: Option<String>,
    /// The people who may allow its calls.
    pub(crate) approvers: Option<Vec<String>>,
    /// The arguments by which two calls are the same.
    pub(crate) once: Option<Vec<String>>,
    /// The arguments that say who or what a call is about.
    pub(crate) destinations: Option<Vec<String>>,
    /// Whether its result changes by itself.
    pub(crate) poll: Option<bool>,
    /// The tool that must have succeeded before.
    pub(crate) after: Option<After>,
    pub(crate) conditions: Option<Vec<Source>>,
    pub(crate) examples: Vec<Example>,
    pub(crate) labels: LabelDraft,
}

impl ToolDraft {
    /// The most restrictive rule, for an unknown tool, whose results have this label.
    pub(crate) fn conservative(rest: Option<Label>) -> Self {
        Self {
            effect: Some(Effect::Irreversible),
            limit: Some(Label::bottom()),
            labels: LabelDraft::uniform(rest),
            ..Self::default()
        }
    }

    /// These keys where they are written, else those of `base`.
    ///
    /// The examples of `base` are kept only if nothing here changes what they are examples of.
    pub(crate) fn over(self, base: Self) -> Self {
        // With another rule an example would fail, or pass for another reason.
        let same = self.effect.is_none()
            && self.limit.is_none()
            && self.carries.is_none()
            && self.audience.is_none()
            && self.parameters.is_none()
            && self.arguments.is_empty()
            && self.destinations.is_none()
            && self.after.is_none()
            && self.conditions.is_none();
        let mut examples = self.examples;
        examples.extend(base.examples.into_iter().filter(|_| same));
        // One by one: a new limit of one argument keeps those of the others.
        let mut arguments = base.arguments;
        arguments.extend(self.arguments);
        let mut places = base.places;
        places.extend(self.places);
        Self {
            // The place is that of the limit which counts.
            written: match self.limit {
                Some(_) => self.written,
                None => base.written.or(self.written),
            },
            places,
            carries: self.carries.or(base.carries),
            audience: self.audience.or(base.audience),
            parameters: self.parameters.or(base.parameters),
            arguments,
            select: self.select.or(base.select),
            approvers: self.approvers.or(base.approvers),
            once: self.once.or(base.once),
            destinations: self.destinations.or(base.destinations),
            poll: self.poll.or(base.poll),
            after: self.after.or(base.after),
            conditions: self.conditions.or(base.conditions),
            examples,
            effect: self.effect.or(base.effect),
            limit: self.limit.or(base.limit),
            labels: self.labels.over(base.labels),
        }
    }

    /// The place of a key, or of the limit.
    pub(crate) fn at(&self, key: &str) -> Option<&Written> {
        self.places.get(key).or(self.written.as_ref())
    }

    /// Where the values of its arguments' `among` come from.
    pub(crate) fn among(&self, app: &str) -> Vec<AmongSource> {
        let limit = self.limit.clone().unwrap_or(Label::bottom());
        let arguments = self.arguments.values();
        let accepts = arguments.flat_map(|argument| &argument.accepts);
        let sources = accepts.filter_map(|accept| accept.source(app, &limit));
        sources.collect()
    }

    /// The rule without its conditions and examples. A key that was not written has the most restrictive value.
    pub(crate) fn finish(self, app: &str) -> ToolRule {
        let arguments = self.arguments.into_iter();
        let arguments = arguments.map(|(name, draft)| (name, draft.finish(app)));
        ToolRule {
            effect: self.effect.unwrap_or(Effect::Irreversible),
            limit: self.limit.unwrap_or(Label::bottom()),
            place: self.written.map(|at| at.file.place(at.span.start)),
            carries: self.carries.unwrap_or(Label::bottom()),
            audience: self.audience,
            parameters: self.parameters,
            arguments: arguments.collect(),
            select: self.select,
            approvers: self.approvers.map(Into::into),
            once: self.once.map(Into::into),
            destinations: self.destinations,
            poll: self.poll.unwrap_or(false),
            after: self.after,
            counted: None,
            conditions: None,
            result: self.labels.finish(),
        }
    }
}

/// Reads a manifest; errors are reported.
pub(crate) fn manifest(context: Context<'_>) -> Option<Manifest> {
    let document = parse(context)?;
    let root = Table::new(
        context,
        0..0,
        document.get_ref(),
        "an app manifest".to_owned(),
    );
    let mut manifest = Manifest::default();
    match root.table("app") {
        Some(app) => {
            // For readers of the manifest; the user's own name for the app is used.
            app.string("name");
            app.needs("name", "name = \"NAME\"");
            let description = app.string("description");
            manifest.description = description.map(|text| text.value.to_owned());
            manifest.command = command(&app);
            manifest.descriptions = app.label("descriptions");
            app.finish();
        }
        // Not a table, which `table` has reported.
        None if root.has("app") => {}
        None => root.missing("app", "[app] with name, description and command"),
    }
    let shapes = shapes(&root);
    for (name, table) in root.named_tables("tools") {
        table.needs("effect", "effect = \"read\", \"write\" or \"irreversible\"");
        let (message, help) = (
            "a manifest does not say who approves calls",
            "write it in sluice.toml",
        );
        table.refuse("approvers", message, help);
        manifest
            .tools
            .insert(name.value.to_owned(), tool(&table, &shapes));
    }
    manifest.shapes = shapes;
    manifest.offers = offers(&root, &manifest.tools);
    root.finish();
    Some(manifest)
}

/// `[offers]`: which tool serves which functionality.
fn offers(root: &Table<'_>, tools: &BTreeMap<String, ToolDraft>) -> BTreeMap<String, String> {
    let mut offers = BTreeMap::new();
    for (name, tool) in root.named_strings("offers") {
        if !tools.contains_key(tool.value) {
            let meant = root.did_you_mean(tool.value, tools.keys().map(String::as_str));
            let message = format!("the manifest has no tool '{}'", tool.value);
            let help = format!("{meant}a functionality is served by a listed tool");
            root.error(&tool.span, message, help);
        }
        offers.insert(name.value.to_owned(), tool.value.to_owned());
    }
    offers
}

/// The words of a `command`.
pub(crate) fn command(table: &Table<'_>) -> Vec<String> {
    let Some(words) = table.strings("command") else {
        return Vec::new();
    };
    if let Some(value) = table.value("command").filter(|_| words.is_empty()) {
        let help = "write [\"PROGRAM\", \"ARGUMENT\"]";
        table.error(&value.span(), "'command' names no program", help);
    }
    words.iter().map(|word| word.value.to_owned()).collect()
}

/// The tool of which this is a case: `call_tool` of `call_tool:send`, if the rule of that selects by an argument.
pub(crate) fn selecting<'d>(
    drafts: &'d BTreeMap<String, ToolDraft>,
    name: &str,
) -> Option<(&'d String, &'d ToolDraft)> {
    let tool = drafts.get_key_value(name.split_once(':')?.0);
    tool.filter(|(_, draft)| draft.select.is_some())
}

/// Reads the rules of a tool and finishes its table.
pub(crate) fn tool(table: &Table<'_>, shapes: &Shapes) -> ToolDraft {
    let written = table.value("limit").map(toml::Spanned::span);
    let names = |key| {
        let names = table.strings(key)?;
        Some(names.iter().map(|name| name.value.to_owned()).collect())
    };
    let at = |span| Written {
        file: table.context.file.clone(),
        span,
    };
    let keys = [
        "after",
        "audience",
        "destinations",
        "errors",
        "once",
        "poll",
        "select",
    ];
    let places = keys.map(|key| Some((key, at(table.value(key)?.span()))));
    let draft = ToolDraft {
        written: Some(at(written.unwrap_or(table.span.clone()))),
        places: places.into_iter().flatten().collect(),
        carries: table.label("carries"),
        audience: audience(table),
        parameters: parameters(table),
        arguments: argument_limits(table),
        select: table.string("select").map(|name| name.value.to_owned()),
        approvers: approvers(table),
        once: names("once"),
        destinations: names("destinations"),
        poll: table.boolean("poll"),
        after: after(table),
        conditions: conditions(table),
        examples: examples::read(table).unwrap_or_default(),
        effect: table.choice("effect", &Effect::ALL.map(|effect| (effect.name(), effect))),
        limit: table.label("limit"),
        labels: result_labels(table, shapes),
    };
    table.finish();
    draft
}
