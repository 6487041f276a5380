//! A store that fails: nothing is permitted, and all goes on by itself when it is back.

use std::time::{Duration, Instant};

use ifc::Answer;
use serde_json::json;
use store::{PoolSettings, Store};
use test_support::{Postgres, Upstream, calls, newest, says};

use crate::apis::{APIS, Said};
use crate::pair;
use crate::stage::{body, user};

#[tokio::test(flavor = "multi_thread")]
async fn without_its_store_a_replica_answers_503_and_recovers() {
    let Some(server) = Postgres::fast() else {
        return;
    };
    let settings = PoolSettings::default();
    let store = Store::postgres(&server.database(), &settings)
        .await
        .unwrap();
    let upstream = Upstream::start(|body| match newest(body) {
        "wait" => {
            std::thread::sleep(Duration::from_secs(2));
            calls(&[("note", "{}")])
        }
        _ => says("Hello."),
    });
    let pair = pair(&upstream, &store.state(), Answer::No).await;
    let [stage, _] = &pair.stages;
    let hello = [Said::User("hello")];
    for api in APIS {
        assert_eq!(api.answer(stage, &hello, false).await.text, "Hello.");
    }
    // One is asked before the outage, and answered during it.
    let begun = async |streams: bool| {
        let body = body(&[user("wait")], json!({"stream": streams}));
        stage.raw("key", None, body).await
    };
    let stopping = async {
        tokio::time::sleep(Duration::from_millis(700)).await;
        tokio::task::block_in_place(|| server.stop());
    };
    let (whole, streamed, ()) = tokio::join!(begun(false), begun(true), stopping);
    assert_eq!(whole.0, 503, "{}", whole.1);
    // No call has left.
    assert!(!streamed.1.contains("tool_calls"), "{}", streamed.1);
    assert!(
        streamed.1.contains("nothing is permitted"),
        "{}",
        streamed.1
    );
    for api in APIS {
        let before = upstream.requests().len();
        let response = api.send(stage, &api.body(&hello, false)).await;
        assert_eq!(response.status(), 503, "{api:?}");
        assert_eq!(response.headers()["retry-after"], "1");
        let (_, message) = api.error(&response.text().await.unwrap());
        assert!(message.contains("nothing is permitted"), "{message}");
        assert_eq!(upstream.requests().len(), before, "the model was asked");
    }
    tokio::task::block_in_place(|| server.start_again());
    let since = Instant::now();
    while stage.request(&[user("hello")], json!({})).await.0 != 200 {
        assert!(
            since.elapsed() < Duration::from_secs(10),
            "it does not recover"
        );
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}
