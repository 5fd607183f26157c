//! What kinds of statements clients are at: the texts of their digests, each asked for once.

use std::collections::{BTreeMap, BTreeSet};

use crate::snapshot::{Table, Value};

/// How many texts are kept: as many digests as an Onramp counts apart by default (`digests_size`). Beyond, all are asked for anew.
const KEPT: usize = 10_000;

/// For so many looks a digest without a text is not asked for again: it may get one when its first execution has ended.
const PATIENCE: u32 = 10;

/// The texts that are known.
#[derive(Debug, Default)]
pub struct Texts {
    known: BTreeMap<String, String>,
    /// Those that had none when they were asked for.
    without: BTreeSet<String>,
    looks: u32,
}

impl Texts {
    /// The digests of a table that have to be asked for.
    pub fn missing<'t>(&self, table: &'t Table) -> BTreeSet<&'t str> {
        let Some(place) = table.column("digest") else { return BTreeSet::new() };
        let digests = table.rows.iter().filter_map(|row| match &row[place] {
            Value::Text(digest) => Some(digest.as_str()),
            _ => None,
        });
        digests
            .filter(|digest| !self.known.contains_key(*digest) && !self.without.contains(*digest))
            .collect()
    }

    /// Takes the answer about these: columns of digests and texts.
    pub fn take(&mut self, asked: &BTreeSet<String>, answer: &Table) {
        if self.known.len() + asked.len() > KEPT {
            self.known.clear();
        }
        for row in &answer.rows {
            if let [Value::Text(digest), Value::Text(text)] = row.as_slice() {
                if asked.contains(digest) {
                    self.known.insert(digest.clone(), text.clone());
                }
            }
        }
        self.without.extend(asked.iter().filter(|digest| !self.known.contains_key(*digest)).cloned());
    }

    /// Writes the texts into the column `text` of a table.
    pub fn fill(&self, table: &mut Table) {
        let (Some(digest), Some(text)) = (table.column("digest"), table.column("text")) else { return };
        for row in &mut table.rows {
            if let Value::Text(digest) = &row[digest] {
                row[text] = self.known.get(digest).map_or(Value::Null, |text| Value::Text(text.clone()));
            }
        }
    }

    /// Another look begins.
    pub fn next_look(&mut self) {
        self.looks += 1;
        if self.looks >= PATIENCE {
            self.looks = 0;
            self.without.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn clients(digests: &[&str]) -> Table {
        let text = |text: &str| if text.is_empty() { Value::Null } else { Value::Text(text.to_owned()) };
        Table {
            columns: ["digest", "text"].map(String::from).to_vec(),
            rows: digests.iter().map(|digest| vec![text(digest), Value::Null]).collect(),
        }
    }

    fn answer(pairs: &[(&str, &str)]) -> Table {
        let row = |(digest, text): &(&str, &str)| {
            [digest, text].map(|text| Value::Text((*text).to_owned())).to_vec()
        };
        Table { columns: vec![], rows: pairs.iter().map(row).collect() }
    }

    #[test]
    fn each_digest_is_asked_for_once() {
        let mut texts = Texts::default();
        let mut table = clients(&["a", "b", "a", ""]);
        let asked: BTreeSet<String> = texts.missing(&table).into_iter().map(str::to_owned).collect();
        assert_eq!(asked.len(), 2);
        // What nobody asked for is not kept.
        texts.take(&asked, &answer(&[("a", "select ?"), ("z", "drop")]));
        texts.fill(&mut table);
        assert_eq!(table.rows[2][1], Value::Text("select ?".to_owned()));
        assert_eq!(table.rows[1][1], Value::Null);
        assert!(texts.missing(&table).is_empty() && texts.known.len() == 1);
        for _ in 0..PATIENCE {
            texts.next_look();
        }
        assert_eq!(texts.missing(&table), BTreeSet::from(["b"]));
    }

    #[test]
    fn what_is_kept_has_a_bound() {
        let mut texts = Texts::default();
        for look in 0..30 {
            let digests: Vec<String> = (0..1_000).map(|number| format!("{look}-{number}")).collect();
            let pairs: Vec<_> = digests.iter().map(|digest| (digest.as_str(), "t")).collect();
            texts.take(&digests.iter().cloned().collect(), &answer(&pairs));
            assert!(texts.known.len() <= KEPT);
        }
    }
}
