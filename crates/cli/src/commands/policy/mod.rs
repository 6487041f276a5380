//! `sluice policy`: check, test, explain and propose rules.

mod explain;
mod label;
mod propose;
mod record;
mod report;
mod sequence;
mod suggest;

pub(crate) use self::explain::{decisions, recorded_text, verdict};
pub(crate) use self::label::pieces;
pub(crate) use self::record::without_secrets;
#[cfg(test)]
pub(crate) use self::sequence::run as run_tests;

use std::path::PathBuf;

use anyhow::{Context, Result};
use clap::{Args, Subcommand};
use config::{App, Config, Diagnostic, ExampleOutcome, Severity};
use ifc::{Label, Lattice};
use policy::ToolRule;
use serde_json::{Map, Value, json};

use crate::commands::token::without_token;
use crate::configuration::{self, Examples, Opened, Refusal};
use crate::exit::Exit;
use crate::json_lines::{print_json, show};
use crate::place::ConfigFile;
use crate::terminal::{Terminal, message, print, say};
use crate::words::{counted, set, short};

#[derive(Debug, Args)]
pub(crate) struct Policy {
    #[command(subcommand)]
    action: PolicyAction,
}

#[derive(Debug, Subcommand)]
enum PolicyAction {
    /// Show every mistake of a configuration, or else its rules for each tool.
    #[command(after_help = "Example:\n  sluice policy check --config sluice.toml")]
    Check(Which),
    /// Run the examples of the rules and the tests of sequences; the exit code is 1 if one fails.
    #[command(
        after_help = "Example:\n  sluice policy test --json\n  sluice policy test tests/mail.toml\n  \
                            sluice policy test --from latest > sluice.test.toml"
    )]
    Test {
        /// Files of tests [default: NAME.test.toml beside a configuration NAME.toml, if there is one].
        #[arg(value_name = "FILE")]
        files: Vec<PathBuf>,
        /// Print the calls of a recorded session as a test that passes now: its name, `latest`, or a file.
        #[arg(long, value_name = "SESSION", conflicts_with = "files")]
        from: Option<String>,
        /// With `--from`: leave out the arguments that may reveal a secret.
        #[arg(long, requires = "from")]
        without_secrets: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Show the labels that the rules give a tool's result, read from standard input; the exit code is 1 if
    /// the rules do not understand all of it.
    #[command(
        after_help = "Example:\n  sluice policy label --tool mail.read_email < sample.json\n  \
                            sluice policy label --tool notes.read --arguments '{\"path\":\"a.md\"}' --json < sample.json"
    )]
    Label {
        /// The app and its tool.
        #[arg(long, value_name = "APP.TOOL")]
        tool: String,
        /// The arguments of the call, for rules that depend on them [default: {}].
        #[arg(long, value_name = "JSON")]
        arguments: Option<String>,
        /// The text is an error of the tool.
        #[arg(long)]
        error: bool,
        #[command(flatten)]
        which: Which,
    },
    /// Propose rules for the tools that standard input lists as JSON, from the names in their schemas;
    /// review every line before you use it.
    #[command(
        after_help = "Example:\n  sluice policy propose --app agent < tools.json > sluice.toml\n  \
                            sluice app tools files --json | sluice policy propose --app files"
    )]
    Propose {
        /// The app whose tools these are.
        #[arg(long, value_name = "APP", default_value = "agent")]
        app: String,
    },
    /// Show which rule decided each call of a recorded session, what this configuration says now, and what
    /// would change it.
    #[command(after_help = "Example:\n  sluice policy explain latest --call 2\n  \
                            sluice policy explain latest --config stricter.toml")]
    Explain {
        /// A session's name, `latest`, or a file.
        #[arg(default_value = "latest")]
        trace: String,
        /// Show only this decision, counted from 1 [default: all].
        #[arg(long, value_name = "N")]
        call: Option<usize>,
        #[command(flatten)]
        which: Which,
    },
    /// Suggest the narrowest rules for what you allowed in a recorded session, and count over past sessions how many
    /// questions each removes and what else it allows.
    #[command(
        after_help = "Example:\n  sluice policy suggest latest --replay yesterday.jsonl\n  \
                            sluice policy suggest observed.jsonl --config draft.toml --allow 3"
    )]
    Suggest {
        /// A session's name, `latest`, or a file.
        #[arg(default_value = "latest")]
        trace: String,
        /// More sessions to count over; may be given several times.
        #[arg(long, value_name = "TRACE")]
        replay: Vec<String>,
        /// Of a session with `--observe`, in which you have allowed nothing: the calls that you would allow, by their numbers
        /// in `sluice policy explain`, or `all` (repeatable).
        #[arg(long, value_name = "N|all")]
        allow: Vec<String>,
        #[command(flatten)]
        which: Which,
    },
    /// Count questions per task, answers, repeated causes and the time to answer over recorded sessions. Which calls change
    /// something is told by the names of their tools where no question says it.
    #[command(
        after_help = "Example:\n  sluice policy report latest --json\n  sluice policy report --observed latest"
    )]
    Report {
        /// Sessions' names, `latest`, or files [default: all sessions].
        traces: Vec<String>,
        /// Report what sessions with `--observe` have done, as at their end.
        #[arg(long)]
        observed: bool,
        /// Print JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON Schema of `sluice.toml`, with which editors complete and check it.
    #[command(after_help = "Example:\n  sluice policy schema > sluice.schema.json")]
    Schema,
}

