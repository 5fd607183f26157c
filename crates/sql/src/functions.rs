//! The functions that come with the servers. Any other name before a parenthesis may be a stored or loadable function,
//! whose body nobody sees from here.

use std::cmp::Ordering;

use crate::versions::lacks;
use crate::{LexMode, ServerKind};

/// The meaning of a name's call for the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Function {
    /// Built in, leaves nothing behind, and says the same for the same arguments, tables and session state.
    Plain,
    /// Built in, leaves nothing behind, but what it says also depends on the moment, on chance or on the connection.
    Varying,
    /// Not a function: a keyword before a parenthesis.
    Keyword,
    /// Built in, and there to wait, to burn time or to look at what others hold.
    Waits,
    NamedLock,
    Sequence,
    LastInsertId,
    RowCount,
    FoundRows,
    ConnectionId,
    /// Not known: a stored or loadable function.
    Unknown,
}

/// Says what a name directly before a parenthesis is. `quoted`: the name stood in quotes, which keywords never do. `glued`:
/// nothing stands between the name and the parenthesis.
pub(crate) fn function(name: &[u8], quoted: bool, glued: bool, mode: LexMode) -> Function {
    let server = mode.server;
    let stored = match server {
        ServerKind::MariaDb => {
            contains(STORED_ON_MARIADB, name) || (!glued && contains(GLUED_ON_MARIADB, name))
        }
        ServerKind::MySql => contains(STORED_ON_MYSQL, name) || (!glued && contains(GLUED_ON_MYSQL, name)),
        ServerKind::Unknown => false,
    };
    if stored || lacks(name, server, mode.version) {
        return Function::Unknown;
    }
    if let Ok(place) = SPECIAL.binary_search_by(|(known, _)| compare(known, name)) {
        return SPECIAL[place].1;
    }
    if quoted {
        // Functions that the grammar knows by a keyword are stored ones in quotes. Few write built-in names that way.
        Function::Unknown
    } else if is_keyword(name) {
        Function::Keyword
    } else if contains(PLAIN, name) || (glued && contains(GLUED, name)) {
        Function::Plain
    } else if contains(VARYING, name) || (glued && contains(GLUED_VARYING, name)) {
        Function::Varying
    } else {
        let of_mariadb = (server != ServerKind::MySql).then_some(&MARIADB);
        let of_mysql = (server != ServerKind::MariaDb).then_some(&MYSQL);
        let mut own = [of_mariadb, of_mysql].into_iter().flatten();
        own.find_map(|own| own.function(name)).unwrap_or(Function::Unknown)
    }
}

/// Says whether `word` is one of the keywords that may stand before a parenthesis.
pub(crate) fn is_keyword(word: &[u8]) -> bool {
    contains(KEYWORDS, word)
}

/// Says whether a word without a parenthesis calls a function whose answer varies: the time and the user of standard SQL
/// (`sql/sql_yacc.yy`: `CURDATE`, `NOW_SYM`, `UTC_DATE_SYM`, `CURRENT_USER` with `optional_braces`), MariaDB's SYSDATE and ROWNUM
/// in Oracle's mode.
pub(crate) fn varies_without_parenthesis(word: &[u8]) -> bool {
    const WORDS: [&str; 13] = [
        "current_date",
        "current_role",
        "current_time",
        "current_timestamp",
        "current_user",
        "localtime",
        "localtimestamp",
        "rownum",
        "session_user",
        "sysdate",
        "utc_date",
        "utc_time",
        "utc_timestamp",
    ];
    // Length and first letter leave no comparison for nearly all words.
    matches!(
        (word.len(), word.first().map_or(0, u8::to_ascii_lowercase)),
        (6, b'r') | (7, b's') | (8 | 13, b'u') | (9 | 14, b'l') | (12, b'c' | b's') | (17, b'c')
    ) && contains(&WORDS, word)
}

pub(crate) fn contains(table: &[&str], name: &[u8]) -> bool {
    table.binary_search_by(|known| compare(known, name)).is_ok()
}

/// Compares a lower-case name of a table with one in any case, without a copy.
pub(crate) fn compare(known: &str, name: &[u8]) -> Ordering {
    known.bytes().cmp(name.iter().map(u8::to_ascii_lowercase))
}

