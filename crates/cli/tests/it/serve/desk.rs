//! The desk of a service: where it is served, and whose questions it has.

use std::fs;
use std::thread;

use serde_json::{Value, json};
use store::Role;

use super::{Service, config, request, token};
use crate::approve::me;
use crate::home::Home;
use crate::proxy::{Upstream, user};

/// The status of an answer to a question.
fn answer(host: &str, token: &str, question: &Value, word: &str) -> u16 {
    let line = format!(
        "POST /sluice/v1/approvals/{}",
        question["id"].as_str().unwrap()
    );
    let bearer = format!("Bearer {token}");
    let headers = [
        ("authorization", bearer.as_str()),
        ("content-type", "application/json"),
    ];
    let body = json!({"answer": word}).to_string();
    request(host, &line, &headers, &body).unwrap().status
}

#[test]
fn a_desk_with_an_address_of_its_own_is_served_there_alone() {
    let upstream = Upstream::start();
    let home = Home::with(&config(
        &upstream,
        "[service]\ndesk_listen = \"127.0.0.1:0\"\n",
    ));
    let service = Service::start(&home, &[]);
    let agent = token(&home, "agent", Role::Agent, None);
    let ada = token(&home, "ada", Role::Approver, None);
    let (_, port) = service.page.split_once(':').unwrap();
    let desk = format!("127.0.0.1:{port}");
    assert_ne!(desk, service.host);
    let login = |host: &str| {
        let page = request(host, "GET /login", &[("host", &service.page)], "").unwrap();
        page.status == 200 && page.body.contains("token")
    };
    assert!(login(&desk) && !login(&service.host));
    let bearer = format!("Bearer {ada}");
    for path in [
        "/sluice/desk",
        "/sluice/v1/approvals",
        "/sluice/v1/openapi.json",
    ] {
        let here = service.get(path, &[("authorization", &bearer)]).unwrap();
        let is_named = here.body.contains(&service.page);
        assert!(here.status == 404 && is_named, "{path} {}", here.body);
    }
    for path in ["/healthz", "/metrics", "/v1/models", "/mcp"] {
        let there = request(&desk, &format!("GET {path}"), &[], "").unwrap();
        assert_ne!(there.status, 200, "{path} {}", there.body);
    }
    assert_eq!(service.chat(&agent, &[user("hello")]).unwrap().status, 200);
    let mail = service.mail(&agent);
    let message = thread::scope(|scope| {
        let asking = scope.spawn(|| service.message(&agent, &mail).unwrap());
        let question = loop {
            if let Some(question) = Service::questions(&desk, &ada).pop() {
                break question;
            }
            assert!(!asking.is_finished(), "nothing was asked");
        };
        assert_eq!(answer(&desk, &ada, &question, "once"), 200);
        asking.join().unwrap()
    });
    assert_eq!(message["tool_calls"][0]["function"]["name"], "pay");
}

#[test]
fn the_one_who_asks_is_the_token_and_allows_no_own_question() {
    let upstream = Upstream::start();
    let rules = config(&upstream, "").replace(
        "effect = \"irreversible\"",
        "effect = \"irreversible\"\napprovers = [\"Ada\", \"Bob\"]",
    );
    let home = Home::with(&rules);
    let service = Service::start(&home, &[]);
    // Each person has a token to answer with and one for an agent.
    let [ada, bob] = ["Ada", "Bob"].map(|name| token(&home, name, Role::Approver, None));
    let agents = ["ada", "bob"].map(|name| token(&home, name, Role::Agent, None));
    let [of_ada, of_bob] = &agents;
    for (agent, asker, own, other) in [(of_ada, "ada", &ada, &bob), (of_bob, "bob", &bob, &ada)] {
        let mail = service.mail(agent);
        let message = thread::scope(|scope| {
            let asking = scope.spawn(|| service.message(agent, &mail).unwrap());
            let question = service.question(other);
            assert_eq!(question["asker"], asker);
            assert_eq!(question["approvers"], json!(["Ada", "Bob"]));
            for (token, word, expected) in
                [(agent, "no", 403), (own, "once", 403), (other, "once", 200)]
            {
                let status = answer(&service.host, token, &question, word);
                assert_eq!(status, expected, "{asker} {word}");
            }
            asking.join().unwrap()
        });
        assert_eq!(message["tool_calls"][0]["function"]["name"], "pay");
    }
    // Programs of this user ask in the user's name.
    let noted = fs::read_to_string(home.path("state/sluice/service/running.json")).unwrap();
    let noted: Value = serde_json::from_str(&noted).unwrap();
    let local = noted["secrets"]["service"]["token"].as_str().unwrap();
    let mail = service.mail(local);
    thread::scope(|scope| {
        let asking = scope.spawn(|| service.message(local, &mail).unwrap());
        let question = service.question(&ada);
        assert_eq!(question["asker"], me());
        assert_eq!(answer(&service.host, &bob, &question, "no"), 200);
        assert!(asking.join().unwrap()["tool_calls"].is_null());
    });
}
