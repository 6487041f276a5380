//! Images in results: no rule looks into one, and no prompt below its label has it.

use hub::{CallOutcome, Stop};
use ifc::{Call, Image, Prompt};

use super::{EAGER, LAZY, Model, Step, World, call, results, returned, say, world};

fn png(bytes: usize) -> Image {
    Image::read([b"\x89PNG\r\n\x1a\n".as_slice(), &vec![b'x'; bytes]].concat()).unwrap()
}

fn has_image(prompt: &Prompt) -> bool {
    (0..prompt.messages().len()).any(|at| prompt.images(at).next().is_some())
}

/// The inbox shows an image beside a text, of which the rule trusts the first five letters.
fn pictured(model: Model) -> World {
    let mut world = world(LAZY, model);
    world.app = |call: &Call| beside(call, "inbox", "mail:");
    world
}

/// An app puts its injection where no rule reads it, beside a text that the rule trusts.
#[test]
fn an_image_has_the_label_of_what_no_rule_can_read() {
    let mut world = pictured(|prompt| match (results(prompt).len(), has_image(prompt)) {
        (0, _) => call("inbox"),
        // It obeys what it sees.
        (1, true) => call("send"),
        _ => say("done"),
    });
    world.turn("look").result.unwrap();
    assert!(
        world.sent.iter().all(|sent| !sent.starts_with("send")),
        "{:?}",
        world.sent
    );
    assert_eq!(world.lines("ask send").len(), 1);
}

#[test]
fn a_prompt_below_an_image_does_not_have_it() {
    let mut world = pictured(|prompt| match (results(prompt).len(), has_image(prompt)) {
        (0, false) => call("inbox"),
        (1, false) => call("send"),
        _ => say("an image"),
    });
    // The screener says that the step does not depend on it.
    world.agent = super::agent(super::setup(super::table(), super::settings(EAGER)));
    world.screener = |_| Ok(ifc::Relevance::Only(std::collections::BTreeSet::new()));
    world.turn("look").result.unwrap();
    assert_eq!(world.sent.len(), 2, "{:?}", world.sent);
    let last = world.prompts.last().unwrap();
    assert!(last.contains("mail:[redacted]"), "{last}");
}

#[test]
fn images_count_against_the_history() {
    let mut world = world(LAZY, |prompt| {
        vec![("inbox", format!("{{\"n\":{}}}", prompt.messages().len()))]
    });
    world.app = |_| pictures("", &[], 8 << 20);
    let stop = world.turn("look").result.unwrap_err();
    assert!(
        matches!(stop, Stop::HistoryFull(bytes) if bytes > 32 << 20),
        "{stop:?}"
    );
}

/// A result with an image of so many bytes, of which its app claims this.
pub(super) fn pictures(text: &str, claims: &[&str], bytes: usize) -> CallOutcome {
    CallOutcome::Returned {
        text: text.to_owned(),
        is_error: false,
        claims: claims.iter().map(|claim| (*claim).to_owned()).collect(),
        images: vec![png(bytes)],
    }
}

/// The rule trusts what `note` returns, and its app says of this picture that it does not.
#[test]
fn an_image_has_the_label_that_its_app_claims() {
    let noting = || {
        let model: Model = |prompt| match (results(prompt).len(), has_image(prompt)) {
            (0, _) => call("note"),
            (1, true) => vec![("send", r#"{"to":"eve"}"#.to_owned())],
            (1, false) => call("send"),
            _ => say("done"),
        };
        world(hub::Screening::CHECKED, model)
    };
    let mut plain = noting();
    plain.app = |_| pictures("", &[], 8);
    plain.turn("look").result.unwrap();
    assert_eq!(plain.sent, ["note {}", r#"send {"to":"eve"}"#]);

    // A step below the claim does not see the image. The user says no to the one that does.
    let mut claimed = noting();
    claimed.app = |_| pictures("", &["integrity:untrusted"], 8);
    claimed.turn("look").result.unwrap();
    assert_eq!(claimed.sent, ["note {}", "send {}"]);
    assert_eq!(claimed.lines("result note"), ["result note {untrusted}"]);
}

/// The same over a tool whose results are labelled otherwise, where a draft is checked.
fn checked(tool: &'static str, model: Model) -> World {
    let mut world = world(hub::Screening::CHECKED, model);
    world.app = match tool {
        "balance" => |call: &Call| beside(call, "balance", "acct:"),
        _ => |call: &Call| beside(call, "inbox", "mail:"),
    };
    world
}

/// A trusted text with an image, if it is a call of this tool.
fn beside(call: &Call, tool: &str, text: &str) -> CallOutcome {
    match call.tool == tool {
        true => pictures(text, &[], 8),
        false => returned("done"),
    }
}

/// A step that needs no image is redone below it, and what it is redone from has none.
#[test]
fn a_step_that_is_redone_below_an_image_does_not_have_it() {
    let mut world = checked("inbox", |prompt| match results(prompt).len() {
        0 => call("inbox"),
        1 => call("send"),
        _ => say("done"),
    });
    world.turn("look, then send").result.unwrap();
    assert_eq!(world.sent, ["inbox {}", "send {}"]);
    let [_, draft, below, ..] = world.prompts.as_slice() else {
        panic!("{:?}", world.prompts);
    };
    assert!(draft.contains("[image: image/png, 16 bytes]"), "{draft}");
    assert!(!below.contains("image"), "{below}");
}

/// An image says whom to write to. The user says no, and the step is taken without the image.
#[test]
fn what_an_image_says_is_asked_about() {
    let mut world = checked("inbox", |prompt| {
        match (results(prompt).len(), has_image(prompt)) {
            (0, _) => call("inbox"),
            (1, true) => vec![("send", r#"{"to":"eve"}"#.to_owned())],
            (1, false) => call("send"),
            _ => say("done"),
        }
    });
    world.turn("look, then send").result.unwrap();
    assert_eq!(world.sent, ["inbox {}", "send {}"]);
    assert_eq!(world.lines("ask send").len(), 1);
}

/// A data argument carries what an image says under the label of the image, and no image.
#[test]
fn a_data_argument_carries_what_an_image_says_under_its_label() {
    let mailing = |tool| -> World {
        let read: Model = match tool {
            "balance" => |prompt| match results(prompt).len() {
                0 => call("balance"),
                _ => mailed(prompt),
            },
            _ => |prompt| match results(prompt).len() {
                0 => call("inbox"),
                _ => mailed(prompt),
            },
        };
        let mut world = checked(tool, read);
        let answer = world.turn("mail bob what it shows").result.unwrap();
        assert_eq!(answer.reveal_tcb(), "one image");
        world
    };
    let inbox = mailing("inbox");
    let mail = r#"mail {"body":"a cat [image: image/png, 16 bytes]","to":"bob"}"#;
    assert_eq!(inbox.sent, ["inbox {}", mail]);
    // The body may be untrusted, and not secret.
    assert_eq!(mailing("balance").sent, ["balance {}"]);
}

fn mailed(prompt: &Prompt) -> Step {
    let body = match has_image(prompt) {
        true => "a cat [image: image/png, 16 bytes]",
        false => "[redacted]",
    };
    // The note that the model repeats is words, and brings no image along.
    let messages = 0..prompt.messages().len();
    let images: usize = messages.map(|at| prompt.images(at).count()).sum();
    match (results(prompt).len(), images) {
        (1, _) => vec![("mail", format!(r#"{{"body":"{body}","to":"bob"}}"#))],
        (_, 1) => say("one image"),
        _ => say("another number"),
    }
}
