//! Charts in files of their own: bars on a logarithmic scale, and lines over time. Each brings its own style, which follows the
//! reader's choice of light or dark; series differ by dashes too.

use svg::{Axis, Svg};

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
const STYLE: &str = "\
text{font:13px system-ui,sans-serif;fill:#24292f}\
.title{font-weight:600}.up{text-anchor:end}.across{text-anchor:middle}\
.grid{stroke:#d0d7de;stroke-width:1;fill:none}\
.line{fill:none;stroke-width:2}\
.s0{stroke:#0072b2}.s1{stroke:#d55e00;stroke-dasharray:7 3}.s2{stroke:#8a6d00;stroke-dasharray:2 3}.s3{stroke:#007a5a}.s4{stroke:#b0508a;stroke-dasharray:9 3 2 3}\
rect.s0{fill:#0072b2}rect.s1{fill:#d55e00}rect.s2{fill:#8a6d00}rect.s3{fill:#007a5a}rect.s4{fill:#b0508a}\
rect.bar.bar{stroke:none}\
@media(prefers-color-scheme:dark){text{fill:#e6edf3}.grid{stroke:#3d444d}\
.s0{stroke:#56b4e9}.s1{stroke:#ff9457}.s2{stroke:#f0e442}.s3{stroke:#2fd3a5}.s4{stroke:#e58fc4}\
rect.s0{fill:#56b4e9}rect.s1{fill:#ff9457}rect.s2{fill:#f0e442}rect.s3{fill:#2fd3a5}rect.s4{fill:#e58fc4}}";

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
    let axis = axis_of_bars(bars.iter().map(|bar| bar.value));
    let size = [WIDTH, TOP + ROW * bars.len() as f64 + 8.0];
    let mut svg =
        open(&format!("{title}{}", if axis.is_logarithmic() { " (logarithmic)" } else { "" }), size);
    for (index, bar) in bars.iter().enumerate() {
        let top = TOP + ROW * index as f64;
        let length = axis.place(bar.value) * (WIDTH - LEFT - RIGHT);
        let base = top + ROW / 2.0 + 4.5;
        svg.text("up", [LEFT - 8.0, base], &bar.name);
        svg.rectangle(&format!("bar s{}", index % SERIES), [LEFT, top + 5.0], [length, ROW - 10.0], "");
        svg.text("", [LEFT + length + 8.0, base], &bar.label);
    }
    svg.finish() + "\n"
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
    let across = Axis::up_to_a_tick((count as f64 - 1.0).max(1.0) * step);
    let up = Axis::up_to_a_tick(most.max(1.0));
    let (wide, bottom) = (WIDTH - LEFT - 20.0, TOP + FIELD);
    let x = |seconds: f64| LEFT + across.place(seconds) * wide;
    let y = |value: f64| bottom - up.place(value) * FIELD;
    let mut svg = open(title, [WIDTH, TOP + FIELD + 34.0 + 20.0]);
    for tick in up.ticks() {
        svg.path("grid", format_args!("M{LEFT} {:.1}H{:.1}", y(tick), LEFT + wide));
        svg.text("up", [LEFT - 8.0, y(tick) + 4.5], thousands(tick));
    }
    for tick in across.ticks() {
        svg.text("across", [x(tick), bottom + 18.0], format_args!("{tick} s"));
    }
    for (index, line) in lines.iter().enumerate() {
        let class = format!("line s{}", index % SERIES);
        let values = line.values.iter().enumerate();
        svg.line(&class, values.map(|(at, &value)| [x(at as f64 * step), y(value)]));
        let (left, base) = (12.0 + 136.0 * index as f64, bottom + 44.0);
        svg.path(&class, format_args!("M{left:.1} {:.1}h28", base - 4.5));
        svg.text("", [left + 36.0, base], &line.name);
    }
    svg.finish() + "\n"
}

fn open(title: &str, size: [f64; 2]) -> Svg {
    let mut svg = Svg::alone(title, STYLE, size);
    svg.text("title", [12.0, 20.0], title);
    svg
}

fn axis_of_bars(values: impl Iterator<Item = f64> + Clone) -> Axis {
    let most = values.clone().fold(0.0, f64::max);
    let least = values.filter(|&value| value > 0.0).fold(f64::INFINITY, f64::min);
    // Bars that differ by more could not be seen side by side. From a tenth of the least, so that the least has a length too.
    if most > 20.0 * least {
        Axis::logarithmic(least / 10.0, most)
    } else {
        Axis::linear(most.max(f64::MIN_POSITIVE))
    }
}

fn thousands(value: f64) -> String {
    if value >= 1_000.0 { format!("{}k", value / 1_000.0) } else { format!("{value}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_far_apart_are_still_seen() {
        let axis = axis_of_bars([0.001, 222.0].into_iter());
        assert!(axis.place(0.001) > 0.1 && (axis.place(222.0) - 1.0).abs() < 1e-9);
        assert!(axis.place(0.0) == 0.0);
        let even = axis_of_bars([2.0, 4.0].into_iter());
        assert!((even.place(2.0) - 0.5).abs() < 1e-9);
    }

    #[test]
    fn without_values_there_is_a_picture_all_the_same() {
        for drawn in [bars("none", &[]), lines("none", 1.0, &[])] {
            assert!(
                drawn.starts_with("<svg ") && !drawn.contains("NaN") && !drawn.contains("inf"),
                "{drawn}"
            );
        }
    }
}
