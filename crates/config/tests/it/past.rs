//! Rules that depend on the calls that were permitted before: order, counts, sums, and what they reveal.
#![expect(clippy::unwrap_used, clippy::panic, reason = "tests fail by panicking")]

use std::path::Path;
use std::sync::Barrier;

use config::{Config, Diagnostics};
use ifc::{Answer, Arguments, Call, Decision, History, Monitor, Permit, Question};

const POLICY: &str = r#"
[lattice]
integrity = { categories = ["mail"] }
confidentiality = { categories = ["hr"] }

[app.desk]
client = true

[app.desk.tools.approve]
effect = "write"
limit = "any"
parameters = { ticket = "integer" }

[app.desk.tools.release]
effect = "write"
limit = []
parameters = { ticket = "integer", note = "string?" }
after = { tool = "approve", same = ["ticket"] }
arguments.note.limit = ["untrusted"]

[app.desk.tools.close]
effect = "write"
limit = []
parameters = []
after = "approve"

[app.desk.tools.refund]
effect = "write"
limit = ["untrusted", "secret:hr"]
parameters = { who = "string", amount = "amount", points = "integer?" }
cedar = '''
@id("cap")
@ask
forbid (principal, action, resource)
when { context.session.sums.refund.amount.greaterThan(decimal("500.0")) };
@id("points")
forbid (principal, action, resource) when { context.session.sums.refund.points > 10 };
'''

[app.desk.tools.invite]
effect = "write"
limit = []
parameters = { to = "string" }
cedar = '''
@id("twice")
forbid (principal, action, resource)
when { context.session.calls.invite > 2 || context.session.calls.refund > 1 };
'''
"#;

fn load(text: &str) -> Result<Config, Diagnostics> {
    Config::load_with(Path::new("sluice.toml"), &|_| Ok(text.to_owned()))
}

/// A session under the policy.
struct Session {
    config: Config,
    monitor: Monitor,
}

fn session() -> Session {
    let config = load(POLICY).unwrap();
    assert_eq!(config.warnings, []);
    let monitor = Monitor::new().with_trust(&config.lattice);
    Session { config, monitor }
}

impl Session {
    fn decide(&self, tool: &str, arguments: &str, label: &[&str]) -> Decision {
        let label = self.config.lattice.labels(label.iter().copied()).unwrap();
        let call = Call {
            app: "desk".to_owned(),
            tool: tool.to_owned(),
            arguments: Arguments::parse(arguments, &label).unwrap(),
            label,
        };
        let policy = self.config.policy();
        self.monitor.decide(&policy, &History::default(), call)
    }

    fn permit(&self, tool: &str, arguments: &str, label: &[&str]) -> Permit {
        match self.decide(tool, arguments, label) {
            Decision::Allow(permit) => permit,
            other => panic!("{other:?}"),
        }
    }

    /// Permits a call, runs it, and has it succeed.
    fn run(&self, tool: &str, arguments: &str, label: &[&str]) {
        let permit = self.permit(tool, arguments, label);
        let receipt = permit.receipt();
        permit.spend();
        receipt.answered();
    }

    fn ask(&self, tool: &str, arguments: &str, label: &[&str]) -> Question {
        match self.decide(tool, arguments, label) {
            Decision::Ask(question) => question,
            other => panic!("{other:?}"),
        }
    }

    /// Why a call is denied.
    fn denial(&self, tool: &str, arguments: &str, label: &[&str]) -> String {
        match self.decide(tool, arguments, label) {
            Decision::Deny(denial) => denial.to_string(),
            other => panic!("{other:?}"),
        }
    }
}

