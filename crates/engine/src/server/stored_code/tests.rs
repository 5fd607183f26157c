use proptest::prelude::*;
use sql::CodeKind;

use super::*;
use crate::steps;

const NONE: CodeEffects = CodeEffects::NONE;
const REPORTED: CodeEffects = CodeEffects::REPORTED;
const SILENT: CodeEffects = CodeEffects::SILENT;
const ALL_KNOWN: Known = Known { routines: true, triggers: true, views: true, columns: true };

fn object(runs: Runs, name: &str, body: &str) -> Object {
    let code = sql::stored_code(CodeKind::Routine, b"", body.as_bytes(), LexMode::default());
    let (schema, name) = name.split_once('.').map_or((None, name), |(schema, name)| (Some(schema), name));
    let schema = schema.map(|schema| schema.as_bytes().into());
    Object { runs, schema, name: name.as_bytes().into(), code, defaults: Vec::new() }
}

/// The scope of a session with this default schema.
fn inside(schema: &str) -> Scope<'_> {
    Scope::In([Some(schema.as_bytes()), None])
}

fn library(objects: &[Object], known: Known) -> Library {
    Library::new(&Arc::new(Base::new(objects.to_vec())), std::iter::empty(), known)
}

/// Takes in that the server has been read, and has this.
fn take(shared: &SharedCode, read: Vec<Object>, known: Known, covered: &[u64]) -> bool {
    shared.take(Base::new(read), known, covered)
}

fn effects(library: &Library, text: &str, writes: bool) -> CodeEffects {
    library.hidden(text.as_bytes(), LexMode::default(), writes, inside("d")).effects
}

#[test]
fn code_is_reached_by_the_names_of_tables_and_views() {
    let library = library(
        &[
            object(Runs::Used, "top", "select * from `d`.`middle`"),
            object(Runs::Used, "middle", "select `d`.`deep`() from t"),
            object(Runs::Called, "deep", "RETURN deeper()"),
            object(Runs::Called, "deeper", "BEGIN DO GET_LOCK('a', 0); RETURN 1; END"),
            object(Runs::Written, "t", "SET @a = 1"),
            object(Runs::Written, "harmless", "SET NEW.a = 1"),
            object(Runs::Written, "log", "INSERT INTO T VALUES (1)"),
        ],
        ALL_KNOWN,
    );
    assert_eq!(effects(&library, "SELECT * FROM `Top`", false), SILENT);
    assert_eq!(effects(&library, "UPDATE d.top SET a = 1", true), SILENT | REPORTED);
    assert_eq!(effects(&library, "SELECT * FROM t, log", false), NONE);
    assert_eq!(effects(&library, "DELETE FROM log", true), REPORTED);
    assert_eq!(effects(&library, "INSERT INTO harmless VALUES ('t', 'top')", true), NONE);
    // A routine that is called in a text pins by itself.
    assert_eq!(effects(&library, "SELECT deep", false), NONE);
    assert_eq!(library.changing_names(), 4);
}

#[test]
fn the_servers_own_views_set_and_read_variables() {
    let library = library(&[], ALL_KNOWN);
    assert_eq!(effects(&library, "SELECT * FROM Sys.session", false), SYS_EFFECTS);
    assert_eq!(effects(&library, "SELECT 'sys', system FROM t", false), NONE);
    let here = library.hidden(b"SELECT * FROM session", LexMode::default(), false, inside("SYS"));
    assert_eq!(here.effects, SYS_EFFECTS);
}

#[test]
fn names_beyond_ascii_are_one() {
    let mut code = object(Runs::Written, "", "SET @a = 1");
    code.name = sql::folded_name("größe".as_bytes());
    let library = library(&[code], ALL_KNOWN);
    let latin1 = library.hidden(b"DELETE FROM gr\xf6\xdfe", LexMode::default(), true, inside("d"));
    assert_eq!(latin1.effects, REPORTED);
    assert_eq!(effects(&library, "DELETE FROM groesse", true), NONE);
}

#[test]
fn what_cannot_be_read_is_not_certain() {
    let certain = |objects: &[Object], known, writes| {
        library(objects, known).hidden(b"x", LexMode::default(), writes, inside("d")).certain
    };
    let changing = [object(Runs::Called, "f", "SET @a = 1")];
    let reading = [object(Runs::Called, "f", "RETURN 1")];
    assert!(certain(&changing, ALL_KNOWN, true));
    assert!(!certain(&[], Known::default(), false));
    assert!(!certain(&[], Known { triggers: false, ..ALL_KNOWN }, true));
    assert!(certain(&[], Known { triggers: false, ..ALL_KNOWN }, false));
    assert!(!certain(&changing, Known { views: false, ..ALL_KNOWN }, false));
    assert!(certain(&reading, Known { views: false, columns: false, ..ALL_KNOWN }, true));
}

