//! Addresses in an answer, which a renderer fetches or a click opens.
//!
//! The attack (<https://embracethered.com> collects cases): an injection makes the model end its answer with an image
//! whose address carries a secret. No tool is called; the program that shows the answer fetches the image. So an address
//! in an answer is a sink ([`ifc::Address`]), and one that may not be active is shown *inert*: as text that no renderer
//! and no terminal takes for an address.
//!
//! - An answer that is trusted and public is shown as it is.
//! - In any other, an address is active only if it occurs byte for byte in a text that the answer's prompt showed, and
//!   the monitor admits it with the label that it has there. An address that the model composed is never active.
//! - All other addresses are inert: their dots and colons are put in brackets (`https[:]//example[.]com`), and a blank
//!   breaks the syntax around them (`] (`, `< img`, `& #58;`).
//! - A client renders a whole [`Message`], which may consist of several texts.
//!
//! [`Known`] has the addresses of a history, `scan` finds where a word could hold one, and [`Inert`] rewrites an answer,
//! also while it is written.

mod fence;
mod inert;
mod known;
mod scan;
mod skeleton;

pub use inert::{BREAK, Inert, Message, inert};
pub use known::{Known, Place};
