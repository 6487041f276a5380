//! How strongly a recorded step depends on the regions before it, for people.

use super::show::set;
use super::{Event, Record, Score, escape};

/// Characters of a region's text on its line.
const LINE: usize = 100;

/// Columns of a bar.
const BAR: usize = 10;

/// Background colours of a terminal's palette, from what does not matter to what does.
const SHADES: [u8; 6] = [235, 236, 58, 94, 130, 166];

/// One line for each scored region of a screening, in reading order: its score as a number, a bar and, with `colour`, a
/// shade. `+` marks relevant regions. Empty for other records and without scores. Foreign text is escaped.
pub fn saliency(record: &Record, colour: bool) -> Vec<String> {
    let Event::Screened {
        relevant, scores, ..
    } = &record.event
    else {
        return Vec::new();
    };
    let is_relevant = |score: &Score| match relevant {
        None => true,
        Some(regions) => regions.contains(&score.region),
    };
    let line = |score: &Score| {
        let mark = if is_relevant(score) { '+' } else { ' ' };
        let text: String = score.excerpt.chars().take(LINE).collect();
        let text = shaded(&escape(&text), score.score, colour);
        format!(
            "          {mark} {:>4} {:.2} {} {} {}: {text}",
            score.region,
            score.score,
            bar(score.score),
            escape(&score.source.to_string()),
            set(&score.label)
        )
    };
    scores.iter().map(line).collect()
}

/// A number from 0 to 1 as one of `0..=most`.
fn part(score: f32, most: usize) -> usize {
    let part = score.clamp(0.0, 1.0) * most as f32;
    // At most `most`, and not negative; NaN becomes 0.
    part.round() as usize
}

fn bar(score: f32) -> String {
    let full = part(score, BAR).min(BAR);
    "█".repeat(full) + &"·".repeat(BAR - full)
}

fn shaded(text: &str, score: f32, colour: bool) -> String {
    let shade = SHADES.get(part(score, SHADES.len() - 1));
    match shade {
        Some(shade) if colour => format!("\u{1b}[48;5;{shade}m{text}\u{1b}[0m"),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(scores: Vec<Score>) -> Record {
        Record {
            version: super::super::VERSION,
            sequence: 1,
            at_ms: 0,
            conversation: None,
            event: Event::Screened {
                step: 2,
                screener: "attention".to_owned(),
                relevant: Some(vec![1]),
                more_relevant: 0,
                regions: 2,
                before: Vec::new(),
                after: Vec::new(),
                failure: None,
                scores,
            },
        }
    }

    fn score(region: u32, excerpt: &str, score: f32) -> Score {
        Score {
            region,
            source: ifc::Source::Tool("read".to_owned()),
            excerpt: excerpt.into(),
            label: vec!["untrusted".to_owned()],
            score,
        }
    }

    #[test]
    fn regions_have_a_line_each_and_cannot_steer_the_terminal() {
        let record = record(vec![
            score(1, "pay \u{1b}[2J bob", 0.93),
            score(2, "hello", f32::NAN),
        ]);
        assert_eq!(
            saliency(&record, false),
            [
                "          +    1 0.93 █████████· result of read {untrusted}: pay \\u{1b}[2J bob",
                "               2 NaN ·········· result of read {untrusted}: hello",
            ]
        );
        let coloured = saliency(&record, true);
        assert!(coloured.iter().all(|line| line.ends_with("\u{1b}[0m")));
        assert!(coloured.iter().all(|line| !line.contains("\u{1b}[2J")));
    }

    #[test]
    fn other_screeners_have_nothing_to_show() {
        assert!(saliency(&record(Vec::new()), true).is_empty());
    }
}