#[test]
fn a_definition_is_known_until_the_server_has_been_read_behind_it() {
    let shared = &Arc::<SharedCode>::default();
    let reached = || {
        let (_, library, _) = shared.library();
        effects(&library, "DELETE FROM t", true)
    };
    take(shared, vec![object(Runs::Written, "t", "CALL p()")], ALL_KNOWN, &[]);
    let (before, ..) = shared.library();
    let change = CodeChange::begin(shared, vec![object(Runs::Called, "p", "DO GET_LOCK('a', 1)")]);
    let (version, _, beyond) = shared.library();
    assert_eq!((reached(), beyond, version), (SILENT, SILENT, before + 1));
    let covered = shared.begin_reading();
    assert!(covered.is_empty() && !shared.is_wanted(), "it is still under way");
    drop(change);
    take(shared, Vec::new(), ALL_KNOWN, &covered);
    assert_eq!(reached(), NONE, "what named it is gone");
    take(shared, vec![object(Runs::Written, "t", "CALL p()")], ALL_KNOWN, &covered);
    assert!(shared.is_wanted() && reached() == SILENT);
    let covered = shared.begin_reading();
    assert_eq!(covered.len(), 1);
    take(shared, vec![object(Runs::Written, "t", "CALL p()")], ALL_KNOWN, &covered);
    assert!(reached() == NONE && !shared.is_wanted());
    let version = shared.version();
    take(shared, vec![object(Runs::Written, "t", "CALL p()")], ALL_KNOWN, &[]);
    assert_eq!(shared.version(), version, "nothing is new");
}

/// The server's backends are renewed when such code is found: statements may have run it.
#[test]
fn code_of_which_nobody_knew_is_told() {
    let shared = &Arc::<SharedCode>::default();
    let lock = object(Runs::Used, "v", "SELECT GET_LOCK('a', 1)");
    let change = CodeChange::begin(shared, vec![Object { runs: Runs::Anyhow, ..lock.clone() }]);
    assert!(!take(shared, vec![lock.clone()], ALL_KNOWN, &[]), "it went through here");
    drop(change);
    assert!(!take(shared, vec![lock.clone()], ALL_KNOWN, &shared.begin_reading()));
    let reported = object(Runs::Written, "t", "CALL p()");
    assert!(
        !take(shared, vec![lock.clone(), reported.clone()], ALL_KNOWN, &[]),
        "the server reports what a call leaves"
    );
    assert!(take(
        shared,
        vec![lock, reported, object(Runs::Used, "w", "SELECT GET_LOCK('a', 1)")],
        ALL_KNOWN,
        &[]
    ));
}

#[test]
fn too_many_definitions_at_a_time_leave_nothing_certain() {
    let shared = &Arc::<SharedCode>::default();
    take(shared, Vec::new(), ALL_KNOWN, &[]);
    let certain = || shared.library().1.hidden(b"x", LexMode::default(), true, inside("d")).certain;
    assert!(certain());
    let changes: Vec<_> = (0..3 * MOST_CHANGES).map(|_| CodeChange::begin(shared, Vec::new())).collect();
    assert!(!certain());
    assert_eq!(shared.state().changes.len(), MOST_CHANGES, "what is not told apart is not kept");
    take(shared, Vec::new(), ALL_KNOWN, &shared.begin_reading());
    assert!(!certain(), "they are under way");
    drop(changes);
    take(shared, Vec::new(), ALL_KNOWN, &shared.begin_reading());
    assert!(certain());
}

#[test]
fn counts_are_added_up_where_the_server_does_not() {
    let row = |name: &str, value: &str| vec![Some(name.into()), Some(value.into())];
    let mysql = [row("Com_create_trigger", "2"), row("Com_create_table", "30"), row("Com_drop_view", "5")];
    assert_eq!(questions::counts(&mysql, false), Some([b"7".to_vec(), b"37".to_vec()]));
    assert_eq!(questions::counts(&[row("7", "37")], true), Some([b"7".to_vec(), b"37".to_vec()]));
    for (nothing, is_mariadb) in [(vec![], false), (vec![], true), (vec![vec![None, None]], true)] {
        assert_eq!(questions::counts(&nothing, is_mariadb), None, "no counters are no count of 0");
    }
}

