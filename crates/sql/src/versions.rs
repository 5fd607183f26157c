//! Which versions of a server have a function built in, and which names may be a stored function's beside that.
//!
//! By the servers' release notes; what a version has that is not listed was there in the oldest that is served (MariaDB 10.4, MySQL 5.7).
//! Where a function came to several series at once, the latest of them counts, so that at worst a built-in one is taken for a stored one.

use crate::ServerKind;
use crate::functions::{compare, contains};

/// Says whether a server of this version has no function of a name, although others of its kind have: it names a stored one
/// there. `version`: 101114 for 10.11.14; 0 has all.
pub(crate) fn lacks(name: &[u8], server: ServerKind, version: u32) -> bool {
    let (since, until) = match server {
        _ if version == 0 => return false,
        ServerKind::MariaDb => (SINCE_ON_MARIADB, &[][..]),
        ServerKind::MySql => (SINCE_ON_MYSQL, UNTIL_ON_MYSQL),
        ServerKind::Unknown => return false,
    };
    let of = |table: &[(&str, u32)]| {
        let place = table.binary_search_by(|(known, _)| compare(known, name)).ok()?;
        Some(table[place].1)
    };
    of(since).is_some_and(|since| version < since) || of(until).is_some_and(|until| version >= until)
}

/// Says whether a name that is built in, or a keyword, may name a stored function as well: with another number of arguments than
/// the built-in one takes, or where that is not called. `name` is folded. Only the server knows whether there is a stored one of
/// the name.
///
/// Found by defining a function of each name in `functions.rs` with 0 to 5 parameters and calling it, on MariaDB 10.11 and MySQL
/// 8.0.31; there `mysql_query_attribute_string` comes with a component that need not be there.
pub fn may_be_stored_too(name: &[u8]) -> bool {
    contains(STORED_TOO, name)
}

#[rustfmt::skip] // as many on a line as fit
static STORED_TOO: &[&str] = &[
    "against", "columns", "geometrycollection", "json_table", "linestring", "multilinestring", "multipoint",
    "multipolygon", "mysql_query_attribute_string", "point", "polygon",
];

const fn v(major: u32, minor: u32, patch: u32) -> u32 {
    major * 10_000 + minor * 100 + patch
}

static SINCE_ON_MARIADB: &[(&str, u32)] = &[
    ("add_months", v(10, 6, 1)),
    ("crc32c", v(10, 8, 0)),
    ("format_pico_time", v(11, 0, 2)),
    ("json_arrayagg", v(10, 5, 0)),
    ("json_equals", v(10, 7, 0)),
    ("json_merge_patch", v(10, 4, 5)),
    ("json_merge_preserve", v(10, 4, 5)),
    ("json_normalize", v(10, 7, 0)),
    ("json_objectagg", v(10, 5, 0)),
    ("json_overlaps", v(10, 9, 0)),
    ("json_schema_valid", v(11, 1, 0)),
    ("json_table", v(10, 6, 0)),
    ("natural_sort_key", v(10, 7, 0)),
    ("random_bytes", v(10, 10, 0)),
    ("rownum", v(10, 6, 1)),
    ("sformat", v(10, 7, 0)),
    ("st_distance_sphere", v(10, 5, 10)),
    ("sys_guid", v(10, 6, 1)),
    ("to_char", v(10, 6, 1)),
];

