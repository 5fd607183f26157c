use sql::{CodeKind, LexMode};

use super::*;
use crate::frozen::plain::{bytes_of, read};
use crate::server::stored_code::{CodeChange, Scope};

const ALL_KNOWN: Known = Known { routines: true, triggers: true, views: true, columns: true };

fn object(runs: Runs, name: &[u8], body: &[u8]) -> Object {
    let code = sql::stored_code(CodeKind::Routine, b"", body, LexMode::default());
    Object { runs, schema: Some((*b"d").into()), name: name.into(), code, defaults: vec![(*b"e").into()] }
}

/// The effects that the statement may have by stored code.
fn effects(shared: &SharedCode, text: &[u8]) -> CodeEffects {
    let inside = Scope::In([Some(b"d"), None]);
    shared.library().1.hidden(text, LexMode::default(), true, inside).effects
}

#[test]
fn code_leads_to_the_same_in_another_process() {
    let shared: Arc<SharedCode> = Arc::default();
    let read_there = vec![
        object(Runs::Called, b"deep", b"BEGIN DO GET_LOCK('a', 0); RETURN 1; END"),
        object(Runs::Written, b"t", b"SET @a = d.deep()"),
    ];
    assert!(shared.take(Base::new(read_there), ALL_KNOWN, &[]));
    let change = CodeChange::begin(&shared, vec![object(Runs::Written, b"new", b"SET @b = 1")]);
    drop(CodeChange::begin(&shared, vec![object(Runs::Written, b"over", b"SET @c = 1")]));
    drop(CodeChange::begin_of_unknown(&shared));
    shared.begin_reading();
    drop(CodeChange::begin_of_unknown(&shared));
    let texts: [&[u8]; 4] =
        [b"INSERT INTO t VALUES (1)", b"DELETE FROM new", b"DELETE FROM over", b"DELETE FROM other"];
    let before = texts.map(|text| effects(&shared, text));
    let (version, _, beyond) = shared.library();
    let shown = format!("{shared:?}");
    let frozen = shared.freeze();
    assert_eq!(format!("{shared:?}"), format!("{:?}", SharedCode::default()), "all of it is taken out");
    let there: FrozenCode = read(&bytes_of(&frozen)).expect("it is whole");
    assert_eq!(there, frozen);
    let other = SharedCode::default();
    other.thaw(there);
    assert_eq!(texts.map(|text| effects(&other, text)), before);
    assert_eq!((other.version(), other.library().2, other.is_wanted()), (version, beyond, true));
    assert_eq!(format!("{other:?}"), shown);
    shared.thaw(frozen);
    drop(change);
    assert_eq!(shared.begin_reading().len(), 2, "the change that was under way is over");
}