#[derive(Debug, Args)]
struct Which {
    #[command(flatten)]
    file: ConfigFile,
    /// Print JSON, one object per line.
    #[arg(long)]
    json: bool,
}

/// Checks, tests or explains.
pub(crate) fn policy(args: &Policy) -> Result<Exit> {
    match &args.action {
        PolicyAction::Propose { app } => propose::propose(app),
        PolicyAction::Schema => {
            print(&format!("{:#}", config::schema()))?;
            Ok(Exit::Done)
        }
        PolicyAction::Report {
            traces,
            observed,
            json,
        } => report::report(traces, *observed, *json),
        PolicyAction::Suggest {
            trace,
            replay,
            allow,
            which,
        } => with(which, true, |loaded| {
            suggest::suggest(&loaded.config, trace, replay, allow, which.json)
        }),
        PolicyAction::Check(which) => with(which, true, |loaded| check(loaded, which.json)),
        PolicyAction::Test {
            files,
            from,
            without_secrets,
            which,
        } => with(which, true, |loaded| match from {
            Some(session) => record::record(&loaded.config, session, *without_secrets),
            None => test(loaded, files, which.json),
        }),
        // The sample comes from standard input, where no question can be answered then.
        PolicyAction::Label {
            tool,
            arguments,
            error,
            which,
        } => with(which, false, |loaded| {
            label::label(
                &loaded.config,
                tool,
                arguments.as_deref(),
                *error,
                which.json,
            )
        }),
        PolicyAction::Explain { trace, call, which } => with(which, true, |loaded| {
            explain::explain(&loaded.config, &loaded.file, trace, *call, which.json)
        }),
    }
}

/// Acts on a configuration, or shows its mistakes. With `asks` the user may be asked whether to trust it.
fn with(which: &Which, asks: bool, act: impl FnOnce(&Loaded) -> Result<Exit>) -> Result<Exit> {
    let found = configuration::find(which.file.config.as_deref())?;
    let found = found.context("there is no sluice.toml; name a configuration with --config")?;
    let attended = asks && Terminal::attended() && !which.json;
    match found.open(Examples::MayFail, attended) {
        Ok(Opened { config, examples }) => act(&Loaded {
            file: found.shown,
            config,
            examples,
        }),
        Err(Refusal::Mistakes(mistakes)) => {
            match which.json {
                true => (mistakes.iter()).try_for_each(|it| print_json(&diagnostic_json(it)))?,
                false => say(&format!("{mistakes}\n")),
            }
            Ok(Exit::Failed)
        }
        Err(refusal) => Err(refusal.into()),
    }
}

/// A configuration without mistakes, though its examples may fail.
struct Loaded {
    file: PathBuf,
    config: Config,
    examples: Vec<ExampleOutcome>,
}

/// A mistake or a warning, as a program reads it.
fn diagnostic_json(diagnostic: &Diagnostic) -> Value {
    json!({
        "kind": match diagnostic.severity {
            Severity::Error => "mistake",
            Severity::Warning => "warning",
        },
        "file": diagnostic.file,
        "line": diagnostic.line,
        "column": diagnostic.column,
        "message": diagnostic.message,
        "remedy": diagnostic.help,
    })
}

