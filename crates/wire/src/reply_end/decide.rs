//! Decides what a client gets in the place of the packets that decide something.

use super::outlet::{Front, Outlet};
use super::{Expect, Middle, ReplyEvent, ReplyReader, ReplySink, Stage, prepared_definitions};
use crate::replies::{EOF_HEADER, ERR_HEADER, LOCAL_INFILE_HEADER, OK_HEADER};
use crate::{EofPacket, ErrPacket, OkPacket, Reader, StatusFlags, WireError};

/// The code of an ERR that is a progress report (MariaDB's `net_send_progress_packet`): the reply goes on behind it.
const PROGRESS_REPORT: u16 = 0xffff;

/// The head of the reply to a prepare: its header, the statement's number, two counts, a filler and the number of warnings.
const PREPARED_LEN: usize = 12;

/// The packet that ends rows or definitions, in the backend's form.
#[derive(Clone, Copy)]
enum End<'a> {
    Ok(OkPacket<'a>),
    Eof(EofPacket),
}

impl ReplyReader {
    /// Looks into a whole packet.
    pub(super) fn decide<S: ReplySink>(
        &mut self,
        front: Front<'_>,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<(), WireError> {
        let payload = front.payload();
        if payload[0] == ERR_HEADER {
            return self.on_err(front, outlet);
        }
        match self.stage {
            Stage::Head => self.on_head(front, outlet),
            Stage::DefinitionsEnd => self.on_definitions_end(front, outlet),
            Stage::Rows { .. } if self.expect == Expect::Events => {
                let eof = EofPacket::parse(payload)?;
                outlet.packet(front, self.shift);
                outlet.event(ReplyEvent::Eof(eof));
                self.stage = Stage::Done;
                Ok(())
            }
            Stage::Rows { count, middle } => self.on_rows_end(count, middle, front, outlet),
            Stage::PreparedEnd { columns } => {
                let eof = EofPacket::parse(payload)?;
                self.relay_middle_eof(eof, front, outlet);
                self.stage = prepared_definitions(columns, 0);
                Ok(())
            }
            // What a command answers that has neither done anything nor failed (`Protocol::end_statement`): seen with MariaDB
            // 10.11.19 without a schema, behind a WITH.
            Stage::FieldDefinitions if payload[0] == OK_HEADER => self.on_ok(front, outlet),
            Stage::FieldDefinitions => {
                let end = self.parse_end(payload)?;
                self.relay_end(end, front, outlet);
                self.stage = Stage::Done;
                Ok(())
            }
            Stage::LocalInfile => self.on_ok(front, outlet),
            Stage::Definitions { .. } | Stage::PreparedDefinitions { .. } => {
                Err(WireError::Malformed { what: "end of column definitions before their number" })
            }
            Stage::Done => Err(WireError::Malformed { what: "packet after the end of a reply" }),
        }
    }

    /// The first packet of a result, when it is no ERR.
    fn on_head<S: ReplySink>(
        &mut self,
        front: Front<'_>,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<(), WireError> {
        let payload = front.payload();
        match (self.expect, payload[0]) {
            (Expect::Simple | Expect::ResultSets, OK_HEADER) => self.on_ok(front, outlet),
            // Both servers answer set_option and debug with the packet that ends rows.
            (Expect::Simple, EOF_HEADER) => {
                let end = self.parse_end(payload)?;
                self.relay_end(end, front, outlet);
                self.stage = Stage::Done;
                Ok(())
            }
            (Expect::Prepare, OK_HEADER) => self.on_prepared(front, outlet),
            (Expect::Statistics, _) => {
                outlet.packet(front, self.shift);
                self.stage = Stage::Done;
                Ok(())
            }
            (Expect::ResultSets, _) if self.prelude_left > 0 => {
                Err(WireError::Malformed { what: "result set in a prelude" })
            }
            (Expect::ResultSets, LOCAL_INFILE_HEADER) => {
                outlet.packet(front, self.shift);
                outlet.event(ReplyEvent::LocalInfile { sequence: front.sequence });
                self.stage = Stage::LocalInfile;
                Ok(())
            }
            (Expect::ResultSets, _) => {
                let left = crate::parse_column_count(payload)?;
                self.relay_head(front, outlet);
                self.stage = Stage::Definitions { left };
                Ok(())
            }
            _ => Err(WireError::Malformed { what: "head of a reply" }),
        }
    }

