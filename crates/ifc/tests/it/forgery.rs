//! What must not compile. Each offence stands beside the honest line that differs only by it, and
//! is refused with the error that we mean, so no test passes by a typing mistake.
//!
//! `rustc` itself is asked: doctests check error codes on nightly only, and the wording of
//! messages changes with each compiler.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A directory with the crate as it is now, compiled for one test.
struct Compiler {
    directory: PathBuf,
}

impl Compiler {
    fn new(test: &str) -> Self {
        // A test runner may start several processes at a time.
        let name = format!("forgery-{test}-{}", std::process::id());
        let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&directory).unwrap();
        let compiler = Self { directory };
        let output = rustc("ifc", "rlib")
            .arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/lib.rs"))
            .arg("--emit=metadata")
            .arg("-o")
            .arg(compiler.library())
            .output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", text(&output));
        compiler
    }

    fn library(&self) -> PathBuf {
        self.directory.join("libifc.rmeta")
    }

    fn compile(&self, name: &str, body: &str) -> Output {
        let source = self.directory.join(format!("{name}.rs"));
        std::fs::write(&source, format!("use ifc::*;\n{body}\n")).unwrap();
        let output = rustc(name, "lib")
            .arg("--emit=metadata")
            .arg("--extern")
            .arg(format!("ifc={}", self.library().display()))
            .arg("-o")
            .arg(source.with_extension("rmeta"))
            .arg(&source)
            .output();
        output.unwrap()
    }

    /// `frame` with `honest` in place of `HERE` compiles; with `offence` it fails with `code` alone.
    fn check(&self, name: &str, frame: &str, honest: &str, offence: &str, code: &str) {
        assert_eq!(frame.matches("HERE").count(), 1);
        let good = self.compile(&format!("{name}_honest"), &frame.replace("HERE", honest));
        assert!(
            good.status.success(),
            "{name}: the honest twin fails: {}",
            text(&good)
        );
        let bad = self.compile(&format!("{name}_offence"), &frame.replace("HERE", offence));
        assert!(!bad.status.success(), "{name}: this compiles: {offence}");
        let messages = text(&bad);
        let errors: Vec<&str> = messages
            .lines()
            .filter(|line| line.starts_with("error") && !line.starts_with("error: aborting"))
            .filter_map(|line| line.split(':').next())
            .collect();
        let expected = format!("error[{code}]");
        assert!(
            !errors.is_empty() && errors.iter().all(|error| *error == expected),
            "{name}: {code} expected: {messages}"
        );
    }
}

