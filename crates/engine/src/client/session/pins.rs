//! The statements for which a client keeps a backend.

use sql::{Effects, Kind};
use wire::StatusFlags;

use crate::backend::to_server::preparing::stays;
use crate::client::Client;
use crate::request::{Request, RequestKind};
use crate::scheduling::scheduler::Scheduler;
use crate::scheduling::scheduler::lane::Standing;
use crate::servers::Servers;
use crate::session::Sessions;
use crate::session::pins::Pins;
use crate::settings::{Settings, ThreadHandling};

impl Client {
    /// Returns the reasons for which the client will hold its backend beyond the end of this request.
    pub(crate) fn pins_of(
        &self,
        request: &Request,
        settings: &Settings,
        servers: &Servers,
        sessions: &Sessions,
    ) -> Pins {
        let mut pins = Pins::from(request.statement.effects);
        let session = self.session.id().map(|session| sessions.state(session));
        let server = &servers[servers.serving(self)];
        if request.command == RequestKind::Prepare {
            // Nothing of what its executions will leave.
            pins = Pins::NONE;
            let in_schema = session.is_some_and(|state| state.schema.is_some());
            let is_mysql = server.facts.as_ref().is_some_and(|facts| !facts.is_mariadb());
            if stays(request, in_schema, is_mysql) {
                pins |= Pins::PREPARED_STATEMENT;
            }
        }
        if request.changes.variables.is_some() {
            pins = pins.without(Effects::USER_VARIABLE.into());
        }
        // Without autocommit a savepoint may be all there is of a transaction, which the status does not show then.
        let unseen = !self.session.status.contains(StatusFlags::AUTOCOMMIT) && !self.in_transaction();
        if request.statement.kind == Kind::Savepoint && unseen {
            pins |= Pins::SAVEPOINT;
        }
        if request.changes.hidden.is_silent() {
            pins |= Pins::STATE_CHANGE;
        }
        if server.takes_roles(request.changes.hidden.effects) {
            pins |= Effects::ROLE.into();
        }
        if matches!(request.command, RequestKind::RegisterReplica | RequestKind::BinlogDump) {
            pins |= Pins::REPLICATION;
        }
        if settings.thread_handling == ThreadHandling::OneThreadPerConnection {
            pins |= Pins::THREAD_HANDLING;
        }
        if server.facts.as_ref().is_some_and(|facts| !facts.has_trackers()) {
            pins |= Pins::NO_TRACKERS;
        }
        if session.is_some_and(|state| is_unsafe_charset(&state.charset.client)) {
            pins |= Pins::CHARACTER_SET;
        }
        pins
    }

    /// Says whether the client's waiting statement gives its backend back at its end. Permits bound how many such
    /// statements run, and statements that wait for locks have lanes of their own.
    pub(crate) fn keeps_no_backend(
        &self,
        settings: &Settings,
        servers: &Servers,
        sessions: &Sessions,
    ) -> bool {
        self.request.as_ref().is_some_and(|request| {
            let statement = &request.statement;
            self.session.status.contains(StatusFlags::AUTOCOMMIT)
                && !self.in_transaction()
                && self.session.unstarted().is_none()
                && !statement.several
                && statement.transaction.is_none()
                && self.pins_of(request, settings, servers, sessions).is_empty()
        })
    }

    /// Returns the standing of the client before this request. Takes note of what the client will hold behind it.
    pub(in crate::client) fn standing(&mut self, scheduler: &Scheduler, request: &Request) -> Standing {
        let in_transaction = self.in_transaction();
        let beyond = self.session.pins.may_hold_locks();
        let transaction = &mut self.transaction;
        if !in_transaction && !beyond {
            transaction.arrives(scheduler.arrival());
        }
        let standing = Standing {
            in_transaction,
            holds_locks: beyond || transaction.holds_locks(),
            blocks_others: transaction.blocks_others(),
            began: transaction.began(),
        };
        transaction.note_locks(request.may_lock());
        standing
    }
}

/// Says whether the lexer may read texts in another way than the servers do. In the listed character sets each byte of ASCII is
/// the sign that it is in ASCII, and nothing else (tried with each byte and character set on MariaDB 10.11 and MySQL 8.0.31).
/// In big5, cp932, gb18030, gbk and sjis a backslash may be the second half of a character; in swe7 a brace is a letter.
fn is_unsafe_charset(name: &[u8]) -> bool {
    // The usual ones first: each statement asks.
    #[rustfmt::skip] // as many on a line as fit
    const SAFE: [&[u8]; 32] = [
        b"utf8mb4", b"utf8mb3", b"utf8", b"latin1", b"binary", b"ascii",
        b"armscii8", b"cp1250", b"cp1251", b"cp1256", b"cp1257", b"cp850", b"cp852", b"cp866", b"dec8", b"eucjpms", b"euckr",
        b"gb2312", b"geostd8", b"greek", b"hebrew", b"hp8", b"keybcs2", b"koi8r", b"koi8u", b"latin2", b"latin5", b"latin7",
        b"macce", b"macroman", b"tis620", b"ujis",
    ];
    !SAFE.contains(&name)
}
