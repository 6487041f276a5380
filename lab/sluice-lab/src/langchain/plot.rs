//! Query resolution times, one panel for each benchmark (SecGPT's Figure 9): how many queries took at most so long.

use agentdojo::report::{Anchor, Svg, colour};

use super::report::benchmarks;
use super::run::Row;
use super::system::System;

const LEFT: f64 = 60.0;
const TOP: f64 = 70.0;
const BOTTOM: f64 = 300.0;
/// A panel's width, and the room between two.
const PANEL: f64 = 220.0;
const GAP: f64 = 40.0;
const GRID: &str = "#e3e3e3";
const AXIS: &str = "#888888";

/// The figure as SVG.
pub(super) fn figure(rows: &[Row]) -> String {
    let names: Vec<&str> = benchmarks(rows).into_iter().map(|(name, _)| name).collect();
    let panels: Vec<Vec<&Row>> = names
        .iter()
        .map(|name| rows.iter().filter(|row| row.benchmark == *name).collect())
        .collect();
    let width = LEFT + (PANEL + GAP) * float(panels.len().max(1));
    let mut svg = Svg::new(width, BOTTOM + 60.0 + 18.0 * float(System::ALL.len()));
    svg.text(
        (LEFT, 24.0),
        Anchor::Start,
        "title",
        "Query resolution time (SecGPT, Figure 9)",
    );
    svg.upright((18.0, f64::midpoint(TOP, BOTTOM)), "share of the queries");
    for (at, (name, panel)) in names.iter().zip(&panels).enumerate() {
        draw(&mut svg, name, panel, LEFT + (PANEL + GAP) * float(at));
    }
    for (at, system) in System::ALL.into_iter().enumerate() {
        let y = BOTTOM + 60.0 + 18.0 * float(at);
        svg.line((LEFT, y - 4.0), (LEFT + 24.0, y - 4.0), colour(at), 2.0);
        svg.text((LEFT + 30.0, y), Anchor::Start, "", system.name());
    }
    svg.finish()
}

fn draw(svg: &mut Svg, name: &str, rows: &[&Row], left: f64) {
    let longest = rows.iter().map(|row| row.times.total).fold(1.0, f64::max);
    let x = |ms: f64| left + PANEL * ms / longest;
    let y = |share: f64| BOTTOM - share * (BOTTOM - TOP);
    for tick in 0..=4 {
        let share = f64::from(tick) / 4.0;
        svg.line((left, y(share)), (left + PANEL, y(share)), GRID, 1.0);
        if left == LEFT {
            let label = format!("{:.0} %", share * 100.0);
            svg.text((left - 6.0, y(share) + 4.0), Anchor::End, "tick", &label);
        }
    }
    svg.line((left, BOTTOM), (left + PANEL, BOTTOM), AXIS, 1.0);
    let middle = left + PANEL / 2.0;
    svg.text((middle, TOP - 12.0), Anchor::Middle, "axis", name);
    svg.text((left, BOTTOM + 16.0), Anchor::Middle, "tick", "0");
    let label = format!("{:.1} s", longest / 1000.0);
    svg.text(
        (left + PANEL, BOTTOM + 16.0),
        Anchor::Middle,
        "tick",
        &label,
    );
    for (at, system) in System::ALL.into_iter().enumerate() {
        let own = rows.iter().filter(|row| row.system == system);
        let mut totals: Vec<f64> = own.map(|row| row.times.total).collect();
        totals.sort_by(f64::total_cmp);
        let count = float(totals.len().max(1));
        let mut from = (x(0.0), y(0.0));
        for (rank, total) in (1..).zip(totals) {
            // A step for each query: across to its time, then up by its share.
            let across = (x(total), from.1);
            let up = (x(total), y(float(rank) / count));
            svg.line(from, across, colour(at), 2.0);
            svg.line(across, up, colour(at), 2.0);
            from = up;
        }
    }
}

fn float(count: usize) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX))
}
