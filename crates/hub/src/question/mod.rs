//! What the user is asked, as data: a terminal, a page and an MCP client render the same question.
//!
//! [`Asked`] is the turn machine's question and carries what an answer settles. [`QuestionView`] is what it shows: title,
//! contents with their warnings, reason, sources and choices. In its texts everything foreign is escaped. A renderer
//! only chooses the layout.

mod arguments;
mod asked;
mod sources;
mod text;
mod view;

pub use arguments::{Argument, arguments};
pub use asked::{Asked, Requested};
pub use sources::Sources;
pub use text::{Contents, Reason, may, with};
pub use view::{Assessment, ConnectionView, MessageView, QuestionView, TrustView, TrustedText};
