//! What a configuration means, from its text: what is read, refused and said of it, and what the policy then decides.
//!
//! One program, since each links the whole crate.

mod accepts;
mod audience;
mod chosen_values;
mod desk;
mod documentation;
mod files;
mod functionalities;
mod label_rules;
mod mounts;
mod past;
mod policy;
mod result_conditions;
mod rules;
mod schema;
mod servers;
mod service;
mod users;
mod writers;