/// Keywords that stand before a parenthesis in statements that call functions, and never name a function.
#[rustfmt::skip] // as many on a line as fit
static KEYWORDS: &[&str] = &[
    "against", "all", "and", "any", "as", "between", "bigint", "binary", "by", "case", "char", "character",
    "check", "collate", "columns", "cross", "dec", "decimal", "default", "distinct", "distinctrow", "div",
    "double", "else", "elseif", "escape", "except", "exists", "fields", "float", "for", "force", "foreign",
    "from", "group", "having", "high_priority", "if", "ignore", "in", "index", "indexes", "inner", "insert",
    "int", "integer", "intersect", "interval", "into", "is", "join", "key", "keys", "lateral", "like",
    "limit", "lines", "lock", "low_priority", "match", "mediumint", "minus", "mod", "natural", "nchar", "not",
    "null", "numeric", "of", "offset", "on", "or", "order", "outer", "over", "partition", "primary",
    "procedure", "real", "references", "regexp", "return", "returning", "rlike", "row", "rows", "select",
    "separator", "set", "smallint", "some", "sql_big_result", "sql_buffer_result", "sql_cache",
    "sql_calc_found_rows", "sql_no_cache", "sql_small_result", "straight_join", "table", "then", "tinyint",
    "to", "union", "unique", "until", "update", "use", "using", "value", "values", "varbinary", "varchar",
    "when", "where", "while", "window", "with", "xor",
];

/// Functions that matter to the connection (`sql/item_create.cc`, `sql/sql_yacc.yy`, the locking service, version tokens).
static SPECIAL: &[(&str, Function)] = &[
    ("benchmark", Function::Waits),
    ("connection_id", Function::ConnectionId),
    ("found_rows", Function::FoundRows),
    ("get_lock", Function::NamedLock),
    ("is_free_lock", Function::Waits),
    ("is_used_lock", Function::Waits),
    ("last_insert_id", Function::LastInsertId),
    ("lastval", Function::Sequence),
    ("load_file", Function::Waits),
    ("master_pos_wait", Function::Waits),
    ("nextval", Function::Sequence),
    ("release_all_locks", Function::NamedLock),
    ("release_lock", Function::NamedLock),
    ("row_count", Function::RowCount),
    ("service_get_read_locks", Function::NamedLock),
    ("service_get_write_locks", Function::NamedLock),
    ("service_release_locks", Function::NamedLock),
    ("setval", Function::Sequence),
    ("sleep", Function::Waits),
    ("version_tokens_lock_exclusive", Function::NamedLock),
    ("version_tokens_lock_shared", Function::NamedLock),
    ("version_tokens_unlock", Function::NamedLock),
    ("wsrep_sync_wait_upto_gtid", Function::Waits),
];

/// Of those that need the parenthesis at once, the ones that tell the time or the connection (see [`VARYING`]).
#[rustfmt::skip] // as many on a line as fit
static GLUED_VARYING: &[&str] = &[
    "curdate", "curtime", "now", "session_user", "system_user",
];

/// Built in only where the parenthesis follows at once (`SYM_FN` in `sql/lex.h`): with a blank between, and without
/// `IGNORE_SPACE`, these name stored functions.
#[rustfmt::skip] // as many on a line as fit
static GLUED: &[&str] = &[
    "adddate", "bit_and", "bit_or", "bit_xor", "cast", "count", "date_add", "date_sub", "extract",
    "group_concat", "max", "mid", "min", "position", "std", "stddev", "stddev_pop", "stddev_samp", "subdate",
    "substr", "substring", "sum", "trim", "var_pop", "var_samp", "variance",
];

