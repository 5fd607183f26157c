//! How a line of the log looks: time, level and message for people, or an object of JSON for programs (`log_format`).

use std::fmt::{self, Debug};

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::field::{RecordFields, VisitOutput as _};
use tracing_subscriber::fmt::format::{self, DefaultVisitor, Format, Writer};
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use super::lines::{Lines, time_now};
use crate::json_line::JsonLine;

/// Fields that are for programs: the message says the same to people.
const FOR_PROGRAMS: [&str; 2] = ["event", "worker"];

/// Writes each line as it is wanted when it is written.
pub(super) struct Form {
    /// They know what is wanted.
    lines: Lines,
    text: Format,
}

impl Form {
    pub(super) fn new(lines: Lines) -> Self {
        Self { lines, text: format::format().with_target(false) }
    }
}

impl<S, N> FormatEvent<S, N> for Form
where
    S: Subscriber + for<'span> LookupSpan<'span>,
    N: for<'writer> FormatFields<'writer> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        if !self.lines.are_json() {
            return self.text.format_event(context, writer, event);
        }
        let mut line = JsonLine::new();
        line.text("timestamp", &time_now()).text("level", event.metadata().level().as_str());
        event.record(&mut Members(&mut line));
        writer.write_str(&line.end())
    }
}

/// The fields of an event as members of an object.
struct Members<'a>(&'a mut JsonLine);

impl Visit for Members<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.text(field.name(), &format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.text(field.name(), value);
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.plain(field.name(), value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.plain(field.name(), value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.0.plain(field.name(), value);
    }
}

/// The fields of a line for people.
pub(super) struct Fields;

impl<'writer> FormatFields<'writer> for Fields {
    fn format_fields<R: RecordFields>(&self, writer: Writer<'writer>, fields: R) -> fmt::Result {
        let mut shown = Shown(DefaultVisitor::new(writer, true));
        fields.record(&mut shown);
        shown.0.finish()
    }
}

struct Shown<'a>(DefaultVisitor<'a>);

impl Visit for Shown<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        if !FOR_PROGRAMS.contains(&field.name()) {
            self.0.record_debug(field, value);
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        if !FOR_PROGRAMS.contains(&field.name()) {
            self.0.record_str(field, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{self, Write};
    use std::sync::mpsc::{Sender, channel};

    use config::LogFormat;
    use tracing_subscriber::layer::SubscriberExt as _;

    use super::*;

    struct Out(Sender<String>);

    impl Write for Out {
        fn write(&mut self, line: &[u8]) -> io::Result<usize> {
            let _ = self.0.send(String::from_utf8_lossy(line).into_owned());
            Ok(line.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn lines_are_for_people_or_for_programs() {
        let (out, read) = channel();
        let lines = Lines::write_to(Out(out)).unwrap();
        let layer = tracing_subscriber::fmt::layer()
            .with_writer(lines.clone())
            .with_ansi(false)
            .event_format(Form::new(lines.clone()))
            .fmt_fields(Fields);
        tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), || {
            let say =
                || tracing::warn!(event = "a_name", worker = 3_usize, more = true, "it's \"{}\"", "odd\n");
            say();
            lines.change_format(LogFormat::Json);
            say();
        });
        let text = read.recv().unwrap();
        assert!(text.ends_with("Z  WARN it's \"odd\n\" more=true\n"), "{text:?}");
        let json = read.recv().unwrap();
        assert!(json.ends_with("}\n") && json.lines().count() == 1, "{json:?}");
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        assert_eq!((&json["level"], &json["message"]), (&"WARN".into(), &"it's \"odd\n\"".into()));
        assert_eq!((&json["event"], &json["worker"]), (&"a_name".into(), &3.into()));
        assert_eq!((&json["more"], json["timestamp"].is_string()), (&true.into(), true));
    }
}
