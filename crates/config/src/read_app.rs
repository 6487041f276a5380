//! Reads an [`App`] from `[app.NAME]`, its manifest and its entry in an `mcpServers` file.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use hub::isc::ServedBy;
use ifc::{Dimension, Effect, Label, Lattice};
use policy::{AppRules, Parameters};
use sha2::{Digest, Sha256};
use wire::ToolFilter;

use crate::app::App;
use crate::app_name;
use crate::call_rules::{Source, conditions};
use crate::domains::domains;
use crate::finish;
use crate::functionalities::keys_of_app;
use crate::grants::{anchor, egress, environment, mounts};
use crate::how_to_start::how_to_start;
use crate::label_rules::{Shapes, shapes};
use crate::limits::{Limits, SpokeLimits};
use crate::manifest::{Manifest, ToolDraft, manifest, selecting, tool};
use crate::mcp_servers::{ForeignServer, Server};
use crate::meta_labels::meta_labels;
use crate::settings::spoke_limits;
use crate::toml_reader::{At, Context, Table, named_file, secret_of};
use crate::warnings;

/// The app of `[app.NAME]`, which may also be in an `mcpServers` file.
pub(crate) fn read_app(
    name: &At<&str>,
    table: &Table<'_>,
    server: Option<&Server>,
    limits: &Limits,
) -> App {
    let lattice = table.context.lattice;
    check_name(table, name);
    // `functionalities` reads these when all apps are known. Marked here, so that they are not reported as unknown.
    keys_of_app(table);
    let manifest = manifest_of(table);
    // A manifest has the command, the description and the tools. Grants come from the user's table alone.
    let mut app = bare(name.value, server, &limits.spoke, lattice);
    app.manifest = manifest.as_ref().map(|manifest| manifest.digest);
    let offers = manifest.iter().flat_map(|manifest| &manifest.offers);
    let offers = offers.map(|(name, tool)| (name.clone(), ServedBy::Tool(tool.clone())));
    app.offers = offers.collect();
    how_to_start(table, name, server, manifest.as_ref(), &mut app);
    if let Some(description) = table.string("description") {
        app.description = Some(description.value.to_owned());
        app.described_by_user = true;
    }
    let provider = table.string("provider");
    app.provider = provider.map(|name| name.value.to_owned());
    environment(table, &mut app);
    app.egress = egress(table);
    // Before `open_remote`, which adds the server's own domain unless the user has written one.
    (app.domains, app.ask_domains) = domains(table, &app.egress);
    app.mounts = mounts(table, &app.domains, app.ask_domains);
    app.open_remote();
    app.fresh = table.boolean("fresh").unwrap_or(false);
    app.resources = table.boolean("resources").unwrap_or(false);
    app.prompts = table.boolean("prompts").unwrap_or(false);
    if let Some(only) = patterns(table, "only_tools") {
        app.filter.only = Some(only);
    }
    if let Some(hidden) = patterns(table, "hidden_tools") {
        app.filter.hidden = hidden;
    }
    if let Some(table) = table.table("limits") {
        spoke_limits(&table, &mut app.limits);
        table.finish();
    }
    let inherited = manifest.as_ref().and_then(|m| m.descriptions.clone());
    if let Some(descriptions) = table.label("descriptions").or(inherited) {
        app.descriptions = descriptions;
    } else if app.client {
        // They come from the agent itself, which the user trusts to run.
        app.descriptions = Label::bottom();
    }
    app.rules.claims = table.table("meta_labels").map(|table| meta_labels(&table));
    if let Some(table) = table.table("answer") {
        app.rules.answer = table.label("limit").unwrap_or(app.rules.answer);
        let addresses = table.label("addresses");
        app.rules.addresses = addresses.unwrap_or(app.rules.addresses);
        table.finish();
    }
    // The user's shapes win over the manifest's of the same name.
    let inherited = manifest.as_ref().map(|m| m.shapes.clone());
    let mut shapes = inherited.unwrap_or_default();
    shapes.extend(self::shapes(table));
    let others = table.table("other_tools");
    let others = others.map(|table| self::others(&table, &shapes));
    // Without a manifest, all unlisted tools get the most restrictive rule. With one, they are denied unless the user says
    // otherwise.
    let by_app = table.context.by_app;
    let label = unlabelled(name.value, lattice, by_app);
    // With a secret for each app, the rest is filled in when it is known what its tools may be given.
    let conservative = ToolDraft::conservative((!by_app).then(|| label.clone()));
    let mut others = match (others, &manifest) {
        (Some(others), _) => Some(others.over(conservative)),
        (None, None) => Some(conservative),
        (None, Some(_)) => None,
    };
    let mut drafts = tools(table, manifest, others.as_ref(), &shapes);
    let of_app: Vec<Source> = conditions(table).unwrap_or_default();
    if let Some(lattice) = lattice.filter(|_| by_app) {
        // A read without parameters gets no text.
        let gets_text = |draft: &&ToolDraft| {
            let acts = !draft.effect.is_some_and(Effect::reads);
            acts || draft.parameters != Some(Parameters::default())
        };
        let getting = drafts.values().chain(&others).filter(gets_text);
        let given: Label = getting.map(|it| given(it, &of_app, name.value)).collect();
        let label = label.join(&given.meet(&lattice.whole(Dimension::Confidentiality)));
        for draft in drafts.values_mut().chain(&mut others) {
            draft.labels.rest.get_or_insert_with(|| label.clone());
        }
    }
    if let Some(others) = &others {
        warnings::egress(table.context.sink, &app, "(other tools)", others);
    }
    if let Some(others) = others {
        app.among.extend(others.among(name.value));
        app.rules.other_tools = Some(others.finish(name.value));
    }
    finish::tools(&table.context, &mut app, drafts, &of_app);
    app
}

