//! What the user allowed for good.

use std::sync::{Arc, Mutex};

use ifc::{
    Answer, Arguments, Basis, Bounds, Call, Decision, Denial, Effect, History, Label, Monitor,
    Permissible, Permissions, Policy, PolicyError, Question, Rule, Sink,
};
use proptest::prelude::*;

use crate::common::{labels, taint};
use crate::monitor::{AlwaysAsk, AsksNobody, OneRule, allows, ask, call_of, policy, send};

/// Permissions in memory; a spoilt one keeps none.
#[derive(Default)]
struct InMemory {
    kept: Mutex<Vec<(String, Bounds, Label)>>,
    spoilt: bool,
}

fn name(what: Permissible<'_>) -> String {
    match what {
        Permissible::Tool {
            app, tool, effect, ..
        } => {
            assert_ne!(effect, Effect::Irreversible);
            format!("{app}.{tool}")
        }
        Permissible::Collaboration(it) => format!("{it:?}"),
        Permissible::Domain { .. } => format!("{what:?}"),
    }
}

fn arguments(what: &Permissible<'_>) -> Bounds {
    match what {
        Permissible::Tool { arguments, .. } => arguments.clone(),
        _ => Bounds::default(),
    }
}

impl Permissions for InMemory {
    fn can_keep(&self, _: Permissible<'_>) -> bool {
        true
    }

    fn find(&self, what: Permissible<'_>, excess: &Label) -> Option<String> {
        let kept = self.kept.lock().unwrap();
        let call = arguments(&what);
        let found = kept.iter().position(|(of, bounds, limit)| {
            *of == name(what.clone()) && bounds.cover(&call) && excess.flows_to(limit)
        });
        found.map(|at| at.to_string())
    }

    fn keep(&self, what: Permissible<'_>, excess: &Label) -> Result<String, String> {
        if self.spoilt {
            return Err("the disk is full".to_owned());
        }
        let mut kept = self.kept.lock().unwrap();
        let bounds = arguments(&what);
        kept.push((name(what), bounds, excess.clone()));
        Ok((kept.len() - 1).to_string())
    }
}

fn session(permissions: &Arc<InMemory>) -> Monitor {
    Monitor::new().with_permissions(Arc::clone(permissions) as Arc<dyn Permissions>)
}

#[test]
fn a_permission_holds_in_the_next_session_until_it_is_revoked() {
    let permissions = Arc::new(InMemory::default());
    let (write, web) = (policy(&Label::bottom(), Effect::Write), taint(0));
    let first = session(&permissions);
    let question = ask(&first, &write, send(&web));
    let all = [Answer::Once, Answer::Session, Answer::Always, Answer::No];
    assert_eq!(question.choices(), all);
    let permit = first.settle_tcb(question, Answer::Always).unwrap();
    let id = "0".to_owned();
    assert_eq!(permit.basis(), &Basis::Permission { id: id.clone() });

    let next = session(&permissions);
    match next.decide(&write, &History::default(), send(&web)) {
        Decision::Allow(permit) => assert_eq!(permit.basis(), &Basis::Permission { id }),
        other => panic!("not allowed but {other:?}"),
    }
    // Another tool, another app, another taint: each is another question.
    assert!(!allows(&next, &write, call_of("mail", "delete", &web)));
    assert!(!allows(&next, &write, call_of("post", "send", &web)));
    assert!(!allows(&next, &write, send(&taint(1))));
    // Another machine of the same session has it too; one without permissions has none.
    assert!(allows(&next.clone(), &write, send(&web)));
    assert!(!allows(&Monitor::new(), &write, send(&web)));

    permissions.kept.lock().unwrap().clear();
    for monitor in [&first, &next] {
        assert!(!allows(monitor, &write, send(&web)), "it was revoked");
    }
}

