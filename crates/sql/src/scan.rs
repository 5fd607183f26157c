//! Reads a text token by token and notes, wherever in a statement they stand, the words that matter.

use std::collections::BTreeSet;

use crate::digest::{Fingerprint, Normaliser};
use crate::functions::{self, Function};
use crate::keyword::{Keyword, keyword};
use crate::lexer::{Lexer, Token, TokenKind};
use crate::select_list::SelectList;
use crate::system_variable::{Scope, SystemVariable, without_quotes};
use crate::{Effects, LexMode, Reads, SessionCall, SessionFunction, TrackerVariable};

/// More names of variables than any server has: MySQL 9.7 and MariaDB 11 have some 700 each.
const MOST_NAMES: usize = 1024;

/// Where in a statement a name before a parenthesis is a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallsFrom {
    /// Everywhere.
    Start,
    /// After the first `SELECT`, or `VALUES` with rows: before it stand definitions.
    Select,
    /// Nowhere.
    Never,
}

/// The words before a name, as far as they decide whether a parenthesis after the name holds arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Context {
    Keyword(Keyword),
    /// The name is the table of an `INSERT`.
    InsertTable,
    CloseParenthesis,
    Comma,
    Other,
}

/// The name that was read last.
#[derive(Clone, Copy, Debug)]
struct Name {
    token: Token,
    qualified: bool,
    context: Context,
}

/// The findings of [`Scanner::new`] to the end about all statements of a text.
#[derive(Debug)]
pub(crate) struct Findings {
    pub effects: Effects,
    pub reads: Reads,
    pub calls: Vec<SessionCall>,
    pub sets_last_insert_id: bool,
    pub sets_pool_variable: bool,
    pub parses_while_it_runs: bool,
    pub unreported: BTreeSet<Box<[u8]>>,
    pub assigned: BTreeSet<Box<[u8]>>,
    /// A tracker is set to something else than what a backend has.
    pub sets_trackers: bool,
}

/// The findings in the statement at hand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Remarks {
    /// `FOR UPDATE`, `FOR SHARE`, `LOCK IN SHARE MODE`, `INTO`, `PROCEDURE`.
    pub more_than_reads: bool,
    /// A function that waits or may run anything.
    pub may_wait: bool,
    /// True if the answer depends on more than the text, tables and session state: the moment, chance, a variable.
    pub varies: bool,
    /// `SELECT` stands in it.
    pub has_select: bool,
    /// `FROM` or `TABLE` stands in it, without which no expression reads a table or a view.
    pub names_tables: bool,
}

/// See the module.
pub(crate) struct Scanner<'a> {
    pub text: &'a [u8],
    lexer: Lexer<'a>,
    mode: LexMode,
    /// The token at hand: seen by callers, not yet taken in.
    pub current: Token,
    /// The keyword, if the word is one of these.
    pub keyword: Keyword,
    pub findings: Findings,
    pub remarks: Remarks,
    /// Open parentheses before the token at hand.
    pub depth: u32,
    pub calls_from: CallsFrom,
    /// `name@host` is an account.
    pub names_accounts: bool,
    /// In the body of a routine or view: nothing of it runs now.
    pub in_definition: bool,
    normaliser: Normaliser<Fingerprint>,
    previous: Token,
    /// The one before that.
    last_but_one: Token,
    previous_keyword: Keyword,
    name: Option<Name>,
    expects_insert_table: bool,
    /// The depth at which a `WITH` lists its names.
    with_list: Option<u32>,
    select_list: SelectList,
    /// A call with its parenthesis just opened.
    open_call: Option<(SessionFunction, usize)>,
}

