//! The writer of a picture.

use std::fmt::{Display, Write as _};

/// A picture while it is written. Places and lengths are in its own units, and are written to a tenth of one. Texts are escaped
/// here; classes, identifiers and the data of paths are the caller's own words. An empty class is none.
#[derive(Debug)]
pub struct Svg {
    out: String,
}

impl Svg {
    /// A picture within a page of HTML, which has the style. `id` names the picture there; `title` and `description` are read to
    /// people who do not see it.
    pub fn in_page(id: &str, title: &str, description: &str, [width, height]: [f64; 2]) -> Self {
        let out = format!(
            r#"<svg viewBox="0 0 {width} {height}" role="img" aria-labelledby="{id}-title {id}-description"><title id="{id}-title">{}</title><desc id="{id}-description">{}</desc>"#,
            escaped(title),
            escaped(description)
        );
        Self { out }
    }

    /// A small picture within a page that says no more than the words beside it, such as a key of a legend.
    pub fn beside_words([width, height]: [f64; 2]) -> Self {
        Self { out: format!(r#"<svg viewBox="0 0 {width} {height}" aria-hidden="true">"#) }
    }

    /// A picture in a file of its own, with its `style`, the CSS of the classes.
    pub fn alone(title: &str, style: &str, [width, height]: [f64; 2]) -> Self {
        let out = format!(
            r#"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" aria-label="{}"><style>{style}</style>"#,
            escaped(title)
        );
        Self { out }
    }

    /// A text on the line `y` that begins at `x`, or is centred there or ends there where its class says so.
    pub fn text(&mut self, class: &str, [x, y]: [f64; 2], text: impl Display) {
        let class = attribute_of(class);
        self.put(format_args!(r#"<text{class} x="{x:.1}" y="{y:.1}">{}</text>"#, escaped(&text.to_string())));
    }

    /// A path; `data` is its attribute `d`.
    pub fn path(&mut self, class: &str, data: impl Display) {
        let class = attribute_of(class);
        self.put(format_args!(r#"<path{class} d="{data}"/>"#));
    }

    /// A line through places.
    pub fn line(&mut self, class: &str, places: impl IntoIterator<Item = [f64; 2]>) {
        let places: Vec<_> = places.into_iter().map(|[x, y]| format!("{x:.1} {y:.1}")).collect();
        if !places.is_empty() {
            self.path(class, format_args!("M{}", places.join("L")));
        }
    }

    /// A rectangle from its left upper corner on. A pointer over it shows `title`, where that is not empty.
    pub fn rectangle(&mut self, class: &str, [x, y]: [f64; 2], [width, height]: [f64; 2], title: &str) {
        let class = attribute_of(class);
        self.put(format_args!(
            r#"<rect{class} x="{x:.1}" y="{y:.1}" width="{width:.1}" height="{height:.1}""#
        ));
        if title.is_empty() {
            self.out.push_str("/>");
        } else {
            self.put(format_args!("><title>{}</title></rect>", escaped(title)));
        }
    }

    /// A circle around a place.
    pub fn circle(&mut self, class: &str, [x, y]: [f64; 2], radius: f64) {
        let class = attribute_of(class);
        self.put(format_args!(r#"<circle{class} cx="{x:.1}" cy="{y:.1}" r="{radius}"/>"#));
    }

    /// What `inside` draws, as one thing with a class. A pointer over it shows `title`, where that is not empty.
    pub fn group(&mut self, class: &str, title: &str, inside: impl FnOnce(&mut Self)) {
        let class = attribute_of(class);
        self.put(format_args!("<g{class}>"));
        inside(self);
        if !title.is_empty() {
            self.put(format_args!("<title>{}</title>", escaped(title)));
        }
        self.out.push_str("</g>");
    }

    /// The whole of it.
    pub fn finish(mut self) -> String {
        self.out.push_str("</svg>");
        self.out
    }

    fn put(&mut self, element: std::fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = self.out.write_fmt(element);
    }
}

fn attribute_of(class: &str) -> String {
    if class.is_empty() { String::new() } else { format!(r#" class="{class}""#) }
}

/// Text within HTML or SVG, between tags or in an attribute with quotes of either sort.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // What XML has no place for, such as a terminal's colours in a message.
            control if control.is_control() && control != '\n' => out.push(' '),
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_cannot_leave_their_place() {
        assert_eq!(escaped("a<b>&\"c\"'\u{1b}[0m"), "a&lt;b&gt;&amp;&quot;c&quot;&#39; [0m");
        let evil = "</title>\"<script>";
        let mut svg = Svg::in_page("a", evil, evil, [10.0, 10.0]);
        svg.text("", [1.0, 1.0], evil);
        svg.rectangle("r", [1.0, 1.0], [1.0, 1.0], evil);
        svg.group("g", evil, |svg| svg.circle("", [1.0, 1.0], 4.5));
        let drawn = svg.finish() + &Svg::alone(evil, "", [1.0, 1.0]).finish();
        assert!(!drawn.contains("<script>"), "{drawn}");
        assert_eq!(drawn.matches("&lt;/title&gt;&quot;&lt;script&gt;").count(), 6, "{drawn}");
    }

    #[test]
    fn an_empty_class_is_none() {
        let draw = |class: &str| {
            let mut svg = Svg::beside_words([1.0, 1.0]);
            svg.group(class, "", |svg| {
                svg.text(class, [0.0, 0.0], "x");
                svg.path(class, "M0 0");
                svg.rectangle(class, [0.0, 0.0], [1.0, 1.0], "");
                svg.circle(class, [0.0, 0.0], 1.0);
            });
            svg.finish()
        };
        assert!(!draw("").contains("class"), "{}", draw(""));
        assert_eq!(draw("a").matches(r#" class="a""#).count(), 5, "{}", draw("a"));
    }

    #[test]
    fn a_line_without_places_draws_nothing() {
        let mut svg = Svg::alone("", "", [1.0, 1.0]);
        svg.line("line", []);
        svg.line("line", [[1.0, 2.0], [3.04, 4.06]]);
        assert!(svg.finish().ends_with(r#"</style><path class="line" d="M1.0 2.0L3.0 4.1"/></svg>"#));
    }
}