/// Each routine calls the next one, and the last one does something: in whatever order they come, one look at each is not repeated for
/// each level of calls.
#[test]
fn what_nested_calls_do_is_found_in_linear_time() {
    const DEPTH: usize = 500;
    let mut objects: Vec<_> = (0..DEPTH)
        .map(|number| object(Runs::Called, &format!("p{number}"), &format!("CALL p{}()", number + 1)))
        .collect();
    objects.push(object(Runs::Called, &format!("p{DEPTH}"), "DO GET_LOCK('a', 1)"));
    objects.push(object(Runs::Written, "t", "CALL p0()"));
    for _ in 0..2 {
        let before = steps::taken();
        let library = library(&objects, ALL_KNOWN);
        let taken = steps::taken() - before;
        assert!(library.hidden(b"INSERT INTO t", LexMode::default(), true, inside("d")).is_silent());
        let names = objects.iter().map(|object| 1 + object.code.names.len()).sum::<usize>() as u64;
        assert!(taken <= 8 * names, "{taken} steps for {names} names");
        objects.reverse();
    }
}

#[test]
fn a_function_by_the_name_of_one_that_is_built_in_is_seen_where_it_is_named() {
    let objects = [
        object(Runs::Called, "point", "RETURN GET_LOCK('a', 0)"),
        object(Runs::Called, "other", "RETURN GET_LOCK('a', 0)"),
    ];
    let library = library(&objects, ALL_KNOWN);
    assert_eq!(effects(&library, "SELECT POINT(1)", false), SILENT);
    assert_eq!(effects(&library, "SELECT other(1)", false), NONE, "its call pins by itself");
}

#[test]
fn a_name_is_looked_for_in_the_schemas_that_may_be_meant() {
    let objects = [
        object(Runs::Used, "other.t", "SELECT GET_LOCK('a', 1)"),
        object(Runs::Used, "other.calls", "SELECT f()"),
        object(Runs::Called, "other.f", "SET @a = 1"),
        object(Runs::Called, "d.f", "DO GET_LOCK('a', 1)"),
        object(Runs::Used, "d.calls", "SELECT other.f()"),
    ];
    let library = library(&objects, ALL_KNOWN);
    assert_eq!(effects(&library, "SELECT * FROM t", false), NONE);
    for text in [
        "SELECT * FROM other.t",
        "SELECT * FROM `OTHER` . t",
        "USE other; SELECT * FROM t",
        "SELECT 1 AS other FROM t",
    ] {
        assert_eq!(effects(&library, text, false), SILENT, "{text}");
    }
    let hidden = |scope| library.hidden(b"SELECT * FROM t", LexMode::default(), false, scope).effects;
    let prepared_there = Scope::In([Some(b"d"), Some(b"Other")]);
    for scope in [inside("other"), prepared_there, Scope::Anywhere, inside("#mysql50#other")] {
        assert_eq!(hidden(scope), SILENT, "{scope:?}");
    }
    let calls = |scope| library.hidden(b"SELECT * FROM calls", LexMode::default(), false, scope).effects;
    assert_eq!(calls(inside("other")), REPORTED, "the other one's function is not meant");
    assert_eq!(calls(inside("d")), SILENT | REPORTED, "either may be");
    assert_eq!(effects(&library, "SELECT * FROM `#mysql50#other`.t", false), SILENT);
}

#[test]
fn of_more_pairs_than_are_looked_up_the_worst_is_taken() {
    let objects: Vec<_> =
        (0..200).map(|number| object(Runs::Used, &format!("s{number}.t{number}"), "SET @a = 1")).collect();
    let library = library(&objects, ALL_KNOWN);
    let text = |number: usize| {
        (0..number).map(|each| format!("s{each}, t{}", each + 1)).collect::<Vec<_>>().join(",")
    };
    assert_eq!(effects(&library, &text(1), false), NONE);
    assert_eq!(effects(&library, &text(199), false), REPORTED);
}

#[test]
fn what_is_refused_is_forgotten_at_once() {
    let shared = &Arc::<SharedCode>::default();
    take(shared, Vec::new(), ALL_KNOWN, &[]);
    let reached = |schema| {
        let (_, library, _) = shared.library();
        library.hidden(b"SELECT * FROM v", LexMode::default(), false, inside(schema)).effects
    };
    let objects = ["a.v", "b.v"].map(|name| object(Runs::Anyhow, name, "SELECT GET_LOCK('a', 1)")).to_vec();
    CodeChange::begin(shared, objects.clone()).refused(&[]);
    assert_eq!((reached("a"), reached("b"), shared.is_wanted()), (NONE, NONE, false));
    CodeChange::begin(shared, objects).refused(&[b"a".as_slice().into()]);
    assert_eq!(
        (reached("a"), reached("b"), shared.is_wanted()),
        (SILENT, NONE, true),
        "it may have been before the error"
    );
}

#[test]
fn reads_that_hide_beside_writes_that_did_are_news() {
    let shared = &Arc::<SharedCode>::default();
    let written = object(Runs::Written, "d.t", "DO GET_LOCK('a', 1)");
    assert!(take(shared, vec![written.clone()], ALL_KNOWN, &[]));
    let elsewhere = object(Runs::Used, "e.t", "SELECT GET_LOCK('a', 1)");
    assert!(take(shared, vec![written.clone(), elsewhere], ALL_KNOWN, &[]));
    assert!(take(
        shared,
        vec![written, object(Runs::Used, "d.t", "SELECT GET_LOCK('a', 1)")],
        ALL_KNOWN,
        &[]
    ));
}

