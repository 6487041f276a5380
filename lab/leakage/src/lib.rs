//! What agents give away without an attacker: the privacy-leakage benchmark of RTBAS §8.2 and §8.3.1.
//!
//! Three simulated apps, 37 tasks with the private categories that truly flow into each argument of each call, agents,
//! defences and measures. README.md says how to run it; SCHEMA.md describes the data.

mod agent;
mod app;
mod bench;
mod defence;
mod domain;
mod drive;
mod grade;
mod report;
mod scenario;
mod seen;
mod task;

pub use agent::Agent;
pub use app::{About, App, Arguments, Parameter, Tool, World};
pub use bench::{Selection, Settings, scenarios};
pub use defence::Defence;
pub use domain::{DOMAINS, Domain};
pub use drive::User;
pub use grade::{Graded, Leak, Row};
pub use report::{Figures, report};
pub use scenario::{Scenario, Truth};
pub use task::{
    Argument, Categories, Condition, Pattern, Place, Prior, PriorCall, Task, TaskFile, TrueCall,
    ValueSource,
};
