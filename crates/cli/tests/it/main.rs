//! `sluice` as its users meet it: the real program, in homes of its own, with servers of this machine.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "tests fail by panicking"
)]

mod approve;
mod apps;
mod audit;
mod conventions;
mod desk;
mod desk_views;
mod doctor;
mod first_run;
mod gateway;
mod guard;
mod home;
mod init;
mod mounts;
mod operations;
mod policy;
mod proxy;
mod remote;
mod serve;
mod starts;
mod state;
mod terminal;
mod trust;
mod tutorial;