    /// A statement without a result set succeeded.
    fn on_ok<S: ReplySink>(&mut self, front: Front<'_>, outlet: &mut Outlet<'_, S>) -> Result<(), WireError> {
        let ok = OkPacket::parse(front.payload(), self.options.backend_session_track)?;
        if ok.header != OK_HEADER {
            return Err(WireError::Malformed { what: "header of a statement's OK" });
        }
        if self.prelude_left > 0 {
            if !ok.status.contains(StatusFlags::MORE_RESULTS_EXISTS) {
                return Err(WireError::Malformed { what: "reply ends with its prelude" });
            }
            self.prelude_left -= 1;
            self.shift = self.shift.wrapping_sub(1);
            self.status = ok.status;
            outlet.event(ReplyEvent::PreludeOk(ok));
            return Ok(());
        }
        self.relay_ok(&ok, front, outlet);
        outlet.event(ReplyEvent::Ok(ok));
        self.result_ends(ok.status);
        Ok(())
    }

    fn on_err<S: ReplySink>(
        &mut self,
        front: Front<'_>,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<(), WireError> {
        let err = ErrPacket::parse(front.payload())?;
        self.release_held(outlet);
        if err.code == PROGRESS_REPORT {
            match self.options.client_progress {
                true => outlet.packet(front, self.shift),
                false => self.shift = self.shift.wrapping_sub(1),
            }
            return Ok(());
        }
        if self.prelude_left > 0 {
            outlet.event(ReplyEvent::PreludeErr(err));
        } else {
            if let Stage::Rows { middle, .. } = self.stage {
                self.put_middle(middle, front.sequence, self.foreseen_before_rows(), 0, outlet);
            }
            // First what it says: the reader may keep the packet from its client.
            outlet.event(ReplyEvent::Err(err));
            outlet.packet(front, self.shift);
        }
        self.stage = Stage::Done;
        Ok(())
    }

    /// The backend's EOF between column definitions and rows, or the one that ends a cursor's result set.
    fn on_definitions_end<S: ReplySink>(
        &mut self,
        front: Front<'_>,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<(), WireError> {
        let eof = EofPacket::parse(front.payload())?;
        if self.opens_cursor(eof.status) {
            outlet.event(ReplyEvent::ResultSetEnd { rows: 0 });
            self.relay_end(End::Eof(eof), front, outlet);
            self.result_ends(eof.status);
            return Ok(());
        }
        let middle = self.relay_middle_eof(eof, front, outlet);
        self.status = eof.status;
        self.stage = Stage::Rows { count: 0, middle };
        Ok(())
    }

    fn on_rows_end<S: ReplySink>(
        &mut self,
        count: u64,
        middle: Middle,
        front: Front<'_>,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<(), WireError> {
        let mut end = self.parse_end(front.payload())?;
        let status = end.status();
        match middle {
            Middle::Due if self.opens_cursor(status) => {}
            Middle::Settled | Middle::Due | Middle::Waiting => {
                // A cursor's flags there would be an announcement.
                let more = status.contains(StatusFlags::MORE_RESULTS_EXISTS);
                let status = if more { status } else { without_cursor(status) };
                // Warnings come with the rows.
                let warnings = if count == 0 { end.warnings() } else { 0 };
                self.put_middle(middle, front.sequence, status, warnings, outlet);
            }
            // Servers before MySQL 5.7 say only there that these are OUT parameters.
            Middle::Dropped(earlier) => end = end.with_status(earlier & StatusFlags::PS_OUT_PARAMS),
        }
        outlet.event(ReplyEvent::ResultSetEnd { rows: count });
        self.relay_end(end, front, outlet);
        if self.expect == Expect::ResultSets {
            self.result_ends(status);
        } else {
            self.stage = Stage::Done;
        }
        Ok(())
    }

