//! Charts as SVG, written by hand: lines over a number of connections, and bars made of parts. Colours, sizes of text and
//! dashes come from the page's style; series differ by marker and dash too.

use std::fmt::Write as _;

use super::text;

/// The picture's own units; the page scales it.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
/// Room for the numbers of the axes, also where a narrow page writes them larger.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;

/// Lines over a number of connections, on a logarithmic axis.
pub(crate) struct LineChart<'a> {
    /// Names the picture within its page.
    pub(crate) id: &'a str,
    /// For those who do not see it.
    pub(crate) title: &'a str,
    /// What it shows, in a sentence.
    pub(crate) description: &'a str,
    /// The upright axis.
    pub(crate) scale: Scale,
    /// How its numbers are written.
    pub(crate) number: fn(f64) -> String,
    /// From the back to the front.
    pub(crate) lines: Vec<Line>,
}

/// An upright axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    /// From 0.
    Linear,
    /// Each step multiplies.
    Logarithmic,
}

/// One series.
pub(crate) struct Line {
    /// The series' class in the page's style.
    pub(crate) class: &'static str,
    /// The shape of its points; `None` for a line without any.
    pub(crate) marker: Option<Marker>,
    /// From left to right.
    pub(crate) points: Vec<Point>,
}

/// One point of a line.
pub(crate) struct Point {
    /// Connections.
    pub(crate) x: f64,
    /// More than 0.
    pub(crate) y: f64,
    /// What a pointer over it shows.
    pub(crate) label: String,
}

/// The shape of points: what tells series apart without colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
}

