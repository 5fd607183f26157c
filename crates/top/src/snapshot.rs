//! One look at an Onramp, or at several as one: what their tables held, as they were asked for. A line of JSON and back.

use std::collections::BTreeMap;
use std::fmt;

use serde_json::{Map, Number, Value as Json, json};

/// A value of a row.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// NULL, or a column that is not there.
    Null,
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// Text, as it came: [`crate::format::clean`] comes before a terminal.
    Text(String),
}

impl Value {
    /// The number, where it is a whole one.
    pub fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// As text; empty for NULL.
    pub fn text(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Integer(number) => number.to_string(),
            Self::Real(number) => number.to_string(),
            Self::Text(text) => text.clone(),
        }
    }

    fn to_json(&self) -> Json {
        match self {
            Self::Null => Json::Null,
            Self::Integer(number) => Json::from(*number),
            Self::Real(number) => Number::from_f64(*number).map_or(Json::Null, Json::Number),
            Self::Text(text) => Json::from(text.as_str()),
        }
    }

    fn from_json(json: &Json) -> Self {
        match json {
            Json::Number(number) => match (number.as_i64(), number.as_f64()) {
                (Some(integer), _) => Self::Integer(integer),
                (None, Some(real)) => Self::Real(real),
                (None, None) => Self::Null,
            },
            Json::String(text) => Self::Text(text.clone()),
            Json::Bool(truth) => Self::Integer(i64::from(*truth)),
            _ => Self::Null,
        }
    }
}

/// A result: columns by name, and rows with a value for each.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Table {
    /// Names of the columns, in order.
    pub columns: Vec<String>,
    /// The rows, each as long as `columns`.
    pub rows: Vec<Vec<Value>>,
}

impl Table {
    /// Where a column stands.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

/// One look.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Snapshot {
    /// When it was complete, in milliseconds since 1970 (UTC).
    pub at: u64,
    /// How long it took, in milliseconds.
    pub took: u64,
    /// Counters and measures by name, as `SHOW STATUS` has them.
    pub status: BTreeMap<String, String>,
    /// Options by name, those that the header shows.
    pub options: BTreeMap<String, String>,
    /// Tables by name, those that were asked for.
    pub tables: BTreeMap<String, Table>,
    /// What could not be told of tables, by name, and of workers that did not answer in time.
    pub troubles: BTreeMap<String, String>,
    /// Of a look at several Onramps each of them: then `status`, `options` and `troubles` are theirs and empty here, and the rows of
    /// `tables` say in the column [`ONRAMP`] whose they are.
    pub parts: Vec<Part>,
}

/// What one of several Onramps has said of itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Part {
    /// What tells it apart from the others.
    pub name: String,
    /// The Onramp's admin port, for people.
    pub target: String,
    /// A look without tables, which are in the whole; or why there is none, in the words that a recording has for it.
    pub look: Result<Snapshot, String>,
}

/// Why JSON is no look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoSnapshot {
    /// The JSON does not say when the look was.
    Untimed,
    /// This table is no list of rows.
    OtherTable(String),
    /// The look is of several admin ports, and one of them has no name.
    Nameless,
}

impl fmt::Display for NoSnapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Untimed => f.write_str("it has no at_ms, the time of a look"),
            Self::OtherTable(name) => write!(f, "its table {name} is no list"),
            Self::Nameless => f.write_str("an admin port of it has no name"),
        }
    }
}

impl std::error::Error for NoSnapshot {}

/// The column that says whose a row is.
pub const ONRAMP: &str = "onramp";

/// In the table of locks, where it is of several: whose client `waits_for_client` is, where it is another one's.
pub const HOLDER: &str = "waits_for_onramp";

/// The table of the Onramps that one knows in front of its server, which comes with each look.
pub const PEERS: &str = "peers";

/// The table of sentences, which comes with each look.
pub const NOTES: &str = "notes";

/// How bad something is, the worst first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// Somebody is not served.
    Bad,
    /// An operator has ordered it so.
    Told,
    /// Somebody waits, or may soon not be served.
    Warn,
    /// All is well.
    Well,
    /// The sentence is neither good nor bad.
    Says,
}

impl Level {
    /// The level by its word in the table `notes`; `None` for a word that only a newer Onramp has.
    fn of(word: &str) -> Option<Self> {
        Some(match word {
            "bad" => Self::Bad,
            "told" => Self::Told,
            "warn" => Self::Warn,
            "well" => Self::Well,
            "says" => Self::Says,
            _ => return None,
        })
    }
}

/// A sentence on how things stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Note<'a> {
    /// Whose it is; empty where one Onramp is looked at.
    pub onramp: &'a str,
    /// How bad it is; `None` stands before all that is known.
    pub level: Option<Level>,
    /// What it is about.
    pub about: &'a str,
    /// The sentence.
    pub text: &'a str,
}