impl<'a> Scanner<'a> {
    pub fn new(text: &'a [u8], mode: LexMode) -> Self {
        let mut lexer = Lexer::new(text, mode);
        let current = lexer.next();
        let mut scanner = Self {
            text,
            lexer,
            mode,
            current,
            keyword: Keyword::None,
            findings: Findings {
                effects: Effects::NONE,
                reads: Reads::NONE,
                calls: Vec::new(),
                sets_last_insert_id: false,
                sets_pool_variable: false,
                parses_while_it_runs: false,
                unreported: BTreeSet::new(),
                assigned: BTreeSet::new(),
                sets_trackers: false,
            },
            remarks: Remarks::default(),
            depth: 0,
            calls_from: CallsFrom::Start,
            names_accounts: false,
            in_definition: false,
            normaliser: Normaliser::new(Fingerprint::default()),
            previous: Token::NONE,
            last_but_one: Token::NONE,
            previous_keyword: Keyword::None,
            name: None,
            expects_insert_table: false,
            with_list: None,
            select_list: SelectList::default(),
            open_call: None,
        };
        scanner.keyword = scanner.keyword_of(current);
        scanner
    }

    /// Forgets what belongs to the statement before.
    pub fn begin_statement(&mut self) {
        self.remarks = Remarks::default();
        self.depth = 0;
        self.calls_from = CallsFrom::Start;
        self.names_accounts = false;
        self.in_definition = false;
        self.name = None;
        self.expects_insert_table = false;
        self.with_list = None;
        self.select_list = SelectList::default();
        self.previous_keyword = Keyword::None;
    }

    /// Takes the token at hand in and goes on to the next.
    pub fn bump(&mut self) {
        self.take_in();
        if self.current.kind() != TokenKind::End {
            self.current = self.lexer.next();
            self.keyword = self.keyword_of(self.current);
        }
    }

    /// The same for a system variable that is assigned to, not read.
    pub fn pass_target(&mut self) {
        let in_definition = std::mem::replace(&mut self.in_definition, true);
        self.bump();
        self.in_definition = in_definition;
    }

    /// The bytes of the tokens after the one at hand.
    pub fn following(&self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let (text, mut ahead) = (self.text, self.lexer.ahead());
        std::iter::from_fn(move || {
            let token = ahead.next();
            (token.kind() != TokenKind::End).then(|| &text[token.start()..token.end()])
        })
    }

    /// Goes on to the statement's end.
    pub fn finish_statement(&mut self) {
        while !self.current.ends_statement() {
            self.bump();
        }
    }

