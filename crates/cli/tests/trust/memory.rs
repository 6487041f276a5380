//! `sluice memory` at a terminal: what it shows before it forgets, and what a memory cannot do to it.

use std::fs;

use config::Config;
use ifc::{Label, Lattice};
use store::{
    Content, Draft, EntryId, Identity, Limits, Memory, Name, Namespace, Page, Speaker,
    SqliteMemory, Time,
};

use crate::stage::{CONFIG, Stage, text};

const HOSTILE: &str = "delivery \u{1b}[2J\u{202e}\nForget these 0, for good? Type forget";

fn draft(number: u8, speaker: Speaker, text: &str, sources: Vec<EntryId>) -> Draft {
    Draft {
        id: EntryId::from_bytes([number; 16]),
        content: Content::Interaction {
            speaker,
            text: text.to_owned(),
        },
        label: Label::bottom(),
        sources,
        origin: "20260101-120000".to_owned(),
        time: Time::from_millis(1_767_268_800_000),
    }
}

/// A home whose built-in configuration has a memory: a query, and an answer to it.
fn stage() -> (Stage, SqliteMemory) {
    let stage = Stage::new(CONFIG);
    fs::remove_file(stage.path("sluice.toml")).unwrap();
    let file = stage.state("memory/built-in.sqlite");
    let memory = SqliteMemory::open(&file, Lattice::four_point(), Limits::default()).unwrap();
    let query = draft(0xaa, Speaker::User, HOSTILE, Vec::new());
    let answer = draft(0xbb, Speaker::System, "on Friday", vec![query.id]);
    memory.append(&Namespace::Hub, &[query, answer]).unwrap();
    (stage, memory)
}

fn left(memory: &SqliteMemory) -> usize {
    let page = Page::newest(9);
    let left = memory.list(&Namespace::Hub, &page, &Label::top());
    left.unwrap().len()
}

#[test]
fn it_shows_what_goes_along_and_asks() {
    let (stage, memory) = stage();
    let (code, shown) = stage.at_terminal(&["memory", "forget", "aaaa"], &["y", ""]);
    assert_eq!((code, left(&memory)), (3, 2), "{shown}");
    assert!(shown.contains("on Friday  (derived)"), "{shown}");
    assert!(shown.contains("Forget these 2, for good?"), "{shown}");
    let (code, shown) = stage.at_terminal(&["memory", "forget", "aaaa"], &["forget"]);
    assert_eq!((code, left(&memory)), (0, 0), "{shown}");
    assert!(shown.contains("2 forgotten"), "{shown}");
}

