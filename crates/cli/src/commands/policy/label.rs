//! `sluice policy label`: the labels that the rules give a real result.

use std::io::{IsTerminal, Read};

use anyhow::{Context, Result, bail};
use config::{Config, did_you_mean};
use hub::trace::{escape, escape_lines};
use ifc::{Arguments, Call, Label, Labeled, Lattice, Policy};
use policy::{LabelRule, Met, Unnamed};
use serde_json::{Value, json};

use crate::exit::Exit;
use crate::json_lines::print_json;
use crate::terminal::{message, print_escaped, say};
use crate::words::{set, short};

/// Around a piece with a label.
const MARKS: [char; 2] = ['⟨', '⟩'];

/// A result with its labels.
struct Labelled {
    content: Labeled,
    /// Where the rules do not understand it.
    unnamed: Vec<Unnamed>,
    /// The rules with conditions on the call's arguments, in text and as JSON.
    conditions: Vec<(String, Value)>,
}

/// Shows the labels on a result that is read from standard input. Exit code 1 if the rules do not understand all of
/// it.
pub(super) fn label(
    config: &Config,
    tool: &str,
    arguments: Option<&str>,
    is_error: bool,
    as_json: bool,
) -> Result<Exit> {
    let (app_name, tool_name) = tool
        .split_once('.')
        .context("--tool is APP.TOOL, like mail.read_email")?;
    let app = config.apps.get(app_name).with_context(|| {
        let known: Vec<&str> = config.apps.keys().map(String::as_str).collect();
        let known = known.join(", ");
        format!("there is no app '{app_name}' in the configuration; it has {known}")
    })?;
    let Some(rule) = app.rules.tool(tool_name) else {
        bail!("the app '{app_name}' has no rule for the tool '{tool_name}'");
    };
    if !app.rules.tools.contains_key(tool_name) {
        let meant = did_you_mean(tool_name, app.rules.tools.keys().map(String::as_str));
        message(&format!(
            "note: '{app_name}' has no rule for '{tool_name}'; {meant}these are the labels of its other tools"
        ));
    }
    // At ⊥, as the call below: only the rules for results give labels here.
    let arguments = Arguments::parse(arguments.unwrap_or("{}"), &Label::bottom())
        .map_err(|error| anyhow::anyhow!("--arguments: {error}"))?;
    let text = sample(app.limits.result_bytes)?;
    let (mut unnamed, mut conditions) = (Vec::new(), Vec::new());
    // The rules are about results. An error is one of `errors`, or has the most restrictive label.
    if !is_error {
        unnamed = rule.result.unnamed(&arguments, &text);
        let all = rule.result.conditions(&arguments);
        conditions.extend(all.map(|(rule, met)| condition(rule, met)));
    }
    let call = Call {
        app: app_name.to_owned(),
        tool: tool_name.to_owned(),
        arguments,
        label: Label::bottom(),
    };
    let labelled = Labelled {
        content: config.policy().label_result(&call, text, is_error),
        unnamed,
        conditions,
    };
    match as_json {
        true => show_json(&config.lattice, &labelled)?,
        false => show(&config.lattice, &labelled)?,
    }
    Ok(match labelled.unnamed.is_empty() {
        true => Exit::Done,
        false => Exit::Failed,
    })
}

/// A rule with conditions, and whether a call meets them.
fn condition(rule: &LabelRule, met: Met) -> (String, Value) {
    let place = rule.place.as_ref().map(short);
    let when: Vec<String> = rule.when.iter().map(ToString::to_string).collect();
    let (path, when) = (rule.path.as_str(), when.join(" and "));
    let (counts, what) = match met {
        Met::Yes => ("yes", "applies"),
        Met::No => ("no", "does not apply"),
        Met::Unknown => (
            "unknown",
            "may apply, so all that it selects has the most restrictive label",
        ),
    };
    let value = json!({
        "kind": "condition", "rule": path, "place": place, "when": when, "counts": counts,
    });
    let place = place.map(|place| format!(" ({place})"));
    let place = place.unwrap_or_default();
    let text = format!("the rule for {path}{place} {what}: when {when}");
    (text, value)
}

