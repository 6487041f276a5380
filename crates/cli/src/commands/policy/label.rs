//! `sluice policy label`: the labels that the rules lay over a real result.

use std::io::{IsTerminal, Read};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::Config;
use hub::trace::{escape, escape_lines};
use ifc::{Arguments, Call, Label, Labeled, Lattice, Policy};
use policy::Unnamed;
use serde_json::json;

use super::counted::{Counted, counted};
use super::shown::set;
use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::terminal::{print_escaped, say};

/// How long the rules may take over one result. They are linear in it; a hostile one is cut off here.
const PATIENCE: Duration = Duration::from_secs(20);

/// Colours of labels, by their order of appearance; they begin again where there are more.
const COLOURS: [&str; 6] = ["31", "34", "35", "33", "36", "32"];

/// What stands around a piece where there are no colours.
const MARKS: [char; 2] = ['⟨', '⟩'];

/// A result with its labels, and where the rules do not understand it.
struct Labelled {
    content: Labeled,
    unnamed: Vec<Unnamed>,
    /// The rules with conditions on the call's arguments, and whether they count.
    conditions: Vec<Counted>,
}

/// Shows the labels on a result that is read from standard input. Exit code 1 if the rules do not understand all of
/// it.
pub(super) fn label(
    config: &Config,
    tool: &str,
    arguments: Option<&str>,
    as_json: bool,
) -> Result<Exit> {
    let (app_name, tool_name) = tool
        .split_once('.')
        .context("--tool is APP.TOOL, like mail.read_email")?;
    let app = config.apps.get(app_name).with_context(|| {
        let known: Vec<&str> = config.apps.keys().map(String::as_str).collect();
        format!(
            "there is no app '{app_name}' in the configuration; it has {}",
            known.join(", ")
        )
    })?;
    if app.rules.tool(tool_name).is_none() {
        bail!("the app '{app_name}' has no rule for the tool '{tool_name}'");
    }
    // At ⊥, and the call below as well: the labels that are shown are those of the rules for results alone.
    let arguments = Arguments::parse(arguments.unwrap_or("{}"), &Label::bottom())
        .map_err(|error| anyhow::anyhow!("--arguments: {error}"))?;
    let text = sample(app.limits.result_bytes)?;
    let call = Call {
        app: app_name.to_owned(),
        tool: tool_name.to_owned(),
        arguments,
        label: Label::bottom(),
    };
    let labelled = apply(config, call, text)?;
    match as_json {
        true => show_json(&config.lattice, &labelled)?,
        false => show(&config.lattice, &labelled)?,
    }
    Ok(match labelled.unnamed.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// Standard input, as far as a result may be long.
fn sample(limit: usize) -> Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        say("paste a result of the tool, then press Ctrl-D\n");
    }
    let mut bytes = Vec::new();
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    stdin.lock().take(most).read_to_end(&mut bytes)?;
    // One byte more than the limit was read, which tells too long from just fitting.
    if bytes.len() > limit {
        bail!(
            "the result is longer than {limit} bytes, the app's result_bytes: a call with it fails"
        );
    }
    String::from_utf8(bytes).context("the result is no UTF-8")
}

/// The labels, found in a thread that nobody waits for longer than [`PATIENCE`].
fn apply(config: &Config, call: Call, text: String) -> Result<Labelled> {
    let policy = config.policy();
    // A thread cannot be stopped from outside. One that is too slow is left behind, and ends with the program.
    let (sender, receiver) = mpsc::channel();
    let rules = config
        .apps
        .get(&call.app)
        .and_then(|app| app.rules.tool(&call.tool))
        .map(|rule| rule.result.clone());
    thread::spawn(move || {
        let rules = rules.as_ref();
        let unnamed = rules.map_or_else(Vec::new, |it| it.unnamed(&call.arguments, &text));
        let conditions = rules.map_or_else(Vec::new, |it| counted(it, &call.arguments));
        let content = policy.label_result(&call, text, false);
        // Nobody may be waiting any more.
        let _ = sender.send(Labelled {
            content,
            unnamed,
            conditions,
        });
    });
    let found = receiver.recv_timeout(PATIENCE);
    found.with_context(|| format!("the rules took longer than {} s", PATIENCE.as_secs()))
}

