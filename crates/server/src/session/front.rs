//! The front of a session: its user, its trace, and the spokes that it starts.

use std::sync::Arc;

use async_trait::async_trait;
use hub::Opening;
use hub::address::Message;
use hub::isc::Functionality;
use hub::trace::Event;
use tokio::sync::mpsc;

use super::assess::Assessor;
use super::choosing::Serving;
use super::setup::{AppSetup, SessionError};
use super::spokes::Spokes;
use crate::desk::Answered;
use crate::front::{Front, Host};
use crate::sink::{At, Sinks};
use crate::spoke::Spoke;
use crate::trace_file::TraceFile;
use crate::user::{FormAnswer, FormView, User};
use hub::question::QuestionView;

pub(super) struct SessionFront<'a> {
    /// The conversation's name in the trace, where a query has several.
    pub(super) part: Option<&'a str>,
    pub(super) assessor: &'a mut Assessor,
    pub(super) trace: &'a mut TraceFile,
    pub(super) sinks: &'a Sinks,
    /// The session's name.
    pub(super) name: &'a str,
    /// What the relays of spokes report meanwhile.
    pub(super) outside: &'a mut mpsc::Receiver<Event>,
    pub(super) user: &'a mut dyn User,
    /// The apps that another one may ask, for what, and their spokes.
    pub(super) apps: &'a [AppSetup],
    pub(super) functionalities: &'a [Arc<Functionality>],
    pub(super) spokes: &'a mut Spokes,
    pub(super) serving: Serving<'a>,
    /// What the user has been shown of a query's texts while they were written.
    pub(super) message: &'a mut Message,
}

#[async_trait]
impl Front for SessionFront<'_> {
    type Error = SessionError;

    fn record(&mut self, serving: Option<&str>, event: Event) -> Result<(), SessionError> {
        // What relays have reported stands before what happens now.
        while let Ok(outside) = self.outside.try_recv() {
            self.append(None, outside)?;
        }
        self.append(serving.or(self.part), event)
    }

    async fn written(&mut self) -> Result<(), SessionError> {
        self.sinks
            .written()
            .await
            .map_err(SessionError::NotRecorded)
    }

    async fn confirm(&mut self, view: QuestionView) -> Answered {
        let view = QuestionView {
            assessment: self.assessor.assess(&view),
            ..view
        };
        let answered = self.user.confirm(&view).await;
        self.assessor.answered(&view, answered.answer);
        answered
    }

    async fn clear(&mut self, provider: &str, above: &[String]) -> bool {
        self.user.clear(provider, above).await
    }

    async fn fill_in(&mut self, view: &FormView) -> FormAnswer {
        self.user.fill_in(view).await
    }

    async fn choose(&mut self, opening: &Opening) -> Result<Option<String>, SessionError> {
        let (app, by) = self.serving.choose(opening, self.user).await;
        let chosen = Event::ServingChosen {
            asks: opening.asks.clone(),
            functionality: opening.functionality.clone(),
            among: opening.apps.clone(),
            serves: app.clone(),
            by,
        };
        self.record(None, chosen)?;
        Ok(app)
    }

    async fn spoke(&mut self, app: &str) -> Result<Result<Arc<Spoke>, String>, SessionError> {
        let setup = self.apps.iter().find(|known| known.spoke.app == app);
        let (happened, mut failed) = self.spokes.start(setup.cloned()).await;
        for event in happened {
            self.record(None, event)?;
        }
        let spoke = self.spokes.get(app).map(Arc::clone);
        Ok(match failed.remove(app) {
            None => spoke.ok_or_else(|| format!("the app {app} does not run here")),
            Some(error) => Err(error.to_string()),
        })
    }

    async fn host(&mut self, app: &str) -> Result<Result<Host, String>, SessionError> {
        let spoke = match self.spoke(app).await? {
            Ok(spoke) => spoke,
            Err(reason) => return Ok(Err(reason)),
        };
        let apps = self.apps;
        let known = apps.iter().find(|known| known.spoke.app == app);
        let host = known.map(|setup| Host {
            tools: setup.tools(Some(&spoke)),
            asks: setup.asks_of(self.functionalities),
            model: setup.provider.clone(),
            spoke,
        });
        Ok(host.ok_or_else(|| format!("there is no app {app}")))
    }

    fn delta(&mut self, piece: &str) {
        self.user.delta(piece);
    }

    fn message(&mut self) -> &mut Message {
        self.message
    }
}

impl SessionFront<'_> {
    fn append(&mut self, part: Option<&str>, event: Event) -> Result<(), SessionError> {
        self.sinks.event(&At::new("session", self.name), &event);
        let record = self.trace.append_to(part, event)?;
        self.user.observe(&record);
        Ok(())
    }
}
