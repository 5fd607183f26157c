//! What a handler answers.

use std::borrow::Cow;

use http_body_util::Full;
use hyper::Response;
use hyper::body::Bytes;
use hyper::header::{HeaderName, HeaderValue};

/// What is in an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContentType {
    /// For people, without form.
    Text,
    /// A page.
    Html,
    /// A page's form.
    Css,
    /// A page's program.
    JavaScript,
    /// A picture.
    Svg,
    /// For programs.
    Json,
    /// Metrics, in Prometheus' text form.
    Metrics,
}

impl ContentType {
    const fn name(self) -> &'static str {
        match self {
            Self::Text => "text/plain; charset=utf-8",
            Self::Html => "text/html; charset=utf-8",
            Self::Css => "text/css; charset=utf-8",
            Self::JavaScript => "text/javascript; charset=utf-8",
            Self::Svg => "image/svg+xml",
            Self::Json => "application/json",
            Self::Metrics => "text/plain; version=0.0.4; charset=utf-8",
        }
    }
}

/// An answer, whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// As in HTTP, such as 200.
    pub status: u16,
    /// What the body is.
    pub content_type: ContentType,
    /// Its bytes; files of the program are borrowed.
    pub body: Cow<'static, [u8]>,
}

impl Answer {
    /// 200, with this.
    pub fn of(content_type: ContentType, body: impl Into<Cow<'static, [u8]>>) -> Self {
        Self { status: 200, content_type, body: body.into() }
    }

    /// A line for people and for probes.
    pub fn line(status: u16, line: &str) -> Self {
        Self { status, ..Self::of(ContentType::Text, format!("{line}\n").into_bytes()) }
    }
}

/// What stands in each answer. A page gets nothing from elsewhere and stands in no frame; nothing is kept by anybody, since
/// what is shown is how things stand now.
const HEADERS: [(&str, &str); 4] = [
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
         frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("cache-control", "no-store"),
    ("referrer-policy", "no-referrer"),
];

/// In HTTP, with `more` headers of its own.
pub(crate) fn response(answer: Answer, more: Option<(&'static str, &'static str)>) -> Response<Full<Bytes>> {
    let body = match answer.body {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    let mut response = Response::new(Full::new(body));
    *response.status_mut() =
        hyper::StatusCode::from_u16(answer.status).expect("handlers answer with what HTTP knows");
    let all = HEADERS.into_iter().chain([("content-type", answer.content_type.name())]).chain(more);
    for (name, value) in all {
        response.headers_mut().insert(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    response
}