    /// The head of the reply to a prepare: OK, statement id, columns, parameters, filler, warnings. Or an OK that tells of no
    /// statement: what MySQL says of `SET GLOBAL` without the right to it (seen with 8.0.31 and 9.7.4).
    fn on_prepared<S: ReplySink>(
        &mut self,
        front: Front<'_>,
        outlet: &mut Outlet<'_, S>,
    ) -> Result<(), WireError> {
        if !is_prepared_head(front.payload()) {
            return self.on_ok(front, outlet);
        }
        let mut reader = Reader::of("head of a prepare's reply", front.payload());
        reader.u8()?;
        let statement = reader.u32()?;
        let columns = reader.u16()?;
        let parameters = reader.u16()?;
        outlet.packet(front, self.shift);
        outlet.event(ReplyEvent::Prepared { statement, columns, parameters });
        self.stage = prepared_definitions(parameters, columns);
        Ok(())
    }

    fn result_ends(&mut self, status: StatusFlags) {
        self.status = status;
        self.results_to_come = self.results_to_come.saturating_sub(1);
        let more = self.expect == Expect::ResultSets && status.contains(StatusFlags::MORE_RESULTS_EXISTS);
        self.stage = if more { Stage::Head } else { Stage::Done };
    }

    /// Says whether a result set's only end packet announces a cursor: see the module's documentation.
    fn opens_cursor(&self, status: StatusFlags) -> bool {
        self.options.may_open_cursor
            && status.contains(StatusFlags::CURSOR_EXISTS)
            && !status.contains(StatusFlags::MORE_RESULTS_EXISTS)
    }

    fn parse_end<'p>(&self, payload: &'p [u8]) -> Result<End<'p>, WireError> {
        if !self.options.backend_deprecate_eof {
            return EofPacket::parse(payload).map(End::Eof);
        }
        let ok = OkPacket::parse(payload, self.options.backend_session_track)?;
        if ok.header != EOF_HEADER {
            return Err(WireError::Malformed { what: "header of an OK at the end of rows" });
        }
        Ok(End::Ok(ok))
    }

    /// Relays the end of rows in the client's form, and reports it.
    fn relay_end<S: ReplySink>(&mut self, end: End<'_>, front: Front<'_>, outlet: &mut Outlet<'_, S>) {
        let sequence = front.sequence.wrapping_add(self.shift);
        match (end, self.options.client_deprecate_eof) {
            (End::Ok(ok), true) => self.relay_ok(&ok, front, outlet),
            (End::Eof(_), false) => outlet.packet(front, self.shift),
            (End::Ok(ok), false) => {
                let eof = EofPacket { warnings: ok.warnings, status: without_changes(ok.status) };
                outlet.built(sequence, |out| eof.put(out));
            }
            (End::Eof(eof), true) => {
                let ok = OkPacket {
                    header: EOF_HEADER,
                    warnings: eof.warnings,
                    ..OkPacket::plain(without_changes(eof.status))
                };
                outlet.built(sequence, |out| ok.put(out, false));
            }
        }
        outlet.event(match end {
            End::Ok(ok) => ReplyEvent::Ok(ok),
            End::Eof(eof) => ReplyEvent::Eof(eof),
        });
    }

    /// Relays an OK, without changes of session state where the client does not expect them.
    fn relay_ok<S: ReplySink>(&self, ok: &OkPacket<'_>, front: Front<'_>, outlet: &mut Outlet<'_, S>) {
        let tracked = self.options.client_session_track && self.options.backend_session_track;
        let changed = ok.status.contains(StatusFlags::SESSION_STATE_CHANGED);
        let sequence = front.sequence.wrapping_add(self.shift);
        if !tracked && changed {
            return outlet.built(sequence, |out| ok.put(out, false));
        }
        if tracked {
            let told = outlet.told(ok.session_changes);
            if *told != *ok.session_changes {
                let status = match told.is_empty() {
                    true => without_changes(ok.status),
                    false => ok.status.with(StatusFlags::SESSION_STATE_CHANGED),
                };
                return outlet.built(sequence, |out| {
                    OkPacket { status, session_changes: &told, ..*ok }.put(out, true);
                });
            }
        }
        outlet.packet(front, self.shift);
    }

    /// Relays the backend's EOF after column definitions, or drops it.
    fn relay_middle_eof<S: ReplySink>(
        &mut self,
        eof: EofPacket,
        front: Front<'_>,
        outlet: &mut Outlet<'_, S>,
    ) -> Middle {
        if self.options.client_deprecate_eof {
            self.shift = self.shift.wrapping_sub(1);
            Middle::Dropped(eof.status)
        } else {
            outlet.packet(front, self.shift);
            Middle::Settled
        }
    }

    /// The status for an EOF between definitions and rows. Whether more results follow is said at a result's end, and rows
    /// follow where no cursor was announced.
    pub(super) fn before_rows(&self) -> StatusFlags {
        without_cursor(self.status).without(StatusFlags::MORE_RESULTS_EXISTS)
    }

    /// The same with what can be foreseen, and without what the result before says of itself.
    fn foreseen_before_rows(&self) -> StatusFlags {
        let status = self.before_rows().without(OF_STATEMENT) | self.foreseen;
        if self.results_to_come > 0 { status | StatusFlags::MORE_RESULTS_EXISTS } else { status }
    }

    /// A row of this length begins. A status from before the statement is all that there is for the EOF in front of a large result set.
    pub(super) fn note_row<S: ReplySink>(&mut self, length: usize, sequence: u8, outlet: &mut Outlet<'_, S>) {
        let Stage::Rows { middle, .. } = &mut self.stage else { return };
        if *middle == Middle::Due {
            *middle = Middle::Waiting;
            outlet.hold_rows(sequence.wrapping_add(self.shift));
            self.shift = self.shift.wrapping_add(1);
        }
        if *middle == Middle::Waiting && outlet.is_too_much(length) {
            *middle = Middle::Settled;
            let status = self.foreseen_before_rows();
            self.put_middle(Middle::Waiting, sequence, status, 0, outlet);
        }
    }

    /// Writes the EOF between definitions and rows where the client needs one that the backend did not send, in front of its packet
    /// number `before` or of the rows that are held back.
    pub(super) fn put_middle<S: ReplySink>(
        &mut self,
        middle: Middle,
        before: u8,
        status: StatusFlags,
        warnings: u16,
        outlet: &mut Outlet<'_, S>,
    ) {
        // How long it took is known at the end (`THD::update_server_status`).
        let status = without_changes(status).without(StatusFlags::QUERY_WAS_SLOW);
        let eof = EofPacket { warnings, status };
        match middle {
            Middle::Settled | Middle::Dropped(_) => {}
            Middle::Due => {
                outlet.built(before.wrapping_add(self.shift), |out| eof.put(out));
                self.shift = self.shift.wrapping_add(1);
            }
            Middle::Waiting => outlet.release_rows(eof),
        }
    }
}