/// An app that only an `mcpServers` file has.
pub(crate) fn only_server(
    name: &str,
    server: &Server,
    limits: &SpokeLimits,
    lattice: Option<&Lattice>,
    by_app: bool,
) -> App {
    let mut app = bare(name, Some(server), limits, lattice);
    let rule = ToolDraft::conservative(Some(unlabelled(name, lattice, by_app)));
    app.rules.other_tools = Some(rule.finish(name));
    app
}

/// Names of tools with `*` for any text.
fn patterns(table: &Table<'_>, key: &'static str) -> Option<Vec<String>> {
    let names = table.strings(key)?;
    for name in names.iter().filter(|it| !ToolFilter::is_pattern(it.value)) {
        let message = format!("'{}' can be the name of no tool", name.value);
        let help = "write its name as the app lists it, with * for any text, like \"read_*\"";
        table.error(&name.span, message, help);
    }
    Some(names.iter().map(|it| it.value.to_owned()).collect())
}

fn manifest_of(table: &Table<'_>) -> Option<Manifest> {
    let found = named_file(table, "manifest");
    let pin = table.string("sha256");
    let (at, file) = found?;
    let digest = <[u8; 32]>::from(Sha256::digest(file.text.as_bytes()));
    if let Some(pin) = pin {
        let digest = hex(&digest);
        if !pin.value.eq_ignore_ascii_case(&digest) {
            let message = format!("the manifest '{}' is not the one that was pinned", at.value);
            let help = format!("review it; if you trust it, write sha256 = \"{digest}\"");
            table.error(&pin.span, message, help);
            return None;
        }
    }
    let mut manifest = manifest(Context {
        file: &file,
        ..table.context
    })?;
    manifest.digest = digest;
    anchor(&mut manifest.command, &file);
    Some(manifest)
}

/// An app with a start command alone.
fn bare(
    name: &str,
    server: Option<&Server>,
    limits: &SpokeLimits,
    lattice: Option<&Lattice>,
) -> App {
    let mut app = App {
        name: name.to_owned(),
        description: None,
        described_by_user: true,
        manifest: None,
        client: false,
        command: server.map_or_else(Vec::new, |server| server.read.command.clone()),
        remote: server.and_then(|server| server.remote.clone()),
        found: None,
        server: server.map(|server| server.place.clone()),
        env: server.map_or_else(BTreeMap::new, |server| server.read.env.clone()),
        env_from: server.map_or_else(Vec::new, |server| server.read.env_from.clone()),
        filled_in: server.map_or_else(BTreeSet::new, |server| server.read.filled_in.clone()),
        mounts: Vec::new(),
        egress: Vec::new(),
        domains: Vec::new(),
        ask_domains: false,
        fresh: false,
        resources: false,
        prompts: false,
        filter: server.map_or_else(ToolFilter::default, |server| server.read.filter.clone()),
        limits: limits.clone(),
        provider: None,
        descriptions: lattice.map_or(Label::top(), ifc::Lattice::descriptions),
        offers: BTreeMap::new(),
        asks: None,
        rules: AppRules {
            tools: BTreeMap::new(),
            other_tools: None,
            // The answer goes to the user.
            answer: Label::top(),
            // A link leads out of the conversation: only trusted and public ones are active.
            addresses: Label::bottom(),
            has_conditions: false,
            claims: None,
        },
        examples: BTreeMap::new(),
        among: Vec::new(),
    };
    // A shorter time would end what starts more slowly in a sandbox.
    let limits = &mut app.limits;
    let seconds = |of: fn(&ForeignServer) -> u64| {
        Duration::from_secs(server.map_or(0, |server| of(&server.read)))
    };
    limits.start_timeout = limits.start_timeout.max(seconds(|it| it.start_timeout_s));
    limits.call_timeout = limits.call_timeout.max(seconds(|it| it.call_timeout_s));
    app.open_remote();
    app
}

