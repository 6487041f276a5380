//! Addresses in an answer: what a renderer fetches unasked, or what opens with a click.
//!
//! The attack (<https://embracethered.com> collects cases): an injection makes the model end its answer
//! with an image whose address carries what it has read. No tool is called; the program that shows the
//! answer fetches the image, and the secret is out. So an address in an answer is a sink
//! ([`ifc::Address`]), and one that may not be active is shown *inert*: as text that no renderer and no
//! terminal takes for an address.
//!
//! - An answer that is trusted and public is shown as it is.
//! - In any other, an address is active only where it occurs byte for byte in a text that the answer's prompt
//!   showed, and the monitor admits it with the label that it has *there*. One that the model put together
//!   depends on everything that the model was shown, and is never active.
//! - Everything else that could be one is inert: dots and colons of the address stand in brackets
//!   (`https[:]//example[.]com`), and a blank breaks the syntax around it (`] (`, `< img`, `& #58;`). What does
//!   not parse is inert.
//! - What counts is how the whole [`Message`] reads that a client renders: it may consist of several texts.
//!
//! [`known`](Known) has the addresses of a history, `scan` finds where a word could hold one, and [`Inert`]
//! rewrites an answer, also while it is written.

mod fence;
mod inert;
mod known;
mod scan;
mod skeleton;

pub use inert::{BREAK, Inert, Message, inert};
pub use known::{Known, Place};
