//! RTBAS Figure 7 as SVG.

use agentdojo::report::{Anchor, Svg, colour, float};

use crate::domain::DOMAINS;
use crate::measure::{ALL, Figures, Tasks};

const LEFT: f64 = 60.0;
const TOP: f64 = 48.0;
const BOTTOM: f64 = 340.0;
/// The width of a bar, and the room for a name in the legend.
const BAR: f64 = 15.0;
const NAME: f64 = 190.0;
/// Wide enough for the title and the note.
const LEAST: f64 = 520.0;
const GRID: &str = "#e3e3e3";
const AXIS: &str = "#888888";

/// A group of bars for each domain, a bar for each defence: full where the user blocks what is asked about, faint on
/// top of it what allowing it adds. `None` without a figure of this agent.
pub(crate) fn utility(figures: &[Figures], agent: &str) -> Option<String> {
    let own = figures
        .iter()
        .filter(|it| it.agent == agent && it.tasks == Tasks::All);
    let own: Vec<&Figures> = own.collect();
    let mut defences: Vec<&str> = Vec::new();
    for figures in &own {
        if !defences.contains(&figures.defence.as_str()) {
            defences.push(&figures.defence);
        }
    }
    let domains = DOMAINS
        .into_iter()
        .chain([ALL])
        .filter(|name| own.iter().any(|it| it.domain == *name));
    let domains: Vec<&str> = domains.collect();
    if defences.is_empty() || domains.is_empty() {
        return None;
    }
    let group = BAR * float(defences.len() + 2);
    let right = (LEFT + group * float(domains.len())).max(LEFT + LEAST);
    let in_a_row = ((right - LEFT) / NAME).floor().max(1.0);
    let rows = (float(defences.len()) / in_a_row).ceil();
    let height = BOTTOM + 62.0 + 18.0 * rows;
    let y = |share: f64| BOTTOM - share * (BOTTOM - TOP);
    let mut svg = Svg::new(right + 20.0, height);
    let title = format!("{agent}: utility without an attack (RTBAS, Figure 7)");
    svg.text((LEFT, 24.0), Anchor::Start, "title", &title);
    svg.upright((18.0, f64::midpoint(TOP, BOTTOM)), "tasks done");
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        svg.line((LEFT, y(share)), (right, y(share)), GRID, 1.0);
        let label = format!("{:.0} %", share * 100.0);
        svg.text((LEFT - 8.0, y(share) + 4.0), Anchor::End, "tick", &label);
    }
    svg.line((LEFT, BOTTOM), (right, BOTTOM), AXIS, 1.0);
    for (at, domain) in domains.iter().enumerate() {
        let from = LEFT + group * float(at) + BAR;
        let middle = from + BAR * float(defences.len()) / 2.0;
        svg.text((middle, BOTTOM + 18.0), Anchor::Middle, "axis", domain);
        for (number, defence) in defences.iter().enumerate() {
            let mut all = own.iter();
            let Some(figures) = all.find(|it| it.domain == *domain && it.defence == *defence)
            else {
                continue;
            };
            let left = from + BAR * float(number);
            let size = |share: f64| (BAR * 0.88, BOTTOM - y(share));
            if let Some(share) = figures.utility_allowed.value() {
                svg.faint_bar((left, y(share)), size(share), colour(number));
            }
            if let Some(share) = figures.utility_blocked.value() {
                svg.bar((left, y(share)), size(share), colour(number));
            }
            if let Some((low, high)) = figures.utility_blocked.interval() {
                let middle = left + BAR * 0.44;
                svg.line((middle, y(low)), (middle, y(high)), "#222222", 1.0);
            }
        }
    }
    for (at, defence) in defences.iter().enumerate() {
        let row = (float(at) / in_a_row).floor();
        let left = LEFT + NAME * (float(at) - row * in_a_row);
        let top = BOTTOM + 30.0 + 18.0 * row;
        svg.bar((left, top), (11.0, 11.0), colour(at));
        svg.text((left + 16.0, top + 10.0), Anchor::Start, "", defence);
    }
    let note = "Full: the user blocks every question. Faint: the user allows. Lines: 95 % intervals (Wilson).";
    svg.text((LEFT, height - 8.0), Anchor::Start, "note", note);
    Some(svg.finish())
}
