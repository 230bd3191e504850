//! Declares enums that are stored as numbers and data, and converted to text only when they are read (L2).
//!
//! `apply` runs on replicas of different versions, and the state that it stores is hashed. So a stored value has a number and
//! data, and this crate has the text. [`coded`] keeps the three together: one line per variant has its number, its numbered
//! fields and its text.
//!
//! How to add a variant: append a line with the next free number, and add an example to the tests of its module. Numbers
//! of variants and fields are never reused; a new field of an existing variant is an `Option`. A `String` field holds only
//! text that came in through an entry (a worker's error, a name), never text that the program made; the test
//! `l2_every_stored_text_came_in_through_an_entry` in `grid-core` proves it.

/// Declares such an enum with `kind` (the variant's name), `KINDS` (every name), `number` and `text`. `text` may take a
/// parameter that the text needs besides the variant's own data.
macro_rules! coded {
    (
        $(#[$meta:meta])*
        pub enum $name:ident, text($($context:ident: $context_type:ty)?) {
            $(
                $(#[$doc:meta])*
                $number:literal $variant:ident $({ $( $index:literal $field:ident: $type:ty ),* $(,)? })? => $words:expr;
            )*
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, PartialEq, Eq, minicbor::Encode, minicbor::Decode)]
        #[allow(missing_docs, reason = "the text of each variant, in the declaration, is its documentation")]
        pub enum $name {
            $( $(#[$doc])* #[n($number)] $variant $({ $( #[n($index)] $field: $type ),* })?, )*
        }

        impl $name {
            /// The names of all variants.
            pub const KINDS: &'static [&'static str] = &[ $( stringify!($variant) ),* ];

            /// The variant's name.
            #[must_use]
            pub fn kind(&self) -> &'static str {
                match self { $( Self::$variant { .. } => stringify!($variant), )* }
            }

            /// The variant's number, as it is stored.
            #[must_use]
            pub fn number(&self) -> u32 {
                match self { $( Self::$variant { .. } => $number, )* }
            }

            /// Its text. It may differ between versions and is never stored.
            #[must_use]
            #[allow(unused_variables, reason = "not every variant's text uses all of its data")]
            pub fn text(&self $(, $context: $context_type)?) -> String {
                match self { $( Self::$variant $({ $( $field ),* })? => $crate::coded::words($words), )* }
            }
        }
    };
}

pub(crate) use coded;

pub(crate) fn words(text: impl Into<String>) -> String {
    text.into()
}