/// The rest of MariaDB 10.11 (`information_schema.sql_functions` and the grammar) and MySQL 5.7 to 9 (`func_array` in
/// `sql/item_create.cc` and the grammar). Not in it although built in, because what they say belongs to the connection:
/// `ps_current_thread_id`, `wsrep_last_written_gtid`.
#[rustfmt::skip] // as many on a line as fit
static PLAIN: &[&str] = &[
    "abs", "acos", "addtime", "aes_decrypt", "aes_encrypt", "any_value", "area", "asbinary", "ascii", "asin",
    "astext", "aswkb", "aswkt", "atan", "atan2", "avg", "bin", "bit_count", "bit_length", "buffer", "ceil",
    "ceiling", "centroid", "char", "char_length", "character_length", "charset", "coalesce", "coercibility",
    "collation", "compress", "concat", "concat_ws", "contains", "conv", "convert", "convert_tz", "convexhull",
    "cos", "cot", "crc32", "crosses", "cume_dist", "database", "date", "date_format", "datediff", "day",
    "dayname", "dayofmonth", "dayofweek", "dayofyear", "decode", "degrees", "dense_rank", "dimension",
    "disjoint", "elt", "encode", "endpoint", "envelope", "equals", "exp", "export_set", "exteriorring",
    "extractvalue", "field", "find_in_set", "first_value", "floor", "format", "format_pico_time",
    "from_base64", "from_days", "from_unixtime", "geomcollection", "geomcollfromtext", "geomcollfromwkb",
    "geometrycollection", "geometrycollectionfromtext", "geometrycollectionfromwkb", "geometryfromtext",
    "geometryfromwkb", "geometryn", "geometrytype", "geomfromtext", "geomfromwkb", "get_format", "glength",
    "greatest", "hex", "hour", "if", "ifnull", "inet6_aton", "inet6_ntoa", "inet_aton", "inet_ntoa", "insert",
    "instr", "interiorringn", "intersects", "is_ipv4", "is_ipv4_compat", "is_ipv4_mapped", "is_ipv6",
    "isclosed", "isempty", "isnull", "issimple", "json_array", "json_array_append", "json_array_insert",
    "json_arrayagg", "json_contains", "json_contains_path", "json_depth", "json_extract", "json_insert",
    "json_keys", "json_length", "json_merge", "json_merge_patch", "json_merge_preserve", "json_object",
    "json_objectagg", "json_overlaps", "json_pretty", "json_quote", "json_remove", "json_replace",
    "json_schema_valid", "json_search", "json_set", "json_table", "json_type", "json_unquote", "json_valid",
    "json_value", "lag", "last_day", "last_value", "lcase", "lead", "least", "left", "length", "linefromtext",
    "linefromwkb", "linestring", "linestringfromtext", "linestringfromwkb", "ln", "locate", "log", "log10",
    "log2", "lower", "lpad", "ltrim", "make_set", "makedate", "maketime", "mbrcontains", "mbrcoveredby",
    "mbrdisjoint", "mbrequal", "mbrequals", "mbrintersects", "mbroverlaps", "mbrtouches", "mbrwithin", "md5",
    "microsecond", "minute", "mlinefromtext", "mlinefromwkb", "mod", "month", "monthname", "mpointfromtext",
    "mpointfromwkb", "mpolyfromtext", "mpolyfromwkb", "multilinestring", "multilinestringfromtext",
    "multilinestringfromwkb", "multipoint", "multipointfromtext", "multipointfromwkb", "multipolygon",
    "multipolygonfromtext", "multipolygonfromwkb", "name_const", "nth_value", "ntile", "nullif",
    "numgeometries", "numinteriorrings", "numpoints", "oct", "octet_length", "ord", "overlaps",
    "percent_rank", "period_add", "period_diff", "pi", "point", "pointfromtext", "pointfromwkb", "pointn",
    "polyfromtext", "polyfromwkb", "polygon", "polygonfromtext", "polygonfromwkb", "pow", "power", "quarter",
    "quote", "radians", "rank", "regexp_instr", "regexp_like", "regexp_replace", "regexp_substr", "repeat",
    "replace", "reverse", "right", "round", "row_number", "rpad", "rtrim", "schema", "schemas", "sec_to_time",
    "second", "sha", "sha1", "sha2", "sign", "sin", "soundex", "space", "sqrt", "srid", "st_area",
    "st_asbinary", "st_asgeojson", "st_astext", "st_aswkb", "st_aswkt", "st_buffer", "st_buffer_strategy",
    "st_centroid", "st_collect", "st_contains", "st_convexhull", "st_crosses", "st_difference",
    "st_dimension", "st_disjoint", "st_distance", "st_distance_sphere", "st_endpoint", "st_envelope",
    "st_equals", "st_exteriorring", "st_frechetdistance", "st_geohash", "st_geomcollfromtext",
    "st_geomcollfromtxt", "st_geomcollfromwkb", "st_geometrycollectionfromtext",
    "st_geometrycollectionfromwkb", "st_geometryfromtext", "st_geometryfromwkb", "st_geometryn",
    "st_geometrytype", "st_geomfromgeojson", "st_geomfromtext", "st_geomfromwkb", "st_hausdorffdistance",
    "st_interiorringn", "st_intersection", "st_intersects", "st_isclosed", "st_isempty", "st_issimple",
    "st_isvalid", "st_latfromgeohash", "st_latitude", "st_length", "st_linefromtext", "st_linefromwkb",
    "st_lineinterpolatepoint", "st_lineinterpolatepoints", "st_linestringfromtext", "st_linestringfromwkb",
    "st_longfromgeohash", "st_longitude", "st_makeenvelope", "st_mlinefromtext", "st_mlinefromwkb",
    "st_mpointfromtext", "st_mpointfromwkb", "st_mpolyfromtext", "st_mpolyfromwkb",
    "st_multilinestringfromtext", "st_multilinestringfromwkb", "st_multipointfromtext",
    "st_multipointfromwkb", "st_multipolygonfromtext", "st_multipolygonfromwkb", "st_numgeometries",
    "st_numinteriorring", "st_numinteriorrings", "st_numpoints", "st_overlaps", "st_perimeter",
    "st_pointatdistance", "st_pointfromgeohash", "st_pointfromtext", "st_pointfromwkb", "st_pointn",
    "st_polyfromtext", "st_polyfromwkb", "st_polygonfromtext", "st_polygonfromwkb", "st_simplify", "st_srid",
    "st_startpoint", "st_swapxy", "st_symdifference", "st_touches", "st_transform", "st_union", "st_validate",
    "st_within", "st_x", "st_y", "startpoint", "str_to_date", "strcmp", "substring_index", "subtime", "tan",
    "time", "time_format", "time_to_sec", "timediff", "timestamp", "timestampadd", "timestampdiff",
    "to_base64", "to_days", "to_seconds", "touches", "truncate", "ucase", "uncompress", "uncompressed_length",
    "unhex", "updatexml", "upper", "version", "week", "weekday", "weekofyear", "weight_string", "within", "x",
    "y", "year", "yearweek",
];

