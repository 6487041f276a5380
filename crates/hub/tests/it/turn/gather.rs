//! What several apps have said, each asked by itself, is put together without any tool.

use std::collections::BTreeSet;
use std::sync::Arc;

use hub::{AnswerShape, Apps, Asked, Need, Outcome, TurnMachine};
use ifc::{Answer, Dimension, Label, Labeled, Lattice, Source};

use super::{LAZY, Table, completion, screened, settings, setup, shown};

const METRO: &str = "51.8";
const QUICK: &str = "57.0, and metro is 61.8";

fn untrusted() -> Label {
    Lattice::four_point().whole(Dimension::Integrity)
}

/// A conversation in which the answers of two apps are put together, whose own answer has this limit.
fn agent(answer: Label) -> TurnMachine {
    let apps = ["metro", "quick"].map(str::to_owned);
    let policy = Table::answering(Some(answer));
    let mut setup = setup(Arc::new(policy), settings(LAZY));
    setup.apps = Apps::Each(BTreeSet::from(apps));
    hub::conversation(setup, Vec::new())
}

/// One turn over what both apps have said. The model answers with these calls, or else with the whole
/// prompt; every request that it got.
fn gather(
    agent: &mut TurnMachine,
    calls: &[&str],
    user: impl Fn(&Asked) -> Answer,
) -> (Outcome, Vec<(AnswerShape, usize, String)>) {
    let answers = [
        ("metro".to_owned(), Labeled::trusted_tcb(METRO)),
        ("quick".to_owned(), Labeled::label_tcb(QUICK, untrusted())),
    ];
    let query = Labeled::trusted_tcb("compare the fares");
    agent.gather(query, answers).unwrap();
    let mut requests = Vec::new();
    loop {
        match agent.poll() {
            Need::User(outcome) => return (outcome.unwrap(), requests),
            Need::Complete(request) => {
                let text = shown(&request.prompt);
                let tools = request.prompt.tools().len();
                let calls = if requests.is_empty() { calls } else { &[] };
                requests.push((request.shape, tools, text.clone()));
                let calls: Vec<_> = calls.iter().map(|tool| (*tool, "{}")).collect();
                let completion = completion(&text, &calls);
                agent.handle_completion("model", Ok(completion)).unwrap();
            }
            Need::Screen => {
                let everything = screened(Ok(ifc::Relevance::Everything));
                agent.handle_screened(everything).unwrap();
            }
            Need::Confirm(asked) => {
                let answer = user(&asked);
                agent.handle_answer(asked, answer).unwrap();
            }
            need => panic!("{need:?}"),
        }
    }
}

#[test]
fn each_answer_stands_under_its_own_label() {
    let mut agent = agent(Label::top());
    let (outcome, requests) = gather(&mut agent, &[], |_| Answer::No);
    let [(shape, tools, prompt)] = requests.as_slice() else {
        panic!("{requests:?}");
    };
    assert_eq!((shape, *tools), (&AnswerShape::Text, 0));
    for part in ["compare the fares", METRO, QUICK] {
        assert!(prompt.contains(part), "{prompt}");
    }
    assert_eq!(outcome.result.unwrap().label(), untrusted());
}

#[test]
fn the_answer_passes_the_sink_of_all_these_apps_and_names_whose_words_they_are() {
    let mut agent = agent(Label::bottom());
    let user = |asked: &Asked| {
        let Asked::Answer(question) = asked else {
            panic!("{asked:?}");
        };
        assert!(question.release().apps.iter().eq(["metro", "quick"]));
        let sources: Vec<Source> = (asked.causes().iter())
            .map(|cause| cause.source.clone())
            .collect();
        assert_eq!(sources, [Source::Tool("quick".to_owned())]);
        Answer::No
    };
    let (outcome, requests) = gather(&mut agent, &[], user);
    let (_, _, last) = requests.last().unwrap();
    assert!(last.contains(METRO) && !last.contains(QUICK), "{last}");
    assert_eq!(outcome.refused, 1);
    assert!(outcome.result.unwrap().label().is_bottom());
}

/// What an app has said can make the model call anything; there is nothing to call.
#[test]
fn no_call_is_made_from_what_apps_have_said() {
    let mut agent = agent(Label::top());
    let calls = ["quick", "metro", "quick__send", "send"];
    let (outcome, requests) = gather(&mut agent, &calls, |_| panic!("nothing to ask about"));
    assert_eq!(requests.len(), 2);
    assert_eq!(outcome.refused, 0);
    let rejected = |event: &hub::trace::Event| matches!(event, hub::trace::Event::Rejected { reason, .. } if reason.as_str() == "there is no such tool");
    let events = agent.take_events();
    assert_eq!(events.iter().filter(|event| rejected(event)).count(), 4);
    assert!(outcome.result.unwrap().reveal_tcb().contains(METRO));
}
