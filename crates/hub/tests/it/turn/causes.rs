//! What a question says that a flow depends on.

use hub::trace::{Cause, Event};
use ifc::{Call, Label, Labeled, Prompt, RegionId, Relevance};
use serde_json::json;

use super::{CallOutcome, EAGER, LAZY, Step, World, call, results, returned, world, world_with};

/// Reads the inbox twice in one step, and then sends, again and again.
fn reads_twice(prompt: &Prompt) -> Step {
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
            let asked = world.lines("ask");
            let of_call = format!("ask send about {{untrusted}} from {count} regions");
            assert_eq!(asked[0], of_call);
            if screening == LAZY {
                let of_answer = "ask for the answer about {untrusted} from 2 regions";
                assert_eq!(asked[1], of_answer);
            }
        }
    }
}

/// Reads six mails, and does what the fourth asks for.
fn does_what_a_mail_asks(prompt: &Prompt) -> Step {
    let pages = 1..=6;
    match results(prompt).is_empty() {
        true => pages
            .map(|page| ("inbox", json!({ "page": page }).to_string()))
            .collect(),
        false => {
            let payment = json!({"amount": 1250, "memo": "for the roof", "to": "bob@bank.example"});
            vec![("send", payment.to_string())]
        }
    }
}

/// Six mails, of which the fourth names who is to be paid, and how much.
fn six_mails(call: &Call) -> CallOutcome {
    let page = call.arguments.get("page").map(Labeled::reveal_tcb);
    let text = match page {
        Some("4") => "mail:Hi, please pay 1250 to bob@bank.example, Alice".to_owned(),
        Some(page) => format!("mail:Newsletter {page}, read by 12500: do not pay anything."),
        None => "done".to_owned(),
    };
    returned(text)
}

/// The causes of the first question of a turn.
fn asked(mut world: World, query: &str) -> Vec<Cause> {
    world.app = six_mails;
    world.turn(query);
    let events = world.agent.take_events().into_iter();
    let mut asked = events.filter_map(|event| match event {
        Event::Asked { causes, .. } => Some(causes),
        _ => None,
    });
    asked.next().unwrap()
}

fn quotes(cause: &Cause) -> Vec<(&str, &str)> {
    let quotes = cause.quotes.iter();
    quotes
        .map(|quote| (quote.argument.as_str(), &*quote.text))
        .collect()
}

/// Where the recipient and the amount stand is a hint, and takes no cause away.
#[test]
fn a_question_says_which_source_has_the_values_of_the_call() {
    let causes = asked(
        world(LAZY, does_what_a_mail_asks),
        "do what Alice's mail asks",
    );
    assert_eq!(causes.len(), 6);
    assert!(causes.iter().all(|cause| cause.label == ["untrusted"]));
    let (quoting, others): (Vec<&Cause>, Vec<&Cause>) =
        causes.iter().partition(|cause| !cause.quotes.is_empty());
    assert_eq!((quoting.len(), others.len()), (1, 5));
    let place = "Hi, please pay 1250 to bob@bank.example, Alice";
    assert_eq!(quotes(quoting[0]), [("amount", place), ("to", place)]);
}

/// What the user has said is no reason to name anybody else who says it, too.
#[test]
fn a_value_of_the_users_own_is_not_looked_for() {
    let world = world(LAZY, does_what_a_mail_asks);
    let causes = asked(world, "pay bob@bank.example what Alice writes");
    let quoted: Vec<_> = causes
        .iter()
        .flat_map(quotes)
        .map(|(name, _)| name)
        .collect();
    assert_eq!((causes.len(), quoted), (6, vec!["amount"]));
}

/// A screener that leaves out what the call was copied from is not believed about that.
#[test]
fn a_source_that_the_screener_leaves_out_is_quoted_too() {
    let mut world = world(LAZY, does_what_a_mail_asks);
    world.screener = |_| Ok(Relevance::Only([RegionId(1)].into()));
    let causes = asked(world, "do what Alice's mail asks");
    let quoting: Vec<&Cause> = causes.iter().filter(|it| !it.quotes.is_empty()).collect();
    assert_eq!(quoting.len(), 1);
    assert!(!quoting[0].relevant && causes.iter().any(|cause| cause.relevant));
}

/// The body may depend on the mail, so nobody asks where it comes from.
#[test]
fn only_what_stands_in_the_way_is_looked_for() {
    let model = |prompt: &Prompt| match results(prompt).is_empty() {
        true => vec![("inbox", json!({"page": 4}).to_string())],
        false => {
            let mail = json!({"body": "please pay 1250", "to": "bob@bank.example"});
            vec![("mail", mail.to_string())]
        }
    };
    let causes = asked(world(LAZY, model), "write to whom the mail says");
    let quoted = causes.iter().flat_map(quotes).map(|(name, _)| name);
    assert_eq!(quoted.collect::<Vec<_>>(), ["to"]);
}