/// Built in, leaving nothing behind, and yet not a function of arguments, tables and session state alone: what they say
/// belongs to the moment (`Item_func_now_local`, `Item_func_sysdate_local`, `Item_func_curdate`, `Item_func_unix_timestamp` and
/// their kin), to chance (`Item_func_rand`, `Item_func_uuid`, `Item_func_uuid_short`, `Item_func_random_bytes`, the salt of
/// `Item_func_encrypt` and `Item_func_password`), to the connection or its rights (`Item_func_user`, `Item_func_current_role`,
/// `can_access_*`), to the data dictionary or replication, to the statement itself (`mysql_query_attribute_string` of MySQL's
/// component, a loadable function that comes with the server). The classes are those of `sql/item_func.h`, `sql/item_timefunc.h`
/// and `sql/item_strfunc.h`; where in doubt a function is here.
#[rustfmt::skip] // as many on a line as fit
static VARYING: &[&str] = &[
    "current_date", "current_role", "current_time", "current_timestamp", "current_user", "des_decrypt",
    "des_encrypt", "encrypt", "localtime", "localtimestamp", "old_password", "password", "rand",
    "random_bytes", "sysdate", "unix_timestamp", "user", "utc_date", "utc_time", "utc_timestamp", "uuid",
    "uuid_short", "wsrep_last_seen_gtid",
];

/// The functions that only one kind of server has built in, in any of its versions: on the other kind these are names of stored
/// functions. Sorted like the tables above.
struct Own {
    plain: &'static [&'static str],
    varying: &'static [&'static str],
    waiting: &'static [&'static str],
}

impl Own {
    fn function(&self, name: &[u8]) -> Option<Function> {
        let is_in = |table: &[&str]| contains(table, name);
        is_in(self.plain)
            .then_some(Function::Plain)
            .or_else(|| is_in(self.varying).then_some(Function::Varying))
            .or_else(|| is_in(self.waiting).then_some(Function::Waits))
    }
}

/// MariaDB's own functions: unknown to MySQL 9.7 (ER_SP_DOES_NOT_EXIST for any number of arguments), and not in the manuals of
/// 5.7 and 8.0. Galera's (`wsrep_...`) are with the others, since they are also built into MySQL.
#[rustfmt::skip] // as many on a line as fit
static MARIADB: Own = Own {
    plain: &[
        "add_months", "boundary", "chr", "column_add", "column_check", "column_create", "column_delete",
        "column_exists", "column_get", "column_json", "column_list", "crc32c", "decode_histogram", "isring",
        "json_compact", "json_detailed", "json_equals", "json_exists", "json_loose", "json_normalize",
        "json_query", "lengthb", "median", "natural_sort_key", "nvl", "nvl2", "percentile_cont",
        "percentile_disc", "pointonsurface", "sformat", "st_boundary", "st_isring", "st_pointonsurface",
        "st_relate", "to_char",
    ],
    varying: &[
        "binlog_gtid_pos", "rownum", "sys_guid",
    ],
    waiting: &[
        "master_gtid_wait",
    ],
};