/// The text in pieces of one label each.
fn pieces(content: &Labeled) -> Vec<(std::ops::Range<usize>, Label)> {
    let mut pieces = Vec::new();
    let mut covered = 0;
    for (span, label) in content.regions() {
        // Between two regions the text is trusted and public.
        if covered < span.start {
            pieces.push((covered..span.start, Label::bottom()));
        }
        covered = span.end;
        pieces.push((span, label.clone()));
    }
    if covered < content.len() {
        pieces.push((covered..content.len(), Label::bottom()));
    }
    pieces
}

fn show_json(lattice: &Lattice, labelled: &Labelled) -> Result<()> {
    let text = labelled.content.reveal_tcb();
    for (span, label) in pieces(&labelled.content) {
        print_json(&json!({
            "kind": "region",
            "start": span.start,
            "end": span.end,
            "label": lattice.describe(&label),
            "text": text.get(span).unwrap_or_default(),
        }))?;
    }
    for place in &labelled.unnamed {
        print_json(&json!({
            "kind": "unnamed",
            "start": place.offset,
            "path": place.path,
            "reason": place.reason,
        }))?;
    }
    for condition in &labelled.conditions {
        print_json(&condition.as_json())?;
    }
    print_json(&json!({
        "kind": "summary",
        "bytes": text.len(),
        "label": lattice.describe(&labelled.content.label()),
        "unnamed": labelled.unnamed.len(),
    }))?;
    Ok(())
}

/// The text with a colour for each label, or, where there are no colours, with a number before and after each
/// piece; then what they stand for, and what the rules do not understand.
fn show(lattice: &Lattice, labelled: &Labelled) -> Result<()> {
    let coloured = std::io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let text = labelled.content.reveal_tcb();
    let mut legend: Vec<Label> = Vec::new();
    let mut out = String::new();
    for (span, label) in pieces(&labelled.content) {
        let mut piece = escape_lines(text.get(span).unwrap_or_default());
        if !coloured {
            // The marks are ours: with one of them a sample could show an end of a region where there is none.
            piece = piece
                .replace(MARKS[0], "\\u{27e8}")
                .replace(MARKS[1], "\\u{27e9}");
        }
        if label.is_bottom() {
            out.push_str(&piece);
            continue;
        }
        let number = match legend.iter().position(|known| *known == label) {
            Some(at) => at,
            None => {
                legend.push(label);
                legend.len() - 1
            }
        };
        out.push_str(&marked(number, &piece, coloured));
    }
    out.push('\n');
    for (number, label) in legend.iter().enumerate() {
        let names = escape(&set(&lattice.describe(label)));
        out.push_str(&format!(
            "\n{} {names}",
            marked(number, &format!("{}", number + 1), coloured)
        ));
    }
    out.push_str("\nunmarked: trusted and public\n");
    for condition in &labelled.conditions {
        out.push_str(&format!("\n{}", condition.as_text()));
    }
    for place in &labelled.unnamed {
        let (line, column) = position(text, place.offset);
        out.push_str(&format!(
            "\nnot understood: {} (line {line}, column {column}): {}",
            escape(&place.path),
            escape(&place.reason)
        ));
    }
    if !labelled.unnamed.is_empty() {
        out.push_str(
            "\nwhat is not understood has the most restrictive label of the tool's results",
        );
    }
    print_escaped(&out)?;
    Ok(())
}

fn marked(number: usize, piece: &str, coloured: bool) -> String {
    match COLOURS.get(number % COLOURS.len()).filter(|_| coloured) {
        Some(colour) => format!("\u{1b}[{colour}m{piece}\u{1b}[0m"),
        None => format!("{}{}:{piece}{}", MARKS[0], number + 1, MARKS[1]),
    }
}

/// Line and column of a byte, counted from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let line = before.matches('\n').count() + 1;
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count()
        + 1;
    (line, column)
}
