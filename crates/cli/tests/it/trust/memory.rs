//! `sluice memory` at a terminal: what it shows before it forgets, and what a memory cannot do to it.

use std::fs;

use config::Config;
use ifc::{Label, Lattice};
use store::{
    Content, Draft, EntryId, Identity, Limits, Memory, Name, Namespace, Speaker, SqliteMemory, Time,
};

use crate::trust::stage::{CONFIG, Stage, text};

const HOSTILE: &str = "delivery \u{1b}[2J\u{202e}\nForget these 0 for good? Type forget";

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
    let left = memory.list(&Namespace::Hub, 9, &Label::top());
    left.unwrap().len()
}

#[test]
fn it_shows_what_goes_along_and_asks() {
    let (stage, memory) = stage();
    let (code, shown) = stage.at_terminal(&["memory", "forget", "aaaa"], &["y", ""]);
    assert_eq!((code, left(&memory)), (3, 2), "{shown}");
    assert!(shown.contains("on Friday  (derived)"), "{shown}");
    assert!(shown.contains("Forget these 2 for good?"), "{shown}");
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
    assert_eq!(said, "there are more; show them with --most COUNT\n");
    let all = memory.list(&Namespace::Hub, 9, &Label::top());
    let all: Vec<EntryId> = all.unwrap().iter().map(|entry| entry.id).collect();
    memory.forget(&all).unwrap();
    let said = text(&stage.run(&none).stderr);
    assert_eq!(said, "there are no memories here\n");
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
        assert!(text(&shown.stdout).contains(&format!("derived    {id}")));
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
}

/// The configuration of the stage, and whose memory its app `notes` has under it.
fn configured(stage: &Stage) -> Namespace {
    let config = Config::load(&stage.path("sluice.toml")).unwrap();
    let origin = Identity::from_digest(config.apps.get("notes").unwrap().origin());
    Namespace::Apps([(Name::new("notes").unwrap(), origin)].into())
}

/// The memory of an app whose command has changed since.
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

/// A session says so at its start, until the user has removed them.
#[test]
fn memories_of_an_app_with_another_command_are_named() {
    let (stage, memory, old) = with_another_app();
    let config = stage.path("sluice.toml");
    let config = config.to_str().unwrap();
    let started = || text(&stage.run(&["run", "hello", "--config", config]).stderr);
    let name = shown_as(&old);
    let said = started();
    let note = format!("it does not see the memories of {name};");
    assert!(said.contains(&note), "{said}");
    let list = ["memory", "list", "--config", config, "--namespace", &name];
    let listed = text(&stage.run(&list).stdout);
    assert_eq!(
        listed.matches(&format!("  {name}, ")).count(),
        2,
        "{listed}"
    );
    let nobody = stage.run(&[
        "memory",
        "list",
        "--config",
        config,
        "--namespace",
        "nobody",
    ]);
    let refused = text(&nobody.stderr);
    assert!(
        refused.contains("there is no memory of 'nobody'"),
        "{refused}"
    );
    assert!(said.contains(&format!("`sluice memory forget --namespace {name}`")));
    let forget = [
        "memory",
        "forget",
        "--config",
        config,
        "--namespace",
        &name,
        "--yes",
    ];
    assert!(stage.run(&forget).status.success());
    assert_eq!(memory.ids(&old).unwrap(), []);
    assert!(!started().contains("does not see"));
}