impl Snapshot {
    /// What there is to know first, the worst before the rest; none where the Onramp is older than these.
    pub fn notes<'s>(&'s self) -> Vec<Note<'s>> {
        let Some(table) = self.tables.get(NOTES) else { return Vec::new() };
        let place = |column: &str| table.column(column);
        let (Some(level), Some(about), Some(text)) = (place("level"), place("about"), place("text")) else {
            return Vec::new();
        };
        let onramp = |row: &'s [Value]| match place(ONRAMP).map(|place| &row[place]) {
            Some(Value::Text(name)) => name.as_str(),
            _ => "",
        };
        let notes = table.rows.iter().filter_map(|row| match (&row[level], &row[about], &row[text]) {
            (Value::Text(level), Value::Text(about), Value::Text(text)) => {
                Some(Note { onramp: onramp(row), level: Level::of(level), about, text })
            }
            _ => None,
        });
        notes.collect()
    }

    /// Whether this is a look at several Onramps.
    pub fn is_of_several(&self) -> bool {
        !self.parts.is_empty()
    }

    /// Onramps that have answered, by their names; one that is looked at alone has an empty one.
    pub fn each(&self) -> Vec<(&str, &Self)> {
        if self.parts.is_empty() {
            return vec![("", self)];
        }
        self.parts.iter().filter_map(|part| Some((part.name.as_str(), part.look.as_ref().ok()?))).collect()
    }

    /// What could not be told of a table, with whose it is where there are several.
    pub fn troubles_of(&self, table: &str) -> Vec<String> {
        let of = |(name, look): (&str, &Self)| {
            let text = look.troubles.get(table)?;
            Some(if self.is_of_several() { format!("{name}: {text}") } else { text.clone() })
        };
        self.each().into_iter().filter_map(of).collect()
    }

    /// A counter or measure of all that have it, together; `None` where nobody has. For what can be summed.
    pub fn sum(&self, variable: &str) -> Option<i64> {
        let numbers = self.each().into_iter().filter_map(|(_, look)| look.number(variable));
        numbers.reduce(i64::saturating_add)
    }

    /// A counter or measure that is a whole number.
    pub fn number(&self, variable: &str) -> Option<i64> {
        self.status.get(variable)?.parse().ok()
    }

    /// As JSON: an object with `at_ms`, `took_ms`, `status`, `options`, `tables` (each a list of objects, where NULLs are left out)
    /// and `troubles`. Of several it has `at_ms`, `took_ms`, `tables`, and in `admin_ports` a list of objects with `name`, `target`
    /// and either `failure` or what one alone has beside its tables.
    pub fn to_json(&self) -> Json {
        if self.parts.is_empty() {
            return self.own_json();
        }
        let tables: Map<_, _> = self.tables.iter().map(|(name, table)| (name.clone(), rows(table))).collect();
        let ports: Json = self.parts.iter().map(Part::to_json).collect();
        json!({ "at_ms": self.at, "took_ms": self.took, "admin_ports": ports, "tables": tables })
    }

    fn own_json(&self) -> Json {
        let words = |map: &BTreeMap<String, String>| -> Json {
            map.iter()
                .map(|(name, value)| (name.clone(), Json::from(value.as_str())))
                .collect::<Map<_, _>>()
                .into()
        };
        let status: Map<_, _> = self
            .status
            .iter()
            .map(|(name, value)| {
                (name.clone(), value.parse::<i64>().map_or_else(|_| Json::from(value.as_str()), Json::from))
            })
            .collect();
        let tables: Map<_, _> = self.tables.iter().map(|(name, table)| (name.clone(), rows(table))).collect();
        json!({
            "at_ms": self.at,
            "took_ms": self.took,
            "status": status,
            "options": words(&self.options),
            "tables": tables,
            "troubles": words(&self.troubles),
        })
    }

    /// From what [`Self::to_json`] makes; what is missing is empty.
    ///
    /// # Errors
    /// Where it is no such object.
    pub fn from_json(json: &Json) -> Result<Self, NoSnapshot> {
        let at = json.get("at_ms").and_then(Json::as_u64).ok_or(NoSnapshot::Untimed)?;
        let words = |name: &str| -> BTreeMap<String, String> {
            let map = json.get(name).and_then(Json::as_object);
            let text = |value: &Json| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            map.into_iter().flatten().map(|(name, value)| (name.clone(), text(value))).collect()
        };
        let mut tables = BTreeMap::new();
        for (name, rows) in json.get("tables").and_then(Json::as_object).into_iter().flatten() {
            let rows = rows.as_array().ok_or_else(|| NoSnapshot::OtherTable(name.clone()))?;
            tables.insert(name.clone(), table(rows));
        }
        Ok(Self {
            at,
            took: json.get("took_ms").and_then(Json::as_u64).unwrap_or(0),
            status: words("status"),
            options: words("options"),
            tables,
            troubles: words("troubles"),
            parts: match json.get("admin_ports").and_then(Json::as_array) {
                Some(parts) => parts.iter().map(Part::from_json).collect::<Result<_, _>>()?,
                None => Vec::new(),
            },
        })
    }

    /// A line of JSON, without its end. No character in it can move a terminal's cursor or change what it shows: JSON escapes those of
    /// ASCII, and here all further ones are.
    pub fn to_line(&self) -> String {
        escaped(&self.to_json().to_string())
    }
}

