//! The labels of the bytes of a tool's result and of a user's message.

mod by;
mod error_text;
mod folder;
mod form;
mod head;
mod list;
mod painter;
mod path;
mod pattern;
mod results;
mod rule;
mod single;
mod unnamed;
mod user;
mod when;
mod written;

pub use self::by::By;
pub use self::error_text::ErrorText;
pub use self::folder::Folder;
pub use self::form::Form;
pub use self::head::Head;
pub use self::list::List;
pub use self::path::{LabelPath, PathError};
pub use self::pattern::{Pattern, PatternError};
pub use self::results::ResultLabels;
pub use self::rule::{LabelRule, Sibling, Siblings, Unless};
pub(crate) use self::single::Single;
pub use self::unnamed::Unnamed;
pub use self::user::{Mark, UserLabels, UserRule};
pub use self::when::{ArgumentIs, Met, When};
