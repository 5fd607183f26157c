//! The page: one file of HTML, one of its form, and its program in several, all in this one.

use web::{Access, Answer, ContentType, Router};

/// What each file is called, what it is and what is in it.
const FILES: [(&str, ContentType, &[u8]); 9] = [
    ("/", ContentType::Html, include_bytes!("page/page.html")),
    ("/page.css", ContentType::Css, include_bytes!("page/page.css")),
    ("/chart.js", ContentType::JavaScript, include_bytes!("page/chart.js")),
    ("/charts.js", ContentType::JavaScript, include_bytes!("page/charts.js")),
    ("/figures.js", ContentType::JavaScript, include_bytes!("page/figures.js")),
    ("/page.js", ContentType::JavaScript, include_bytes!("page/page.js")),
    ("/strip.js", ContentType::JavaScript, include_bytes!("page/strip.js")),
    ("/tables.js", ContentType::JavaScript, include_bytes!("page/tables.js")),
    ("/moment.js", ContentType::JavaScript, include_bytes!("page/moment.js")),
];

/// Adds them.
pub(super) fn add(router: Router) -> Router {
    FILES.into_iter().fold(router, |router, (path, content_type, bytes)| {
        router.with(path, Access::Private, move |_| Answer::of(content_type, bytes))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A text of somebody's becomes no part of the page but a text, and nothing comes from elsewhere.
    #[test]
    fn it_needs_nothing_from_elsewhere_and_takes_texts_as_texts() {
        for (path, _, bytes) in FILES {
            let text = std::str::from_utf8(bytes).unwrap();
            for door in [
                "innerHTML",
                "outerHTML",
                "insertAdjacent",
                "document.write",
                "eval(",
                "http:",
                "https:",
                "@import",
                "url(",
                "srcdoc",
            ] {
                // SVG elements are named by their namespace, which nobody fetches.
                let text = text.replace("http://www.w3.org/2000/svg", "");
                assert!(!text.contains(door), "{path}: {door}");
            }
            assert!(text.lines().count() <= 600, "{path}");
        }
    }
}