    /// The bytes of a token.
    pub fn bytes(&self, token: Token) -> &'a [u8] {
        &self.text[token.start()..token.end()]
    }

    /// Says whether the token at hand is this word, without quotes.
    pub fn is_word(&self, word: &str) -> bool {
        self.current.kind() == TokenKind::Word
            && self.bytes(self.current).eq_ignore_ascii_case(word.as_bytes())
    }

    /// The token taken in last.
    pub fn previous(&self) -> Token {
        self.previous
    }

    /// Says whether the token before was this word, without quotes.
    pub fn previous_is_word(&self, word: &str) -> bool {
        self.previous.kind() == TokenKind::Word
            && self.bytes(self.previous).eq_ignore_ascii_case(word.as_bytes())
    }

    pub fn is_doubtful(&self) -> bool {
        self.lexer.is_doubtful()
    }

    /// See [`Lexer::take_hinted`].
    pub fn take_hinted(&mut self) -> Vec<&'a [u8]> {
        self.lexer.take_hinted()
    }

    pub fn fingerprint(&self) -> u64 {
        self.normaliser.sink.value()
    }

    pub fn add_effect(&mut self, effect: Effects) {
        self.findings.effects |= effect;
    }

    fn keyword_of(&self, token: Token) -> Keyword {
        // After a dot stands a name, whatever it looks like.
        let may_be = token.kind() == TokenKind::Word && !self.previous.is(b'.');
        if may_be { keyword(self.bytes(token)) } else { Keyword::None }
    }

    fn take_in(&mut self) {
        let (token, keyword) = (self.current, self.keyword);
        self.normaliser.push(self.text, token);
        if !self.in_definition {
            if self.depth == 0 {
                self.select_list.take(token, keyword, self.previous, &mut self.findings.calls);
            }
            self.settle_call(token);
            match token.kind() {
                TokenKind::Word => {
                    self.remarks.varies |= functions::varies_without_parenthesis(self.bytes(token));
                    self.take_name(token, keyword);
                    self.take_keyword(keyword);
                }
                TokenKind::QuotedName => self.take_name(token, Keyword::None),
                TokenKind::UserVariable => self.take_user_variable(token),
                TokenKind::SystemVariable => self.take_system_variable(token),
                TokenKind::Punctuation(b'(') => self.take_parenthesis(token),
                _ => {}
            }
        }
        match token.kind() {
            TokenKind::Punctuation(b'(') => self.depth += 1,
            TokenKind::Punctuation(b')') => {
                self.depth = self.depth.saturating_sub(1);
                self.with_list = self.with_list.filter(|&depth| depth <= self.depth);
            }
            _ => {}
        }
        self.last_but_one = self.previous;
        self.previous = token;
        self.previous_keyword = keyword;
    }

    /// Notes the name of a variable, once however often it stands there. A text with more of them than a server has does what nobody
    /// knows; trackers are noted in any case, since what is reported depends on them.
    pub fn note_name(&mut self, list: impl Fn(&mut Findings) -> &mut BTreeSet<Box<[u8]>>, name: Box<[u8]>) {
        let names = list(&mut self.findings);
        if names.len() < MOST_NAMES || names.contains(&name) || TrackerVariable::of(&name).is_some() {
            names.insert(name);
        } else {
            self.add_effect(Effects::UNKNOWN);
        }
    }

    /// Decides about the call whose parenthesis has just been opened.
    fn settle_call(&mut self, token: Token) {
        let Some((function, start)) = self.open_call.take() else { return };
        if token.is(b')') {
            self.add_call(function, start, token.end());
        } else if function == SessionFunction::LastInsertId {
            self.findings.sets_last_insert_id = true;
        }
    }

    fn add_call(&mut self, function: SessionFunction, start: usize, end: usize) {
        self.findings.reads |= match function {
            SessionFunction::RowCount => Reads::ROW_COUNT,
            SessionFunction::FoundRows => Reads::FOUND_ROWS,
            SessionFunction::ConnectionId => Reads::CONNECTION_ID,
            SessionFunction::LastInsertId => Reads::LAST_INSERT_ID,
            SessionFunction::WarningCount | SessionFunction::ErrorCount => Reads::DIAGNOSTICS,
            SessionFunction::Pool(_) => Reads::POOL_VARIABLE,
            SessionFunction::Tracker(_) => Reads::TRACKER,
            // It is put in the text or, behind what commits, the server's own: nothing else has to know of it.
            SessionFunction::LastGtid => Reads::NONE,
        };
        let (span, names_item, left_by_text) = (start..end, None, false);
        self.findings.calls.push(SessionCall { function, span, names_item, left_by_text });
    }

    fn take_name(&mut self, token: Token, keyword: Keyword) {
        if lists_session_variables(self.bytes(token)) {
            self.findings.reads |= Reads::WAIT_TIMEOUT;
        }
        if lists_user_variables(self.bytes(token)) {
            // Its answer is those of the connection: it is no plain read, ahead of which nothing goes.
            self.remarks.more_than_reads = true;
        }
        if self.previous.is(b'.') {
            self.take_pseudo_column(token);
            if let Some(name) = &mut self.name {
                name.token = token;
                name.qualified = true;
                return;
            }
        }
        let mut context = match self.previous.kind() {
            TokenKind::Punctuation(b')') => Context::CloseParenthesis,
            TokenKind::Punctuation(b',') => Context::Comma,
            TokenKind::Word => Context::Keyword(self.previous_keyword),
            _ => Context::Other,
        };
        if self.expects_insert_table && !matches!(keyword, Keyword::InsertModifier | Keyword::Into) {
            self.expects_insert_table = false;
            context = Context::InsertTable;
        }
        self.name = Some(Name { token, qualified: false, context });
    }

    /// `sequence.nextval` and `sequence.currval` in MariaDB's Oracle mode.
    fn take_pseudo_column(&mut self, token: Token) {
        let name = self.bytes(token);
        if name.eq_ignore_ascii_case(b"nextval") || name.eq_ignore_ascii_case(b"currval") {
            self.add_effect(Effects::SEQUENCE);
        }
    }

    fn take_keyword(&mut self, keyword: Keyword) {
        let previous = self.previous_keyword;
        match keyword {
            Keyword::None => return,
            // It may be the name of anything, too.
            Keyword::Parses => return self.findings.parses_while_it_runs = true,
            Keyword::SqlCalcFoundRows => self.add_effect(Effects::FOUND_ROWS),
            Keyword::Value if matches!(previous, Keyword::Next | Keyword::Previous) => {
                self.add_effect(Effects::SEQUENCE);
            }
            Keyword::Update | Keyword::Share if previous == Keyword::For => {
                self.remarks.more_than_reads = true;
            }
            Keyword::In if previous == Keyword::Lock => self.remarks.more_than_reads = true,
            Keyword::Into | Keyword::Procedure => self.remarks.more_than_reads = true,
            Keyword::Select => self.remarks.has_select = true,
            Keyword::From | Keyword::Table => self.remarks.names_tables = true,
            _ => {}
        }
        match keyword {
            Keyword::Insert => self.expects_insert_table = true,
            Keyword::With => self.with_list = Some(self.depth),
            Keyword::As | Keyword::Recursive => {}
            _ if self.with_list == Some(self.depth) => self.with_list = None,
            _ => {}
        }
        let begins_rows = match keyword {
            Keyword::Select => true,
            Keyword::Values => self.begins_rows(),
            _ => false,
        };
        if begins_rows && self.calls_from == CallsFrom::Select {
            self.calls_from = CallsFrom::Start;
        }
    }

    /// Says whether rows follow the `VALUES` at hand: `VALUES (1)`, `VALUES ROW(1)`, but not the `VALUES IN (1)` of a partition.
    fn begins_rows(&self) -> bool {
        let next = self.following().next().unwrap_or_default();
        next == b"(" || next.eq_ignore_ascii_case(b"row")
    }

    fn take_user_variable(&mut self, token: Token) {
        let account = self.names_accounts
            && self.expects_account()
            && match self.previous.kind() {
                TokenKind::String | TokenKind::QuotedName => true,
                // `root@localhost`, but not `SELECT@a`
                TokenKind::Word => token.glued() && !functions::is_keyword(self.bytes(self.previous)),
                _ => false,
            };
        if !account {
            self.add_effect(Effects::USER_VARIABLE);
        }
    }

    /// Says whether the token read last stands where accounts are named. Elsewhere `KILL QUERY@a` names a variable.
    fn expects_account(&self) -> bool {
        const WORDS: [&str; 13] = [
            "admin", "as", "definer", "except", "exists", "for", "from", "grant", "on", "revoke", "role",
            "to", "user",
        ];
        let before = self.last_but_one;
        match before.kind() {
            TokenKind::Word => {
                WORDS.iter().any(|word| self.bytes(before).eq_ignore_ascii_case(word.as_bytes()))
            }
            TokenKind::Punctuation(byte) => matches!(byte, b',' | b'='),
            _ => false,
        }
    }

    fn take_system_variable(&mut self, token: Token) {
        self.remarks.varies = true;
        let variable = SystemVariable::of(&self.text[token.start()..token.end()]);
        let function = match variable.scope {
            Scope::Global => return,
            Scope::Session | Scope::Unsaid => variable.function(),
        };
        if variable.is_cut_short() {
            self.add_effect(Effects::UNKNOWN);
        }
        if variable.name.eq_ignore_ascii_case(b"wait_timeout") {
            self.findings.reads |= Reads::WAIT_TIMEOUT;
        }
        if let Some(function) = function {
            self.add_call(function, token.start(), token.end());
        }
    }

    fn take_parenthesis(&mut self, token: Token) {
        if self.previous.is(b')') && self.with_list == Some(self.depth) {
            self.with_list = None; // the names are over: WITH a AS (...) (SELECT ...)
        }
        if !self.previous.is_name() {
            return;
        }
        if self.previous_keyword == Keyword::Insert {
            self.expects_insert_table = false; // the functions INSERT() and REPLACE()
        }
        let Some(name) = self.name.take() else { return };
        if self.calls_from != CallsFrom::Start {
            self.take_call_of_definition(name);
        } else if !self.holds_columns(name.context) {
            self.take_call(name, token.glued());
        }
    }

    /// Says whether a parenthesis after a name that follows `context` encloses a list of columns. Where it does, the servers
    /// accept no call.
    fn holds_columns(&self, context: Context) -> bool {
        match context {
            Context::Keyword(
                Keyword::Into | Keyword::Table | Keyword::As | Keyword::With | Keyword::Recursive,
            ) => true,
            Context::InsertTable | Context::CloseParenthesis => true,
            Context::Keyword(Keyword::Procedure) => true, // SELECT ... PROCEDURE ANALYSE(...)
            Context::Comma => self.with_list == Some(self.depth),
            Context::Keyword(_) | Context::Other => false,
        }
    }

    /// A name before a parenthesis in a definition of tables is mostly no call, and none of a stored function: servers allow none
    /// there. A call that holds something on its connection counts wherever it stands.
    fn take_call_of_definition(&mut self, name: Name) {
        match functions::function(without_quotes(self.bytes(name.token)), true, true, self.mode) {
            Function::Sequence => self.add_effect(Effects::SEQUENCE),
            Function::NamedLock => self.add_effect(Effects::NAMED_LOCK),
            _ => {}
        }
    }

    fn take_call(&mut self, name: Name, glued: bool) {
        let quoted = name.token.kind() == TokenKind::QuotedName;
        let bytes = self.bytes(name.token);
        let bare = if quoted { bytes.get(1..bytes.len() - 1).unwrap_or_default() } else { bytes };
        let function = if name.qualified {
            Function::Unknown
        } else {
            functions::function(bare, quoted, glued, self.mode)
        };
        let mut open = |function| self.open_call = Some((function, name.token.start()));
        match function {
            Function::Plain | Function::Keyword => {}
            Function::Varying => self.remarks.varies = true,
            Function::Waits => self.remarks.may_wait = true,
            Function::RowCount => open(SessionFunction::RowCount),
            Function::FoundRows => open(SessionFunction::FoundRows),
            Function::ConnectionId => open(SessionFunction::ConnectionId),
            Function::LastInsertId => open(SessionFunction::LastInsertId),
            Function::Sequence => self.add_effect(Effects::SEQUENCE),
            Function::NamedLock => {
                self.remarks.may_wait = true;
                self.add_effect(Effects::NAMED_LOCK);
            }
            Function::Unknown => {
                self.remarks.may_wait = true;
                self.add_effect(Effects::ROUTINE);
            }
        }
    }
}

/// Says whether a table of this name shows session variables: those of `information_schema` (MariaDB, MySQL 5.7) and of
/// `performance_schema`.
fn lists_session_variables(name: &[u8]) -> bool {
    let name = without_quotes(name);
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    match name.len() {
        16 => is(b"system_variables"),
        17 => is(b"session_variables"),
        19 => is(b"variables_by_thread"),
        _ => false,
    }
}

/// Says the same of user variables: of MariaDB's plugin and of `performance_schema`.
fn lists_user_variables(name: &[u8]) -> bool {
    let name = without_quotes(name);
    name.eq_ignore_ascii_case(b"user_variables") || name.eq_ignore_ascii_case(b"user_variables_by_thread")
}
