//! Panels of histograms, and lines over tokens.

use agentdojo::report::{Anchor, Svg, colour};

const LEFT: f64 = 64.0;
const TOP: f64 = 74.0;
const BOTTOM: f64 = 334.0;
/// A panel's width, and the room between two.
const PANEL: f64 = 300.0;
const GAP: f64 = 40.0;
const GRID: &str = "#e3e3e3";
const AXIS: &str = "#888888";

/// Some histograms on one pair of axes.
pub struct Panel {
    /// What they have in common.
    pub title: String,
    /// One after the other within each bin.
    pub series: Vec<Series>,
}

/// One histogram.
pub struct Series {
    /// Its name in the legend.
    pub name: String,
    /// Its colour, by number.
    pub colour: usize,
    /// The fraction in each bin of the same width from 0 to 1.
    pub fractions: Vec<f64>,
}

/// Panels side by side, with one scale. The note is a line below the title.
#[must_use]
pub(super) fn panels(title: &str, note: &str, across: &str, up: &str, all: &[Panel]) -> String {
    let width = LEFT + (PANEL + GAP) * float(all.len().max(1));
    let rows = all.iter().map(|panel| panel.series.len()).max();
    let rows = float(rows.unwrap_or_default());
    let mut svg = Svg::new(width, BOTTOM + 60.0 + 18.0 * rows);
    svg.text((LEFT, 24.0), Anchor::Start, "title", title);
    svg.text((LEFT, 41.0), Anchor::Start, "note", note);
    svg.upright((18.0, (TOP + BOTTOM) / 2.0), up);
    let fractions = all.iter().flat_map(|panel| &panel.series);
    let highest = fractions.flat_map(|series| &series.fractions).copied();
    // Up to the next fifth, so that ticks are round.
    let highest = (highest.fold(0.0, f64::max) * 5.0).ceil().max(1.0) / 5.0;
    for (at, panel) in all.iter().enumerate() {
        let left = LEFT + (PANEL + GAP) * float(at);
        draw(&mut svg, panel, left, highest);
        let middle = left + PANEL / 2.0;
        svg.text((middle, BOTTOM + 40.0), Anchor::Middle, "axis", across);
    }
    svg.finish()
}

fn draw(svg: &mut Svg, panel: &Panel, left: f64, highest: f64) {
    let y = |fraction: f64| BOTTOM - fraction / highest * (BOTTOM - TOP);
    svg.text(
        (left + PANEL / 2.0, TOP - 14.0),
        Anchor::Middle,
        "axis",
        &panel.title,
    );
    for tick in 0..=5 {
        let part = f64::from(tick) / 5.0;
        let fraction = part * highest;
        svg.line((left, y(fraction)), (left + PANEL, y(fraction)), GRID, 1.0);
        let label = format!("{:.0} %", fraction * 100.0);
        svg.text((left - 6.0, y(fraction) + 4.0), Anchor::End, "tick", &label);
        let (x, label) = (left + part * PANEL, format!("{part:.1}"));
        svg.text((x, BOTTOM + 18.0), Anchor::Middle, "tick", &label);
    }
    let count = float(panel.series.len().max(1));
    for (at, series) in panel.series.iter().enumerate() {
        let bin = PANEL / float(series.fractions.len().max(1));
        let bar = bin * 0.86 / count;
        for (place, fraction) in series.fractions.iter().enumerate() {
            let x = left + bin * (float(place) + 0.07) + bar * float(at);
            let size = (bar, BOTTOM - y(*fraction));
            svg.bar((x, y(*fraction)), size, colour(series.colour));
        }
        let top = BOTTOM + 52.0 + 18.0 * float(at);
        svg.bar((left, top), (11.0, 11.0), colour(series.colour));
        svg.text((left + 16.0, top + 10.0), Anchor::Start, "", &series.name);
    }
    svg.line((left, BOTTOM), (left + PANEL, BOTTOM), AXIS, 1.0);
}

/// Points over tokens with a straight line through them, `(start, slope)`.
pub(super) struct Line {
    pub(super) name: String,
    pub(super) points: Vec<(f64, f64)>,
    pub(super) fit: Option<(f64, f64)>,
}

/// Seconds over tokens.
#[must_use]
pub(super) fn lines(title: &str, across: &str, up: &str, all: &[Line]) -> String {
    const RIGHT: f64 = 560.0;
    let points = || all.iter().flat_map(|line| &line.points);
    let round = |value: f64| {
        // Up to the next half of the value's power of ten (3.2 becomes 3.5), so that ticks are
        // round.
        let unit = 10f64.powf(value.max(1e-9).log10().floor()) / 2.0;
        (value / unit).ceil() * unit
    };
    let most = |values: &mut dyn Iterator<Item = f64>| round(values.fold(0.0, f64::max));
    let most_x = most(&mut points().map(|point| point.0));
    let most_y = most(&mut points().map(|point| point.1));
    let place = |(x, y): (f64, f64)| {
        (
            LEFT + x / most_x * (RIGHT - LEFT),
            BOTTOM - y / most_y * (BOTTOM - TOP),
        )
    };
    let mut svg = Svg::new(RIGHT + 40.0, BOTTOM + 60.0 + 18.0 * float(all.len()));
    svg.text((LEFT, 24.0), Anchor::Start, "title", title);
    svg.upright((14.0, (TOP + BOTTOM) / 2.0), up);
    for tick in 0..=5 {
        let part = f64::from(tick) / 5.0;
        let (x, y) = place((part * most_x, part * most_y));
        svg.line((LEFT, y), (RIGHT, y), GRID, 1.0);
        svg.line((x, TOP), (x, BOTTOM), GRID, 1.0);
        let (label_x, label_y) = (
            format!("{:.0}", part * most_x),
            format!("{:.1}", part * most_y),
        );
        svg.text((x, BOTTOM + 18.0), Anchor::Middle, "tick", &label_x);
        svg.text((LEFT - 6.0, y + 4.0), Anchor::End, "tick", &label_y);
    }
    let middle = (LEFT + RIGHT) / 2.0;
    svg.text((middle, BOTTOM + 40.0), Anchor::Middle, "axis", across);
    for (at, line) in all.iter().enumerate() {
        let colour = colour(at + 1);
        let last = line.points.iter().map(|point| point.0).fold(0.0, f64::max);
        if let Some((start, slope)) = line.fit {
            // A fit may begin below zero, which would lie below the axis.
            let ends = (
                place((0.0, start.max(0.0))),
                place((last, start + slope * last)),
            );
            svg.line(ends.0, ends.1, colour, 1.4);
        }
        for point in &line.points {
            svg.dot(place(*point), 5.0, colour);
        }
        let top = BOTTOM + 52.0 + 18.0 * float(at);
        svg.bar((LEFT, top), (11.0, 11.0), colour);
        svg.text((LEFT + 16.0, top + 10.0), Anchor::Start, "", &line.name);
    }
    svg.finish()
}

/// Positions of a plot are small.
fn float(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}