fn refund(amount: &str) -> String {
    format!(r#"{{"who":"ann","amount":{amount}}}"#)
}

#[test]
fn a_call_runs_only_after_another_has_succeeded() {
    let session = session();
    let release = r#"{"ticket":7}"#;
    assert_eq!(
        session.denial("release", release, &[]),
        "denied: desk.release runs only after approve with the same ticket has succeeded in this session"
    );
    // A permit alone is not enough, nor is a call without an answer, or one that failed.
    drop(session.permit("approve", release, &[]));
    session.denial("release", release, &[]);
    let permit = session.permit("approve", release, &[]);
    let receipt = permit.receipt();
    session.denial("release", release, &[]);
    permit.spend();
    session.denial("release", release, &[]);
    receipt.failed();
    session.denial("release", release, &[]);
    session.denial("close", "{}", &[]);
    session.run("approve", release, &[]);
    session.run("release", release, &[]);
    session.run("close", "{}", &[]);
    // Another ticket was not approved, however it is written.
    for other in [r#"{"ticket":8}"#, r#"{"ticket":7.5}"#, r#"{"ticket":70}"#] {
        assert!(
            !matches!(session.decide("release", other, &[]), Decision::Allow(_)),
            "{other}"
        );
    }
    // Another session has approved nothing.
    let other = self::session();
    other.denial("release", release, &[]);
}

/// What a text made the agent approve is no approval for the user's own release, unless the user has allowed it.
#[test]
fn an_approval_counts_where_it_may_be_known() {
    let session = session();
    let ticket = r#"{"ticket":7}"#;
    session.run("approve", ticket, &["untrusted:mail"]);
    session.denial("release", ticket, &[]);
    session.run("approve", r#"{"ticket":8}"#, &["secret:hr"]);
    session.denial("release", r#"{"ticket":8}"#, &[]);
    // As if there were none: whether there is one is not known here.
    let unapproved = session.denial("release", r#"{"ticket":9}"#, &[]);
    assert_eq!(session.denial("release", ticket, &[]), unapproved);
    // A step that knows of the approval may go on with it, as far as its own limit lets it.
    let question = session.ask("release", ticket, &["untrusted:mail"]);
    assert_eq!(question.rule().name, "desk.release.limit");
    session.run("approve", r#"{"ticket":1}"#, &[]);
    session.run("release", r#"{"ticket":1}"#, &[]);
}

#[test]
fn a_call_that_the_user_allowed_is_the_users_own() {
    let policy = POLICY.replace(
        "limit = \"any\"\nparameters = { ticket = \"integer\" }",
        "limit = []\nparameters = { ticket = \"integer\" }",
    );
    let config = load(&policy).unwrap();
    let monitor = Monitor::new().with_trust(&config.lattice);
    let session = Session { config, monitor };
    let ticket = r#"{"ticket":7}"#;
    let question = session.ask("approve", ticket, &["untrusted:mail"]);
    let permit = session.monitor.settle_tcb(question, Answer::Once).unwrap();
    let receipt = permit.receipt();
    permit.spend();
    receipt.answered();
    session.run("release", ticket, &[]);
    // A refused call has not happened.
    let other = r#"{"ticket":8}"#;
    let question = session.ask("approve", other, &["untrusted:mail"]);
    session
        .monitor
        .settle_tcb(question, Answer::No)
        .unwrap_err();
    session.denial("release", other, &[]);
}

#[test]
fn sums_are_exact_and_count_what_may_have_run() {
    let session = session();
    session.run("refund", &refund("199.99"), &[]);
    session.run("refund", &refund("2e2"), &[]);
    session.run("refund", &refund("100.01"), &[]);
    let question = session.ask("refund", &refund("0.01"), &[]);
    assert_eq!(question.rule().name, "desk.refund.cedar.cap");
    // A yes counts as well.
    session
        .monitor
        .settle_tcb(question, Answer::Once)
        .unwrap()
        .spend();
    drop(session.ask("refund", &refund("0.01"), &[]));
    // What was permitted and dropped has not run.
    let session = self::session();
    drop(session.permit("refund", &refund("499"), &[]));
    let permit = session.permit("refund", &refund("499"), &[]);
    drop(session.ask("refund", &refund("2"), &[]));
    let receipt = permit.receipt();
    permit.spend();
    // A call that failed may have had an effect.
    receipt.failed();
    drop(session.ask("refund", &refund("2"), &[]));
    session.run("refund", &refund("1"), &[]);
}

#[test]
fn a_sum_that_is_not_exact_denies() {
    let session = session();
    let points = |points: &str| format!(r#"{{"who":"ann","amount":1,"points":{points}}}"#);
    session.run("refund", &points("null"), &[]);
    session.run("refund", &points("5"), &[]);
    let denied = session.denial("refund", &points("6"), &[]);
    assert!(denied.contains("desk.refund.cedar.points"), "{denied}");
    for too_large in ["9223372036854775807", "9223372036854775808"] {
        let denied = session.denial("refund", &points(too_large), &[]);
        assert!(denied.contains("is not exact"), "{denied}");
    }
}

/// A service refuses such a number, and the call counts all the same.
#[test]
fn a_number_below_zero_makes_no_room_below_a_cap() {
    let session = session();
    let points = |points: &str| format!(r#"{{"who":"ann","amount":1,"points":{points}}}"#);
    session.run("refund", &points("8"), &[]);
    for below in ["-1", "-1e6", "-9223372036854775000"] {
        let denied = session.denial("refund", &points(below), &[]);
        assert!(denied.contains("has a number below zero"), "{denied}");
    }
    session.run("refund", &points("2"), &[]);
    let denied = session.denial("refund", &points("1"), &[]);
    assert!(denied.contains("desk.refund.cedar.points"), "{denied}");
    // A call that no cap was about makes no room for a tool that has one.
    let policy = POLICY.replace("limit = \"any\"\nparameters = { ticket = \"integer\" }", "limit = \"any\"\nparameters = { ticket = \"integer\" }\ncedar = 'forbid (principal, action, resource) when { context.session.sums.close.points > 10 };'")
        .replace("parameters = []\nafter = \"approve\"", "parameters = { points = \"integer\" }");
    let config = load(&policy).unwrap();
    let monitor = Monitor::new().with_trust(&config.lattice);
    let session = Session { config, monitor };
    session.run("approve", r#"{"ticket":1}"#, &[]);
    session.run("close", r#"{"points":11}"#, &[]);
    session.denial("approve", r#"{"ticket":1}"#, &[]);
    session.run("close", r#"{"points":-100}"#, &[]);
    session.denial("approve", r#"{"ticket":1}"#, &[]);
}

#[test]
fn counts_include_the_call_itself() {
    let session = session();
    let invite = r#"{"to":"ann"}"#;
    session.run("invite", invite, &[]);
    session.run("invite", invite, &[]);
    assert!(
        session
            .denial("invite", invite, &[])
            .contains("desk.invite.cedar.twice")
    );
    let session = self::session();
    session.run("refund", &refund("1"), &[]);
    session.run("invite", invite, &[]);
    session.run("refund", &refund("1"), &[]);
    assert!(
        session
            .denial("invite", invite, &[])
            .contains("desk.invite.cedar.twice")
    );
}

/// A cap must hold over calls that the step does not know of, and must not tell how many there were.
#[test]
fn calls_above_a_step_are_a_question_and_no_number() {
    let asked = |hidden: &[(&str, &[&str])]| {
        let session = session();
        for (amount, label) in hidden {
            session.run("refund", &refund(amount), label);
        }
        let question = session.ask("refund", &refund("1"), &[]);
        (question.rule().name.clone(), question.choices())
    };
    let one = asked(&[("1", &["untrusted:mail"])]);
    assert_eq!(one.0, "desk.refund.cedar");
    assert_eq!(
        one,
        asked(&[
            ("400", &["secret:hr"]),
            ("90", &["untrusted:mail", "secret:hr"])
        ])
    );
    // Below and at its own label a step knows the calls.
    let session = session();
    session.run("refund", &refund("1"), &[]);
    session.run("refund", &refund("1"), &["untrusted:mail"]);
    session.run("refund", &refund("1"), &["untrusted:mail"]);
    // Where no call was made above, nothing is asked.
    let session = self::session();
    session.run("refund", &refund("1"), &[]);
    session.run("refund", &refund("1"), &[]);
}

/// Two calls that are decided on at the same time do not both fit below a cap for one.
#[test]
fn calls_at_the_same_time_are_counted_one_by_one() {
    for _ in 0..20 {
        let session = session();
        let barrier = Barrier::new(8);
        let allowed: usize = std::thread::scope(|scope| {
            let decide = || {
                barrier.wait();
                match session.decide("refund", &refund("100"), &[]) {
                    Decision::Allow(permit) => {
                        permit.spend();
                        1
                    }
                    _ => 0,
                }
            };
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(decide)).collect();
            threads.into_iter().map(|it| it.join().unwrap()).sum()
        });
        assert_eq!(allowed, 5);
    }
}

/// More calls than are kept are more than any cap allows.
#[test]
fn a_session_with_too_many_calls_asks() {
    let session = session();
    for _ in 0..4_097 {
        session.permit("approve", r#"{"ticket":1}"#, &[]).spend();
    }
    let question = session.ask("refund", &refund("1"), &[]);
    assert_eq!(question.rule().name, "desk.refund.cedar");
}

/// What a rule compares or adds up decides, so it is in the control part.
#[test]
fn what_is_compared_belongs_to_the_control_part() {
    let policy = POLICY
        .replace(
            "arguments.note.limit",
            "arguments.ticket.limit = [\"untrusted\"]\narguments.note.limit",
        )
        .replace(
            "points = \"integer?\" }",
            "points = \"integer?\" }\narguments.amount.limit = [\"untrusted\"]",
        );
    let config = load(&policy).unwrap();
    let policy = config.policy();
    let data = |tool: &str| {
        let paths = ifc::Policy::data_arguments(&policy, "desk", tool);
        paths.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(data("release"), ["note"]);
    assert_eq!(data("refund"), Vec::<String>::new());
}

#[test]
fn mistakes_about_earlier_calls_have_their_place() {
    let of = |from: &str, to: &str| {
        let errors = load(&POLICY.replace(from, to)).err();
        errors.map_or("no error".to_owned(), |errors| errors.to_string())
    };
    insta::assert_snapshot!(
        [
            of("after = \"approve\"", "after = \"aprove\""),
            of("after = \"approve\"", "after = \"close\""),
            of("same = [\"ticket\"]", "same = [\"id\"]"),
            of("after = \"approve\"", "after = { same = \"a\" }"),
            of(
                "sums.refund.amount.greaterThan",
                "sums.refund.who.greaterThan"
            ),
            of(
                "context.session.calls.invite > 2",
                "context.session.calls.invit > 2"
            ),
            of(
                "context.session.calls.invite > 2",
                "context.session.calls == context.session.calls"
            ),
            of(
                "context.session.calls.invite > 2",
                "(if true then context.session else context.session).calls.invite > 2"
            ),
        ]
        .join("\n---\n")
    );
}

#[test]
fn an_earlier_call_of_an_example_names_a_tool_with_rules() {
    let example = |tool: &str| {
        POLICY.replace(
            "after = \"approve\"\n",
            &format!(
                "after = \"approve\"\nexamples = [{{ before = [{{ tool = \"{tool}\", arguments = {{ ticket = 7 }} }}], expect = \"allow\" }}]\n"
            ),
        )
    };
    load(&example("approve")).unwrap();
    let errors = load(&example("aprove")).unwrap_err().to_string();
    assert!(
        errors.contains("'before' names 'aprove', which has no rules here")
            && errors.contains("did you mean 'approve'?"),
        "{errors}"
    );
}
