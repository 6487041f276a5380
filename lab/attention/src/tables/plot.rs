//! Plots of a report: ROC curves, and how far probabilities can be believed.

use agentdojo::report::{Anchor, Svg, colour};

use super::report::{Report, Row};

const WIDTH: f64 = 700.0;
const HEIGHT: f64 = 480.0;
/// The plotting area.
const LEFT: f64 = 64.0;
const RIGHT: f64 = 444.0;
const TOP: f64 = 44.0;
const BOTTOM: f64 = 424.0;
const GRID: &str = "#e3e3e3";
const AXIS: &str = "#888888";

/// ROC curves of all scorers on all suites together.
#[must_use]
pub fn roc(report: &Report) -> String {
    let mut svg = frame(
        "ROC, all suites",
        "independent regions above the threshold",
        "dependent regions above the threshold",
    );
    for (at, row) in report.pooled().enumerate() {
        curve(&mut svg, &row.curve, at);
        let area = row
            .figures
            .auroc
            .map_or("–".to_owned(), |area| format!("{area:.3}"));
        legend(&mut svg, row, at, &format!("AUROC {area}"));
    }
    svg.finish()
}

/// The share that is dependent over the probability that was told.
#[must_use]
pub fn calibration(report: &Report) -> String {
    let mut svg = frame(
        "Calibration, all suites",
        "probability by the scorer",
        "share that is dependent",
    );
    for (at, row) in report.pooled().enumerate() {
        let bins = row.reliability.iter();
        let points: Vec<(f64, f64)> = bins.map(|bin| (bin.score, bin.dependent)).collect();
        curve(&mut svg, &points, at);
        for point in &points {
            svg.dot(place(*point), 4.0, colour(at));
        }
        let error = row.figures.calibration_error;
        let error = error.map_or("–".to_owned(), |error| format!("{error:.3}"));
        legend(&mut svg, row, at, &format!("expected error {error}"));
    }
    svg.finish()
}

/// Shares, to the right and upwards, as a point of the image.
fn place((across, up): (f64, f64)) -> (f64, f64) {
    (LEFT + across * (RIGHT - LEFT), BOTTOM - up * (BOTTOM - TOP))
}

fn curve(svg: &mut Svg, points: &[(f64, f64)], at: usize) {
    for (from, to) in points.iter().zip(points.iter().skip(1)) {
        svg.line(place(*from), place(*to), colour(at), 1.8);
    }
}

fn legend(svg: &mut Svg, row: &Row, at: usize, figure: &str) {
    let top = TOP + 12.0 + 34.0 * f64::from(u32::try_from(at).unwrap_or(u32::MAX));
    svg.bar((RIGHT + 20.0, top - 9.0), (11.0, 11.0), colour(at));
    svg.text((RIGHT + 38.0, top), Anchor::Start, "", &row.scorer);
    svg.text((RIGHT + 38.0, top + 13.0), Anchor::Start, "note", figure);
}

fn frame(title: &str, across: &str, up: &str) -> Svg {
    let mut svg = Svg::new(WIDTH, HEIGHT);
    svg.text((LEFT, 24.0), Anchor::Start, "title", title);
    for tick in 0..=5 {
        let share = f64::from(tick) / 5.0;
        let label = format!("{:.0} %", share * 100.0);
        let ((x, _), (_, y)) = (place((share, 0.0)), place((0.0, share)));
        svg.line((x, TOP), (x, BOTTOM), GRID, 1.0);
        svg.line((LEFT, y), (RIGHT, y), GRID, 1.0);
        svg.text((x, BOTTOM + 18.0), Anchor::Middle, "tick", &label);
        svg.text((LEFT - 8.0, y + 4.0), Anchor::End, "tick", &label);
    }
    svg.line(place((0.0, 0.0)), place((1.0, 1.0)), AXIS, 1.0);
    svg.text(
        ((LEFT + RIGHT) / 2.0, BOTTOM + 40.0),
        Anchor::Middle,
        "axis",
        across,
    );
    svg.upright((18.0, (TOP + BOTTOM) / 2.0), up);
    svg
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::examples::Truth;
    use crate::tables::cross::{Plan, Split, cross_validate};
    use crate::train::baselines::Baseline;
    use crate::train::synthetic::with_memory;

    #[test]
    fn a_perfect_scorer_goes_up_the_left_side() {
        let examples = with_memory(80, 2, 1);
        let plan = Plan::new(Split::Suites, Truth::Weak, 1);
        let held = cross_validate(&examples, &plan, &Baseline::WeakLabels, &mut |_| {}).unwrap();
        let report = Report::new(plan, &examples, &[("a <b>".to_owned(), held)]);
        let image = roc(&report);
        let (x, y) = place((0.0, 1.0));
        assert!(
            image.contains(&format!(r#"x2="{x:.1}" y2="{y:.1}""#)),
            "{image}"
        );
        assert!(image.contains("AUROC 1.000") && image.contains("a &lt;b&gt;"));
        assert!(calibration(&report).contains("expected error 0.0"));
    }
}
