//! What a gateway keeps in the store: the session of each token, which all clients with the token share, and what its calls
//! return, which the proxy of the same token has to know.

use std::sync::Mutex;
use std::time::Duration;

use axum::http::StatusCode;
use hub::Redeemed;
use hub::recognise::Learned;
use hub::state::{SessionDoc, permit_key, read_permit};
use ifc::state::MonitorState;
use ifc::{Arguments, Labeled, Lattice, Permit};
use serde_json::json;
use sha2::{Digest as _, Sha256};
use store::Commit;

use super::place::{Store, StoredClient};
use super::stateless::Reply;
use super::{Client, lock, rpc};
use crate::api::error::ApiError;
use crate::proxy::records::Record;
use crate::state::{Beside, Unwritten, now, refused};

/// A client has nothing beside its monitor and the label of what it was given, which is in the log.
struct Nothing;

impl Beside for Nothing {
    fn document(&self, monitor: MonitorState) -> SessionDoc {
        SessionDoc {
            monitor,
            ..SessionDoc::default()
        }
    }

    fn age(&self) -> Duration {
        Duration::MAX
    }

    fn absorb(&self, _: SessionDoc) {}
}

impl Client {
    /// Brings what is known of this client up to date. Without a store this has no effect.
    ///
    /// # Errors
    /// The store fails: nothing may be decided on.
    pub(super) async fn load(&self) -> Result<(), Reply> {
        let Some((store, own)) = self.stored() else {
            return Ok(());
        };
        let lattice = &self.gateway.parts.lattice;
        let apply = |text: &str| self.apply(text, lattice);
        let loaded = store.state.load(&own.log, Some(&own.key), apply).await;
        let loaded =
            loaded.and_then(|document| own.session.absorb(document.as_ref(), &Nothing, lattice));
        loaded.map_err(|error| unavailable(&error))
    }

    fn apply(&self, text: &str, lattice: &Lattice) -> Result<(), String> {
        // What the others say, the proxy alone has to know.
        if let Record::Given(label, has_programs) = Record::read(text, lattice)? {
            lock(&self.gateway.permits).give_all(&self.session, &label, has_programs);
        }
        Ok(())
    }

    /// Takes the permit that the proxy has left in the store for this call, with the name of the call.
    pub(super) async fn redeem(
        &self,
        app: &str,
        tool: &str,
        arguments: &str,
    ) -> Result<Option<(String, Permit)>, Reply> {
        let Some((store, own)) = self.stored() else {
            return Ok(None);
        };
        let Ok(arguments) = Arguments::parse(arguments, &ifc::Label::bottom()) else {
            return Ok(None);
        };
        let key = permit_key(app, tool, &arguments);
        let key = Sha256::digest(key).into();
        let left = store.state.store.redeem(&own.log.tenant, &key, now());
        let left = left.await.map_err(|error| unavailable(&refused(error)));
        let Some(left) = left? else {
            return Ok(None);
        };
        let permit = read_permit(&left.body, &self.gateway.parts.lattice);
        // The key says so. A permit for another call permits nothing.
        let permit = permit.ok().filter(|permit| {
            let call = permit.call();
            permit_key(&call.app, &call.tool, &call.arguments) == permit_key(app, tool, &arguments)
        });
        Ok(permit.map(|permit| (left.name, permit)))
    }

    /// What a call returned goes to the proxies of this token.
    pub(super) fn tell(&self, said: Labeled, redeemed: Option<(String, Redeemed)>) {
        let Some((_, own)) = self.stored() else {
            return;
        };
        let lattice = &self.gateway.parts.lattice;
        let learned = Record::Learned(Learned::Text {
            place: None,
            text: said,
            inside: false,
        });
        let result = redeemed.map(|(name, result)| Record::Result(name, result));
        let records = [learned].into_iter().chain(result);
        lock(&own.news).extend(records.map(|record| record.write(lattice)));
    }

    /// Writes what is new, and the permit of a call that is about to run.
    ///
    /// # Errors
    /// See [`Unwritten`].
    pub(super) async fn save(&self, permit: Option<&Permit>) -> Result<(), Unwritten> {
        let Some((store, own)) = self.stored() else {
            return Ok(());
        };
        let lattice = &self.gateway.parts.lattice;
        let mut commit = Commit::new(now());
        let given = lock(&self.gateway.permits).news(&self.session);
        let mut news = News {
            all: &own.news,
            taken: std::mem::take(&mut *lock(&own.news)),
        };
        commit.records.clone_from(&news.taken);
        if let Some((label, programs)) = &given {
            commit
                .records
                .push(Record::Given(label.clone(), *programs).write(lattice));
        }
        let calls = permit.iter().map(|permit| permit.receipt()).collect();
        let place = (&store.state, &*own.log);
        let written = own
            .session
            .commit(place, own.key, commit, calls, &Nothing, lattice);
        written.await?;
        news.taken.clear();
        if let Some((label, programs)) = given {
            lock(&self.gateway.permits).give_all(&self.session, &label, programs);
        }
        Ok(())
    }

