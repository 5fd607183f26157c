//! Where in the outermost select list a statement is being read, and which of its columns have their names from the text.

use std::ops::Range;

use crate::SessionCall;
use crate::keyword::Keyword;
use crate::lexer::{Token, TokenKind};

/// Follows the tokens outside of all parentheses.
#[derive(Debug, Default)]
pub(crate) struct SelectList {
    place: Place,
}

/// Where the next token stands.
#[derive(Debug, Default)]
enum Place {
    #[default]
    Outside,
    ItemStart,
    Item(Item),
}

/// An item of the list.
#[derive(Clone, Copy, Debug)]
struct Item {
    start: usize,
    /// How many calls there were before it.
    calls_before: usize,
    /// True if all its words so far stand before parentheses, as those of functions do. Any other may be an alias, or no part of
    /// the item any more (`ON DUPLICATE KEY UPDATE`).
    calls_alone: bool,
}

impl SelectList {
    /// Takes in a token at depth 0, which stands behind `previous`; `calls` are all of the text so far.
    pub(crate) fn take(
        &mut self,
        token: Token,
        keyword: Keyword,
        previous: Token,
        calls: &mut [SessionCall],
    ) {
        let leaves = matches!(
            keyword,
            Keyword::From
                | Keyword::SelectPart
                | Keyword::Into
                | Keyword::For
                | Keyword::Lock
                | Keyword::Procedure
        );
        let comma = token.is(b',');
        if let Place::Item(item) = &mut self.place {
            let ends = leaves || comma || token.ends_statement();
            match item.range_if_named(previous).filter(|_| ends) {
                Some(range) => {
                    for call in calls.iter_mut().skip(item.calls_before) {
                        call.names_item = Some(range.clone());
                    }
                }
                None => item.calls_alone &= previous.kind() != TokenKind::Word || token.is(b'('),
            }
        }
        let is_option =
            matches!(keyword, Keyword::SelectOption | Keyword::SqlCalcFoundRows | Keyword::InsertModifier);
        self.place = match std::mem::take(&mut self.place) {
            _ if keyword == Keyword::Select => Place::ItemStart,
            Place::Outside => Place::Outside,
            _ if leaves => Place::Outside,
            _ if comma => Place::ItemStart,
            Place::ItemStart if is_option => Place::ItemStart,
            Place::ItemStart => {
                Place::Item(Item { start: token.start(), calls_before: calls.len(), calls_alone: true })
            }
            Place::Item(item) => Place::Item(item),
        };
    }
}

impl Item {
    /// The item's bytes, where it ends behind a token, and it is clear that no alias is among them.
    fn range_if_named(self, last: Token) -> Option<Range<usize>> {
        let is_no_alias =
            last.is(b')') || matches!(last.kind(), TokenKind::SystemVariable | TokenKind::Number);
        (self.calls_alone && is_no_alias).then(|| self.start..last.end())
    }
}