/// `[app.NAME.other_tools]`. Some keys are about a tool by its name.
fn others(table: &Table<'_>, shapes: &Shapes) -> ToolDraft {
    for key in ["cedar", "policy_file", "examples"] {
        if table.has(key) {
            let message = format!("'{key}' is about one tool");
            let help = "write it under [app.NAME.tools.TOOL]; conditions for all listed tools stand under [app.NAME]";
            table.wrong(message, help);
        }
    }
    tool(table, shapes)
}

/// The label of what no rule labels: it may come from anyone and hold any secret, or the app's own where each app has one.
/// It has every taint of the lattice rather than ⊤, so that limits, clearances and questions can name the taints.
fn unlabelled(app: &str, lattice: Option<&Lattice>, by_app: bool) -> Label {
    let Some(lattice) = lattice else {
        return Label::top();
    };
    let own = by_app
        .then(|| lattice.label(&secret_of(app)).ok())
        .flatten();
    let secret = own.unwrap_or_else(|| lattice.whole(Dimension::Confidentiality));
    secret.join(&lattice.whole(Dimension::Integrity))
}

/// The limits of a tool: a text that the app gets unasked can come back in its results, whether the tool acts or reads.
fn given(draft: &ToolDraft, of_app: &[Source], app: &str) -> Label {
    let mut conditions = draft.conditions.iter().flatten().chain(of_app);
    // The limit that a condition raises it to is not known before it is compiled.
    if conditions.any(|condition| condition.text.contains("limit")) {
        return Label::top();
    }
    let rule = draft.clone().finish(app);
    let readers: Label = rule.audiences().map(|it| it.readers.all()).collect();
    let of_arguments = rule.arguments.into_values().flat_map(|own| {
        let accepts = own.accepts.into_iter().map(|accept| accept.limit);
        accepts.chain([own.label])
    });
    of_arguments.chain([rule.limit, readers]).collect()
}

fn check_name(table: &Table<'_>, name: &At<&str>) {
    if let Some(remedy) = app_name::remedy(name.value) {
        let message = format!("'{}' is no name for an app", name.value);
        table.error(&name.span, message, remedy);
    }
}

/// The tools of the manifest, with the user's keys over the manifest's.
fn tools(
    table: &Table<'_>,
    manifest: Option<Manifest>,
    others: Option<&ToolDraft>,
    shapes: &Shapes,
) -> BTreeMap<String, ToolDraft> {
    let mut drafts = manifest.map(|manifest| manifest.tools).unwrap_or_default();
    let named = table.named_tables("tools");
    warnings::draft(table, &named);
    for (name, table) in named {
        let own = tool(&table, shapes);
        // The user's keys go over the manifest's rule, or over the rule of unlisted tools. A case goes over its tool.
        let of_tool = selecting(&drafts, name.value).map(|(_, draft)| ToolDraft {
            select: None,
            examples: Vec::new(),
            ..draft.clone()
        });
        let base = drafts.get(name.value).cloned().or(of_tool);
        let base = base.or(others.cloned());
        if base.is_none() && own.effect.is_none() {
            let known = drafts.keys().map(String::as_str);
            let known = table.context.sink.known("it has", name.value, known);
            let message = format!("the manifest has no tool '{}'", name.value);
            let help = format!("{known}; to add a tool, give its effect");
            table.error(&name.span, message, help);
        }
        let draft = own.over(base.unwrap_or_default());
        drafts.insert(name.value.to_owned(), draft);
    }
    drafts
}

fn hex(digest: &[u8]) -> String {
    digest.iter().map(|byte| format!("{byte:02x}")).collect()
}