    /// The reply, once all that it says is known to other replicas; else an error in its place.
    pub(super) async fn once_saved(&self, reply: Reply) -> Reply {
        match self.save(None).await {
            Ok(()) => reply,
            Err(unwritten) => unavailable(&unwritten.into()),
        }
    }

    fn stored(&self) -> Option<(&Store, &StoredClient)> {
        self.gateway.store.as_ref().zip(self.stored.as_ref())
    }
}

/// Records on their way. They wait again unless they were written.
struct News<'a> {
    all: &'a Mutex<Vec<String>>,
    taken: Vec<String>,
}

impl Drop for News<'_> {
    fn drop(&mut self) {
        let mut all = lock(self.all);
        self.taken.append(&mut all);
        std::mem::swap(&mut *all, &mut self.taken);
    }
}

/// The answer to a request that needs the store.
pub(super) fn unavailable(error: &ApiError) -> Reply {
    let data = json!({ "status": StatusCode::SERVICE_UNAVAILABLE.as_u16(), "retryAfter": 1 });
    Reply::Error(rpc::REFUSED, error.message().to_owned(), data)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use hub::Permits;
    use hub::state::write_permit;
    use ifc::{
        Call, CallState, Decision, Dimension, Effect, History, Label, Monitor, Policy, PolicyError,
        Rule, Sink,
    };
    use llm::{Broker, Scripted, text_answer};
    use store::{LeftPermit, SessionState, Time};

    use super::super::call::Decided;
    use super::super::listing::Listed;
    use super::super::{Gateway, GatewaySetup};
    use super::*;
    use crate::StateSetup;
    use crate::access::Holder;
    use crate::asked::AskOutcome;
    use crate::parts::Parts;

    struct Allows;

    impl Policy for Allows {
        fn rule(&self, _: &Sink<'_>) -> Result<Rule, PolicyError> {
            Ok(Rule::asking("any", Effect::Irreversible, Label::top()))
        }

        fn label_result(&self, _: &Call, result: String, _: bool) -> Labeled {
            Labeled::unknown(result)
        }
    }

    /// A client of a gateway of its own process, with this token.
    fn client(store: &Arc<dyn SessionState>, token: u8) -> Arc<Client> {
        let model = Scripted::new("model", |_| text_answer("hello"));
        let broker = Arc::new(Broker::new(Arc::new(model), Label::top()));
        let screener = Arc::new(screen::NaiveTainting);
        let traces = tempfile::tempdir().unwrap();
        let lattice = Arc::new(Lattice::four_point());
        let gateway = Gateway::start(GatewaySetup {
            name: "gateway".to_owned(),
            traces: traces.path().to_owned(),
            parts: Parts::new(broker, Arc::new(Allows), lattice, screener),
            apps: Vec::new(),
            prefixed: true,
            search: None,
            permissions: None,
            asks_client: true,
            approver: None,
            approval_timeout: Duration::from_secs(1),
            observe: false,
            permits: Arc::new(Mutex::new(Permits::default())),
            told: None,
            state: Some(StateSetup {
                store: Arc::clone(store),
                secret: [1; 32],
            }),
        });
        let holder = Holder {
            digest: [token; 32],
            ..Holder::default()
        };
        let gateway = gateway.unwrap();
        gateway.new_client(holder, "session", true, Arc::clone(&gateway.listing))
    }

    fn send() -> Call {
        Call {
            app: "mail".to_owned(),
            tool: "send".to_owned(),
            arguments: Arguments::parse(r#"{"n":1}"#, &Label::bottom()).unwrap(),
            label: Label::bottom(),
        }
    }

    fn decide(client: &Client) -> Option<Permit> {
        let guard = &lock(&client.guard).guard;
        match guard.decide(&ifc::Relevance::Everything, send()) {
            Decision::Allow(permit) => Some(permit),
            _ => None,
        }
    }

    #[tokio::test]
    async fn replicas_of_a_gateway_share_label_and_ledger_of_a_token() {
        let store = store::Store::in_memory().unwrap().state();
        let [one, two, other] = [1, 1, 2].map(|token| client(&store, token));
        let secret = Lattice::four_point().whole(Dimension::Confidentiality);
        one.gives(&secret);
        // Both permit it before either has written.
        let (first, second) = (decide(&one).unwrap(), decide(&two).unwrap());
        assert!(one.save(Some(&first)).await.is_ok());
        let overtaken = two.save(Some(&second)).await;
        assert!(matches!(overtaken, Err(Unwritten::Overtaken)));
        drop((first.spend(), second));
        assert!(decide(&two).is_none());
        for (client, label) in [(&two, &secret), (&other, &Label::bottom())] {
            assert!(client.load().await.is_ok());
            let given = lock(&client.gateway.permits).given(&client.session);
            assert_eq!(given, *label);
        }
        assert!(decide(&other).is_some());
    }

    #[tokio::test]
    async fn a_permit_of_the_proxy_is_redeemed_at_one_replica() {
        let store = store::Store::in_memory().unwrap().state();
        let [one, two, other] = [1, 1, 2].map(|token| client(&store, token));
        let history = History::new(Vec::new());
        let Decision::Allow(permit) = Monitor::new().decide(&Allows, &history, send()) else {
            panic!("not allowed")
        };
        let mut commit = Commit::new(now());
        let call = send();
        let key = permit_key(&call.app, &call.tool, &call.arguments);
        commit.permits.push(LeftPermit {
            name: "call_1".to_owned(),
            key: Sha256::digest(key).into(),
            body: write_permit(&permit, &Lattice::four_point()),
            until: Time::from_millis(i64::MAX),
        });
        store.commit(&[1; 32], commit).await.unwrap();
        let redeem = async |client: &Client, arguments: &str| {
            let redeemed = client.redeem("mail", "send", arguments).await;
            redeemed
                .ok()
                .flatten()
                .map(|(name, permit)| (name, permit.call() == &call))
        };
        assert_eq!(redeem(&other, r#"{"n":1}"#).await, None);
        assert_eq!(redeem(&two, r#"{"n":2}"#).await, None);
        // As clients write it anew.
        let redeemed = redeem(&two, r#"{ "n": 1.0 }"#).await;
        assert_eq!(redeemed, Some(("call_1".to_owned(), true)));
        assert_eq!(redeem(&one, r#"{"n":1}"#).await, None);
    }

    #[tokio::test]
    async fn a_redeemed_call_is_known_to_all_replicas_before_it_runs() {
        let store = store::Store::in_memory().unwrap().state();
        let [one, two, other] = [1, 1, 2].map(|token| client(&store, token));
        // One of the proxy, whose monitor is that of another session.
        let proxy = Monitor::new().with_seed(7);
        let left = match proxy.decide(&Allows, &History::default(), send()) {
            Decision::Allow(permit) => write_permit(&permit, &Lattice::four_point()),
            _ => panic!("not allowed"),
        };
        let permit = read_permit(&left, &Lattice::four_point()).unwrap();
        let listed = Listed {
            app: "mail".to_owned(),
            tool: "send".to_owned(),
            left_out: None,
            is_quoted: false,
            shown: json!({}),
        };
        // An equal call that is decided on meanwhile does not run without a question.
        let direct = decide(&two).unwrap();
        let left = Some(("call_1".to_owned(), permit));
        let decided = one.decide(&mut lock(&one.guard), &listed, r#"{"n":1}"#, left);
        let Decided::Runs(_, redeemed) = decided else {
            panic!("the permit does not count")
        };
        assert!(one.save(Some(&redeemed)).await.is_ok());
        let overtaken = two.save(Some(&direct)).await;
        assert!(matches!(overtaken, Err(Unwritten::Overtaken)));
        drop(direct);
        assert!(other.load().await.is_ok());
        assert!(decide(&one).is_none() && decide(&two).is_none() && decide(&other).is_some());
        // A question that waits on says nothing else than to ask again.
        let asked = one.decide(&mut lock(&one.guard), &listed, r#"{"n":1}"#, None);
        let Decided::Asked(id, question, view) = asked else {
            panic!("it is not asked")
        };
        let left = AskOutcome::Left("it waits".to_owned());
        let reply = one.settle(id, *question, &view, left);
        let Some(Err(Reply::Refused(text))) = reply else {
            panic!("it is no refusal")
        };
        assert_eq!(text, "not executed yet: it waits");
        // It is known for a later replica that it has run.
        let receipt = redeemed.receipt();
        drop(redeemed.spend());
        receipt.answered();
        assert!(one.save(None).await.is_ok());
        let later = client(&store, 1);
        assert!(later.load().await.is_ok() && decide(&later).is_none());
        let ledger = lock(&later.guard).guard.monitor.snapshot().ledger;
        assert_eq!(ledger.calls[0].state, CallState::Answered);
    }
}
