//! The conformance suites: one for screeners by themselves, one for defences in the turn machine.
mod attention;
mod checks;
mod defences;
mod model;
mod run;
mod scenarios;
mod screeners;
