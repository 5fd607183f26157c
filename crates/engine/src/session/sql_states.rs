//! The SQLSTATEs that the servers have for the conditions that they raise themselves. GET DIAGNOSTICS tells them, SHOW WARNINGS does not.
//!
//! As of MariaDB 10.11 (its header `sql_state.h`) and MySQL 8.0.31 (performance_schema.events_errors_summary_global_by_error).

use std::num::NonZeroU32;

/// An SQLSTATE in four bytes, since each client has one: five digits and capitals, as a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SqlState(NonZeroU32);

plain!(struct SqlState { 0 });

const DIGITS: &[u8; 36] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";

impl SqlState {
    /// `None` for what is none.
    pub(crate) fn of(text: [u8; 5]) -> Option<Self> {
        let mut number = 1; // so that it is not zero
        for byte in text {
            let digit = DIGITS.iter().position(|&digit| digit == byte)?;
            number = number * 36 + u32::try_from(digit).ok()?;
        }
        NonZeroU32::new(number).map(Self)
    }

    pub(super) fn text(self) -> [u8; 5] {
        let mut rest = self.0.get();
        let mut text = [0; 5];
        for byte in text.iter_mut().rev() {
            *byte = DIGITS[(rest % 36) as usize];
            rest /= 36;
        }
        text
    }
}

/// The SQLSTATE of an error that has no other (manual of both, "SIGNAL": general error).
const GENERAL: &[u8; 5] = b"HY000";

/// ER_SIGNAL_WARN, ER_SIGNAL_NOT_FOUND, ER_SIGNAL_EXCEPTION and ER_RESIGNAL_WITHOUT_ACTIVE_HANDLER: SIGNAL says which state they have.
const SIGNALLED: std::ops::RangeInclusive<u16> = 1642..=1645;

/// Codes above are not the servers' own, but what a SIGNAL has set, or may be newer than what is known here.
const LAST: u16 = 4200;

/// The SQLSTATE of a condition; `None` where the code does not tell.
pub(super) fn state_of(code: u16, is_mariadb: bool) -> Option<&'static [u8; 5]> {
    if SIGNALLED.contains(&code) || !(1000..=LAST).contains(&code) {
        return None;
    }
    let own = if is_mariadb { OF_MARIADB } else { OF_MYSQL };
    let known = COMMON.iter().chain(own).find(|(_, codes)| codes.contains(&code));
    Some(known.map_or(GENERAL, |&(state, _)| state))
}

/// The same on both.
#[rustfmt::skip] // as many on a line as fit
const COMMON: &[(&[u8; 5], &[u16])] = &[
    (b"01000", &[1249, 1261, 1262, 1265, 1311]),
    (b"02000", &[1329]),
    (b"08004", &[1040, 1251]),
    (b"08S01", &[1042, 1043, 1047, 1053, 1080, 1081, 1152, 1153, 1154, 1155, 1156, 1157, 1158, 1159, 1160, 1161,
        1184, 1189, 1190, 1218]),
    (b"0A000", &[1312, 1314, 1335, 1336, 1415, 1845, 1846]),
    (b"20000", &[1339]),
    (b"21000", &[1222, 1241, 1242]),
    (b"21S01", &[1058, 1136]),
    (b"22001", &[1406]),
    (b"22003", &[1264, 1416, 1690]),
    (b"22004", &[1138, 1263]),
    (b"22007", &[1292, 1367]),
    (b"22008", &[1441]),
    (b"22012", &[1365]),
    (b"23000", &[1022, 1048, 1052, 1062, 1169, 1216, 1217, 1451, 1452, 1586, 1761, 1762, 1859]),
    (b"24000", &[1325, 1326]),
    (b"25000", &[1179, 1207]),
    (b"25001", &[1568]),
    (b"25006", &[1792]),
    (b"28000", &[1045, 1698, 1873]),
    (b"2F003", &[1303]),
    (b"2F005", &[1321]),
    (b"35000", &[1758]),
    (b"3D000", &[1046]),
    (b"40001", &[1213]),
    (b"42000", &[1044, 1049, 1055, 1056, 1057, 1059, 1061, 1063, 1064, 1065, 1066, 1067, 1068, 1069, 1070, 1071,
        1072, 1073, 1074, 1075, 1083, 1084, 1090, 1091, 1102, 1103, 1104, 1106, 1107, 1110, 1112, 1113, 1115, 1118,
        1120, 1121, 1131, 1132, 1139, 1140, 1141, 1142, 1143, 1144, 1145, 1147, 1148, 1149, 1162, 1163, 1164, 1166,
        1167, 1170, 1171, 1172, 1173, 1176, 1177, 1178, 1203, 1211, 1226, 1227, 1230, 1231, 1232, 1234, 1235, 1239,
        1248, 1250, 1252, 1253, 1280, 1281, 1286, 1304, 1305, 1308, 1309, 1310, 1313, 1315, 1316, 1318, 1319, 1320,
        1322, 1323, 1324, 1327, 1330, 1331, 1332, 1333, 1337, 1338, 1370, 1403, 1407, 1410, 1413, 1414, 1425, 1426,
        1427, 1437, 1439, 1453, 1458, 1460, 1461, 1463, 1582, 1583, 1584, 1630, 1641, 1687, 1701]),
    (b"42S01", &[1050]),
    (b"42S02", &[1051, 1109, 1146]),
    (b"42S12", &[1082]),
    (b"42S21", &[1060]),
    (b"42S22", &[1054, 1247]),
    (b"70100", &[1317]),
    (b"HY001", &[1037, 1038]),
    (b"XA100", &[1402]),
    (b"XA102", &[1614]),
    (b"XA106", &[1613]),
    (b"XAE03", &[1401]),
    (b"XAE04", &[1397]),
    (b"XAE05", &[1398]),
    (b"XAE07", &[1399]),
    (b"XAE08", &[1440]),
    (b"XAE09", &[1400]),
];

