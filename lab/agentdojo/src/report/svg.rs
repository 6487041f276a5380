//! SVG by hand: a few shapes need no library.

use std::fmt::Write as _;

/// An SVG image under construction, on white.
pub struct Svg {
    width: f64,
    height: f64,
    body: String,
}

/// The alignment of a text at its point.
#[derive(Clone, Copy)]
pub enum Anchor {
    /// It begins there.
    Start,
    /// It is centred there.
    Middle,
    /// It ends there.
    End,
}

/// On white. The first ones are distinguishable for the colour-blind (Okabe and Ito's). From the thirteenth on each is the
/// one farthest from all before it (CIELAB), so that as many series have colours of their own as a benchmark has defences,
/// each with and without limits of single arguments.
const COLOURS: [&str; 36] = [
    "#999999", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7a5195",
    "#8c510a", "#f0e442", "#444444", "#b3de69", "#0000ff", "#ff00dd", "#ff0066", "#0066ff",
    "#00dd00", "#335500", "#880022", "#660099", "#ffaa88", "#ee88ff", "#00dd77", "#ff0022",
    "#bb1188", "#bb11ff", "#008800", "#999955", "#ccbbff", "#55cccc", "#ff7788", "#117777",
    "#003399", "#995555", "#7788ee", "#999900",
];

/// The colour of the series at this position.
#[must_use]
pub fn colour(at: usize) -> &'static str {
    COLOURS
        .get(at % COLOURS.len())
        .copied()
        .unwrap_or("#999999")
}

/// The name of the file for an image of these words.
#[must_use]
pub fn file_name(words: &str) -> String {
    let plain = |c: char| match c.is_ascii_alphanumeric() || c == '.' {
        true => c,
        false => '-',
    };
    let name: String = words.chars().map(plain).collect();
    format!("{name}.svg")
}

/// Positions of a plot are small.
#[must_use]
pub fn float(number: usize) -> f64 {
    f64::from(u32::try_from(number).unwrap_or(u32::MAX))
}

impl Svg {
    /// An empty image of this size, in pixels.
    #[must_use]
    pub fn new(width: f64, height: f64) -> Self {
        Self {
            width,
            height,
            body: String::new(),
        }
    }

    /// A straight line.
    pub fn line(&mut self, from: (f64, f64), to: (f64, f64), stroke: &str, width: f64) {
        self.push(format_args!(
            r#"<line x1="{:.1}" y1="{:.1}" x2="{:.1}" y2="{:.1}" stroke="{stroke}" stroke-width="{width}"/>"#,
            from.0, from.1, to.0, to.1
        ));
    }

    /// A filled rectangle from its upper left corner.
    pub fn bar(&mut self, at: (f64, f64), size: (f64, f64), fill: &str) {
        self.push(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{fill}"/>"#,
            at.0, at.1, size.0, size.1
        ));
    }

    /// A bar behind another one.
    pub fn faint_bar(&mut self, at: (f64, f64), size: (f64, f64), fill: &str) {
        self.push(format_args!(
            r#"<rect x="{:.1}" y="{:.1}" width="{:.1}" height="{:.1}" fill="{fill}" fill-opacity="0.3"/>"#,
            at.0, at.1, size.0, size.1
        ));
    }

    /// A filled circle with a white rim.
    pub fn dot(&mut self, at: (f64, f64), radius: f64, fill: &str) {
        self.push(format_args!(
            r##"<circle cx="{:.1}" cy="{:.1}" r="{radius}" fill="{fill}" stroke="#ffffff" stroke-width="1.5"/>"##,
            at.0, at.1
        ));
    }

    /// Text of a class: `title`, `axis`, `tick`, `note`, or none.
    pub fn text(&mut self, at: (f64, f64), anchor: Anchor, class: &str, text: &str) {
        let anchor = match anchor {
            Anchor::Start => "start",
            Anchor::Middle => "middle",
            Anchor::End => "end",
        };
        self.push(format_args!(
            r#"<text x="{:.1}" y="{:.1}" text-anchor="{anchor}" class="{class}">{}</text>"#,
            at.0,
            at.1,
            escape(text)
        ));
    }

    /// Text from bottom to top.
    pub fn upright(&mut self, at: (f64, f64), text: &str) {
        self.push(format_args!(
            r#"<text transform="translate({:.1} {:.1}) rotate(-90)" text-anchor="middle" class="axis">{}</text>"#,
            at.0,
            at.1,
            escape(text)
        ));
    }

    /// The image as a file.
    #[must_use]
    pub fn finish(self) -> String {
        let Self {
            width,
            height,
            body,
        } = self;
        format!(
            r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" font-family="Helvetica, Arial, sans-serif">
<style>text {{ fill: #222222; font-size: 12px; }} .title {{ font-size: 15px; font-weight: bold; }} .axis {{ font-size: 13px; }} .tick {{ font-size: 11px; fill: #555555; }} .note {{ font-size: 10px; fill: #555555; }}</style>
<rect width="{width}" height="{height}" fill="#ffffff"/>
{body}</svg>
"##
        )
    }

    fn push(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a string does not fail.
        let _ = writeln!(self.body, "{element}");
    }
}

/// Names of models and defences may hold anything.
fn escape(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    text.replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::closed_loop::Defence;

    #[test]
    fn every_defence_of_a_plot_has_a_colour_of_its_own() {
        let colours: BTreeSet<&str> = (0..Defence::ALL.len()).map(colour).collect();
        assert_eq!(colours.len(), Defence::ALL.len());
        let all: BTreeSet<&str> = COLOURS.into_iter().collect();
        assert_eq!(all.len(), COLOURS.len());
    }
}