impl Part {
    fn to_json(&self) -> Json {
        let mut json = match &self.look {
            Ok(look) => look.own_json(),
            Err(failure) => json!({ "failure": failure }),
        };
        if let Some(object) = json.as_object_mut() {
            object.remove("tables");
            object.insert("name".to_owned(), Json::from(self.name.as_str()));
            object.insert("target".to_owned(), Json::from(self.target.as_str()));
        }
        json
    }

    fn from_json(json: &Json) -> Result<Self, NoSnapshot> {
        let word = |name: &str| json.get(name).and_then(Json::as_str).map(str::to_owned);
        let name = word("name").filter(|name| !name.is_empty()).ok_or(NoSnapshot::Nameless)?;
        let look = match word("failure") {
            Some(failure) => Err(failure),
            // A part of a part is nothing that anybody writes.
            None => Ok(Snapshot { parts: Vec::new(), ..Snapshot::from_json(json)? }),
        };
        Ok(Self { name, target: word("target").unwrap_or_default(), look })
    }
}

/// Control characters beyond ASCII's first 32 and marks that turn the direction of text, as JSON writes them. Outside of strings JSON has none.
pub fn escaped(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        if character != '\n' && crate::format::is_hostile(character) {
            // All of them are below U+10000.
            text.push_str(&format!("\\u{:04x}", u32::from(character)));
        } else {
            text.push(character);
        }
    }
    text
}

fn rows(table: &Table) -> Json {
    let object = |row: &Vec<Value>| -> Json {
        let pairs = table.columns.iter().zip(row).filter(|(_, value)| **value != Value::Null);
        pairs.map(|(name, value)| (name.clone(), value.to_json())).collect::<Map<_, _>>().into()
    };
    table.rows.iter().map(object).collect()
}

fn table(rows: &[Json]) -> Table {
    let mut columns: Vec<String> = Vec::new();
    let mut places: BTreeMap<&str, usize> = BTreeMap::new();
    for name in rows.iter().filter_map(Json::as_object).flat_map(Map::keys) {
        if !places.contains_key(name.as_str()) {
            places.insert(name, columns.len());
            columns.push(name.clone());
        }
    }
    let row = |json: &Json| {
        let value = |name: &String| json.get(name).map_or(Value::Null, Value::from_json);
        columns.iter().map(value).collect()
    };
    let rows = rows.iter().map(row).collect();
    Table { columns, rows }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot() -> Snapshot {
        let table = Table {
            columns: ["id", "text", "share"].map(String::from).to_vec(),
            rows: vec![
                vec![
                    Value::Integer(1),
                    Value::Text("a\u{9b}31m\u{1b}[2J\u{202e}".to_owned()),
                    Value::Real(0.5),
                ],
                vec![Value::Integer(-2), Value::Null, Value::Null],
            ],
        };
        Snapshot {
            at: 1_700_000_000_123,
            took: 7,
            status: [("Queries", "42"), ("Word", "x")].map(|(a, b)| (a.to_owned(), b.to_owned())).into(),
            options: BTreeMap::from([("permits".to_owned(), "auto".to_owned())]),
            tables: BTreeMap::from([("clients".to_owned(), table)]),
            troubles: BTreeMap::from([("pins".to_owned(), "error 1146".to_owned())]),
            parts: Vec::new(),
        }
    }

    #[test]
    fn a_line_is_read_back() {
        let line = snapshot().to_line();
        let read = Snapshot::from_json(&serde_json::from_str(&line).unwrap()).unwrap();
        // JSON's objects have no order.
        let mut columns = read.tables["clients"].columns.clone();
        columns.sort();
        assert_eq!(columns, ["id", "share", "text"]);
        assert_eq!(read.to_json(), snapshot().to_json());
        assert_eq!(read.number("Queries"), Some(42));
    }

    #[test]
    fn a_line_holds_nothing_that_a_terminal_obeys() {
        let line = snapshot().to_line();
        assert!(!line.chars().any(char::is_control), "{line}");
        assert!(!line.contains('\u{202e}'));
    }

    #[test]
    fn what_is_no_snapshot_is_said() {
        for text in ["{}", "[]", "3", r#"{"at_ms":"x"}"#, r#"{"at_ms":1,"tables":{"clients":3}}"#] {
            assert!(Snapshot::from_json(&serde_json::from_str(text).unwrap()).is_err(), "{text}");
        }
        assert!(Snapshot::from_json(&json!({"at_ms": 1, "tables": {"clients": [3, {"id": []}]}})).is_ok());
        for part in [json!({}), json!({"name": "", "at_ms": 1}), json!({"name": "a"}), json!(3)] {
            assert!(Snapshot::from_json(&json!({"at_ms": 1, "admin_ports": [part]})).is_err());
        }
        let deep = json!({"at_ms": 1, "admin_ports": [{"name": "a", "at_ms": 1, "admin_ports": [{"name": "b", "at_ms": 1}]}]});
        assert!(Snapshot::from_json(&deep).unwrap().parts[0].look.as_ref().unwrap().parts.is_empty());
    }
}
