//! What a question says that a flow depends on.

use ifc::{Label, Prompt, RegionId, Relevance};

use super::{EAGER, LAZY, call, results, world_with};

/// Reads the inbox twice in one step, and then sends, again and again.
fn reads_twice(prompt: &Prompt) -> Vec<(&'static str, String)> {
    match results(prompt).is_empty() {
        true => ["{}", r#"{"page":2}"#]
            .map(|page| ("inbox", page.to_owned()))
            .into(),
        false => call("send"),
    }
}

/// Both pages are as untrusted, and the screener finds that only one of them matters. Its word is
/// for the step that it screened: of the answer after that, nobody has said what it depends on.
#[test]
fn a_question_names_what_the_screener_of_its_step_left_in() {
    for screening in [LAZY, EAGER] {
        for (relevance, count) in [
            (Relevance::Only([RegionId(1)].into()), 1),
            (Relevance::Everything, 2),
        ] {
            let mut world = world_with(screening, reads_twice, Some(Label::bottom()));
            world.screener = match relevance {
                Relevance::Everything => |_| Ok(Relevance::Everything),
                Relevance::Only(_) => |_| Ok(Relevance::Only([RegionId(1)].into())),
            };
            world.turn("send what the second page says");
            let trace = world.trace();
            let asked = |line: &&String| line.starts_with("ask");
            let asked: Vec<&String> = trace.iter().filter(asked).collect();
            let of_call = format!("ask send about {{untrusted}} from {count} regions");
            assert_eq!(*asked[0], of_call);
            if screening == LAZY {
                let of_answer = "ask for the answer about {untrusted} from 2 regions";
                assert_eq!(*asked[1], of_answer);
            }
        }
    }
}
