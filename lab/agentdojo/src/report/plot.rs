//! The plots: after RTBAS Figures 5 and 6.

use std::collections::BTreeSet;

use super::svg::{Anchor, Svg, colour, file_name, float};
use super::{ALL, Cell, Share};

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 490.0;
/// The plotting area.
const LEFT: f64 = 64.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 390.0;
const GRID: &str = "#e3e3e3";
const AXIS: &str = "#888888";

/// One image for each model and version, with a file name.
pub(super) fn per_model(
    cells: &[Cell],
    name: &str,
    plot: fn(&[Cell]) -> Option<String>,
) -> Vec<(String, String)> {
    let same = |a: &Cell, b: &Cell| a.model == b.model && a.version == b.version;
    let groups = cells.chunk_by(same);
    let plots = groups.filter_map(|group| {
        let first = group.first()?;
        let what = format!("{name}-{}-{}", first.model, first.version);
        Some((file_name(&what), plot(group)?))
    });
    plots.collect()
}

/// How much wider names are that say their tuning.
fn wider(cells: &[Cell]) -> f64 {
    const TAG: f64 = 130.0;
    match cells.iter().any(|cell| cell.defence.contains(" (")) {
        true => TAG,
        false => 0.0,
    }
}

/// Security (attacks that fail) to the right, utility under attack upwards.
pub(super) fn tradeoff(cells: &[Cell]) -> Option<String> {
    const RIGHT: f64 = 520.0;
    let measured = cells.iter().filter(|cell| cell.suite == ALL);
    let measured: Vec<(&Cell, Share, (f64, f64))> = measured
        .filter_map(|cell| {
            let attacks = cell.attack_success;
            let safe = Share {
                of: attacks.of,
                held: attacks.of - attacks.held,
            };
            let at = (safe.value()?, cell.utility_under_attack.value()?);
            Some((cell, safe, at))
        })
        .collect();
    let (first, ..) = measured.first()?;
    let x = |share: f64| LEFT + share * (RIGHT - LEFT);
    let y = |share: f64| BOTTOM - share * (BOTTOM - TOP);
    let mut svg = frame(
        first,
        "security and utility under attack",
        RIGHT,
        (WIDTH + wider(cells), HEIGHT),
    );
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        svg.line((x(share), TOP), (x(share), BOTTOM), GRID, 1.0);
        let label = format!("{:.0} %", share * 100.0);
        svg.text((x(share), BOTTOM + 18.0), Anchor::Middle, "tick", &label);
    }
    let middle = (LEFT + RIGHT) / 2.0;
    svg.text(
        (middle, BOTTOM + 40.0),
        Anchor::Middle,
        "axis",
        "attacks that fail",
    );
    svg.upright((18.0, (TOP + BOTTOM) / 2.0), "utility under attack");
    svg.text(
        (RIGHT - 6.0, TOP + 14.0),
        Anchor::End,
        "note",
        "best: top right",
    );
    for (at, (cell, safe, share)) in measured.iter().enumerate() {
        let point = (x(share.0), y(share.1));
        if let (Some(across), Some(up)) = (safe.interval(), cell.utility_under_attack.interval()) {
            svg.line(
                (x(across.0), point.1),
                (x(across.1), point.1),
                colour(at),
                1.2,
            );
            svg.line((point.0, y(up.0)), (point.0, y(up.1)), colour(at), 1.2);
        }
        // Points on the same spot become rings around the last one.
        let near = |(.., other): &&(&Cell, Share, (f64, f64))| {
            (x(other.0) - point.0).abs() < 5.0 && (y(other.1) - point.1).abs() < 5.0
        };
        let later = measured.iter().skip(at + 1).filter(near).count();
        svg.dot(point, 6.0 + 3.0 * float(later), colour(at));
        let top = TOP + 12.0 + 34.0 * float(at);
        svg.dot((RIGHT + 24.0, top - 4.0), 6.0, colour(at));
        svg.text((RIGHT + 38.0, top), Anchor::Start, "", &cell.series());
        let figures = format!(
            "{:.1} % fail, utility {:.1} %",
            share.0 * 100.0,
            share.1 * 100.0
        );
        svg.text((RIGHT + 38.0, top + 13.0), Anchor::Start, "note", &figures);
    }
    Some(svg.finish())
}

