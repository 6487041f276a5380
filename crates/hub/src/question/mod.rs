//! Questions to the user as data: a terminal, a page and an MCP client render the same question.
//!
//! [`Asked`] is the turn machine's question. [`QuestionView`] is its view: title, contents with their warnings, reason,
//! sources and choices. Foreign text in it is escaped. A renderer only chooses the layout. [`Shown`] is the same as data that
//! can be kept, for renderers in other processes.

mod arguments;
mod asked;
mod shown;
mod sources;
mod text;
mod view;

pub use arguments::{Argument, arguments};
pub use asked::{Asked, Requested};
pub use shown::{Shown, ShownArgument, ShownCall, ShownChoice, ShownSource, ShownText};
pub use sources::Sources;
pub use text::{Contents, may, with, words};
pub use view::{
    Assessment, ConnectionView, MessageView, QuestionView, TrustView, TrustedText, WaitingCall,
};
