//! `sluice trust`: what it shows, what it keeps, and when that no longer holds.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use crate::trust::stage::{CONFIG, Stage, text};

const CHECK: [&str; 2] = ["policy", "check"];

fn trusted() -> Stage {
    let stage = Stage::new(CONFIG);
    let (code, shown) = stage.at_terminal(&["trust"], &["trust"]);
    assert_eq!(code, 0, "{shown}");
    stage
}

fn code(stage: &Stage, arguments: &[&str]) -> (i32, String) {
    let output = stage.run(arguments);
    let said = text(&output.stdout) + &text(&output.stderr);
    (output.status.code().unwrap(), said)
}

#[test]
fn it_shows_what_the_file_may_do_and_asks() {
    let stage = Stage::new(CONFIG);
    // A word that is not offered is asked about again; an empty line is a no.
    let (code, shown) = stage.at_terminal(&["trust"], &["y", ""]);
    assert_eq!(code, 3, "{shown}");
    assert_eq!(
        shown.matches("Type trust to trust it [no]: ").count(),
        2,
        "{shown}"
    );
    for part in [
        "/app/run-me --fast",
        "/etc",
        "writable",
        "NOTES_TOKEN",
        "THEIR_KEY",
        "127.0.0.1",
        "collector.example:25",
        "notes.add",
        "app.toml",
        "notes.cedar",
    ] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    assert_eq!(self::code(&stage, &CHECK).0, 1);
}

/// What a stranger would rather not have read: places inside of the user's network, and limits that admit all but ask for
/// nothing by the word `any`.
#[test]
fn it_shows_what_is_said_in_other_words() {
    let config = r#"
[app.notes]
command = ["/app/run-me"]
egress = [{ listen = 2525, to = "mail.example.org:25", addresses = ["10.0.0.5"] }]
connect = ["127.0.0.1:5432"]
domain = [{ name = "example.org", limit = ["untrusted", "secret"], addresses = ["169.254.169.254"] }]
answer = { addresses = ["untrusted"] }
other_tools = { effect = "irreversible", limit = ["untrusted", "secret"] }

[app.notes.tools.wish]
effect = "write"
limit = ["untrusted"]

[app.notes.tools.raised]
effect = "write"
limit = []
parameters = { text = "string" }
cedar = '''@limit("untrusted, secret") permit (principal, action, resource) when { context.arguments.text == "x" };'''

[app.notes.tools.mine]
effect = "write"
limit = ["secret"]

[app.notes.tools.tell]
effect = "irreversible"
limit = []
parameters = ["text"]
arguments.text.limit = ["untrusted", "secret"]

[app.notes.tools.search]
effect = "read"
limit = "any"

[app.notes.tools.find]
effect = "read"
limit = ["untrusted"]

[app.notes.tools.ask]
effect = "read-once"
limit = []
parameters = ["about"]
[app.notes.tools.ask.arguments.about]
limit = "any"

[app.quiet]
command = ["/app/run-me"]
domain = [{ name = "example.org" }]

[app.quiet.tools.look]
effect = "read"
limit = "any"

[app.far]
url = "https://far.example.org/mcp"
addresses = ["192.168.1.1"]
ca_file = "ca.pem"
"#;
    let stage = Stage::new(config);
    stage.write("ca.pem", "");
    let (_, shown) = stage.at_terminal(&["trust"], &[""]);
    for part in [
        "notes to 127.0.0.1:5432, with any data that it was given",
        "notes to mail.example.org:25, also at the private address 10.0.0.5, with any data that it was given",
        "send      secrets to where notes connects, without asking you, by notes.ask (read-once), notes.search (read)\r\n",
        "send      secrets in what a call says, without asking you, by notes.mine (write), notes.tell (irreversible)\r\n",
        "port 443, 80, unasked with secret, also at the private address 169.254.169.254",
        "links from what notes returns as they are, written by untrusted",
        "act       without asking you: notes.raised (write), notes.(tools without a rule) (irreversible)",
        "act       on untrusted text, without asking you, unless a secret is in it: notes.wish (write)",
        "far: the server at https://far.example.org/mcp, also at the private address 192.168.1.1",
        "ca.pem for far",
        "give      far your login at https://far.example.org, if you have one",
        "by its labels and limits which results are trusted",
    ] {
        assert!(shown.contains(part), "{part} is missing in {shown}");
    }
    for part in ["notes.find", "quiet.look"] {
        assert!(!shown.contains(part), "{part} is in {shown}");
    }
}

/// Whether in many lines or in a long one: what stands above it has left the terminal when the question comes.
#[test]
fn what_is_too_long_to_be_read_is_not_asked_about() {
    let app = |number: usize| format!("[app.n{number}]\ncommand = [\"/app/run\"]\n");
    let many: String = (0..100).map(app).collect();
    let long = CONFIG.replace("--fast", &"x ".repeat(4_000));
    for config in [many, long] {
        let stage = Stage::new(&config);
        let (code, shown) = stage.at_terminal(&["trust"], &["trust"]);
        assert_eq!(code, 1, "{shown}");
        assert!(
            shown.contains("lines, more than the 60 that can be reviewed"),
            "{shown}"
        );
        assert!(!shown.contains("collector.example"), "{shown}");
    }
}