impl End<'_> {
    fn status(&self) -> StatusFlags {
        match self {
            Self::Ok(ok) => ok.status,
            Self::Eof(eof) => eof.status,
        }
    }

    fn warnings(&self) -> u16 {
        match self {
            Self::Ok(ok) => ok.warnings,
            Self::Eof(eof) => eof.warnings,
        }
    }

    fn with_status(mut self, further: StatusFlags) -> Self {
        match &mut self {
            Self::Ok(ok) => ok.status |= further,
            Self::Eof(eof) => eof.status |= further,
        }
        self
    }
}

/// Says whether an OK is the head of a prepare's reply. One with changes of the session is as long, or longer: in the place of
/// the filler it has the kind of the first change, which is 0 for variables, whose name and value never fit.
fn is_prepared_head(payload: &[u8]) -> bool {
    const FILLER: usize = 9; // behind the header, four bytes for the statement, two each for columns and parameters
    // A byte follows where the server may leave out definitions (CLIENT_OPTIONAL_RESULTSET_METADATA).
    let fits = (PREPARED_LEN..=PREPARED_LEN + 1).contains(&payload.len());
    fits && payload[FILLER] == 0
}

/// Flags that tell of one statement.
const OF_STATEMENT: StatusFlags = StatusFlags(
    StatusFlags::NO_GOOD_INDEX_USED.0 | StatusFlags::NO_INDEX_USED.0 | StatusFlags::PS_OUT_PARAMS.0,
);

/// A status for a packet in front of rows, where a cursor's flags would announce one.
fn without_cursor(status: StatusFlags) -> StatusFlags {
    status.without(StatusFlags::CURSOR_EXISTS).without(StatusFlags::LAST_ROW_SENT)
}

/// A status for a packet that cannot carry changes of session state.
fn without_changes(status: StatusFlags) -> StatusFlags {
    status.without(StatusFlags::SESSION_STATE_CHANGED)
}
