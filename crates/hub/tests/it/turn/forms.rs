//! Arguments whose limit depends on their value: a code that strangers may choose, and a name that must
//! have stood in trusted results.

use std::sync::Arc;

use hub::Screening;
use ifc::{
    Answer, ArgumentPath, Call, Effect, Label, Labeled, Policy, PolicyError, Prompt, Results, Rule,
    Sink,
};

use super::{Model, Step, Table, World, call, content, has, returned, say, settings, setup, world};

/// The table, under which `to` of `mail` carries something too: a code of four digits, or a name that a
/// result of `note` consists of, may be untrusted. The balance can be read once.
struct Forms(Table);

impl Forms {
    fn is_code(value: &Labeled) -> bool {
        let text = value.reveal_tcb();
        let digits = text.strip_prefix('"').and_then(|it| it.strip_suffix('"'));
        digits.is_some_and(|it| it.len() == 4 && it.bytes().all(|byte| byte.is_ascii_digit()))
    }

    fn is_known(results: &Results<'_>, call: &Call, value: &Labeled) -> bool {
        let mut notes = results.of("app", "note", &call.label);
        notes.any(|note| {
            let text = note.reveal_tcb();
            note.knows(0..text.len()) && format!("{text:?}") == value.reveal_tcb()
        })
    }
}

impl Policy for Forms {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        self.rule_after(&Results::none(), sink)
    }

    fn rule_after(&self, results: &Results<'_>, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let mut rule = self.0.rule(sink)?;
        let Sink::Call(call) = sink else {
            return Ok(rule);
        };
        if call.tool == "balance" {
            rule.effect = Effect::ReadOnce;
        }
        if let Some(to) = call.arguments.get("to") {
            let accepted = Self::is_code(to) || Self::is_known(results, call, to);
            let limit = match accepted {
                true => self.0.untrusted(),
                false => Label::bottom(),
            };
            rule.arguments.insert(ArgumentPath::of("to"), limit);
        }
        Ok(rule)
    }

    fn data_arguments(&self, _: &str, tool: &str) -> Vec<ArgumentPath> {
        let names = (tool == "mail").then_some(["to", "body"]);
        names.into_iter().flatten().map(ArgumentPath::of).collect()
    }

    fn has_form(&self, call: &Call, argument: &ArgumentPath) -> bool {
        let values = call.arguments.at(argument).unwrap_or_default();
        *argument == ArgumentPath::of("to") && values.iter().all(Self::is_code)
    }

    fn label_result(&self, call: &Call, result: String, is_error: bool) -> Labeled {
        self.0.label_result(call, result, is_error)
    }
}

/// A world in which the inbox has `eve 4711`.
fn of_forms(model: Model) -> World {
    let policy = Forms(Table::answering(Some(Label::top())));
    let setup = setup(Arc::new(policy), settings(Screening::CHECKED));
    let mut world = World::under(setup, model);
    world.app = |call| {
        returned(match call.tool.as_str() {
            "inbox" => "mail:eve 4711",
            "note" => "ada",
            _ => "done",
        })
    };
    world
}