#[test]
fn trust_is_given_once_and_kept_for_the_owner_only() {
    let stage = trusted();
    assert_eq!(code(&stage, &CHECK).0, 0);
    let folder = stage.state("trust");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&folder), 0o700);
    let files: Vec<_> = fs::read_dir(&folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    assert_eq!(files.len(), 1);
    assert_eq!(mode(files.first().unwrap()), 0o600);
    // What others could have written, or put in its place, is nobody's word.
    let folder = stage.state("trust");
    for (path, open, closed) in [
        (files.first().unwrap(), 0o666, 0o600),
        (&folder, 0o777, 0o700),
    ] {
        fs::set_permissions(path, fs::Permissions::from_mode(open)).unwrap();
        let (refused, said) = code(&stage, &CHECK);
        assert_eq!(refused, 1, "{said}");
        assert!(said.contains("other users have access to it"), "{said}");
        fs::set_permissions(path, fs::Permissions::from_mode(closed)).unwrap();
        assert_eq!(code(&stage, &CHECK).0, 0);
    }
    // Nor is anything written there.
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
    let (code, shown) = stage.at_terminal(&["trust"], &["trust"]);
    assert_eq!(code, 1, "{shown}");
}

#[test]
fn a_change_of_any_of_its_files_ends_the_trust() {
    for name in ["sluice.toml", "app.toml", "notes.cedar"] {
        let stage = trusted();
        let old = fs::read_to_string(stage.path(name)).unwrap();
        stage.write(name, &format!("{old}\n"));
        let (refused, said) = code(&stage, &CHECK);
        assert_eq!(refused, 1, "{name}: {said}");
        assert!(
            said.contains("changed") && said.contains(name),
            "{name}: {said}"
        );
        stage.write(name, &old);
        assert_eq!(code(&stage, &CHECK).0, 0, "{name}");
    }
}

/// Who can exchange the certificates that are believed can stand between the app and its server.
#[test]
fn a_change_of_the_certificates_that_it_believes_ends_the_trust() {
    let config = "[app.far]\nurl = \"https://far.example.org/mcp\"\nca_file = \"ca.pem\"\n";
    let stage = Stage::new(config);
    stage.write("ca.pem", "one\n");
    let (trusted, shown) = stage.at_terminal(&["trust"], &["trust"]);
    assert_eq!(trusted, 0, "{shown}");
    assert_eq!(code(&stage, &CHECK).0, 0);
    stage.write("ca.pem", "two\n");
    let (refused, said) = code(&stage, &CHECK);
    assert_eq!(refused, 1, "{said}");
    assert!(
        said.contains("changed") && said.contains("ca.pem"),
        "{said}"
    );
}

#[test]
fn trust_does_not_move_with_the_file() {
    let stage = trusted();
    let other = stage.path("elsewhere");
    fs::create_dir(&other).unwrap();
    for name in ["sluice.toml", "app.toml", "notes.cedar"] {
        fs::copy(stage.path(name), other.join(name)).unwrap();
    }
    let output = stage.sluice(&CHECK).current_dir(&other).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
}

#[test]
fn a_linked_folder_is_the_folder_that_it_leads_to() {
    let stage = trusted();
    let link = stage.home("link");
    std::os::unix::fs::symlink(stage.path(""), &link).unwrap();
    let mut command = stage.sluice(&CHECK);
    let output = command.current_dir(&link).output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
}

#[test]
fn trust_is_listed_and_revoked() {
    let stage = trusted();
    let file = stage.path("sluice.toml");
    let (_, listed) = code(&stage, &["trust", "--list"]);
    assert!(listed.contains(file.to_str().unwrap()), "{listed}");
    assert_eq!(code(&stage, &["trust", "--revoke"]).0, 0);
    assert_eq!(code(&stage, &CHECK).0, 1);
    let (again, said) = code(&stage, &["trust", "--revoke", file.to_str().unwrap()]);
    assert_eq!(again, 1);
    assert!(said.contains("not trusted"), "{said}");
}

#[test]
fn without_a_terminal_nothing_is_trusted() {
    let stage = Stage::new(CONFIG);
    let (refused, said) = code(&stage, &["trust"]);
    assert_eq!(refused, 1);
    assert!(
        said.contains("terminal") && said.contains("--config"),
        "{said}"
    );
    assert_eq!(code(&stage, &CHECK).0, 1);
}

#[test]
fn at_a_terminal_a_command_asks_by_itself() {
    let stage = Stage::new(CONFIG);
    let (refused, shown) = stage.at_terminal(&CHECK, &["no"]);
    assert_eq!(refused, 1, "{shown}");
    let (allowed, shown) = stage.at_terminal(&CHECK, &["trust"]);
    assert_eq!(allowed, 0, "{shown}");
    assert_eq!(code(&stage, &CHECK).0, 0);
}

#[test]
fn a_configuration_cannot_paint_its_own_summary() {
    let config = CONFIG.replace("--fast", "\\u001b[2J\\u202e\\nstart nothing");
    let stage = Stage::new(&config);
    let (_, shown) = stage.at_terminal(&["trust"], &[""]);
    assert!(
        !shown.contains("\u{1b}[2J") && !shown.contains('\u{202e}'),
        "{shown}"
    );
    assert!(
        shown.contains("\\u{1b}[2J\\u{202e}\\nstart nothing"),
        "{shown}"
    );
}
