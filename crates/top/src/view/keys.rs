//! What keys do. They are those of htop and top, where these have one.

use super::{Kill, Mode, Source, View};
use crate::tabs::Tab;

/// A key, without how a terminal says it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A character.
    Char(char),
    /// A function key, from 1.
    F(u8),
    /// Ctrl with a letter.
    Ctrl(char),
    /// Arrows and their like.
    Up,
    /// See `Up`.
    Down,
    /// See `Up`.
    Left,
    /// See `Up`.
    Right,
    /// See `Up`.
    PageUp,
    /// See `Up`.
    PageDown,
    /// See `Up`.
    Home,
    /// See `Up`.
    End,
    /// The next tab.
    Tab,
    /// The tab before.
    BackTab,
    /// The end of what is written.
    Enter,
    /// Away with it.
    Escape,
    /// The last character goes.
    Backspace,
}

/// What is to be done, beyond showing the view again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    None,
    /// The end.
    Quit,
    /// Another look at once: something else is wanted.
    Ask,
    /// An order, which was confirmed.
    Kill(Kill),
    /// So many looks forward, or back, in a recording.
    Step(i64),
}

/// The longest filter, in characters: longer than a user's name, a schema's (64) or a digest is.
const LONGEST_FILTER: usize = 80;

/// How many looks of a recording `{` and `}` go: a minute, where there is one in a second.
const LEAP: i64 = 60;

/// The help, as keys with what they do.
pub const HELP: [(&str, &str); 17] = [
    ("Tab Shift-Tab", "next tab, tab before; or by its key:"),
    ("1 2 3 4 5 6", "clients, queue, statements, locks, pins, backends"),
    ("7 8 9 0 c r o", "events, limits, minutes, logins, changes, refused, onramps"),
    ("Up Down PgUp PgDn Home End", "select a row; it stays selected wherever it moves"),
    ("Left Right", "columns that are hidden"),
    ("< >", "order by the column to the left, to the right"),
    ("I R", "the other way round"),
    ("/ \\ F4", "filter: rows that hold a text in any column; Esc takes it away"),
    ("Z p Space", "pause: the screen stays as it is"),
    ("k F9", "KILL the selected client's connection; asks first"),
    ("x", "KILL QUERY: end only its statement; asks first"),
    ("F5 Ctrl-L", "look again now"),
    ("h ? F1", "this help"),
    ("q F10 Ctrl-C", "quit"),
    ("[ ]", "in a recording: one look back, forward"),
    ("{ }", "in a recording: 60 looks back, forward"),
    ("Space", "in a recording: play, stop"),
];

impl View {
    /// Takes a key.
    pub fn press(&mut self, key: Key) -> Action {
        if key == Key::Ctrl('c') {
            return Action::Quit;
        }
        self.message = None;
        match std::mem::replace(&mut self.mode, Mode::Normal) {
            Mode::Normal => self.press_normal(key),
            Mode::Filter(before) => self.press_filter(before, key),
            Mode::Question(kill) => {
                // One key alone is a yes: whatever else was meant for the screen before.
                if matches!(key, Key::Char('y' | 'Y')) {
                    self.message = Some(format!("{} ...", kill.text()));
                    return Action::Kill(kill);
                }
                self.message = Some(String::from("nothing was killed"));
                Action::None
            }
            Mode::Help => Action::None,
        }
    }

    fn press_normal(&mut self, key: Key) -> Action {
        match key {
            Key::Char('q') | Key::F(10) => return Action::Quit,
            Key::Char('h' | '?') | Key::F(1) => self.mode = Mode::Help,
            Key::Tab => return self.turn(1),
            Key::BackTab => return self.turn(-1),
            Key::Up => self.select(self.cursor().line.saturating_sub(1)),
            Key::Down => self.select(self.cursor().line + 1),
            Key::PageUp => self.select(self.cursor().line.saturating_sub(self.page.max(1))),
            Key::PageDown => self.select(self.cursor().line + self.page.max(1)),
            Key::Home => self.select(0),
            Key::End => self.select(usize::MAX),
            Key::Left => self.shift(-1),
            Key::Right => self.shift(1),
            Key::Char('<' | ',') => return self.sort_by(-1),
            Key::Char('>' | '.') => return self.sort_by(1),
            Key::Char('I' | 'R') => return self.reverse(),
            Key::Char('/' | '\\') | Key::F(4) => self.mode = Mode::Filter(self.filter.clone()),
            Key::Escape if !self.filter.is_empty() => return self.filter_by(String::new()),
            Key::Char('Z' | 'p' | ' ') => self.pause(),
            Key::Char('k') | Key::F(9) => self.question(false),
            Key::Char('x') => self.question(true),
            Key::F(5) | Key::Ctrl('l') => return Action::Ask,
            Key::Char('[') => return Action::Step(-1),
            Key::Char(']') => return Action::Step(1),
            Key::Char('{') => return Action::Step(-LEAP),
            Key::Char('}') => return Action::Step(LEAP),
            Key::Char(key) => return Tab::of_key(key).map_or(Action::None, |tab| self.go(tab)),
            _ => {}
        }
        Action::None
    }

    fn press_filter(&mut self, before: String, key: Key) -> Action {
        match key {
            Key::Enter => return Action::Ask,
            Key::Escape => return self.filter_by(before),
            Key::Backspace => {
                self.filter.pop();
            }
            Key::Char(character)
                if !crate::format::is_hostile(character) && self.filter.chars().count() < LONGEST_FILTER =>
            {
                self.filter.push(character);
            }
            _ => {}
        }
        self.mode = Mode::Filter(before);
        self.select(0);
        Action::None
    }

    fn turn(&mut self, by: isize) -> Action {
        let tabs = self.tabs();
        let here = tabs.iter().position(|tab| *tab == self.tab).unwrap_or(0);
        let there = here.checked_add_signed(by).unwrap_or(tabs.len() - 1) % tabs.len();
        self.go(tabs[there])
    }

    fn go(&mut self, tab: Tab) -> Action {
        self.tab = tab;
        self.follow();
        Action::Ask
    }

    fn shift(&mut self, by: isize) {
        let last = self.tab.columns().len() - 1;
        let cursor = &mut self.cursors[self.tab.index()];
        cursor.shift = cursor.shift.saturating_add_signed(by).min(last.saturating_sub(1));
    }

    fn sort_by(&mut self, by: isize) -> Action {
        // With several Onramps the column that says whose a row is stands before the others.
        let before = usize::from(self.is_of_several());
        let last = self.tab.columns().len() - 1 + before;
        let order = &mut self.orders[self.tab.index()];
        let place = order.sort.map_or(0, |sort| sort + before).saturating_add_signed(by).min(last);
        order.sort = place.checked_sub(before);
        self.select(0);
        Action::Ask
    }

    fn reverse(&mut self) -> Action {
        let order = &mut self.orders[self.tab.index()];
        order.descending = !order.descending;
        self.select(0);
        Action::Ask
    }

    fn filter_by(&mut self, filter: String) -> Action {
        self.filter = filter;
        self.select(0);
        Action::Ask
    }

    fn pause(&mut self) {
        match &mut self.source {
            Source::Live { .. } => self.paused = !self.paused,
            Source::Replay { playing, .. } => *playing = !*playing,
        }
    }

    fn question(&mut self, query_only: bool) {
        match self.kill(query_only) {
            Ok(kill) => self.mode = Mode::Question(kill),
            Err(reason) => self.message = Some(reason.to_string()),
        }
    }
}