/// SQLSTATEs of MariaDB alone.
#[rustfmt::skip] // as many on a line as fit
const OF_MARIADB: &[(&[u8; 5], &[u16])] = &[
    (b"01000", &[4029]),
    (b"0A000", &[4000]),
    (b"0L000", &[1446, 1960]),
    (b"0Z002", &[3004]),
    (b"22003", &[1916, 1917]),
    (b"22007", &[1366, 1918, 1921, 1978]),
    (b"2201E", &[3020]),
    (b"22023", &[3037]),
    (b"23000", &[4025]),
    (b"28000", &[1133]),
    (b"42000", &[1970, 1971, 3057, 4080, 4159]),
    (b"42S02", &[1932, 1965, 4089, 4090, 4091, 4092]),
    (b"44000", &[1369]),
    (b"70100", &[1927, 1969, 4192]),
    (b"OP000", &[1959]),
];

/// SQLSTATEs of MySQL alone.
#[rustfmt::skip] // as many on a line as fit
const OF_MYSQL: &[(&[u8; 5], &[u16])] = &[
    (b"01000", &[3519, 3565, 3751]),
    (b"01S00", &[3713]),
    (b"01S01", &[3715]),
    (b"08S01", &[3068]),
    (b"0Z002", &[3004]),
    (b"22001", &[3907]),
    (b"22003", &[3155, 3669, 3706, 3752, 3904]),
    (b"22018", &[3156, 3903]),
    (b"2201E", &[3020]),
    (b"22023", &[3037, 3558, 3559, 3560, 3561, 3562, 3563, 3564, 3727]),
    (b"22032", &[3140, 3141, 3144, 3145, 3146, 3147, 3150, 3151, 3157, 3158, 3853]),
    (b"22034", &[3967]),
    (b"22035", &[3665, 3966]),
    (b"2203F", &[3666]),
    (b"22S00", &[3520, 3618, 3682, 3704, 3705, 3726, 3741, 3742, 3743, 3744]),
    (b"22S01", &[3516, 4032]),
    (b"22S02", &[3616, 3731]),
    (b"22S03", &[3617, 3732]),
    (b"22S04", &[4033]),
    (b"22S05", &[4034]),
    (b"23000", &[1557, 3673]),
    (b"40000", &[3101]),
    (b"42000", &[1101, 1133, 3057, 3061, 3119, 3131, 3143, 3148, 3149, 3152, 3153, 3154, 3165, 3202, 3630, 3667,
        3670, 3753, 3948, 3999, 4048]),
    (b"42Y07", &[3503]),
    (b"SR000", &[3714]),
    (b"SR001", &[3521, 3548]),
    (b"SR002", &[3517, 3736, 3737, 3738, 3739, 3740, 4105, 4106, 4107]),
    (b"SR003", &[3518]),
    (b"SR004", &[3712]),
    (b"SR005", &[3716]),
    (b"SR006", &[3708, 3709, 3710, 3711, 3717, 3718]),
    (b"SU001", &[3882, 3902]),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_numbers() {
        for text in [b"00000", b"HY000", b"ZZZZZ", b"42S02"] {
            assert_eq!(SqlState::of(*text).unwrap().text(), *text);
        }
        assert_eq!(SqlState::of(*b"hy000"), None);
    }

    #[test]
    fn codes_have_the_states_of_their_server() {
        for (code, mariadb, mysql) in [
            (1365, b"22012", b"22012"),
            (1146, b"42S02", b"42S02"),
            (1366, b"22007", b"HY000"),
            (1969, b"70100", b"HY000"),
            (1105, b"HY000", b"HY000"),
        ] {
            assert_eq!(state_of(code, true), Some(mariadb), "{code}");
            assert_eq!(state_of(code, false), Some(mysql), "{code}");
        }
        for code in [1644, 30_001, 45, 65_535] {
            assert_eq!(state_of(code, true), None, "{code}");
        }
    }
}