/// MySQL's: unknown to MariaDB 10.11. What later versions of MariaDB have taken over, or may, is with the others: `any_value`,
/// `regexp_like`, `format_pico_time`, `json_schema_valid`, functions of geometry.
#[rustfmt::skip] // as many on a line as fit
static MYSQL: Own = Own {
    plain: &[
        "bin_to_uuid", "format_bytes", "from_vector", "grouping", "gtid_subset", "gtid_subtract", "icu_version",
        "is_uuid", "json_schema_validation_report", "json_storage_free", "json_storage_size", "mbrcovers",
        "statement_digest", "statement_digest_text", "string_to_vector", "to_vector", "uuid_to_bin", "vector_dim",
        "vector_to_string",
    ],
    varying: &[
        "can_access_column", "can_access_database", "can_access_event", "can_access_resource_group",
        "can_access_routine", "can_access_table", "can_access_trigger", "can_access_user", "can_access_view",
        "get_dd_column_privileges", "get_dd_create_options", "get_dd_index_private_data",
        "get_dd_index_sub_part_length", "get_dd_property_key_value", "get_dd_schema_options",
        "get_dd_tablespace_private_data", "is_visible_dd_object", "mysql_query_attribute_string", "ps_thread_id",
        "remove_dd_property_key", "roles_graphml", "validate_password_strength",
    ],
    waiting: &[
        "source_pos_wait", "wait_for_executed_gtid_set", "wait_until_sql_thread_after_gtids",
    ],
};

/// Names of the tables above that are no words of MariaDB's where they are called, so that they name stored functions: found by defining a
/// function of each name on MariaDB 10.11 and calling it.
#[rustfmt::skip] // as many on a line as fit
static STORED_ON_MARIADB: &[&str] = &[
    "any_value", "escape", "fields", "geomcollection", "indexes", "lateral", "mbrcoveredby", "minus", "of",
    "regexp_like", "service_get_read_locks", "service_get_write_locks", "service_release_locks",
    "sql_buffer_result", "sql_cache", "sql_no_cache",
    "st_buffer_strategy", "st_collect", "st_frechetdistance", "st_geohash", "st_geomcollfromtxt",
    "st_hausdorffdistance", "st_isvalid", "st_latfromgeohash", "st_latitude", "st_lineinterpolatepoint",
    "st_lineinterpolatepoints", "st_longfromgeohash", "st_longitude", "st_makeenvelope", "st_numinteriorring",
    "st_perimeter", "st_pointatdistance", "st_pointfromgeohash", "st_simplify", "st_swapxy", "st_transform",
    "st_validate", "until", "version_tokens_lock_exclusive", "version_tokens_lock_shared", "version_tokens_unlock",
];

/// Likewise where a blank stands before the parenthesis, without `IGNORE_SPACE`.
#[rustfmt::skip] // as many on a line as fit
static GLUED_ON_MARIADB: &[&str] = &[
    "cume_dist", "dense_rank", "first_value", "json_arrayagg", "json_objectagg", "lag", "lead", "median",
    "nth_value", "ntile", "percent_rank", "percentile_cont", "percentile_disc", "rank",
];

/// The same on MySQL.
#[rustfmt::skip] // as many on a line as fit
static GLUED_ON_MYSQL: &[&str] = &[
    "json_arrayagg", "json_objectagg", "st_collect", "sysdate",
];

