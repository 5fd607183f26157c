//! Charts as SVG, written by hand: bars on a logarithmic scale, and lines over time. Each brings its own style, which
//! follows the reader's choice of light or dark; series differ by dashes too.

use std::fmt::Write as _;

/// The picture's own units; the page scales it.
const WIDTH: f64 = 720.0;
/// Room for names and numbers at the left.
const LEFT: f64 = 112.0;
const RIGHT: f64 = 96.0;
const TOP: f64 = 34.0;
/// Height of the lines' field.
const FIELD: f64 = 200.0;
const ROW: f64 = 28.0;

/// Colours are those of Okabe and Ito, which most people with defects of colour vision can tell apart; on dark ground a
/// little lighter.
const STYLE: &str = "<style>\
text{font:13px system-ui,sans-serif;fill:#24292f}\
.title{font-weight:600}\
.grid{stroke:#d0d7de;stroke-width:1;fill:none}\
.line{fill:none;stroke-width:2}\
.s0{stroke:#0072b2}.s1{stroke:#d55e00;stroke-dasharray:7 3}.s2{stroke:#8a6d00;stroke-dasharray:2 3}.s3{stroke:#007a5a}.s4{stroke:#b0508a;stroke-dasharray:9 3 2 3}\
rect.s0{fill:#0072b2}rect.s1{fill:#d55e00}rect.s2{fill:#8a6d00}rect.s3{fill:#007a5a}rect.s4{fill:#b0508a}\
rect.bar.bar{stroke:none}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}\
.s0{stroke:#56b4e9}.s1{stroke:#ff9457}.s2{stroke:#f0e442}.s3{stroke:#2fd3a5}.s4{stroke:#e58fc4}\
rect.s0{fill:#56b4e9}rect.s1{fill:#ff9457}rect.s2{fill:#f0e442}rect.s3{fill:#2fd3a5}rect.s4{fill:#e58fc4}}\
</style>";

/// How many series the style tells apart.
const SERIES: usize = 5;

/// One value of a series.
pub struct Bar {
    /// Whose it is.
    pub name: String,
    /// At least zero.
    pub value: f64,
    /// How it is written.
    pub label: String,
}