/// A tool that turned irreversible, or that is asked about always or never, has no permission any more.
#[test]
fn the_irreversible_and_what_is_always_or_never_asked_are_not_permitted_for_good() {
    let permissions = Arc::new(InMemory::default());
    let web = taint(0);
    let write = policy(&Label::bottom(), Effect::Write);
    let monitor = session(&permissions);
    let question = ask(&monitor, &write, send(&web));
    assert!(monitor.settle_tcb(question, Answer::Always).is_ok());

    let irreversible = policy(&Label::bottom(), Effect::Irreversible);
    assert!(!allows(&monitor, &irreversible, send(&web)));
    let always = AlwaysAsk(policy(&Label::bottom(), Effect::Write));
    assert!(!monitor.would_allow(&always, &History::default(), &send(&web)));
    // The configuration has become stricter since.
    let asks_nobody = AsksNobody(policy(&Label::bottom(), Effect::Write));
    assert!(!monitor.would_allow(&asks_nobody, &History::default(), &send(&web)));
    let decision = monitor.decide(&asks_nobody, &History::default(), send(&web));
    assert!(matches!(decision, Decision::Deny(Denial::Exceeded { .. })));

    let question = ask(&monitor, &irreversible, send(&web));
    assert_eq!(question.choices(), [Answer::Once, Answer::No]);
    let denial = monitor.settle_tcb(question, Answer::Always).unwrap_err();
    assert_eq!(denial, Denial::OnceOnly);
    assert_eq!(permissions.kept.lock().unwrap().len(), 1);
}

/// A rule whose questions are for others.
struct Approved(OneRule);

impl Policy for Approved {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let approvers = Some(["ada".to_owned()].into());
        self.0.rule(sink).map(|rule| Rule { approvers, ..rule })
    }
}

#[test]
fn no_earlier_answer_is_an_approvers() {
    let permissions = Arc::new(InMemory::default());
    let (monitor, web) = (session(&permissions), taint(0));
    let usual = policy(&Label::bottom(), Effect::Write);
    for answer in [Answer::Always, Answer::Session] {
        let question = ask(&monitor, &usual, call_of("mail", "send", &web));
        assert!(monitor.settle_tcb(question, answer).is_ok());
        let approved = Approved(policy(&Label::bottom(), Effect::Write));
        assert!(!monitor.would_allow(&approved, &History::default(), &send(&web)));
        let asked = || match monitor.decide(&approved, &History::default(), send(&web)) {
            Decision::Ask(question) => question,
            other => panic!("no question but {other:?}"),
        };
        let question = asked().with_waiting(vec![call_of("mail", "note", &web)]);
        assert_eq!(question.choices(), [Answer::Once, Answer::No]);
        assert!(monitor.settle_tcb(question, Answer::Once).is_ok());
        // The same call is a question again, and what was not offered allows nothing.
        for answer in [Answer::Each, Answer::Session, Answer::Host, Answer::Always] {
            assert!(monitor.settle_tcb(asked(), answer).is_err(), "{answer:?}");
            monitor.begin_turn();
        }
        // Below the limit nothing is asked.
        let below = send(&Label::bottom());
        assert!(monitor.would_allow(&approved, &History::default(), &below));
        permissions.kept.lock().unwrap().clear();
    }
}

#[test]
fn what_cannot_be_kept_is_denied_and_says_why() {
    let write = policy(&Label::bottom(), Effect::Write);
    let spoilt = Arc::new(InMemory {
        spoilt: true,
        ..InMemory::default()
    });
    let monitor = session(&spoilt);
    let question = ask(&monitor, &write, send(&taint(0)));
    let denial = monitor.settle_tcb(question, Answer::Always).unwrap_err();
    assert!(denial.to_string().contains("the disk is full"), "{denial}");
    // It is not offered where there is nowhere to keep it, and answered anyway it allows nothing.
    let without = Monitor::new();
    let question = ask(&without, &write, send(&taint(0)));
    assert!(!question.choices().contains(&Answer::Always));
    assert!(without.settle_tcb(question, Answer::Always).is_err());
    assert!(!allows(&without, &write, send(&taint(0))));
}

/// A write with one data argument, `body`, which may be `untrusted:c0`.
struct WithData(Effect);