impl Drop for Compiler {
    fn drop(&mut self) {
        // Left over, it is in the way of nobody.
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn rustc(name: &str, kind: &str) -> Command {
    let mut command = Command::new(std::env::var_os("RUSTC").unwrap_or("rustc".into()));
    command
        .args(["--edition=2024", "--cap-lints=allow", "--color=never"])
        .args(["--crate-name", name, "--crate-type", kind]);
    command
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_permit_comes_from_a_decision_alone() {
    let rustc = Compiler::new("a_permit_comes_from_a_decision_alone");
    let frame = "fn f(call: Call, given: Permit) -> Permit { HERE }";
    let made = "Permit { flow: call, ..given }";
    rustc.check("permit_made", frame, "given", made, "E0451");
    rustc.check(
        "permit_default",
        frame,
        "given",
        "Permit::default()",
        "E0599",
    );
    let frame = "fn f(mut permit: Permit, other: Call) -> Call { HERE; permit.spend() }";
    let read = "permit.call().clone()";
    rustc.check(
        "permit_changed",
        frame,
        read,
        "permit.flow = other",
        "E0616",
    );
    rustc.check(
        "permit_changed_by_reference",
        frame,
        read,
        "*permit.call() = other",
        "E0594",
    );
}

#[test]
fn a_permit_is_used_once() {
    let rustc = Compiler::new("a_permit_is_used_once");
    let frame = "fn f(permit: Permit) -> (Call, Call) { (HERE, permit.spend()) }";
    let read = "permit.call().clone()";
    rustc.check("permit_spent_twice", frame, read, "permit.spend()", "E0382");
    rustc.check(
        "permit_cloned",
        frame,
        read,
        "permit.clone().spend()",
        "E0599",
    );
    let frame = "fn f(permit: &Permit) -> Call { HERE }";
    rustc.check(
        "permit_borrowed",
        frame,
        "permit.call().clone()",
        "permit.spend()",
        "E0507",
    );
}

#[test]
fn a_question_is_settled_by_the_monitor_alone_and_once() {
    let rustc = Compiler::new("a_question_is_settled_by_the_monitor_alone_and_once");
    let frame = "fn f(question: Question, monitor: &Monitor) -> Result<Permit, Denial> { HERE }";
    let settle = "monitor.settle_tcb(question, Answer::Once)";
    rustc.check(
        "question_into",
        frame,
        settle,
        "Ok(question.into())",
        "E0277",
    );
    rustc.check(
        "question_is_no_permit",
        frame,
        settle,
        "Ok(question)",
        "E0308",
    );
    rustc.check(
        "question_settles_itself",
        frame,
        settle,
        "question.settle_tcb(Answer::Once)",
        "E0599",
    );
    rustc.check(
        "question_spent_twice",
        frame,
        settle,
        "{ let _ = monitor.settle_tcb(question, Answer::No); monitor.settle_tcb(question, Answer::Once) }",
        "E0382",
    );
    rustc.check(
        "question_cloned",
        frame,
        settle,
        "monitor.settle_tcb(question.clone(), Answer::Once)",
        "E0599",
    );
    let frame = "fn f(mut question: Question) -> String { HERE; question.rule().name.clone() }";
    let read = "question.rule()";
    rustc.check(
        "question_softened",
        frame,
        read,
        "question.rule.effect = Effect::Read",
        "E0616",
    );
}

#[test]
fn a_grant_comes_from_an_answer_alone() {
    let rustc = Compiler::new("a_grant_comes_from_an_answer_alone");
    let frame = "fn f(monitor: &mut Monitor) { HERE; }";
    let honest = "*monitor = Monitor::new()";
    rustc.check(
        "grants_added",
        frame,
        honest,
        "monitor.state.clear()",
        "E0616",
    );
    rustc.check(
        "monitor_made",
        frame,
        honest,
        "*monitor = Monitor { ..Monitor::new() }",
        "E0451",
    );
}

#[test]
fn a_prompt_comes_from_the_redactor_alone() {
    let rustc = Compiler::new("a_prompt_comes_from_the_redactor_alone");
    let frame = "fn f(history: &History, label: Label) -> Prompt { HERE }";
    let honest = "redact(history, &label)";
    let made = "Prompt { label, messages: Vec::new(), beside: Vec::new(), tools: Vec::new(), kept: 0, masked: 0, is_marked: false }";
    rustc.check("prompt_made", frame, honest, made, "E0451");
    rustc.check(
        "prompt_default",
        frame,
        honest,
        "Prompt::default()",
        "E0599",
    );
    let updated = "Prompt { label, ..redact(history, &Label::bottom()) }";
    rustc.check("prompt_relabelled", frame, honest, updated, "E0451");
    let frame = "fn f(mut prompt: Prompt, more: PromptMessage) -> usize { HERE; prompt.kept() }";
    let read = "prompt.messages()";
    rustc.check(
        "prompt_field",
        frame,
        read,
        "prompt.messages.push(more)",
        "E0616",
    );
    rustc.check(
        "prompt_pushed",
        frame,
        read,
        "prompt.messages().push(more)",
        "E0599",
    );
    rustc.check(
        "prompt_set",
        frame,
        read,
        "prompt.messages()[0] = more",
        "E0594",
    );
}

/// The judge's prompt holds everything, so its instructions must be the developer's literals.
#[test]
fn a_consultation_takes_no_text_made_at_run_time() {
    let rustc = Compiler::new("a_consultation_takes_no_text_made_at_run_time");
    let frame = "fn f(history: &History, nonce: &Nonce, text: String) { let _ = consult(history, nonce, HERE, \"\"); }";
    rustc.check("consult_text", frame, "\"before\"", "&text", "E0597");
    let frame = "fn f(given: Consultation, prompt: Prompt) -> Consultation { HERE }";
    let made = "Consultation { prompt, regions: Vec::new(), companions: Vec::new(), left: None }";
    rustc.check("consultation_made", frame, "given", made, "E0451");
}

#[test]
fn labelled_text_does_not_show_itself() {
    let rustc = Compiler::new("labelled_text_does_not_show_itself");
    let frame = "fn f(text: &Labeled) -> String { HERE }";
    let honest = "text.reveal_tcb().to_owned()";
    rustc.check(
        "labeled_display",
        frame,
        honest,
        "format!(\"{text}\")",
        "E0277",
    );
    rustc.check(
        "labeled_to_string",
        frame,
        honest,
        "text.to_string()",
        "E0599",
    );
    rustc.check("labeled_field", frame, honest, "text.text.clone()", "E0616");
    rustc.check(
        "labeled_into",
        frame,
        honest,
        "text.clone().into()",
        "E0277",
    );
    rustc.check(
        "labeled_index",
        frame,
        honest,
        "text[0..1].to_owned()",
        "E0608",
    );
    let frame = "fn f(text: &Labeled) -> &str { HERE }";
    rustc.check(
        "labeled_deref",
        frame,
        "text.reveal_tcb()",
        "&**text",
        "E0614",
    );
    rustc.check(
        "labeled_coerced",
        frame,
        "text.reveal_tcb()",
        "text",
        "E0308",
    );
    rustc.check(
        "labeled_as_ref",
        frame,
        "text.reveal_tcb()",
        "text.as_ref()",
        "E0599",
    );
    let frame = "fn f(region: RegionRef<'_>) -> &str { HERE }";
    rustc.check(
        "region_field",
        frame,
        "region.reveal_tcb()",
        "region.text.reveal_tcb()",
        "E0616",
    );
}

/// A label never falls: there is no way to take a taint from a text or to unlabel it.
#[test]
fn a_label_is_not_taken_off() {
    let rustc = Compiler::new("a_label_is_not_taken_off");
    let frame = "fn f(mut text: Labeled) -> Labeled { HERE; text }";
    let honest = "text = text.restrict(&Label::top())";
    rustc.check(
        "regions_cleared",
        frame,
        honest,
        "text.regions.clear()",
        "E0616",
    );
    rustc.check(
        "region_relabelled",
        frame,
        honest,
        "*text.regions().next().unwrap().1 = Label::bottom()",
        "E0594",
    );
    let frame = "fn f(given: Taint) -> Taint { HERE }";
    rustc.check("taint_made", frame, "given", "Taint(0)", "E0423");
}

#[test]
fn a_provider_is_given_a_prompt_and_nothing_else() {
    let rustc = Compiler::new("a_provider_is_given_a_prompt_and_nothing_else");
    let frame = "
        trait Provider { fn complete(&self, prompt: &Prompt) -> String; }
        fn f(to: &dyn Provider, prompt: Prompt, text: Labeled, history: History) -> String {
            to.complete(HERE)
        }";
    rustc.check("provider_labeled", frame, "&prompt", "&text", "E0308");
    rustc.check("provider_history", frame, "&prompt", "&history", "E0308");
    rustc.check(
        "provider_revealed",
        frame,
        "&prompt",
        "text.reveal_tcb()",
        "E0308",
    );
    rustc.check(
        "provider_string",
        frame,
        "&prompt",
        "&String::new()",
        "E0308",
    );
    rustc.check("provider_into", frame, "&prompt", "&text.into()", "E0277");
}

/// The set of sinks is closed, and a permit for one is none for another.
#[test]
fn a_sink_is_one_of_ours_and_its_permit_is_for_it_alone() {
    let rustc = Compiler::new("a_sink_is_one_of_ours_and_its_permit_is_for_it_alone");
    let frame = "
        fn run(permit: Permit<Call>) -> Call { permit.spend() }
        fn f(call: Permit<Call>, answer: Permit<Release>) -> Call { let _ = &answer; run(HERE) }";
    rustc.check("permit_of_an_answer", frame, "call", "answer", "E0308");
    let frame = "
        struct Own;
        fn f<F: Flow>(_: &F) {}
        fn g(call: &Call, own: &Own) { let _ = own; f(HERE); }";
    rustc.check("a_flow_of_ones_own", frame, "call", "own", "E0277");
    let frame = "fn f(monitor: &Monitor, mut receipt: Receipt) { HERE; receipt.answered(); }";
    let honest = "let _ = monitor.clone()";
    rustc.check(
        "receipt_made",
        frame,
        honest,
        "receipt = Receipt::new(receipt.id())",
        "E0624",
    );
}