/// Bars below each other, on a logarithmic scale where they differ by more than that shows otherwise.
pub fn bars(title: &str, bars: &[Bar]) -> String {
    let scale = Scale::of(bars.iter().map(|bar| bar.value));
    let height = TOP + ROW * bars.len() as f64 + 8.0;
    let logarithmic = matches!(scale, Scale::Logarithmic { .. });
    let mut svg = open(&format!("{title}{}", if logarithmic { " (logarithmic)" } else { "" }), height);
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + ROW * index as f64;
        let length = scale.place(bar.value) * (WIDTH - LEFT - RIGHT);
        let base = top + ROW / 2.0 + 4.5;
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{base:.1}" text-anchor="end">{}</text><rect class="bar s{}" x="{LEFT}" y="{:.1}" width="{length:.1}" height="{:.1}"/><text x="{:.1}" y="{base:.1}">{}</text>"#,
            LEFT - 8.0,
            escaped(&bar.name),
            index % SERIES,
            top + 5.0,
            ROW - 10.0,
            LEFT + length + 8.0,
            escaped(&bar.label),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// One line over time.
pub struct Line {
    /// Whose it is.
    pub name: String,
    /// Values, one for each step of time.
    pub values: Vec<f64>,
}

/// Lines over time from zero, `step` seconds from one value to the next.
pub fn lines(title: &str, step: f64, lines: &[Line]) -> String {
    let count = lines.iter().map(|line| line.values.len()).max().unwrap_or(0);
    let most = lines.iter().flat_map(|line| &line.values).copied().fold(0.0, f64::max);
    let (across, up) = (ticks((count as f64 - 1.0).max(1.0) * step), ticks(most.max(1.0)));
    let height = TOP + FIELD + 34.0 + 20.0;
    let (wide, longest) = (WIDTH - LEFT - 20.0, across.last().copied().unwrap_or(1.0));
    let (bottom, highest) = (TOP + FIELD, up.last().copied().unwrap_or(1.0));
    let x = |seconds: f64| LEFT + seconds / longest * wide;
    let y = |value: f64| bottom - value / highest * FIELD;
    let mut svg = open(title, height);
    for &tick in &up {
        let _ = write!(
            svg,
            r#"<path class="grid" d="M{LEFT} {:.1}H{:.1}"/><text x="{:.1}" y="{:.1}" text-anchor="end">{}</text>"#,
            y(tick),
            LEFT + wide,
            LEFT - 8.0,
            y(tick) + 4.5,
            thousands(tick)
        );
    }
    for &tick in &across {
        let _ = write!(
            svg,
            r#"<text x="{:.1}" y="{:.1}" text-anchor="middle">{tick} s</text>"#,
            x(tick),
            bottom + 18.0
        );
    }
    for (index, line) in lines.iter().enumerate() {
        let points: Vec<_> = line
            .values
            .iter()
            .enumerate()
            .map(|(at, &value)| format!("{:.1} {:.1}", x(at as f64 * step), y(value)))
            .collect();
        if !points.is_empty() {
            let _ = write!(svg, r#"<path class="line s{}" d="M{}"/>"#, index % SERIES, points.join("L"));
        }
        let (left, base) = (12.0 + 136.0 * index as f64, bottom + 44.0);
        let _ = write!(
            svg,
            r#"<path class="line s{}" d="M{left:.1} {:.1}h28"/><text x="{:.1}" y="{base:.1}">{}</text>"#,
            index % SERIES,
            base - 4.5,
            left + 36.0,
            escaped(&line.name)
        );
    }
    svg.push_str("</svg>\n");
    svg
}

fn open(title: &str, height: f64) -> String {
    format!(
        r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{0}">{STYLE}<text class="title" x="12" y="20">{0}</text>"#,
        escaped(title)
    )
}

/// From values to lengths between 0 and 1.
enum Scale {
    Linear {
        most: f64,
    },
    /// From a tenth of the least, so that the least has a length too.
    Logarithmic {
        from: f64,
        to: f64,
    },
}

impl Scale {
    fn of(values: impl Iterator<Item = f64> + Clone) -> Self {
        let most = values.clone().fold(0.0, f64::max);
        let least = values.filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
        // Bars that differ by more could not be seen side by side.
        if most > 20.0 * least {
            Self::Logarithmic { from: least / 10.0, to: most }
        } else {
            Self::Linear { most: most.max(f64::MIN_POSITIVE) }
        }
    }

    fn place(&self, value: f64) -> f64 {
        match *self {
            Self::Linear { most } => value / most,
            Self::Logarithmic { from, to } if value > from => (value / from).ln() / (to / from).ln(),
            Self::Logarithmic { .. } => 0.0,
        }
    }
}

/// Round numbers from zero up to at least `most`, between four and nine of them.
fn ticks(most: f64) -> Vec<f64> {
    let decade = 10_f64.powf((most / 8.0).log10().floor());
    let step = [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * decade);
    let step = step.into_iter().find(|step| most / step <= 8.0).unwrap_or(most);
    (0..=8).map(|index| f64::from(index) * step).take_while(|tick| *tick < most + step).collect()
}

fn thousands(value: f64) -> String {
    if value >= 1_000.0 { format!("{}k", value / 1_000.0) } else { format!("{value}") }
}

/// Text within XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_reach_the_highest_value() {
        assert_eq!(ticks(80.0), [0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0]);
        assert_eq!(ticks(4_300.0).last(), Some(&5_000.0));
    }

    #[test]
    fn values_far_apart_are_still_seen() {
        let scale = Scale::of([0.001, 222.0].into_iter());
        assert!(scale.place(0.001) > 0.1 && (scale.place(222.0) - 1.0).abs() < 1e-9);
        assert!(scale.place(0.0) == 0.0);
        let even = Scale::of([2.0, 4.0].into_iter());
        assert!((even.place(2.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn names_cannot_leave_their_place() {
        let bar = Bar { name: "a<b".to_owned(), value: 1.0, label: "\"1\"".to_owned() };
        let svg = bars("t&t", &[bar]);
        assert!(svg.contains("a&lt;b") && svg.contains("t&amp;t") && svg.contains("&quot;1&quot;"), "{svg}");
    }
}
