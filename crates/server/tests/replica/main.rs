//! Several replicas of a proxy over one store: what one knows, the others know.
#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    reason = "tests fail by panicking"
)]

mod alternating;
#[expect(dead_code, reason = "the tests of one proxy use the rest")]
#[path = "../proxy/apis.rs"]
mod apis;
mod outage;
mod schedules;
#[expect(dead_code, reason = "the tests of one proxy use the rest")]
#[path = "../proxy/stage.rs"]
mod stage;

use std::sync::Arc;

use ifc::Answer;
use server::StateSetup;
use server::proxy::Approver;
use store::{PoolSettings, SessionState, Store};
use test_support::{Postgres, Upstream};

use crate::stage::{Always, Stage, serve, setup};

/// The stores to test with: SQLite, and PostgreSQL where it is installed.
pub(crate) async fn stores() -> Vec<(Arc<dyn SessionState>, Option<Postgres>)> {
    let mut stores = vec![(Store::in_memory().unwrap().state(), None)];
    if let Some(server) = Postgres::fast() {
        let store = Store::postgres(&server.database(), &PoolSettings::default()).await;
        stores.push((store.unwrap().state(), Some(server)));
    }
    stores
}

/// A replica over this store, with an upstream and an approver that it shares with others.
pub(crate) async fn replica(
    upstream: &Upstream,
    store: &Arc<dyn SessionState>,
    approver: Arc<dyn Approver>,
) -> Stage {
    let mut setup = setup(upstream);
    setup.approver = approver;
    setup.state = Some(StateSetup {
        store: Arc::clone(store),
        secret: [7; 32],
    });
    serve(setup).await
}

/// Two replicas whose questions have one answer.
pub(crate) struct Pair {
    pub(crate) stages: [Stage; 2],
    pub(crate) approver: Arc<Always>,
}

pub(crate) async fn pair(
    upstream: &Upstream,
    store: &Arc<dyn SessionState>,
    answer: Answer,
) -> Pair {
    let approver = Always::new(answer);
    let one = replica(upstream, store, approver.clone()).await;
    let two = replica(upstream, store, approver.clone()).await;
    Pair {
        stages: [one, two],
        approver,
    }
}
