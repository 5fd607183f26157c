//! The report's charts: lines over a number of connections, and bars made of parts. Colours, sizes of text and dashes come from the
//! page's style; series differ by marker and dash too.

use svg::{Axis, Svg};

use super::text;

/// The picture's own units; the page scales it.
const WIDTH: f64 = 640.0;
const HEIGHT: f64 = 340.0;
/// Room for the numbers of the axes, also where a narrow page writes them larger.
const LEFT: f64 = 66.0;
const RIGHT: f64 = 18.0;
const TOP: f64 = 12.0;
const BOTTOM: f64 = 36.0;
/// The height of a moment's name.
const MOMENT: f64 = 22.0;
/// The size of a legend's key: a line long enough for two of its dashes, as high as a line of text.
const KEY: [f64; 2] = [35.0, 16.0];

/// Lines over a number of connections, or over time.
pub(crate) struct LineChart<'a> {
    /// Names the picture within its page.
    pub(crate) id: &'a str,
    /// For those who do not see it.
    pub(crate) title: &'a str,
    /// What it shows, in a sentence.
    pub(crate) description: &'a str,
    /// The axis from left to right: logarithmic for connections, linear for seconds.
    pub(crate) across: Scale,
    /// What happened where on that axis.
    pub(crate) moments: Vec<(f64, &'a str)>,
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
    /// Connections, or seconds.
    pub(crate) x: f64,
    /// More than 0, where the axis is logarithmic.
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
    fn draw(self, svg: &mut Svg, [x, y]: [f64; 2]) {
        match self {
            Self::Circle => svg.circle("", [x, y], 4.5),
            Self::Square => svg.rectangle("", [x - 4.0, y - 4.0], [8.0, 8.0], ""),
            Self::Triangle => svg.path("", format_args!("M{x:.1} {:.1}l5.4 9.2h-10.8z", y - 5.8)),
            Self::Diamond => svg.path("", format_args!("M{x:.1} {:.1}l5.6 5.6-5.6 5.6-5.6-5.6z", y - 5.6)),
        }
    }
}

/// Draws it; empty where no line has a point.
pub(crate) fn lines(chart: &LineChart<'_>) -> String {
    let all = || chart.lines.iter().flat_map(|line| &line.points);
    let (Some(across), Some(up)) =
        (axis(chart.across, all().map(|point| point.x)), axis(chart.scale, all().map(|point| point.y)))
    else {
        return String::new();
    };
    let x = |value: f64| LEFT + across.place(value) * (WIDTH - LEFT - RIGHT);
    let y = |value: f64| HEIGHT - BOTTOM - up.place(value) * (HEIGHT - TOP - BOTTOM);
    let mut svg = Svg::in_page(chart.id, chart.title, chart.description, [WIDTH, HEIGHT]);
    for tick in up.ticks() {
        svg.path("grid", format_args!("M{LEFT} {:.1}H{:.1}", y(tick), WIDTH - RIGHT));
        svg.text("up", [LEFT - 8.0, y(tick) + 4.5], (chart.number)(tick));
    }
    for tick in across.ticks() {
        svg.path("grid", format_args!("M{:.1} {TOP}V{:.1}", x(tick), HEIGHT - BOTTOM));
        svg.text("across", [x(tick), HEIGHT - 12.0], text::short(tick));
    }
    for (index, (at, name)) in chart.moments.iter().enumerate() {
        // Each name a line of text below the one before: moments may lie close together.
        let baseline = TOP + MOMENT * (index as f64 + 1.0);
        svg.path("moment", format_args!("M{:.1} {TOP}V{:.1}", x(*at), HEIGHT - BOTTOM));
        // Towards the middle, where there is room for it.
        let (class, beside) = if x(*at) < WIDTH / 2.0 { ("", 6.0) } else { ("up", -6.0) };
        svg.text(class, [x(*at) + beside, baseline], name);
    }
    for line in &chart.lines {
        svg.group(line.class, "", |svg| {
            svg.line("line", line.points.iter().map(|point| [x(point.x), y(point.y)]));
            for point in &line.points {
                let Some(marker) = line.marker else { continue };
                let place = [x(point.x), y(point.y)];
                // Around each a larger, invisible place for the pointer.
                svg.group("point", &point.label, |svg| {
                    marker.draw(svg, place);
                    svg.circle("touch", place, 14.0);
                });
            }
        });
    }
    svg.finish() + "\n"
}

/// The key of a line in a legend.
pub(crate) fn line_key(class: &str, marker: Option<Marker>) -> String {
    let mut svg = Svg::beside_words(KEY);
    svg.group(class, "", |svg| {
        svg.path("line", "M1 8H34");
        if let Some(marker) = marker {
            svg.group("point", "", |svg| marker.draw(svg, KEY.map(|length| length / 2.0)));
        }
    });
    svg.finish()
}

/// The key of parts of bars.
pub(crate) fn bar_key(class: &str) -> String {
    let mut svg = Svg::beside_words(KEY);
    svg.rectangle(&format!("bar {class}"), [6.0, 1.0], [22.0, 14.0], "");
    svg.finish()
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
    let size = [WIDTH, ROW * chart.bars.len() as f64 + 4.0];
    let mut svg = Svg::in_page(chart.id, chart.title, chart.description, size);
    for (index, bar) in chart.bars.iter().enumerate() {
        let top = ROW * index as f64 + 2.0;
        let base = top + ROW / 2.0 + 5.0;
        svg.text("up", [NAMES - 10.0, base], &bar.name);
        let mut left = NAMES;
        for (class, part, label) in &bar.parts {
            let place = [left, top + (ROW - THICK) / 2.0];
            svg.rectangle(&format!("bar {class}"), place, [part * scale, THICK], label);
            left += part * scale;
        }
        svg.text("", [left + 8.0, base], format_args!("{:.1}", length(bar)));
    }
    svg.finish() + "\n"
}

/// An axis for values; `None` without one that it could show.
fn axis(scale: Scale, values: impl Iterator<Item = f64>) -> Option<Axis> {
    let usable = values.filter(|value| value.is_finite() && *value > 0.0);
    let (from, to) =
        usable.fold((f64::INFINITY, 0.0_f64), |(from, to), value| (from.min(value), to.max(value)));
    (to > 0.0).then(|| match scale {
        // A little room above the highest point.
        Scale::Linear => Axis::linear(to * 1.04),
        // Room for the points at both ends, and for an axis of one value only.
        Scale::Logarithmic => Axis::logarithmic(from / 1.3, to * 1.3),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_shown_draws_nothing() {
        for values in [vec![], vec![0.0], vec![f64::NAN, f64::INFINITY]] {
            for scale in [Scale::Linear, Scale::Logarithmic] {
                assert!(axis(scale, values.iter().copied()).is_none(), "{values:?}");
            }
        }
        let empty = LineChart {
            id: "a",
            title: "",
            description: "",
            across: Scale::Linear,
            moments: Vec::new(),
            scale: Scale::Linear,
            number: text::short,
            lines: Vec::new(),
        };
        assert_eq!(lines(&empty), "");
        assert_eq!(bars(&BarChart { id: "a", title: "", description: "", bars: Vec::new() }), "");
    }

    #[test]
    fn an_axis_of_one_value_has_it_in_the_middle() {
        for one in [1e-3, 7.0, 1e6] {
            let axis = axis(Scale::Logarithmic, [one].into_iter()).unwrap();
            assert!((axis.place(one) - 0.5).abs() < 1e-9, "{axis:?}");
        }
    }
}