/// Standard input, up to the length that a result may have.
fn sample(limit: usize) -> Result<String> {
    let stdin = std::io::stdin();
    if stdin.is_terminal() {
        say("paste a result of the tool, then press Ctrl-D\n");
    }
    let mut bytes = Vec::new();
    // One byte more tells a result that is too long from one that just fits.
    let most = u64::try_from(limit).unwrap_or(u64::MAX).saturating_add(1);
    stdin.lock().take(most).read_to_end(&mut bytes)?;
    if bytes.len() > limit {
        bail!(
            "the result is longer than {limit} bytes, the app's result_bytes: a call with it fails"
        );
    }
    String::from_utf8(bytes).context("the result is not UTF-8")
}

/// The text in pieces of one label each.
pub(crate) fn pieces(content: &Labeled) -> Vec<(&str, std::ops::Range<usize>, Label)> {
    let text = content.reveal_tcb();
    let mut pieces = Vec::new();
    let mut covered = 0;
    let mut add = |span: std::ops::Range<usize>, label| {
        if !span.is_empty() {
            pieces.push((text.get(span.clone()).unwrap_or_default(), span, label));
        }
    };
    for (span, label) in content.regions() {
        // Between two regions the text is trusted and public.
        add(covered..span.start, Label::bottom());
        covered = span.end;
        add(span, label.clone());
    }
    add(covered..text.len(), Label::bottom());
    pieces
}

fn show_json(lattice: &Lattice, labelled: &Labelled) -> Result<()> {
    for (text, span, label) in pieces(&labelled.content) {
        print_json(&json!({
            "kind": "region",
            "start": span.start,
            "end": span.end,
            "label": lattice.describe(&label),
            "text": text,
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
    for (_, condition) in &labelled.conditions {
        print_json(condition)?;
    }
    print_json(&json!({
        "kind": "summary",
        "bytes": labelled.content.len(),
        "label": lattice.describe(&labelled.content.label()),
        "unnamed": labelled.unnamed.len(),
    }))?;
    Ok(())
}

/// The text with marks around each piece that has a label, and the number of the label in it; then the labels, the rules
/// with conditions, and the places that the rules do not understand.
fn show(lattice: &Lattice, labelled: &Labelled) -> Result<()> {
    let mut legend: Vec<Label> = Vec::new();
    let mut out = String::new();
    for (text, _, label) in pieces(&labelled.content) {
        // Marks in the text itself could show the end of a region where there is none.
        let piece = escape_lines(text).replace(MARKS[0], "\\u{27e8}");
        let piece = piece.replace(MARKS[1], "\\u{27e9}");
        if label.is_bottom() {
            out.push_str(&piece);
            continue;
        }
        let known = legend.iter().position(|known| *known == label);
        let number = known.unwrap_or(legend.len());
        if known.is_none() {
            legend.push(label);
        }
        out.push_str(&marked(number, &piece));
    }
    out.push('\n');
    for (number, label) in legend.iter().enumerate() {
        let names = escape(&set(&lattice.describe(label)));
        let mark = marked(number, &(number + 1).to_string());
        out.push_str(&format!("\n{mark} {names}"));
    }
    out.push_str("\nunmarked: trusted and public\n");
    for (text, _) in &labelled.conditions {
        out.push_str(&format!("\n{}", escape(text)));
    }
    for place in &labelled.unnamed {
        let (line, column) = position(labelled.content.reveal_tcb(), place.offset);
        let (path, reason) = (escape(&place.path), escape(&place.reason));
        out.push_str(&format!(
            "\nnot understood: {path} (line {line}, column {column}): {reason}"
        ));
    }
    if !labelled.unnamed.is_empty() {
        out.push_str(
            "\ntext that the rules do not understand has the most restrictive label of the tool's results",
        );
    }
    print_escaped(&out)?;
    Ok(())
}

fn marked(number: usize, piece: &str) -> String {
    format!("{}{}:{piece}{}", MARKS[0], number + 1, MARKS[1])
}

/// Line and column of a byte, counted from 1.
fn position(text: &str, offset: usize) -> (usize, usize) {
    let before = text.get(..offset).unwrap_or(text);
    let column = before
        .rsplit('\n')
        .next()
        .unwrap_or_default()
        .chars()
        .count();
    (before.matches('\n').count() + 1, column + 1)
}