fn check(loaded: &Loaded, as_json: bool) -> Result<Exit> {
    let Loaded {
        file,
        config,
        examples,
    } = loaded;
    for app in config.apps.values() {
        show_app(&config.lattice, app, as_json)?;
    }
    for note in &config.notes {
        message(&format!("note: {note}"));
    }
    let warnings = without_token(config).unwrap_or_else(|error| {
        message(&format!(
            "note: the tokens of approvers are not checked: {error:#}"
        ));
        Vec::new()
    });
    let warnings: Vec<&Diagnostic> = config.warnings.iter().chain(&warnings).collect();
    for warning in &warnings {
        match as_json {
            true => print_json(&diagnostic_json(warning))?,
            false => say(&format!("{warning}\n")),
        }
    }
    let failed = show_examples(config, examples.iter().filter(|one| !one.passed()), as_json)?;
    let summary = json!({
        "kind": "summary",
        "file": file,
        "apps": config.apps.len(),
        "tools": config.apps.values().map(|app| app.rules.tools.len()).sum::<usize>(),
        "examples": examples.len(),
        "failed": failed,
        "warnings": warnings.len(),
    });
    let apps = counted(config.apps.len(), "app", "apps");
    let text = format!(
        "{}: {apps}; {}",
        file.display(),
        passed(examples.len(), failed, ["example", "examples"])
    );
    show(as_json, &summary, &text)?;
    Ok(exit(failed))
}

fn test(loaded: &Loaded, files: &[PathBuf], as_json: bool) -> Result<Exit> {
    let examples = &loaded.examples;
    let failed = show_examples(&loaded.config, examples.iter(), as_json)?;
    let beside = loaded.file.with_extension("test.toml");
    let beside = (files.is_empty() && beside.exists()).then_some(beside);
    let (mut tests, mut wrong) = (0, 0);
    for file in files.iter().chain(&beside) {
        let text = std::fs::read_to_string(file);
        let text = text.with_context(|| format!("cannot read {}", file.display()))?;
        let outcomes = sequence::run(&loaded.config, &text);
        for outcome in
            outcomes.with_context(|| format!("cannot read the tests of {}", file.display()))?
        {
            tests += 1;
            wrong += usize::from(!outcome.differences.is_empty());
            let (value, text) = outcome.shown(file);
            show(as_json, &value, &text)?;
        }
    }
    let summary = json!({
        "kind": "summary", "examples": examples.len(), "tests": tests, "failed": failed + wrong,
    });
    let mut text = passed(examples.len(), failed, ["example", "examples"]);
    if tests > 0 {
        text = format!("{text}; {}", passed(tests, wrong, ["test", "tests"]));
    }
    show(as_json, &summary, &text)?;
    Ok(exit(failed + wrong))
}

/// Shows these examples. Returns how many of them failed.
fn show_examples<'a>(
    config: &Config,
    examples: impl Iterator<Item = &'a ExampleOutcome>,
    as_json: bool,
) -> Result<usize> {
    let mut failed = 0;
    for outcome in examples {
        failed += usize::from(!outcome.passed());
        let line = example_json(&config.lattice, outcome);
        show(as_json, &line, &example_text(&config.lattice, outcome))?;
    }
    Ok(failed)
}

fn exit(failed: usize) -> Exit {
    match failed {
        0 => Exit::Done,
        _ => Exit::Failed,
    }
}

fn passed(count: usize, failed: usize, [one, several]: [&str; 2]) -> String {
    let all = counted(count, one, several);
    match (count, failed) {
        (0, _) => format!("no {several}"),
        (_, 0) => format!("{all}, all passed"),
        _ => format!("{all}, {failed} FAILED"),
    }
}

/// One app: a line for itself, and one for each tool.
fn show_app(lattice: &Lattice, app: &App, as_json: bool) -> Result<()> {
    let names = |label: &Label| lattice.describe(label);
    let line = json!({
        "kind": "app",
        "app": app.name,
        "client": app.client,
        "answer": names(&app.rules.answer),
        "addresses": names(&app.rules.addresses),
        "conditions": app.rules.has_conditions,
        "other_tools": app.rules.other_tools.is_some(),
    });
    let where_it_runs = match app.client {
        true => "in the agent behind the proxy",
        false => "in a spoke",
    };
    let conditions = match app.rules.has_conditions {
        true => ", with conditions for all tools",
        false => "",
    };
    let answer = set(&names(&app.rules.answer));
    // An address from trusted text alone is shown as it is anyway.
    let links = match app.rules.addresses.is_bottom() {
        true => String::new(),
        false => format!(", with links from {}", set(&names(&app.rules.addresses))),
    };
    let text = format!(
        "{}  {where_it_runs}; answers may show {answer}{links}{conditions}",
        app.name
    );
    show(as_json, &line, &text)?;
    let tools = app
        .rules
        .tools
        .iter()
        .map(|(name, rule)| (name.as_str(), rule));
    let others = app.rules.other_tools.iter();
    let tools: Vec<_> = tools
        .chain(others.map(|rule| ("(other tools)", rule)))
        .collect();
    let width = tools.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    for (name, rule) in tools {
        show_tool(lattice, app, name, rule, width, as_json)?;
    }
    if !as_json {
        print("")?;
    }
    Ok(())
}