static SINCE_ON_MYSQL: &[(&str, u32)] = &[
    ("bin_to_uuid", v(8, 0, 0)),
    ("can_access_column", v(8, 0, 0)),
    ("can_access_database", v(8, 0, 0)),
    ("can_access_event", v(8, 0, 0)),
    ("can_access_resource_group", v(8, 0, 0)),
    ("can_access_routine", v(8, 0, 0)),
    ("can_access_table", v(8, 0, 0)),
    ("can_access_trigger", v(8, 0, 0)),
    ("can_access_user", v(8, 0, 0)),
    ("can_access_view", v(8, 0, 0)),
    ("cume_dist", v(8, 0, 2)),
    ("current_role", v(8, 0, 0)),
    ("dense_rank", v(8, 0, 2)),
    ("except", v(8, 0, 0)),
    ("first_value", v(8, 0, 2)),
    ("format_bytes", v(8, 0, 16)),
    ("format_pico_time", v(8, 0, 16)),
    ("from_vector", v(9, 0, 0)),
    ("get_dd_column_privileges", v(8, 0, 0)),
    ("get_dd_create_options", v(8, 0, 0)),
    ("get_dd_index_private_data", v(8, 0, 0)),
    ("get_dd_index_sub_part_length", v(8, 0, 0)),
    ("get_dd_property_key_value", v(8, 0, 0)),
    ("get_dd_schema_options", v(8, 0, 0)),
    ("get_dd_tablespace_private_data", v(8, 0, 0)),
    ("grouping", v(8, 0, 1)),
    ("icu_version", v(8, 0, 4)),
    ("intersect", v(8, 0, 31)),
    ("is_uuid", v(8, 0, 0)),
    ("is_visible_dd_object", v(8, 0, 0)),
    ("json_overlaps", v(8, 0, 17)),
    ("json_schema_valid", v(8, 0, 17)),
    ("json_schema_validation_report", v(8, 0, 17)),
    ("json_storage_free", v(8, 0, 2)),
    ("json_table", v(8, 0, 4)),
    ("json_value", v(8, 0, 21)),
    ("lag", v(8, 0, 2)),
    ("last_value", v(8, 0, 2)),
    ("lateral", v(8, 0, 14)),
    ("lead", v(8, 0, 2)),
    ("nth_value", v(8, 0, 2)),
    ("ntile", v(8, 0, 2)),
    ("of", v(8, 0, 1)),
    ("over", v(8, 0, 2)),
    ("percent_rank", v(8, 0, 2)),
    ("ps_thread_id", v(8, 0, 16)),
    ("rank", v(8, 0, 2)),
    ("regexp_instr", v(8, 0, 4)),
    ("regexp_like", v(8, 0, 4)),
    ("regexp_replace", v(8, 0, 4)),
    ("regexp_substr", v(8, 0, 4)),
    ("remove_dd_property_key", v(8, 0, 0)),
    ("roles_graphml", v(8, 0, 0)),
    ("row_number", v(8, 0, 2)),
    ("rows", v(8, 0, 2)),
    ("source_pos_wait", v(8, 0, 26)),
    ("st_collect", v(8, 0, 24)),
    ("st_frechetdistance", v(8, 0, 23)),
    ("st_geomcollfromtxt", v(8, 0, 0)),
    ("st_hausdorffdistance", v(8, 0, 23)),
    ("st_latitude", v(8, 0, 12)),
    ("st_lineinterpolatepoint", v(8, 0, 24)),
    ("st_lineinterpolatepoints", v(8, 0, 24)),
    ("st_longitude", v(8, 0, 12)),
    ("st_pointatdistance", v(8, 0, 24)),
    ("st_swapxy", v(8, 0, 0)),
    ("st_transform", v(8, 0, 13)),
    ("statement_digest", v(8, 0, 4)),
    ("statement_digest_text", v(8, 0, 4)),
    ("string_to_vector", v(9, 0, 0)),
    ("to_vector", v(9, 0, 0)),
    ("uuid_to_bin", v(8, 0, 0)),
    ("vector_dim", v(9, 0, 0)),
    ("vector_to_string", v(9, 0, 0)),
    ("window", v(8, 0, 2)),
];

/// A component brings them back from then on, which need not be there.
static UNTIL_ON_MYSQL: &[(&str, u32)] = &[("md5", v(9, 6, 0)), ("sha", v(9, 6, 0)), ("sha1", v(9, 6, 0))];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::functions::{Function, function};
    use crate::{LexMode, ServerKind};

    #[test]
    fn tables_are_sorted_and_name_what_is_known() {
        for table in [SINCE_ON_MARIADB, SINCE_ON_MYSQL, UNTIL_ON_MYSQL] {
            assert!(table.is_sorted_by(|(a, _), (b, _)| a < b));
        }
        assert!(STORED_TOO.is_sorted_by(|a, b| a < b));
        for name in SINCE_ON_MARIADB
            .iter()
            .chain(SINCE_ON_MYSQL)
            .chain(UNTIL_ON_MYSQL)
            .map(|(name, _)| *name)
            .chain(STORED_TOO.iter().copied())
        {
            let mode = LexMode::default();
            assert_ne!(function(name.as_bytes(), false, true, mode), Function::Unknown, "{name}");
        }
    }

    #[test]
    fn a_name_is_a_stored_functions_where_the_version_has_none() {
        let of = |name: &[u8], server, version| {
            function(name, false, true, LexMode { server, version, ..LexMode::default() })
        };
        let (mariadb, mysql) = (ServerKind::MariaDb, ServerKind::MySql);
        for (name, server, without, with) in [
            (&b"NATURAL_SORT_KEY"[..], mariadb, v(10, 6, 18), v(10, 11, 14)),
            (b"json_schema_valid", mariadb, v(10, 11, 14), v(11, 4, 5)),
            (b"json_table", mysql, v(5, 7, 44), v(8, 0, 31)),
            (b"rank", mysql, v(5, 7, 44), v(8, 0, 31)),
            (b"json_value", mysql, v(8, 0, 15), v(9, 7, 0)),
            (b"Vector_Dim", mysql, v(8, 0, 31), v(9, 0, 0)),
            (b"md5", mysql, v(9, 7, 0), v(8, 0, 31)),
        ] {
            assert_eq!(of(name, server, without), Function::Unknown);
            assert_ne!(of(name, server, with), Function::Unknown);
        }
        assert_ne!(of(b"md5", mariadb, v(11, 8, 0)), Function::Unknown);
    }
}