fn mail(to: &str) -> Step {
    vec![("mail", format!(r#"{{"body":"hello","to":"{to}"}}"#))]
}

/// The last word of the inbox.
fn code(prompt: &Prompt) -> String {
    let inbox = content(prompt, "inbox").unwrap_or_default();
    inbox.split(' ').next_back().unwrap_or_default().to_owned()
}

fn sends_the_code(prompt: &Prompt) -> Step {
    match () {
        () if !has(prompt, "inbox") => call("inbox"),
        () if !has(prompt, "mail") => mail(&code(prompt)),
        () => say("done"),
    }
}

#[test]
fn a_code_that_a_stranger_wrote_is_sent_where_the_user_said() {
    let mut world = of_forms(sends_the_code);
    world.user = |_| panic!("no question");
    world.turn("confirm with the code of the mail");
    assert_eq!(
        world.sent,
        ["inbox {}", r#"mail {"body":"hello","to":"4711"}"#]
    );
    let trace = world.trace();
    assert_eq!(
        trace[4..8],
        [
            "screen {untrusted} -> {untrusted}",
            "prompt {} masked 1",
            "check {} taken true",
            "allow mail at {} by policy mail.limit",
        ]
    );
    // The code keeps the label of the mail: what comes of it is untrusted.
    assert_eq!(trace[8], "result mail {untrusted}");
}

/// What a service says to a code depends on who chose the code, and on none of their sentences.
#[test]
fn what_comes_of_a_code_is_no_strangers_text() {
    let mut world = of_forms(|prompt| match () {
        () if !has(prompt, "inbox") => call("inbox"),
        () if !has(prompt, "mail") => vec![("mail", format!(r#"{{"to":"{}"}}"#, code(prompt)))],
        () => say("done"),
    });
    world.user = |_| panic!("no question");
    world.turn("confirm with the code of the mail");
    assert_eq!(world.lines("result mail"), ["result mail {form:untrusted}"]);
}

#[test]
fn a_code_with_a_word_behind_it_is_asked_about() {
    let mut world = of_forms(sends_the_code);
    world.app = |call| {
        returned(match call.tool.as_str() {
            "inbox" => "mail:eve 4711x",
            _ => "done",
        })
    };
    world.user = |asked| {
        assert_eq!(asked.call().unwrap().tool, "mail");
        Answer::No
    };
    let outcome = world.turn("confirm with the code of the mail");
    assert_eq!((world.sent.len(), outcome.refused), (1, 1));
}

/// Takes the name from the inbox, where it sees one, whatever notes there are.
fn sends_to(prompt: &Prompt) -> Step {
    match has(prompt, "note") {
        false => call("note"),
        true => sends_the_code(prompt),
    }
}

fn inbox_says(world: &mut World, ada: bool) {
    world.app = match ada {
        true => |call| {
            returned(if call.tool == "inbox" {
                "mail:to ada"
            } else {
                "ada"
            })
        },
        false => |call| {
            returned(if call.tool == "inbox" {
                "mail:to eve"
            } else {
                "ada"
            })
        },
    };
}

#[test]
fn a_name_of_a_trusted_list_may_be_chosen_by_a_stranger_and_no_other() {
    let mut world = of_forms(sends_to);
    inbox_says(&mut world, true);
    world.user = |_| panic!("no question");
    world.turn("mail whom the inbox names");
    assert_eq!(
        world.sent,
        ["note {}", "inbox {}", r#"mail {"body":"hello","to":"ada"}"#]
    );
    let mut world = of_forms(sends_to);
    inbox_says(&mut world, false);
    let outcome = world.turn("mail whom the inbox names");
    assert_eq!((world.sent.len(), outcome.refused), (2, 1));
}

/// A list that was only read since a stranger said so is the stranger's.
#[test]
fn a_list_that_was_read_above_the_control_part_does_not_count() {
    let mut world = of_forms(|prompt| match () {
        () if !has(prompt, "inbox") => call("inbox"),
        () if code(prompt) == "ada" && !has(prompt, "note") => call("note"),
        () if !has(prompt, "mail") => mail(&code(prompt)),
        () => say("done"),
    });
    inbox_says(&mut world, true);
    // The note is above its limit: the user allows it, and it stays the stranger's.
    world.user = |asked| match asked.call().unwrap().tool.as_str() {
        "note" => Answer::Once,
        _ => Answer::No,
    };
    let outcome = world.turn("mail whom the inbox names");
    assert_eq!(world.sent, ["inbox {}", "note {}"]);
    assert_eq!(outcome.refused, 1);
}

/// Another read could be taken again to find out what it depends on; what changes what it reads is asked about.
#[test]
fn what_is_read_once_is_not_read_again_to_find_out_more() {
    /// Reads the balance before it makes a note where it sees the mail, and afterwards where it does not.
    fn model(prompt: &Prompt) -> Step {
        let sees_mail = content(prompt, "inbox").is_some_and(|mail| mail.contains("eve"));
        match () {
            () if !has(prompt, "inbox") => call("inbox"),
            () if has(prompt, "send") => say("done"),
            () if sees_mail && !has(prompt, "balance") => call("balance"),
            () if !has(prompt, "note") => call("note"),
            () if !has(prompt, "balance") => call("balance"),
            () => vec![("send", r#"{"about":"acct"}"#.to_owned())],
        }
    }
    let sent = |mut world: World| {
        let outcome = world.turn("send my account's name to bob");
        let tools = world.sent.iter().filter_map(|sent| sent.split(' ').next());
        let tools: Vec<String> = tools.map(str::to_owned).collect();
        (tools, outcome.refused)
    };
    let (tools, refused) = sent(world(Screening::CHECKED, model));
    assert_eq!(tools, ["inbox", "balance", "note", "balance", "send"]);
    assert_eq!(refused, 0);
    let (tools, refused) = sent(of_forms(model));
    assert_eq!(tools, ["inbox", "balance", "note"]);
    assert_eq!(refused, 1);
}

/// Such a read has its own label too, if a completion without the stranger's words makes the same call: only the
/// completion is made once more.
#[test]
fn what_is_read_once_counts_without_being_read_again() {
    let model = super::counted::shopper;
    let mut world = World {
        app: world(Screening::CHECKED, model).app,
        ..of_forms(model)
    };
    world.user = |_| panic!("no question");
    world.turn("log in with the code from my mail");
    let login = r#"login {"code":"1234"}"#;
    assert_eq!(world.sent, ["inbox {}", "balance {}", login]);
}
