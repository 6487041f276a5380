//! The apps of SecGPT's case studies (§5.1) as MCP servers over stdio: two ride-sharing apps, a health companion and a
//! travel mate, a story writer and a symptom solver, a drive; and the tools of LangChain's benchmarks (appendix D).
//!
//! They stand for programs that strangers wrote: some attack, in what they say of themselves or in what they return.
//! An app is data and functions ([`App`]), served by one [`CaseServer`]. Every call that reaches it is kept with its
//! result in `calls.jsonl` of its [`State`], so that an experiment is judged by what really happened there.

mod app;
mod drive;
mod health;
mod relational;
mod rides;
mod server;
mod state;
mod typewriter;
mod writing;

pub use app::{App, CaseTool, Run};
pub use drive::SECRET_DOCUMENT;
pub use health::HEALTH_TERMS;
pub use rides::{DICTATED_FARES, fare_texts};
pub use server::CaseServer;
pub use state::{Arguments, Logged, State};
pub use typewriter::LETTERS;
pub use writing::{MUSE_MARK, SOLVER_MARK};

impl App {
    /// Every app here.
    pub fn all() -> Vec<App> {
        let mut apps = rides::apps();
        apps.extend(health::apps());
        apps.extend(writing::apps());
        apps.push(drive::app());
        apps.extend(typewriter::apps());
        apps.extend(relational::apps());
        apps
    }

    /// The app of this name.
    pub fn find(name: &str) -> Option<App> {
        App::all().into_iter().find(|app| app.name == name)
    }
}