impl Policy for WithData {
    fn rule(&self, sink: &Sink<'_>) -> Result<Rule, PolicyError> {
        let rule = policy(&Label::bottom(), self.0).rule(sink)?;
        let arguments = [("body".parse().unwrap(), taint(0))].into();
        Ok(Rule { arguments, ..rule })
    }
}

fn write(arguments: &str) -> Call {
    Call {
        arguments: Arguments::parse(arguments, &taint(0)).unwrap(),
        ..send(&taint(0))
    }
}

fn question(monitor: &Monitor, call: Call, effect: Effect) -> Question {
    match monitor.decide(&WithData(effect), &History::default(), call) {
        Decision::Ask(question) => question,
        other => panic!("no question but {other:?}"),
    }
}

/// Whether a permission for the first call covers the second.
fn covers(given: &str, answer: Answer, later: &str) -> bool {
    let monitor = session(&Arc::new(InMemory::default()));
    let asked = question(&monitor, write(given), Effect::Write);
    assert!(asked.choices().contains(&answer), "{given}");
    assert!(monitor.settle_tcb(asked, answer).is_ok(), "{given}");
    monitor.would_allow(&WithData(Effect::Write), &History::default(), &write(later))
}

/// The control arguments are those that were shown; data varies within its own limit.
#[test]
fn always_is_for_the_control_arguments_that_were_shown() {
    let given = r#"{"to":"anna@x.org","n":1,"on":{"b":[1,"x"],"a":null},"body":"Hello Anna"}"#;
    for same in [
        given,
        r#"{"n":1,"body":"Other words","on":{"a":null,"b":[1,"\u0078"]},"to":"anna\u0040x.org"}"#,
    ] {
        assert!(covers(given, Answer::Always, same), "{same}");
    }
    for (from, to) in [
        ("anna@x.org", "eve@x.org"),
        ("anna@x.org", "Anna@x.org"),
        ("anna@x.org", "anna@x.org.evil.example"),
        ("anna@x.org", "\u{430}nna@x.org"),
        ("anna@x.org", "a\u{200b}nna@x.org"),
        (r#""anna@x.org""#, r#"["anna@x.org"]"#),
        (r#""anna@x.org""#, "null"),
        (r#""to":"anna@x.org","#, ""),
        (r#""to""#, r#""cc":"eve@x.org","to""#),
        (r#""to""#, r#""cc":null,"to""#),
        (r#""to""#, r#""To""#),
        (r#""n":1"#, r#""n":1.0"#),
        (r#""n":1"#, r#""n":"1""#),
        (r#""n":1"#, r#""n":10"#),
        (r#"[1,"x"]"#, r#"["x",1]"#),
        (r#"[1,"x"]"#, r#"[1,"x",{}]"#),
        (r#""a":null"#, r#""a":{}"#),
        (r#","a":null"#, ""),
    ] {
        let later = given.replace(from, to);
        assert_ne!(later, given);
        assert!(!covers(given, Answer::Always, &later), "{later}");
    }
    let composed = r#"{"id":"caf\u00e9"}"#;
    assert!(!covers(composed, Answer::Always, r#"{"id":"cafe\u0301"}"#));
    assert!(covers("{}", Answer::Always, "{}") && !covers("{}", Answer::Always, given));
}

/// A copy to someone else, or an attachment, was not in the call that the user read.
#[test]
fn always_covers_no_data_argument_that_was_absent() {
    let (without, with) = (
        r#"{"path":"/a/b/c.md"}"#,
        r#"{"path":"/a/b/c.md","body":"x"}"#,
    );
    let other = with.replace("\"x\"", "[\"y\"]");
    for answer in [Answer::Always, Answer::AlwaysFolder] {
        assert!(!covers(without, answer, with));
        for later in [without, with, &other] {
            assert!(covers(with, answer, later), "{later}");
        }
    }
}

#[test]
fn what_a_permission_covers_survives_storing() {
    let call = Call {
        arguments: Arguments::parse(r#"{"to\n":"a","body":"x"}"#, &Label::bottom()).unwrap(),
        ..send(&taint(0))
    };
    let monitor = session(&Arc::new(InMemory::default()));
    let bounds = question(&monitor, call, Effect::Read).lasting().unwrap();
    let stored = Bounds::new(bounds.stored().to_owned(), false);
    assert_eq!(stored, bounds);
    assert_eq!(stored.data().collect::<Vec<_>>(), ["\"body\""]);
    let names: Vec<String> = stored.iter().map(|bound| bound.name).collect();
    assert_eq!(names, ["to\n"]);
}

#[test]
fn a_folder_covers_the_files_below_it_only() {
    let at = |path: &str| format!(r#"{{"path":{}}}"#, serde_json_string(path));
    let given = at("/home/me/notes/a.md");
    let in_folder = |path: &str| covers(&given, Answer::AlwaysFolder, &at(path));
    for path in [
        "/home/me/notes/a.md",
        "/home/me/notes/b.md",
        "/home/me/notes/2026/My plan_2.tar.gz",
        "/home/me/notes/\u{fc}ber",
    ] {
        assert!(in_folder(path), "{path}");
    }
    for path in [
        "/home/me/notes",
        "/home/me/notes/",
        "/home/me/notes-evil/a.md",
        "/home/me/notes.md",
        "/home/me/Notes/a.md",
        "/home/me/a.md",
        "/home/me/notes/../a.md",
        "/home/me/notes/x/../../a.md",
        "/home/me/notes/./a.md",
        "/home/me/notes//a.md",
        "//home/me/notes/a.md",
        "/home/me/notes/.ssh/config",
        "/home/me/notes/ ../a.md",
        "/home/me/notes/..\\a.md",
        "/home/me/notes/%2e%2e/a.md",
        "/home/me/notes/\u{2024}\u{2024}/a.md",
        "/home/me/notes/\u{ff0e}\u{ff0e}\u{ff0f}a.md",
        "/home/me/notes/a.md\0",
        "/home/me/notes/a\n",
        "/home/me/notes/*",
        "/home/me/notes/$HOME",
        "home/me/notes/a.md",
        "file:///home/me/notes/a.md",
        "~/notes/a.md",
    ] {
        assert!(!in_folder(path), "{path}");
    }
    let always = |path: &str| covers(&given, Answer::Always, &at(path));
    assert!(always("/home/me/notes/a.md") && !always("/home/me/notes/b.md"));
    // A list, another form, and the same folder under another name.
    for later in [
        r#"{"path":["/home/me/notes/b.md"]}"#,
        r#"{"path":{"in":"/home/me/notes/b.md"}}"#,
        r#"{"path":"/home/me/notes/b.md","mode":"a"}"#,
        r#"{"file":"/home/me/notes/b.md"}"#,
    ] {
        assert!(!covers(&given, Answer::AlwaysFolder, later), "{later}");
    }
}

fn serde_json_string(text: &str) -> String {
    let escaped = text.chars().map(|c| match c {
        '"' | '\\' => format!("\\{c}"),
        c if c.is_control() => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("\"{}\"", escaped.collect::<String>())
}

#[test]
fn always_is_offered_where_its_arguments_are_plain() {
    let monitor = session(&Arc::new(InMemory::default()));
    let choices = |arguments: &str, effect| {
        let choices = question(&monitor, write(arguments), effect).choices();
        let folder = choices.contains(&Answer::AlwaysFolder);
        (choices.contains(&Answer::Always), folder)
    };
    for (arguments, expected) in [
        (r#"{"to":["anna@x.org"],"n":1.5}"#, (true, false)),
        (
            r#"{"table":"notes","body":"any words; DROP TABLE notes"}"#,
            (true, false),
        ),
        (r#"{"path":"/home/me/notes/My plan.md"}"#, (true, true)),
        (r#"{"file_path":"notes/a.md"}"#, (true, true)),
        // The root, a folder of the system, no folder at all, and a hidden one.
        (r#"{"path":"/a.md"}"#, (true, false)),
        (r#"{"path":"/etc/passwd"}"#, (true, false)),
        (r#"{"path":"a.md"}"#, (true, false)),
        (r#"{"path":"/home/me/.ssh/config"}"#, (true, false)),
        (r#"{"repository":"me/notes/a"}"#, (true, false)),
        // Free text, by its name, its words, its length or its place.
        (r#"{"sql":"x"}"#, (false, false)),
        (r#"{"searchQuery":"x"}"#, (false, false)),
        (r#"{"userScripts":["x"]}"#, (false, false)),
        (r#"{"description":"x"}"#, (true, false)),
        (r#"{"command":["ls"]}"#, (false, false)),
        (r#"{"on":{"script":"x"}}"#, (false, false)),
        (r#"{"title":"Lunch with Anna"}"#, (false, false)),
        (r#"{"rows":[{"text":"two words"}]}"#, (false, false)),
        (r#"{"path":"/home/me/notes/a.md; rm -r"}"#, (false, false)),
        (r#"{"two words":1}"#, (false, false)),
    ] {
        assert_eq!(choices(arguments, Effect::Write), expected, "{arguments}");
    }
    let long = format!(r#"{{"id":"{}"}}"#, "x".repeat(200));
    assert_eq!(choices(&long, Effect::Write), (false, false));
    // A tool that reads: the very same words again.
    let read = r#"{"query":"mails of Anna"}"#;
    assert_eq!(choices(read, Effect::Read), (true, false));
    let long = format!(r#"{{"query":"{}"}}"#, "x ".repeat(600));
    assert_eq!(choices(&long, Effect::Read), (false, false));
    assert_eq!(choices(r#"{"id":1}"#, Effect::Irreversible), (false, false));
}

/// The policy limits data, so data that exceeds its limit is asked about whatever was allowed for good.
#[test]
fn data_beyond_its_limit_is_not_covered() {
    let permissions = Arc::new(InMemory::default());
    let monitor = session(&permissions);
    let asked = question(
        &monitor,
        write(r#"{"to":"anna","body":"x"}"#),
        Effect::Write,
    );
    assert!(monitor.settle_tcb(asked, Answer::Always).is_ok());
    // As if it had been given for more.
    permissions.kept.lock().unwrap()[0].2 = taint(0).join(&taint(1));
    let arguments = Arguments::parse(r#"{"to":"anna","body":"x"}"#, &taint(0)).unwrap();
    let call = |label: &Label| Call {
        arguments: arguments.clone().restrict("body", label),
        ..send(&taint(0))
    };
    let rules = WithData(Effect::Write);
    let allows = |call: &Call| monitor.would_allow(&rules, &History::default(), call);
    assert!(allows(&call(&Label::bottom())));
    assert!(!allows(&call(&taint(1))));
    assert!(
        !question(&monitor, call(&taint(1)), Effect::Write)
            .choices()
            .contains(&Answer::Always)
    );
}

proptest! {
    /// A permission covers what flows to the taints that the user saw, and nothing else.
    #[test]
    fn a_permission_covers_the_taints_that_were_shown(
        seen in labels(), later in labels(), limit in labels(),
    ) {
        let permissions = Arc::new(InMemory::default());
        let write = policy(&limit, Effect::Write);
        let monitor = session(&permissions);
        let excess = seen.beyond(&limit);
        if let Decision::Ask(question) = monitor.decide(&write, &History::default(), send(&seen)) {
            let offered = question.choices().contains(&Answer::Always);
            prop_assert_eq!(offered, !excess.is_top());
            let kept = monitor.settle_tcb(question, Answer::Always).is_ok();
            prop_assert_eq!(kept, offered);
            monitor.begin_turn();
            let covered = later.flows_to(&limit) || (kept && later.beyond(&limit).flows_to(&excess));
            prop_assert_eq!(allows(&monitor, &write, send(&later)), covered);
        }
    }
}