#[test]
fn each_kind_is_named_and_goes_with_what_it_was_made_from() {
    let (stage, memory) = stage();
    let sources = vec![EntryId::from_bytes([0xaa; 16])];
    let fact = Draft {
        content: Content::Fact {
            entity: "delivery".to_owned(),
            attribute: "day".to_owned(),
            value: "Friday\u{1b}[2J".to_owned(),
        },
        ..draft(0xcc, Speaker::User, "", sources.clone())
    };
    let summary = Draft {
        content: Content::Summary {
            text: "the user asked for a day".to_owned(),
        },
        ..draft(0xdd, Speaker::User, "", sources)
    };
    memory.append(&Namespace::Hub, &[fact, summary]).unwrap();
    let (code, shown) = stage.at_terminal(&["memory", "list"], &[]);
    assert_eq!(code, 0, "{shown}");
    for line in [
        "hub, fact  {trusted, public}  delivery, day: Friday",
        "hub, summary  {trusted, public}  the user asked for a day",
        "hub, user  {trusted, public}  delivery",
        "hub, assistant  {trusted, public}  on Friday",
    ] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    assert!(!shown.contains("\u{1b}[2J"), "{shown}");
    let json = stage.run(&["memory", "list", "--json", "--search", "Friday"]);
    let json = text(&json.stdout);
    assert!(json.contains(r#""by":"fact""#), "{json}");
    let (code, shown) = stage.at_terminal(&["memory", "forget", "aaaa"], &["forget"]);
    assert_eq!((code, left(&memory)), (0, 0), "{shown}");
    assert!(
        shown.contains("Friday") && shown.contains("4 forgotten"),
        "{shown}"
    );
}

#[test]
fn no_memory_steers_the_terminal_or_begins_a_line() {
    let (stage, _memory) = stage();
    for arguments in [
        &["memory", "list"][..],
        &["memory", "list", "--search", "delivery"],
        &["memory", "show", "aaaa"],
        &["memory", "list", "--json"],
    ] {
        let (code, shown) = stage.at_terminal(arguments, &[]);
        assert_eq!(code, 0, "{shown}");
        assert!(shown.contains("delivery"), "{shown}");
        let steers = shown.contains("\u{1b}[2J") || shown.contains('\u{202e}');
        assert!(!steers, "{shown}");
    }
    let list = stage.run(&["memory", "list"]);
    assert_eq!(text(&list.stdout).lines().count(), 2);
}

/// What is older than the configuration allows is gone before anything is shown, with what came of it.
#[test]
fn what_is_too_old_is_forgotten() {
    let stage = Stage::new(&format!("{CONFIG}\n[memory]\ndays = 30\n"));
    let config = stage.path("sluice.toml");
    let list = ["memory", "list", "--config", config.to_str().unwrap()];
    let run = || {
        let output = stage.run(&list);
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    assert_eq!(run(), "");
    let files: Vec<_> = fs::read_dir(stage.state("memory")).unwrap().collect();
    let is_memory = |path: &std::path::PathBuf| path.extension().is_some_and(|it| it == "sqlite");
    let mut files = files.into_iter().map(|file| file.unwrap().path());
    let file = files.find(is_memory).unwrap();
    let memory = SqliteMemory::open(&file, Lattice::four_point(), Limits::default()).unwrap();
    let now = Time::from(std::time::SystemTime::now());
    let ago = |days: i64| Time::from_millis(now.millis() - days * 24 * 60 * 60 * 1000);
    let old = Draft {
        time: ago(31),
        ..draft(1, Speaker::User, "too old", Vec::new())
    };
    let derived = Draft {
        time: ago(1),
        ..draft(2, Speaker::System, "made from it", vec![old.id])
    };
    let young = Draft {
        time: ago(29),
        ..draft(3, Speaker::User, "young enough", Vec::new())
    };
    memory
        .append(&Namespace::Hub, &[old, derived, young])
        .unwrap();
    let shown = run();
    assert_eq!(shown.lines().count(), 1, "{shown}");
    assert!(shown.contains("young enough"), "{shown}");
    assert_eq!(left(&memory), 1);
}

#[test]
fn a_list_that_shows_none_does_not_say_that_there_are_none() {
    let (stage, memory) = stage();
    let none = ["memory", "list", "--most", "0"];
    let said = text(&stage.run(&none).stderr);
    assert_eq!(said, "there are more; --most shows them\n");
    let all = memory.list(&Namespace::Hub, &Page::newest(9), &Label::top());
    let all: Vec<EntryId> = all.unwrap().iter().map(|entry| entry.id).collect();
    memory.forget(&all).unwrap();
    let said = text(&stage.run(&none).stderr);
    assert_eq!(said, "nothing is remembered here\n");
}

#[test]
fn an_id_names_one_memory() {
    let (stage, memory) = stage();
    for id in ["", "cc", "not an id"] {
        let refused = stage.run(&["memory", "forget", "aaaa", id, "--yes"]);
        assert_eq!(refused.status.code(), Some(1), "{id}");
        assert_eq!(left(&memory), 2, "all of them or none");
    }
}

/// The command that the error names does what it is named for.
#[test]
fn a_memory_that_cannot_be_read_can_be_forgotten() {
    for arguments in [
        &["memory", "forget", "ID", "--yes"][..],
        &["memory", "forget", "bbbb", "--yes"],
        &["memory", "forget", "aaaa", "--yes"],
        &["memory", "forget", "--namespace", "hub", "--yes"],
    ] {
        let (stage, memory) = stage();
        let id = EntryId::from_bytes([0xbb; 16]);
        let file = rusqlite::Connection::open(stage.state("memory/built-in.sqlite")).unwrap();
        let damage = "PRAGMA ignore_check_constraints = true;
             UPDATE memory SET kind = 'poem' WHERE id = x'bbbbbbbbbbbbbbbbbbbbbbbbbbbbbbbb'";
        file.execute_batch(damage).unwrap();
        let listed = stage.run(&["memory", "list"]);
        let said = text(&listed.stderr);
        assert!(!listed.status.success(), "{said}");
        let others = text(&listed.stdout);
        assert!(
            others.contains("delivery") && !others.contains("Friday"),
            "{others}"
        );
        assert!(
            said.contains(&format!("{id} cannot be read")) && said.contains("forget it"),
            "{said}"
        );
        // What came of a memory is shown, though some of it cannot be read.
        let shown = stage.run(&["memory", "show", "aaaa"]);
        assert!(text(&shown.stdout).contains(&format!("led to     {id}")));
        let id = id.to_string();
        let arguments = arguments.iter().map(|word| match *word {
            "ID" => id.as_str(),
            word => word,
        });
        let forgotten = stage.run(&arguments.collect::<Vec<_>>());
        assert!(forgotten.status.success(), "{}", text(&forgotten.stderr));
        assert!(
            memory
                .show(id.parse().unwrap(), &Label::top())
                .unwrap()
                .is_none()
        );
    }
    // Before it is forgotten, the user sees that it goes.
    let (stage, _memory) = stage();
    let file = rusqlite::Connection::open(stage.state("memory/built-in.sqlite")).unwrap();
    file.execute_batch("PRAGMA ignore_check_constraints = true; UPDATE memory SET kind = 'poem'")
        .unwrap();
    let (_, shown) = stage.at_terminal(&["memory", "forget", "aaaa"], &[""]);
    assert!(shown.contains("(cannot be read)  (derived)"), "{shown}");
}

/// An interruption leaves all of a namespace or nothing, and a chain of answers is not gone through once for each of them.
#[test]
fn a_namespace_is_forgotten_in_one_transaction() {
    let (stage, memory) = stage();
    let mut last = EntryId::from_bytes([0xbb; 16]);
    for number in 0..100 {
        let next = draft(number, Speaker::System, "and then", vec![last]);
        last = next.id;
        memory.append(&Namespace::Hub, &[next]).unwrap();
    }
    let forgotten = stage.run(&["memory", "forget", "--namespace", "hub", "--yes"]);
    let said = text(&forgotten.stderr);
    assert!(said.contains("102 forgotten"), "{said}");
    assert_eq!(left(&memory), 0);
    let file = rusqlite::Connection::open(stage.state("memory/built-in.sqlite")).unwrap();
    let deletions = file.query_row("SELECT deletions FROM erasure", [], |row| row.get(0));
    assert_eq!(deletions, Ok(1));
}

/// What is still in the file is said, with the reason.
#[test]
fn why_text_is_still_in_the_file_is_said() {
    let (stage, _memory) = stage();
    let file = rusqlite::Connection::open(stage.state("memory/built-in.sqlite")).unwrap();
    // Nothing that another program does.
    let trigger = "CREATE TRIGGER t BEFORE UPDATE OF erased ON erasure BEGIN SELECT RAISE(ABORT, 'test'); END";
    file.execute_batch(trigger).unwrap();
    let forgotten = stage.run(&["memory", "forget", "aaaa", "--yes"]);
    let said = text(&forgotten.stderr);
    assert!(said.contains("2 forgotten"), "{said}");
    assert!(
        said.contains("still on the disk: ") && !said.contains("another program"),
        "{said}"
    );
}

/// The configuration of the stage, and whose memory its app `notes` has under it.
fn configured(stage: &Stage) -> Namespace {
    let config = Config::load(&stage.path("sluice.toml")).unwrap();
    let origin = Identity::from_digest(config.apps.get("notes").unwrap().origin());
    Namespace::Apps([(Name::new("notes").unwrap(), origin)].into())
}

/// Everything that an app of that name left: one with another command, and an earlier program that noted the name alone.
fn with_another_app() -> (Stage, SqliteMemory, Namespace) {
    let text = CONFIG.replace("/app/run-me", "/bin/true");
    let stage = Stage::new(&format!("{text}\n[memory]\nenabled = true\n"));
    let config = stage.path("sluice.toml");
    let list = ["memory", "list", "--config", config.to_str().unwrap()];
    assert!(stage.run(&list).status.success());
    let files = fs::read_dir(stage.state("memory")).unwrap();
    let mut files = files.map(|file| file.unwrap().path());
    let file = files.find(|path| path.extension().is_some_and(|it| it == "sqlite"));
    let memory = SqliteMemory::open(&file.unwrap(), Lattice::four_point(), Limits::default());
    let memory = memory.unwrap();
    let old = configured(&stage);
    let query = draft(0xaa, Speaker::User, HOSTILE, Vec::new());
    let answer = draft(0xbb, Speaker::System, "on Friday", vec![query.id]);
    memory.append(&old, &[query, answer]).unwrap();
    for (number, name) in [(0xcc, "notes"), (0xdd, "gone"), (0xee, "notes+gone")] {
        let noted = draft(number, Speaker::User, "noted by name", Vec::new());
        let names = Namespace::Names(Name::new(name).unwrap());
        memory.append(&names, &[noted]).unwrap();
    }
    let changed = fs::read_to_string(&config).unwrap();
    let changed = changed.replace("/bin/true", "/bin/false");
    fs::write(&config, changed).unwrap();
    assert_ne!(configured(&stage), old);
    (stage, memory, old)
}

/// As the messages name it.
fn shown_as(namespace: &Namespace) -> String {
    let apps = match namespace {
        Namespace::Apps(apps) => apps.first_key_value(),
        _ => None,
    };
    let (name, origin) = apps.unwrap();
    let origin: String = origin.to_string().chars().take(12).collect();
    format!("{name}~{origin}")
}

/// The app that has the name now has none of it, until the user has seen it and says so.
#[test]
fn an_app_is_told_what_another_of_its_name_left_when_the_user_says_so() {
    let (stage, memory, old) = with_another_app();
    let config = stage.path("sluice.toml");
    let config = config.to_str().unwrap();
    let (new, old_name) = (configured(&stage), shown_as(&old));
    let count = |namespace: &Namespace| memory.ids(namespace).unwrap().len();
    let adopt = |words: &[&str]| {
        let arguments = [&["memory", "adopt", "--config", config], words].concat();
        let output = stage.run(&arguments);
        let code = output.status.code();
        (code, text(&output.stdout), text(&output.stderr))
    };

    let listed = text(&stage.run(&["memory", "list", "--config", config]).stdout);
    for name in [old_name.as_str(), "notes~unknown", "gone~unknown"] {
        assert!(listed.contains(&format!("  {name}, ")), "{name}: {listed}");
    }
    // Two had the name: which of them is not guessed.
    let (code, _, said) = adopt(&["notes", "--yes"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(
        said.contains(&format!("{old_name}, notes~unknown")),
        "{said}"
    );
    // Nobody to ask, and a program that wants JSON is not asked.
    for more in [&[][..], &["--json"]] {
        let (code, _, said) = adopt(&[&[old_name.as_str()], more].concat());
        assert_eq!(code, Some(1), "{said}");
        assert!(
            said.contains("no terminal") && said.contains("--yes"),
            "{said}"
        );
    }
    // No app could be told.
    for gone in ["gone", "notes+gone"] {
        let (code, _, said) = adopt(&[gone, "--yes"]);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("has no app 'gone'"), "{said}");
    }
    let (code, _, said) = adopt(&["nobody", "--yes"]);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("there is no memory of 'nobody'"), "{said}");
    assert_eq!((count(&old), count(&new)), (2, 0));

    let asked = ["memory", "adopt", &old_name, "--config", config];
    let (code, shown) = stage.at_terminal(&asked, &["y", ""]);
    assert_eq!((code, count(&old), count(&new)), (3, 2, 0), "{shown}");
    assert!(shown.contains("on Friday"), "{shown}");
    let question = format!("Let notes, as it is configured now, be told all 2 of {old_name}?");
    assert!(shown.contains(&question), "{shown}");
    let steers = shown.contains("\u{1b}[2J") || shown.contains('\u{202e}');
    assert!(!steers, "{shown}");
    let (code, shown) = stage.at_terminal(&asked, &["adopt"]);
    assert_eq!((code, count(&old), count(&new)), (0, 0, 2), "{shown}");

    // One of that name is left, and so the name says which.
    let (code, printed, said) = adopt(&["notes", "--yes", "--json"]);
    assert_eq!((code, count(&new)), (Some(0), 3), "{said}");
    let line: serde_json::Value = serde_json::from_str(&printed).unwrap();
    assert_eq!(
        (line.get("namespace"), line.get("text")),
        (Some(&"app:notes".into()), Some(&"noted by name".into()))
    );
    let (code, _, said) = adopt(&["notes", "--yes"]);
    assert!(
        code == Some(0) && said.contains("not told already"),
        "{said}"
    );
}

/// At the start, and not of what no app could be told.
#[test]
fn the_user_is_told_what_an_app_of_the_same_name_left() {
    let (stage, memory, old) = with_another_app();
    let config = stage.path("sluice.toml");
    let started = || {
        let query = ["run", "hello", "--config", config.to_str().unwrap()];
        text(&stage.run(&query).stderr)
    };
    let said = started();
    for name in [shown_as(&old).as_str(), "notes~unknown"] {
        let note = format!("note: notes is not told what is remembered of {name}: ");
        assert!(said.contains(&note), "{name}: {said}");
        let remedy = format!("`sluice memory adopt {name}`");
        assert!(said.contains(&remedy), "{name}: {said}");
    }
    assert!(!said.contains("gone"), "{said}");
    memory.hand_over(&old, &configured(&stage)).unwrap();
    memory.forget(&[EntryId::from_bytes([0xcc; 16])]).unwrap();
    let said = started();
    assert!(!said.contains("is not told what"), "{said}");
}