/// Likewise on MySQL 8.0.31; those that 5.7 has built in still are among them.
#[rustfmt::skip] // as many on a line as fit
static STORED_ON_MYSQL: &[&str] = &[
    "area", "asbinary", "astext", "aswkb", "aswkt", "buffer", "centroid", "convexhull", "crosses", "decode",
    "des_decrypt", "des_encrypt", "dimension", "disjoint", "encode", "encrypt", "endpoint", "envelope", "equals",
    "exteriorring", "geomcollfromtext", "geomcollfromwkb", "geometrycollectionfromtext",
    "geometrycollectionfromwkb", "geometryfromtext", "geometryfromwkb", "geometryn", "geometrytype",
    "geomfromtext", "geomfromwkb", "glength", "interiorringn", "intersects", "isclosed", "isempty", "issimple",
    "lastval", "linefromtext", "linefromwkb", "linestringfromtext", "linestringfromwkb", "mbrequal", "minus",
    "mlinefromtext", "mlinefromwkb", "mpointfromtext", "mpointfromwkb", "mpolyfromtext", "mpolyfromwkb",
    "multilinestringfromtext", "multilinestringfromwkb", "multipointfromtext", "multipointfromwkb",
    "multipolygonfromtext", "multipolygonfromwkb", "nextval", "numgeometries", "numinteriorrings", "numpoints",
    "old_password", "overlaps", "pointfromtext", "pointfromwkb", "pointn", "polyfromtext", "polyfromwkb",
    "polygonfromtext", "polygonfromwkb", "setval", "sql_cache", "st_perimeter", "startpoint", "touches", "within",
    "wsrep_last_seen_gtid", "wsrep_sync_wait_upto_gtid", "x", "y",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_sorted() {
        let own = [&MARIADB, &MYSQL].into_iter().flat_map(|own| [own.plain, own.varying, own.waiting]);
        let stored = [STORED_ON_MARIADB, GLUED_ON_MARIADB, STORED_ON_MYSQL, GLUED_ON_MYSQL];
        for table in [KEYWORDS, GLUED, GLUED_VARYING, PLAIN, VARYING].into_iter().chain(stored).chain(own) {
            assert!(table.is_sorted_by(|a, b| a < b));
        }
        assert!(SPECIAL.is_sorted_by(|(a, _), (b, _)| a < b));
    }

    #[test]
    fn look_ups() {
        let of = |name: &[u8], quoted, glued| function(name, quoted, glued, LexMode::default());
        assert_eq!(of(b"GET_lock", false, true), Function::NamedLock);
        assert_eq!(of(b"Concat", false, false), Function::Plain);
        assert_eq!(of(b"count", false, true), Function::Plain);
        assert_eq!(of(b"count", false, false), Function::Unknown);
        assert_eq!(of(b"now", false, true), Function::Varying);
        assert_eq!(of(b"now", false, false), Function::Unknown);
        assert!(varies_without_parenthesis(b"Current_Timestamp") && !varies_without_parenthesis(b"select"));
        assert_eq!(of(b"UUID", false, false), Function::Varying);
        assert_eq!(of(b"IN", false, false), Function::Keyword);
        assert_eq!(of(b"in", true, false), Function::Unknown);
        assert_eq!(of(b"if", true, true), Function::Unknown);
        assert_eq!(of(b"get_lock", true, true), Function::NamedLock);
        assert_eq!(of(b"my_function", false, true), Function::Unknown);
        assert_eq!(of(b"", true, true), Function::Unknown);
    }

    #[test]
    fn keywords_of_one_kind_are_names_on_the_other() {
        let of = |name: &[u8], glued, server| {
            function(name, false, glued, LexMode { server, ..LexMode::default() })
        };
        let (mariadb, mysql) = (ServerKind::MariaDb, ServerKind::MySql);
        assert_eq!(
            (of(b"Lateral", true, mariadb), of(b"lateral", true, mysql)),
            (Function::Unknown, Function::Keyword)
        );
        assert_eq!(
            (of(b"minus", true, mysql), of(b"any_value", true, mariadb)),
            (Function::Unknown, Function::Unknown)
        );
        assert_eq!(
            (of(b"lag", false, mariadb), of(b"lag", true, mariadb)),
            (Function::Unknown, Function::Plain)
        );
        assert_eq!(
            (of(b"area", true, mysql), of(b"nextval", true, mysql)),
            (Function::Unknown, Function::Unknown)
        );
    }

    #[test]
    fn names_of_the_other_kind_are_stored_functions() {
        let of = |name: &[u8], server| function(name, false, true, LexMode { server, ..LexMode::default() });
        for (name, kind, other) in [
            (&b"BIN_TO_UUID"[..], ServerKind::MySql, ServerKind::MariaDb),
            (b"ps_thread_id", ServerKind::MySql, ServerKind::MariaDb),
            (b"source_pos_wait", ServerKind::MySql, ServerKind::MariaDb),
            (b"nvl", ServerKind::MariaDb, ServerKind::MySql),
            (b"sys_guid", ServerKind::MariaDb, ServerKind::MySql),
            (b"master_gtid_wait", ServerKind::MariaDb, ServerKind::MySql),
        ] {
            assert_eq!(of(name, other), Function::Unknown);
            assert_ne!(of(name, kind), Function::Unknown);
            assert_eq!(of(name, kind), of(name, ServerKind::Unknown));
        }
        for server in [ServerKind::MariaDb, ServerKind::MySql] {
            assert_eq!(of(b"concat", server), Function::Plain);
            assert_eq!(of(b"uuid", server), Function::Varying);
        }
    }
}
