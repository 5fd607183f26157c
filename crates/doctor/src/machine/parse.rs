//! What the files hold, as pure functions of their text.

use super::Limit;
use super::files::{ENDLESS, number};

/// The first two numbers of a release such as `6.18.44-generic`.
pub(super) fn release(text: &str) -> Option<(u64, u64)> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    Some((numbers.next()?.parse().ok()?, numbers.next()?.parse().ok()?))
}

/// What follows a name at the start of a line.
pub(super) fn field<'t>(text: &'t str, name: &str) -> Option<&'t str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// A line of `/proc/self/limits`.
pub(super) fn limit(text: &str, name: &str) -> Option<Limit> {
    let bound = |word: &str| if word == "unlimited" { Some(ENDLESS) } else { number(word) };
    let mut words = field(text, name)?.split_whitespace();
    Some(Limit { soft: bound(words.next()?)?, hard: bound(words.next()?)? })
}

/// How many there are in a list such as `0-3,8`.
pub(super) fn list_length(text: &str) -> Option<u64> {
    let mut length = 0_u64;
    for (low, high) in ranges(text) {
        length = length.checked_add(high - low)?.checked_add(1)?;
    }
    (length > 0).then_some(length)
}

/// How many of a list of numbers and ranges lie in `range`. Ranges in the kernel's lists do not overlap.
pub(super) fn overlap(text: &str, range: (u64, u64)) -> u64 {
    ranges(text)
        .filter_map(|(low, high)| Some(high.min(range.1).checked_sub(low.max(range.0))? + 1))
        .fold(0, u64::saturating_add)
        .min(range.1 - range.0 + 1)
}

/// The parts of `80,3306,8000-8010`; those that make no sense are left out.
fn ranges(text: &str) -> impl Iterator<Item = (u64, u64)> + '_ {
    text.trim().split(',').filter_map(|part| {
        let (low, high) = part.split_once('-').unwrap_or((part, part));
        let (low, high) = (low.trim().parse().ok()?, high.trim().parse().ok()?);
        (low <= high && high < u64::MAX).then_some((low, high))
    })
}

/// `madvise` of `always [madvise] never`.
pub(super) fn chosen_word(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('[')?;
    rest.split_once(']').map(|(word, _)| word.to_owned())
}

/// The second column of all lines of `/proc/net/softnet_stat`, one line a core, in hexadecimal
/// (`softnet_seq_show` in Linux `net/core/net-procfs.c`).
pub(super) fn packets_dropped(text: &str) -> Option<u64> {
    let mut sum = 0_u64;
    for line in text.lines() {
        let column = line.split_whitespace().nth(1)?;
        sum = sum.saturating_add(u64::from_str_radix(column, 16).ok()?);
    }
    Some(sum.min(ENDLESS))
}

/// Bytes of everything that the kernel keeps for an idle TCP socket, from `/proc/slabinfo`: the socket, its inode, its
/// file, its directory entry, and the entry of epoll (io_uring keeps a request of twice that size).
pub(super) fn socket_size(text: &str) -> Option<u64> {
    let wanted = ["TCP", "sock_inode_cache", "filp", "dentry"];
    let mut sum = EVENT_ENTRY;
    for name in wanted {
        let size = text.lines().find_map(|line| slab_object(line, name))?;
        sum = sum.saturating_add(size);
    }
    Some(sum)
}

/// `struct io_kiocb`, 256 bytes, of a receive that waits; `struct epitem` has 128.
const EVENT_ENTRY: u64 = 256;

/// What one object takes: pages of a slab over the objects in it, which counts what is lost between them.
fn slab_object(line: &str, name: &str) -> Option<u64> {
    // The pages of a slab are of 4 KiB on all machines that Onramp is built for.
    const PAGE: u64 = 4096;
    let mut words = line.split_whitespace();
    if words.next()? != name {
        return None;
    }
    // name, objects in use, objects, bytes of one, objects in a slab, pages of a slab: slabinfo(5).
    let objects = number(words.nth(3)?)?;
    let pages = number(words.next()?)?;
    pages.checked_mul(PAGE)?.checked_div(objects).map(|size| size.min(ENDLESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases() {
        assert_eq!(release("6.18.44-fc-v595"), Some((6, 18)));
        assert_eq!(release("5.4"), Some((5, 4)));
        for text in ["", "six", "6", ".1", "99999999999999999999.1"] {
            assert_eq!(release(text), None, "{text}");
        }
    }

    #[test]
    fn limits_with_and_without_a_number() {
        let text = "Limit  Soft Limit  Hard Limit  Units\nMax open files   1024   524288   files\n\
                    Max processes   unlimited   unlimited   processes\nMax locked memory  x y\n";
        assert_eq!(limit(text, "Max open files"), Some(Limit { soft: 1024, hard: 524_288 }));
        assert_eq!(limit(text, "Max processes"), Some(Limit { soft: ENDLESS, hard: ENDLESS }));
        assert_eq!(limit(text, "Max locked memory"), None);
        assert_eq!(limit("", "Max open files"), None);
    }

    #[test]
    fn lists_of_ranges() {
        assert_eq!(list_length("0-3,8"), Some(5));
        assert_eq!(list_length("7"), Some(1));
        assert_eq!(list_length(""), None);
        assert_eq!(list_length("3-1"), None);
        assert_eq!(list_length("0-18446744073709551615"), None);
        assert_eq!(overlap("80,3306,33060,50000-50009\n", (32_768, 60_999)), 11);
        assert_eq!(overlap("0-70000", (32_768, 60_999)), 28_232);
        assert_eq!(overlap("", (1, 2)), 0);
    }

    #[test]
    fn words_and_columns() {
        assert_eq!(chosen_word("always [madvise] never\n").as_deref(), Some("madvise"));
        assert_eq!(chosen_word("always madvise] never"), None);
        assert_eq!(packets_dropped("064e6dae 0000000a 0\n058c9917 00000010 0\n"), Some(26));
        assert_eq!(packets_dropped("064e6dae zz 0\n"), None);
    }

    #[test]
    fn a_socket_is_the_sum_of_its_objects() {
        let text = "slabinfo - version: 2.1\nTCPv6 26 26 2496 13 8 : tunables 0 0 0\n\
                    TCP 117 169 2368 13 8 : tunables\nsock_inode_cache 1 1 832 19 4\nfilp 1 1 192 21 1\n\
                    dentry 1 1 192 21 1\n";
        assert_eq!(socket_size(text), Some(32_768 / 13 + 16_384 / 19 + 2 * (4096 / 21) + EVENT_ENTRY));
        assert_eq!(socket_size("TCP 117 169 2368 0 8"), None);
        assert_eq!(socket_size(""), None);
    }
}
