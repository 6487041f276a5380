//! One report of utility, security and cost, from rows of the closed loop and from the replay.

mod row;

pub use row::Row;
