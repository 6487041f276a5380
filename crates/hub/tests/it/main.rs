//! Everything that decides, through its public interface.

mod address;
mod messages;
mod modules;
mod noninterference;
mod recognise;
mod shared;
#[path = "../../../ifc/tests/it/shown.rs"]
mod shown;
mod state;
mod trace;
mod turn;