/// Each name in each schema would be a piece with all words of the text.
#[test]
fn a_text_that_defines_much_in_many_schemas_is_not_told_apart() {
    let text = |uses: usize| {
        let uses: String = (0..uses).map(|number| format!("USE s{number};")).collect();
        format!("{uses}CREATE VIEW v AS SELECT 1")
    };
    let told_apart =
        |uses| matches!(Defined::of_text(text(uses).as_bytes(), LexMode::default()), Defined::These(_));
    assert!(told_apart(100) && !told_apart(1_000));
}

/// An event of a definition that goes through here, or of a reading.
#[derive(Clone, Debug)]
enum Event {
    Begun(Vec<Object>),
    BegunUnknown,
    Refused(bool),
    Over,
    Read(Vec<Object>),
}

fn event() -> impl Strategy<Value = Event> {
    let name = prop::sample::select(vec!["d.a", "d.b", "e.a", "e.c", "c"]);
    let body = prop::sample::select(vec![
        "SELECT 1",
        "SELECT a()",
        "SELECT * FROM e.b",
        "CALL d.c()",
        "SET @a = 1",
        "DO GET_LOCK('a', 1)",
        "SELECT * FROM sys.x",
    ]);
    let runs = prop::sample::select(vec![Runs::Called, Runs::Written, Runs::Used, Runs::Anyhow]);
    let object = (runs, name, body).prop_map(|(runs, name, body)| object(runs, name, body));
    prop_oneof![
        4 => prop::collection::vec(object.clone(), 0..3).prop_map(Event::Begun),
        1 => Just(Event::BegunUnknown),
        2 => any::<bool>().prop_map(Event::Refused),
        2 => Just(Event::Over),
        1 => prop::collection::vec(object, 0..4).prop_map(Event::Read),
    ]
}

proptest! {
    /// Where not all pieces of code are looked at again, the library is as if they were, and is called new only where it is.
    #[test]
    fn definitions_leave_the_library_that_all_of_them_make(events in prop::collection::vec(event(), 1..20)) {
        let shared = &Arc::<SharedCode>::default();
        let mut read = Vec::new();
        take(shared, read.clone(), ALL_KNOWN, &[]);
        let mut under_way = Vec::new();
        for event in events {
            match event {
                Event::Begun(objects) => under_way.push(CodeChange::begin(shared, objects)),
                Event::BegunUnknown => under_way.push(CodeChange::begin_of_unknown(shared)),
                Event::Refused(stood) => {
                    let stood = if stood { vec![b"d".as_slice().into()] } else { Vec::new() };
                    if let Some(change) = under_way.pop() {
                        change.refused(&stood);
                    }
                }
                Event::Over => drop(under_way.pop()),
                Event::Read(objects) => {
                    let covered = shared.begin_reading();
                    read = objects;
                    take(shared, read.clone(), ALL_KNOWN, &covered);
                }
            }
            let state = shared.state();
            let changes = state.changes.values().flat_map(|change| &change.objects);
            let all: Vec<_> = read.iter().chain(changes).cloned().collect();
            prop_assert_eq!(&*state.library, &library(&all, state.known_by_now()));
        }
    }
}

/// A server of a hoster has as many pieces of code as its customers have views: a definition does not cost a worker a look at each.
#[test]
fn a_definition_takes_no_look_at_all_others() {
    const PIECES: usize = 5_000;
    let shared = &Arc::<SharedCode>::default();
    let mut pieces: Vec<_> =
        (0..PIECES).map(|number| object(Runs::Used, &format!("d.v{number}"), "SELECT a FROM t")).collect();
    pieces.push(object(Runs::Called, "d.locks", "DO GET_LOCK('a', 1)"));
    take(shared, pieces, ALL_KNOWN, &[]);
    let taken_by = |name, body| {
        let before = steps::taken();
        CodeChange::begin(shared, vec![object(Runs::Used, name, body)]).refused(&[]);
        steps::taken() - before
    };
    assert!(taken_by("e.v", "SELECT a FROM t") < 200);
    assert!(taken_by("e.v", "SELECT locks()") < 200);
    assert!(
        taken_by("e.select", "DO GET_LOCK('a', 0)") < 200,
        "all have the word in them, and none means it"
    );
    assert!(taken_by("d.select", "DO GET_LOCK('a', 0)") > PIECES as u64);
    drop(CodeChange::begin_of_unknown(shared));
    let before = steps::taken();
    drop(CodeChange::begin_of_unknown(shared));
    assert!(steps::taken() - before < 200);
}
