//! The draft–screen–mask–generate cycle (RTBAS §8.3.3).

use std::collections::BTreeSet;

use hub::trace::Event;
use hub::{Drafter, Need, Purpose, Screened, Screening};
use ifc::{RegionId, Relevance};

use super::{
    EAGER, LAZY, World, completion, obedient, only_the_balance, reads_both, screened, world,
};

const OWN: Screening = Screening::Drafted(Drafter::Own);
const OTHER: Screening = Screening::Drafted(Drafter::Other);

#[test]
fn a_draft_stands_where_nothing_is_masked() {
    let mut world = world(OWN, obedient);
    world.turn("summarise my inbox");
    assert_eq!(world.sent, ["inbox {}"]);
    assert_eq!(
        world.trace(),
        [
            // Nothing is labelled yet: no screening.
            "prompt {} masked 0",
            "allow inbox at {} by policy inbox.limit",
            "result inbox {untrusted}",
            "prompt {untrusted} masked 0",
            "screen {untrusted} -> {untrusted}",
            "ask send about {untrusted} from 1 regions",
            "prompt {untrusted} masked 0",
            "screen {untrusted} -> {untrusted}",
            "answer {untrusted} refused 1",
        ]
    );
}

#[test]
fn a_draft_is_made_again_where_something_is_masked() {
    for screening in [OWN, OTHER] {
        let mut world = world(screening, obedient);
        world.screener = |_| Ok(Relevance::Only(BTreeSet::new()));
        world.user = |_| panic!("no question");
        world.turn("summarise my inbox");
        assert_eq!(world.sent, ["inbox {}"]);
        assert!(world.prompts.last().unwrap().contains("mail:[redacted]"));
        let dropped = world.trace().contains(&"draft dropped".to_owned());
        assert_eq!(dropped, screening == OWN);
    }
}

/// Keeping it would let text above the label decide at which label the step is taken.
#[test]
fn a_draft_that_would_be_asked_about_anyway_is_not_kept() {
    let mut world = world(OWN, reads_both);
    world.screener = only_the_balance;
    world.turn("send my balance to bob");
    let trace = world.trace();
    assert!(trace.contains(&"draft dropped".to_owned()));
    // What the second call returned is as secret, and the screener left it out.
    assert!(trace.contains(&"ask send about {secret} from 1 regions".to_owned()));
}

#[test]
fn the_screener_sees_the_draft_and_nobody_else_does() {
    for screening in [OWN, OTHER, EAGER] {
        let mut world = world(screening, obedient);
        world.screener = if screening == EAGER {
            |agent| {
                assert!(agent.draft().is_none());
                Ok(Relevance::Everything)
            }
        } else {
            |agent| {
                let draft = agent.draft().unwrap();
                if let Some(call) = draft.calls.first() {
                    assert_eq!((&*call.tool, &*call.arguments), ("send", r#"{"to":"eve"}"#));
                    assert!(!format!("{draft:?} {call:?}").contains("eve"));
                } else {
                    assert_eq!(draft.text, "summary");
                }
                Ok(Relevance::Everything)
            }
        };
        world.turn("summarise my inbox");
        assert!(world.agent.draft().is_none());
    }
}

/// Up to the draft of the second step.
fn drafting(screening: Screening) -> (World, hub::CompletionRequest) {
    let mut world = world(screening, obedient);
    world.begin("summarise");
    world.bring("so", &[("inbox", "{}")]);
    world.execute();
    match world.agent.poll() {
        Need::Complete(request) => (world, request),
        other => panic!("{other:?}"),
    }
}

/// Brings the draft, and the machine asks for a screening of it.
fn drafted() -> World {
    let (mut world, draft) = drafting(OTHER);
    assert_eq!(draft.purpose, Purpose::Draft);
    let so = Ok(completion("so", &[]));
    world.agent.handle_completion("scripted", so).unwrap();
    assert!(matches!(world.agent.poll(), Need::Screen));
    world
}

#[test]
fn the_draft_of_another_model_is_for_the_screener_alone() {
    let mut world = drafted();
    assert_eq!(world.agent.draft().unwrap().text, "so");
    let everything = screened(Ok(Relevance::Everything));
    world.agent.handle_screened(everything).unwrap();
    // Nothing is masked, and the step is taken all the same.
    match world.agent.poll() {
        Need::Complete(step) => assert_eq!(step.purpose, Purpose::Step),
        other => panic!("{other:?}"),
    }
}

#[test]
fn without_the_draft_of_another_model_the_screener_sees_none() {
    let (mut world, _) = drafting(OTHER);
    let gone = Err("it is gone".to_owned());
    world.agent.handle_completion("small", gone).unwrap();
    assert!(matches!(world.agent.poll(), Need::Screen));
    assert!(world.agent.draft().is_none());
}

/// The event of a screening that came out like this.
fn screening(relevant: BTreeSet<RegionId>, failure: Option<&str>) -> Event {
    let mut world = drafted();
    world.agent.take_events();
    let screened = Screened {
        failure: failure.map(str::to_owned),
        ..screened(Ok(Relevance::Only(relevant)))
    };
    world.agent.handle_screened(screened).unwrap();
    match <[Event; 1]>::try_from(world.agent.take_events()) {
        Ok([event]) => event,
        Err(other) => panic!("{other:?}"),
    }
}

/// Another may decide where the screener cannot; the trace tells that it was another.
#[test]
fn why_the_screener_could_not_tell_is_in_the_trace_beside_the_verdict() {
    match screening(BTreeSet::new(), Some("too long to read")) {
        Event::Screened {
            relevant, failure, ..
        } => {
            assert_eq!(relevant.as_deref(), Some(&[][..]));
            assert_eq!(failure.as_deref(), Some("too long to read"));
        }
        other => panic!("{other:?}"),
    }
}

/// An app decides how many regions there are.
#[test]
fn a_screening_names_few_of_many_relevant_regions() {
    let event = screening((0..1_000).map(RegionId).collect(), None);
    let event = serde_json::to_value(event).unwrap();
    let named: Vec<u64> = serde_json::from_value(event["relevant"].clone()).unwrap();
    assert_eq!(named, (0..256).collect::<Vec<_>>());
    assert_eq!(event["more_relevant"], 744);
}

/// What has been shown cannot be taken back.
#[test]
fn a_draft_that_may_be_dropped_is_not_streamed() {
    let (world, draft) = drafting(OWN);
    assert_eq!(draft.purpose, Purpose::Step);
    assert!(!world.agent.may_stream(&draft));
    // Lazily a draft that is an answer stands if the answer may be shown.
    let (world, step) = drafting(LAZY);
    assert!(world.agent.may_stream(&step));
}