fn show_tool(
    lattice: &Lattice,
    app: &App,
    name: &str,
    rule: &ToolRule,
    width: usize,
    as_json: bool,
) -> Result<()> {
    let names = |label: &Label| lattice.describe(label);
    let examples = app.examples.get(name).map_or(0, Vec::len);
    let arguments = rule.arguments.iter();
    let arguments: Map<String, Value> = arguments
        .map(|(argument, limit)| (argument.to_string(), json!(names(&limit.label))))
        .collect();
    let line = json!({
        "kind": "tool",
        "app": app.name,
        "tool": name,
        "effect": rule.effect.name(),
        "limit": names(&rule.limit),
        "arguments": arguments,
        "result": names(rule.result.worst()),
        "conditions": rule.conditions.is_some(),
        "audience": rule.audience.as_ref().map(|it| &it.of),
        "carries": names(&rule.carries),
        "after": rule.after.as_ref().map(|it| json!({"tool": it.tool, "same": it.same})),
        "once": rule.once.as_deref(),
        "approvers": rule.approvers,
        "examples": examples,
        "place": rule.place.as_ref().map(ToString::to_string),
    });
    let mut text = format!(
        "  {name:<width$}  {:<12}  limit {}",
        rule.effect.name(),
        set(&names(&rule.limit))
    );
    for (argument, limit) in &rule.arguments {
        text += &format!("; {argument} {}", set(&names(&limit.label)));
        if let Some(audience) = &limit.audience {
            text += &format!(" and what {} may read", audience.of.join(", "));
        }
    }
    if let Some(audience) = &rule.audience {
        text += &format!("; and what {} may read", audience.of.join(", "));
    }
    if !rule.carries.is_bottom() {
        text += &format!("; carries {}", set(&names(&rule.carries)));
    }
    if let Some(after) = &rule.after {
        let same = match after.same.as_slice() {
            [] => String::new(),
            same => format!(" with the same {}", same.join(", ")),
        };
        text += &format!("; after {}{same}", after.tool);
    }
    if let Some(once) = &rule.once {
        text += &format!("; once for each {}", once.join(", "));
    }
    if rule.conditions.is_some() {
        text += "; conditions";
    }
    for approver in rule.approvers.iter().flat_map(|it| it.iter()) {
        text += &format!("; approver {approver}");
    }
    if examples > 0 {
        text += &format!("; {}", counted(examples, "example", "examples"));
    }
    show(as_json, &line, &text)?;
    Ok(())
}

fn example_json(lattice: &Lattice, outcome: &ExampleOutcome) -> Value {
    let (example, found) = (&outcome.example, &outcome.found);
    let labels = example.labels.iter();
    let labels: Map<_, _> = labels
        .map(|(path, label)| (path.to_string(), json!(lattice.describe(label))))
        .collect();
    json!({
        "kind": "example",
        "passed": outcome.passed(),
        "app": outcome.app,
        "tool": outcome.tool,
        "place": example.place.to_string(),
        "arguments": example.arguments,
        "label": lattice.describe(&example.label),
        "labels": labels,
        "expected": example.expect.name(),
        "found": found.verdict.name(),
        "rule": found.rule,
        "rule_place": found.place.as_ref().map(ToString::to_string),
        "reason": found.reason,
        "limit": lattice.describe(&found.limit),
        "excess": lattice.describe(&found.excess),
    })
}

fn example_text(lattice: &Lattice, outcome: &ExampleOutcome) -> String {
    let (example, found) = (&outcome.example, &outcome.found);
    let mark = if outcome.passed() { "ok    " } else { "FAILED" };
    let labels = example.labels.iter();
    let labels: String = labels
        .map(|(name, label)| format!(", {name} {}", set(&lattice.describe(label))))
        .collect();
    let mut text = format!(
        "{mark} {}.{}  {}  {} under {}{labels}: {} by {}",
        outcome.app,
        outcome.tool,
        short(&example.place),
        example.arguments,
        set(&lattice.describe(&example.label)),
        found.verdict.name(),
        found.rule
    );
    if outcome.passed() {
        return text;
    }
    text += &format!("\n       expected {}", example.expect.name());
    if let Some(place) = &found.place {
        text += &format!("; that rule stands at {}", short(place));
    }
    if let Some(reason) = &found.reason {
        text += &format!("; {reason}");
    }
    if !found.excess.is_bottom() {
        let (limit, excess) = (explain::limit(found), &found.excess);
        text += &format!(
            "; it allows {}, and {} is beyond that",
            set(&lattice.describe(limit)),
            set(&lattice.describe(excess))
        );
    }
    text
}