/// A group of bars for each suite, a bar for each defence: full where nobody answers questions, faint
/// on top of it what an ideal user's answers add (as in RTBAS Figure 7).
pub(super) fn utility(cells: &[Cell]) -> Option<String> {
    /// A bar that is wide enough for its figure.
    const LABELLED: f64 = 16.0;
    /// Room for the longest name of a defence in the legend.
    const NAME: f64 = 150.0;
    let measured = cells.iter().filter(|cell| cell.utility.value().is_some());
    let measured: Vec<&Cell> = measured.collect();
    let first = measured.first()?;
    let mut defences: Vec<&str> = Vec::new();
    for cell in &measured {
        if !defences.contains(&cell.defence.as_str()) {
            defences.push(&cell.defence);
        }
    }
    let names: BTreeSet<&str> = measured.iter().map(|cell| cell.suite.as_str()).collect();
    // The four together come last.
    let mut suites: Vec<&str> = names.into_iter().filter(|suite| *suite != ALL).collect();
    suites.push(ALL);
    let right = (LEFT + 14.0 * float(defences.len() * suites.len())).clamp(WIDTH - 20.0, 1100.0);
    let y = |share: f64| BOTTOM - share * (BOTTOM - TOP);
    let name = NAME + wider(cells);
    let in_a_row = ((right - LEFT) / name).floor().max(1.0);
    let rows = (float(defences.len()) / in_a_row).ceil();
    let size = (right + 20.0, BOTTOM + 70.0 + 18.0 * rows);
    let mut svg = frame(first, "utility without an attack", right, size);
    svg.upright((18.0, (TOP + BOTTOM) / 2.0), "utility");
    let group = (right - LEFT) / float(suites.len());
    let bar = (group * 0.84 / float(defences.len())).min(40.0);
    for (at, suite) in suites.iter().enumerate() {
        let centre = LEFT + group * (float(at) + 0.5);
        svg.text((centre, BOTTOM + 20.0), Anchor::Middle, "axis", suite);
        let from = centre - bar * float(defences.len()) / 2.0;
        for (number, defence) in defences.iter().enumerate() {
            let of = |user: &str| {
                let mut all = measured.iter();
                let cell = all.find(|cell| {
                    cell.suite == *suite && cell.defence == *defence && cell.user_model == user
                });
                cell.map(|cell| cell.utility)
            };
            let left = from + bar * float(number);
            if let Some(value) = of("ideal").and_then(|share| share.value()) {
                let size = (bar * 0.88, BOTTOM - y(value));
                svg.faint_bar((left, y(value)), size, colour(number));
            }
            let Some(share) = of("absent") else { continue };
            let (Some(value), Some((low, high))) = (share.value(), share.interval()) else {
                continue;
            };
            let size = (bar * 0.88, BOTTOM - y(value));
            svg.bar((left, y(value)), size, colour(number));
            let middle = left + bar * 0.44;
            svg.line((middle, y(low)), (middle, y(high)), "#222222", 1.0);
            if bar >= LABELLED {
                let label = format!("{:.0}", value * 100.0);
                svg.text((middle, y(high) - 4.0), Anchor::Middle, "note", &label);
            }
        }
    }
    if measured.iter().any(|cell| cell.user_model == "ideal") {
        let note = "Faint: with a user who says yes to exactly what the task needs.";
        let at = (right, size.1 - 6.0);
        svg.text(at, Anchor::End, "note", note);
    }
    for (at, defence) in defences.iter().enumerate() {
        let row = (float(at) / in_a_row).floor();
        let left = LEFT + name * (float(at) - row * in_a_row);
        let top = BOTTOM + 38.0 + 18.0 * row;
        svg.bar((left, top), (11.0, 11.0), colour(at));
        svg.text((left + 16.0, top + 10.0), Anchor::Start, "", defence);
    }
    Some(svg.finish())
}

/// Title, axes, and the lines of the upward axis.
fn frame(cell: &Cell, title: &str, right: f64, (width, height): (f64, f64)) -> Svg {
    let mut svg = Svg::new(width, height);
    let title = format!("{}, AgentDojo {}: {title}", cell.model, cell.version);
    svg.text((LEFT, 24.0), Anchor::Start, "title", &title);
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        let up = BOTTOM - share * (BOTTOM - TOP);
        svg.line((LEFT, up), (right, up), GRID, 1.0);
        let label = format!("{:.0} %", share * 100.0);
        svg.text((LEFT - 8.0, up + 4.0), Anchor::End, "tick", &label);
    }
    svg.line((LEFT, BOTTOM), (right, BOTTOM), AXIS, 1.0);
    svg.line((LEFT, TOP), (LEFT, BOTTOM), AXIS, 1.0);
    let note = "Lines: 95 % intervals (Wilson).";
    svg.text((LEFT, height - 6.0), Anchor::Start, "note", note);
    svg
}