impl Marker {
    /// The shape around a place.
    pub(crate) fn draw(self, x: f64, y: f64) -> String {
        match self {
            Self::Circle => format!(r#"<circle cx="{x:.1}" cy="{y:.1}" r="4.5"/>"#),
            Self::Square => format!(r#"<rect x="{:.1}" y="{:.1}" width="8" height="8"/>"#, x - 4.0, y - 4.0),
            Self::Triangle => format!(r#"<path d="M{x:.1} {:.1}l5.4 9.2h-10.8z"/>"#, y - 5.8),
            Self::Diamond => format!(r#"<path d="M{x:.1} {:.1}l5.6 5.6-5.6 5.6-5.6-5.6z"/>"#, y - 5.6),
        }
    }
}

/// Draws it; empty where no line has a point.
pub(crate) fn lines(chart: &LineChart<'_>) -> String {
    let all = || chart.lines.iter().flat_map(|line| &line.points);
    let (Some(across), Some(up)) =
        (Axis::logarithmic(all().map(|point| point.x)), Axis::new(chart.scale, all().map(|point| point.y)))
    else {
        return String::new();
    };
    let x = |value: f64| LEFT + across.place(value) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - up.place(value) * (HEIGHT - TOP - BOTTOM);
    let mut svg = open(chart.id, chart.title, chart.description, HEIGHT);
    for tick in up.ticks() {
        let at = y(tick);
        let _ = write!(svg, r#"<path class="grid" d="M{LEFT} {at:.1}H{:.1}"/>"#, WIDTH - RIGHT);
        let _ = write!(
            svg,
            r#"<text class="up" x="{:.1}" y="{:.1}">{}</text>"#,
            LEFT - 8.0,
            at + 4.5,
            (chart.number)(tick)
        );
    }
    for tick in across.ticks() {
        let at = x(tick);
        let _ = write!(svg, r#"<path class="grid" d="M{at:.1} {TOP}V{:.1}"/>"#, HEIGHT - BOTTOM);
        let _ = write!(
            svg,
            r#"<text class="across" x="{at:.1}" y="{:.1}">{}</text>"#,
            HEIGHT - 12.0,
            text::short(tick)
        );
    }
    for line in &chart.lines {
        let _ = write!(svg, r#"<g class="{}">"#, line.class);
        let path: Vec<String> =
            line.points.iter().map(|point| format!("{:.1} {:.1}", x(point.x), y(point.y))).collect();
        let _ = write!(svg, r#"<path class="line" d="M{}"/>"#, path.join("L"));
        for point in &line.points {
            let (at, height) = (x(point.x), y(point.y));
            let Some(marker) = line.marker else { continue };
            // Around each a larger, invisible place for the pointer.
            let _ = write!(
                svg,
                r#"<g class="point">{}<circle class="touch" cx="{at:.1}" cy="{height:.1}" r="14"/><title>{}</title></g>"#,
                marker.draw(at, height),
                escaped(&point.label)
            );
        }
        svg.push_str("</g>");
    }
    svg.push_str("</svg>\n");
    svg
}

/// Bars that are made of parts, one below the other.
pub(crate) struct BarChart<'a> {
    /// Names the picture within its page.
    pub(crate) id: &'a str,
    /// For those who do not see it.
    pub(crate) title: &'a str,
    /// What it shows, in a sentence.
    pub(crate) description: &'a str,
    /// From the top down.
    pub(crate) bars: Vec<Bar>,
}

/// One bar.
pub(crate) struct Bar {
    /// In front of it.
    pub(crate) name: String,
    /// The parts: their class in the page's style, their length, and what a pointer over them shows.
    pub(crate) parts: Vec<(&'static str, f64, String)>,
}

/// Draws it; empty without bars.
pub(crate) fn bars(chart: &BarChart<'_>) -> String {
    /// As high as the larger text of a narrow page.
    const ROW: f64 = 28.0;
    const THICK: f64 = 16.0;
    /// `own pool 15,000` in the larger text.
    const NAMES: f64 = 190.0;
    /// The sum behind the bar.
    const SUMS: f64 = 60.0;
    let length = |bar: &Bar| bar.parts.iter().map(|(_, length, _)| length).sum::<f64>();
    let longest = chart.bars.iter().map(length).fold(0.0, f64::max);
    if longest <= 0.0 {
        return String::new();
    }
    let scale = (WIDTH - NAMES - SUMS) / longest;
    let mut svg = open(chart.id, chart.title, chart.description, ROW * chart.bars.len() as f64 + 4.0);
    for (index, bar) in chart.bars.iter().enumerate() {
        let top = ROW * index as f64 + 2.0;
        let base = top + ROW / 2.0 + 5.0;
        let _ = write!(
            svg,
            r#"<text class="up" x="{:.1}" y="{base:.1}">{}</text>"#,
            NAMES - 10.0,
            escaped(&bar.name)
        );
        let mut left = NAMES;
        for (class, part, label) in &bar.parts {
            let wide = part * scale;
            let _ = write!(
                svg,
                r#"<rect class="bar {class}" x="{left:.1}" y="{:.1}" width="{wide:.1}" height="{THICK}"><title>{}</title></rect>"#,
                top + (ROW - THICK) / 2.0,
                escaped(label)
            );
            left += wide;
        }
        let _ = write!(svg, r#"<text x="{:.1}" y="{base:.1}">{:.1}</text>"#, left + 8.0, length(bar));
    }
    svg.push_str("</svg>\n");
    svg
}

fn open(id: &str, title: &str, description: &str, height: f64) -> String {
    format!(
        r#"<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{id}-title {id}-description"><title id="{id}-title">{}</title><desc id="{id}-description">{}</desc>"#,
        escaped(title),
        escaped(description)
    )
}

/// Text within HTML or SVG.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            // What XML has no place for, such as a terminal's colours in a message.
            control if control.is_control() && control != '\n' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

/// From values to places between 0 and 1.
#[derive(Debug)]
struct Axis {
    scale: Scale,
    from: f64,
    to: f64,
}

impl Axis {
    /// `None` without a value that it could show.
    fn new(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Self> {
        match scale {
            Scale::Logarithmic => Self::logarithmic(values),
            Scale::Linear => {
                let to = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
                // A little room above the highest point.
                (to > 0.0).then_some(Self { scale, from: 0.0, to: to * 1.04 })
            }
        }
    }

    fn logarithmic(values: impl Iterator<Item = f64>) -> Option<Self> {
        let usable = values.filter(|value| value.is_finite() && *value > 0.0);
        let (from, to) =
            usable.fold((f64::INFINITY, 0.0_f64), |(from, to), value| (from.min(value), to.max(value)));
        // Room for the points at both ends, and for an axis of one value only.
        (to > 0.0).then_some(Self { scale: Scale::Logarithmic, from: from / 1.3, to: to * 1.3 })
    }

    fn place(&self, value: f64) -> f64 {
        match self.scale {
            Scale::Linear => value / self.to,
            Scale::Logarithmic => (value / self.from).ln() / (self.to / self.from).ln(),
        }
    }

    /// Round numbers, few enough to be read.
    fn ticks(&self) -> Vec<f64> {
        match self.scale {
            Scale::Linear => {
                // Between four and eight of them.
                let step = [1.0, 2.0, 2.5, 5.0, 10.0]
                    .map(|factor| factor * 10_f64.powf((self.to / 8.0).log10().floor()))
                    .into_iter()
                    .find(|step| self.to / step <= 8.0)
                    .unwrap_or(self.to);
                (0..=8).map(|index| f64::from(index) * step).filter(|tick| *tick <= self.to).collect()
            }
            Scale::Logarithmic => {
                let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
                let within = |factors: &'static [f64]| -> Vec<f64> {
                    let ticks = decades
                        .clone()
                        .flat_map(|power| factors.iter().map(move |factor| factor * 10_f64.powi(power)));
                    ticks.filter(|tick| (self.from..=self.to).contains(tick)).collect()
                };
                let powers = within(&[1.0]);
                // Less than two decades have too few powers of ten.
                if powers.len() >= 3 { powers } else { within(&[1.0, 2.0, 5.0]) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_few() {
        let linear = Axis::new(Scale::Linear, [140_000.0, 3.0].into_iter()).unwrap();
        assert_eq!(
            linear.ticks(),
            [0.0, 20_000.0, 40_000.0, 60_000.0, 80_000.0, 100_000.0, 120_000.0, 140_000.0]
        );
        let decades = Axis::logarithmic([4.0, 100_000.0].into_iter()).unwrap();
        assert_eq!(decades.ticks(), [10.0, 100.0, 1_000.0, 10_000.0, 100_000.0]);
        let short = Axis::logarithmic([10.0, 50.0].into_iter()).unwrap();
        assert_eq!(short.ticks(), [10.0, 20.0, 50.0]);
        for one in [1e-3, 7.0, 1e6] {
            let axis = Axis::logarithmic([one].into_iter()).unwrap();
            assert!((axis.place(one) - 0.5).abs() < 1e-9, "{axis:?}");
        }
    }

    #[test]
    fn what_cannot_be_shown_draws_nothing() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY]] {
            assert!(Axis::logarithmic(values.iter().copied()).is_none(), "{values:?}");
            assert!(Axis::new(Scale::Linear, values.iter().copied()).is_none(), "{values:?}");
        }
        let empty = LineChart {
            id: "a",
            title: "",
            description: "",
            scale: Scale::Linear,
            number: text::short,
            lines: Vec::new(),
        };
        assert_eq!(lines(&empty), "");
        assert_eq!(bars(&BarChart { id: "a", title: "", description: "", bars: Vec::new() }), "");
    }

    #[test]
    fn texts_cannot_leave_their_place() {
        assert_eq!(escaped("a<b>&\"c\"\u{1b}[0m"), "a&lt;b&gt;&amp;&quot;c&quot; [0m");
        let point = Point { x: 1.0, y: 1.0, label: String::from("</title><script>") };
        let line = Line { class: "onramp", marker: Some(Marker::Circle), points: vec![point] };
        let svg = lines(&LineChart {
            id: "a",
            title: "t",
            description: "d",
            scale: Scale::Linear,
            number: text::short,
            lines: vec![line],
        });
        assert!(svg.contains("&lt;/title&gt;&lt;script&gt;") && !svg.contains("<script>"), "{svg}");
    }
}
