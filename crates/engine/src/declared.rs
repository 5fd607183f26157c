//! Settings that are declared once: name, type, default, and when a new value holds.
//!
//! From the declaration follow the struct, its [`Default`], what of it changes while Onramp runs, and a table that says so of each
//! setting. The table of options names its settings by their path, and asks that table; nothing else is to be kept in step.

/// When a new value of a setting holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// At once: [`Declared::take_live`] takes it up.
    Live,
    /// At the next start: it is about what is made once (threads, sockets, tables), or is not taken up yet.
    NextStart,
    /// Nobody gives one: it is found at the start, from names, from files and from other settings.
    Found,
}

/// What the macro `settings!` makes of a declaration.
pub trait Declared {
    /// The table of its settings: a field for each, of the same name.
    type Changes;

    /// When a new value of each holds.
    const CHANGES: Self::Changes;

    /// Adds the path of each setting, behind `path`, with when a new value of it holds.
    fn list(path: &str, into: &mut Vec<(String, Change)>);

    /// Takes what is live from `new`, and leaves all else as it is.
    fn take_live(&mut self, new: &Self);
}

/// Declares a struct of settings, and the struct that says when a new value of each holds:
///
/// ```
/// engine::settings! {
///     /// What a bell is told.
///     pub struct BellSettings / BellChange {
///         /// Times that it rings.
///         pub times: u32 = 3, live;
///         /// What it is made of.
///         pub metal: String = String::from("bronze"), start;
///     }
/// }
/// # use engine::{Change, Declared};
/// assert_eq!(BellSettings::default().times, 3);
/// assert_eq!(BellSettings::CHANGES.metal, Change::NextStart);
/// ```
///
/// The last word of each is `live`, `start` or `found`, as in [`Change`], or `parts` for a struct that is declared
/// likewise and says it of each of its own settings.
#[macro_export]
macro_rules! settings {
    (
        $(#[$about:meta])*
        $visible:vis struct $Settings:ident / $Changes:ident {
            $($(#[$doc:meta])* $seen:vis $name:ident: $kind:ty = $default:expr, $change:ident;)*
        }
    ) => {
        $(#[$about])*
        $visible struct $Settings {
            $($(#[$doc])* $seen $name: $kind,)*
        }

        impl Default for $Settings {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        #[doc = concat!("When a new value of each of [`", stringify!($Settings), "`] holds.")]
        $visible struct $Changes {
            $(#[doc = concat!("Of `", stringify!($name), "`.")] $seen $name: $crate::settings!(@type $change $kind),)*
        }

        impl $crate::Declared for $Settings {
            type Changes = $Changes;

            const CHANGES: $Changes = $Changes { $($name: $crate::settings!(@change $change $kind),)* };

            fn list(path: &str, into: &mut Vec<(String, $crate::Change)>) {
                $($crate::settings!(@list $change $kind, format!("{path}{}", stringify!($name)), into);)*
            }

            fn take_live(&mut self, new: &Self) {
                let _ = new; // where nothing is live
                $($crate::settings!(@take $change self new $name);)*
            }
        }
    };
    (@type parts $kind:ty) => { <$kind as $crate::Declared>::Changes };
    (@type $change:ident $kind:ty) => { $crate::Change };
    (@change parts $kind:ty) => { <$kind as $crate::Declared>::CHANGES };
    (@change live $kind:ty) => { $crate::Change::Live };
    (@change start $kind:ty) => { $crate::Change::NextStart };
    (@change found $kind:ty) => { $crate::Change::Found };
    (@list parts $kind:ty, $path:expr, $into:ident) => {
        <$kind as $crate::Declared>::list(&format!("{}.", $path), $into)
    };
    (@list $change:ident $kind:ty, $path:expr, $into:ident) => {
        $into.push(($path, $crate::settings!(@change $change $kind)))
    };
    (@take parts $now:ident $new:ident $name:ident) => {
        $crate::Declared::take_live(&mut $now.$name, &$new.$name)
    };
    (@take live $now:ident $new:ident $name:ident) => { $now.$name.clone_from(&$new.$name) };
    (@take $change:ident $now:ident $new:ident $name:ident) => {};
}
