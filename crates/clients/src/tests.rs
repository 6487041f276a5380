use std::fs;
use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use super::*;

/// A home with one client, whose file has this text.
struct Stage {
    folder: TempDir,
    file: ClientFile,
}

impl Stage {
    fn new(client: &str, text: Option<&str>) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let client = CLIENTS.iter().find(|it| it.id == client).unwrap();
        let machine = machine(folder.path());
        let path = find_in(&machine, client);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        if let Some(text) = text {
            fs::write(&path, text).unwrap();
        }
        let scope = Scope::User;
        let file = ClientFile {
            client,
            scope,
            path,
        };
        Self { folder, file }
    }

    fn journal(&self) -> Journal {
        Journal::open(&self.folder.path().join("data")).unwrap()
    }

    fn bytes(&self) -> String {
        String::from_utf8(fs::read(&self.file.path).unwrap()).unwrap()
    }

    fn init(&self, plan: &dyn Fn(&Opened) -> Vec<Change>) -> Result<Option<Edited>, Problem> {
        self.journal().change("1", &self.file, &[], plan)
    }

    fn undo(&self) -> Vec<Result<Undone, Problem>> {
        let journal = self.journal();
        let records = journal.records().unwrap().into_iter().rev();
        let undo = records.map(|record| {
            let Kind::File(change) = &record.kind else {
                panic!()
            };
            let undone = journal.undo(change, &|_| false)?;
            journal.remove(&record)?;
            Ok(undone)
        });
        undo.collect()
    }
}

fn machine(home: &Path) -> Machine {
    let home = home.join("home");
    Machine::new(
        &|name| (name == "HOME").then(|| home.clone()),
        &home.join("project"),
    )
    .unwrap()
}

fn find_in(machine: &Machine, client: &Client) -> PathBuf {
    let sign = match client.id {
        "vscode" => machine.support.join("Code/User"),
        "claude-desktop" => machine.support.join("Claude"),
        "opencode" | "goose" => machine.config.join(client.id),
        id => machine
            .home
            .join(format!(".{}", id.split('-').next().unwrap())),
    };
    fs::create_dir_all(sign).unwrap();
    let found = find(machine).into_iter().find(|it| it.client == client);
    found.unwrap().path
}

/// All servers of all lists go behind a gateway.
fn all(opened: &Opened) -> Vec<Change> {
    let lists = opened.lists.iter();
    let change = |list: &Servers| {
        let direct = list.servers.iter().filter(|(_, entry)| !is_ours(entry));
        let take: Vec<String> = direct.map(|(name, _)| name.clone()).collect();
        let new = Gateway {
            program: "/usr/bin/sluice".to_owned(),
            arguments: vec!["gateway".to_owned()],
            env: [("SLUICE_A_KEY".to_owned(), "é \"1\"".to_owned())].into(),
            variables: ["TOKEN".to_owned()].into(),
        };
        let put = vec![(
            list.scope.entry().to_owned(),
            gateway(opened.file.client, &new, None),
        )];
        (!take.is_empty() || list.servers.is_empty()).then(|| Change {
            place: list.place.clone(),
            take,
            put,
        })
    };
    lists.filter_map(change).collect()
}

fn wrap(opened: &Opened) -> Vec<Change> {
    let list = opened.lists.first().unwrap();
    let direct = list.servers.iter().filter(|(_, entry)| !is_ours(entry));
    let change = |(name, entry): &(String, Value)| Change {
        place: [list.place.as_slice(), std::slice::from_ref(name)].concat(),
        take: Vec::new(),
        put: wrapped("/usr/bin/sluice", name, entry).unwrap(),
    };
    direct.map(change).collect()
}

const CLAUDE: &str = "{\n  \"numStartups\": 12,\n  \"tipsHistory\": {},\n  \"mcpServers\": {\n    \"notes\": {\n      \"type\": \"stdio\",\n      \"command\": \"npx\",\n      \"args\": [\"-y\", \"notes-mcp\"],\n      \"env\": {\"KEY\": \"1\"}\n    },\n    \"far\": {\"type\": \"http\", \"url\": \"https://a.example/mcp\"}\n  },\n  \"projects\": {\n    \"/home/x/a\": {\"allowedTools\": [], \"mcpServers\": {\"db\": {\"command\": \"db\"}}},\n    \"/home/x/b\": {\"mcpServers\": {}}\n  },\n  \"last\": 1.50\n}";
const VSCODE: &str = "\u{feff}{\r\n\t// shared by the team\r\n\t\"inputs\": [{ \"type\": \"promptString\", \"id\": \"tok\" }],\r\n\t\"servers\": {\r\n\t\t/* \"old\": { \"command\": \"foo\" }, */\r\n\t\t\"notes\": { \"type\": \"stdio\", \"command\": \"npx\", \"args\": [\"-y\"], \"env\": { \"TOKEN\": \"${input:tok}\" } }, // about notes\r\n\t\t\"remote\": { \"type\": \"sse\", \"url\": \"https://m.example/sse\" },\r\n\t},\r\n}\r\n";
const CODEX: &str = "# mine\nmodel = \"m\"\n\n[mcp_servers.notes] # notes\ncommand = \"npx\"\nargs = [\n  \"-y\", # yes\n  \"notes\",\n]\n\n[mcp_servers.notes.env]\nKEY = \"1\"\n\n# about the profile\n[profiles.x]\nmodel = '''\n[mcp_servers.no]\n'''\n\n[mcp_servers.\"a b\"]\ncommand = \"x\"";
const GOOSE: &str = "GOOSE_MODEL: m # mine\nextensions:\n  developer:\n    type: builtin\n    name: developer\n    enabled: true\n  # about notes\n  notes:\n    type: stdio\n    cmd: npx\n    args:\n    - -y\n    - notes\n    envs: {}\n    timeout: 300\n\n# the end\nGOOSE_MODE: auto\n";

/// Real files, by client.
fn shapes() -> Vec<(&'static str, String)> {
    let projects: Vec<String> = (0..3_000).map(|at| {
        format!("    \"/home/x/project-{at}\": {{\n      \"history\": [\"{}\"],\n      \"mcpServers\": {{}}\n    }}", "é\\n ".repeat(60))
    }).collect();
    let large = CLAUDE.replace(
        "\"projects\": {",
        &format!("\"projects\": {{\n{},", projects.join(",\n")),
    );
    assert!(large.len() > 1 << 20);
    let mut all: Vec<(&str, String)> = [
        ("claude-code", CLAUDE),
        ("claude-code", "{\"mcpServers\":{\"a\":{\"command\":\"x\"},\"b\":{\"command\":\"y\"}}}"),
        ("claude-code", "{\n  \"a\": {}\n}\n"),
        ("claude-code", "{}"),
        ("claude-desktop", "{\r\n    \"mcpServers\": {\r\n        \"a\": {\r\n            \"command\": \"x\"\r\n        }\r\n    }\r\n}"),
        ("cursor", "{\n\t\"mcpServers\": {\n\t\t\"ünï\": {\"command\": \"x\", \"args\": []}\n\t}\n}\n"),
        ("cursor", "{\"mcpServers\": { /* none */ }}\n"),
        ("cursor", "{\n  \"mcpServers\": {\n    // none yet\n  }\n}\n"),
        ("cursor", "{ \"a\": 1, \"mcpServers\": {\"x\": {\"command\": \"x\"}, // one\n \"y\": {\"command\": \"y\"} /* two */ , } }"),
        ("vscode", VSCODE),
        ("gemini-cli", "{\n  \"theme\": \"x\",\n  // servers\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\", \"cwd\": \"/tmp\"} // a\n    // after\n  },\n  \"z\": null\n}\n"),
        ("opencode", "{\n  \"$schema\": \"https://opencode.ai/config.json\",\n  \"mcp\": {\n    \"a\": {\"type\": \"local\", \"command\": [\"x\", \"y\"], \"enabled\": true}\n  }\n}\n"),
        ("opencode", "{\"mcp\": {\"servers\": {\"a\": {\"type\": \"local\", \"command\": [\"x\"], \"environment\": {\"K\": \"1\"}}}, \"timeout\": 5}}"),
        ("opencode", "{\"mcp\": {\"servers\": {\"type\": \"local\", \"command\": [\"x\"]}}}"),
        ("codex", CODEX),
        ("codex", ""),
        ("codex", "[mcp_servers]\nb = { command = \"y\" }\n[mcp_servers.a]\ncommand = \"x\"\n[tui]\nx = 1\n"),
        ("goose", GOOSE),
        ("goose", "extensions: {}\nA: b\n"),
        ("goose", "A: b"),
    ].map(|(client, text)| (client, text.to_owned())).into();
    all.push(("codex", CODEX.replace('\n', "\r\n")));
    all.push(("goose", GOOSE.replace('\n', "\r\n")));
    all.push(("claude-code", large));
    all
}

#[test]
fn init_then_undo_gives_the_same_bytes() {
    for (client, text) in shapes() {
        let stage = Stage::new(client, Some(&text));
        let path = &stage.file.path;
        fs::set_permissions(path, fs::Permissions::from_mode(0o640)).unwrap();
        let edited = stage.init(&all);
        let edited = edited
            .unwrap_or_else(|problem| panic!("{client} {text}: {problem}"))
            .unwrap();
        let now = stage.file.open().unwrap();
        for list in &now.lists {
            let direct = list
                .servers
                .iter()
                .filter(|(name, it)| !is_ours(it) && name != "developer");
            assert!(
                direct.count() <= usize::from(client == "goose"),
                "{edited:?}"
            );
        }
        assert!(
            now.lists
                .first()
                .unwrap()
                .servers
                .iter()
                .any(|(name, _)| name == "sluice")
        );
        // Each line that is not an entry's is still there, as it was.
        let kept = |line: &&str| {
            let is_comment = ["//", "/*", "# "]
                .iter()
                .any(|it| line.trim_start().starts_with(it));
            is_comment
                || ["inputs", "GOOSE", "theme", "profiles"]
                    .iter()
                    .any(|it| line.contains(it))
        };
        for line in text.split_inclusive('\n').filter(kept) {
            assert!(edited.text.contains(line), "{line:?} in {}", edited.text);
        }
        assert_eq!(
            text.starts_with('\u{feff}'),
            edited.text.starts_with('\u{feff}')
        );
        if text.contains("\r\n") {
            assert!(
                !edited.text.replace("\r\n", "").contains('\n'),
                "{:?}",
                edited.text
            );
        }
        // A second run changes nothing.
        assert_eq!(stage.init(&all).unwrap(), None);
        assert_eq!(stage.undo(), [Ok(Undone::Restored)]);
        assert_eq!(stage.bytes(), text);
        assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, 0o640);
        // Nothing is left that could hold a secret.
        assert_eq!(
            fs::read_dir(stage.folder.path().join("data"))
                .unwrap()
                .count(),
            0
        );
        assert_eq!(
            fs::read_dir(path.parent().unwrap())
                .unwrap()
                .filter(|it| it
                    .as_ref()
                    .unwrap()
                    .file_name()
                    .to_string_lossy()
                    .contains("sluice"))
                .count(),
            0
        );
    }
}

#[test]
fn a_changed_file_keeps_what_came_later() {
    let small = |(_, text): &(&str, String)| text.len() < 1 << 20;
    for (client, text) in shapes().into_iter().filter(small) {
        let stage = Stage::new(client, Some(&text));
        let before = stage.file.client.format.parse(&text).unwrap();
        stage.init(&all).unwrap();
        // The client writes another setting.
        let (from, to) = match client {
            "codex" => ("", "later = 1\n"),
            "goose" => ("", "later: 1\n"),
            _ => ("{", "{\"later\": 1, "),
        };
        let now = stage.bytes();
        let bom = match now.starts_with('\u{feff}') {
            true => "\u{feff}",
            false => "",
        };
        let body = now.trim_start_matches('\u{feff}').replacen(from, to, 1);
        let body = body.replacen(", \n", ",\n", 1);
        fs::write(&stage.file.path, format!("{bom}{body}")).unwrap();
        let undone = stage
            .undo()
            .remove(0)
            .unwrap_or_else(|problem| panic!("{client} {text} {body}: {problem}"));
        assert_eq!(
            undone,
            Undone::Entries {
                kept: vec![],
                left: vec![]
            },
            "{text}"
        );
        let mut now = stage.file.client.format.parse(&stage.bytes()).unwrap();
        let map = now.as_object_mut().unwrap();
        assert!(map.remove("later").is_some());
        // Tables that were created for the entry are empty now.
        for key in ["mcpServers", "servers", "mcp_servers", "mcp", "extensions"] {
            let is_new = before.get(key).is_none();
            if is_new {
                assert!(
                    map.remove(key)
                        .is_none_or(|it| it.as_object().unwrap().is_empty())
                );
            }
        }
        assert_eq!(now, before, "{text}\n{}", stage.bytes());
        assert!(stage.undo().is_empty());
    }
}

#[test]
fn an_entry_that_both_changed_stays() {
    let stage = Stage::new("claude-code", Some(CLAUDE));
    stage.init(&all).unwrap();
    let mine = stage
        .bytes()
        .replace("\"gateway\"", "\"gateway\", \"--app\", \"x\"");
    let mine = mine.replace("\"tipsHistory\": {}", "\"tipsHistory\": {\"a\": 1}");
    let mine = mine.replacen(
        "\"sluice\":",
        "\"notes\": {\"command\": \"mine\"}, \"sluice\":",
        1,
    );
    fs::write(&stage.file.path, &mine).unwrap();
    let undone = Undone::Entries {
        kept: vec!["sluice-local".to_owned(), "sluice".to_owned()],
        left: vec!["notes".to_owned()],
    };
    assert_eq!(stage.undo(), [Ok(undone)]);
    let now = stage.file.open().unwrap();
    let names = |at: usize| {
        now.lists[at]
            .servers
            .iter()
            .map(|(name, _)| name.as_str())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        (names(0), names(1)),
        (vec!["notes", "sluice", "far"], vec!["sluice-local", "db"])
    );
    assert_eq!(now.lists[0].servers[0].1, json!({"command": "mine"}));
}

#[test]
fn a_wrapped_server_changes_its_command_alone() {
    for (client, text, expected) in [
        ("claude-code", CLAUDE, None),
        (
            "codex",
            CODEX,
            Some(
                "[mcp_servers.notes] # notes\nargs = [\"wrap\", \"--name\", \"notes\", \"--yes\", \"--env-from\", \"KEY\", \"--\", \"npx\", \"-y\", \"notes\"]\ncommand = \"/usr/bin/sluice\"\n\n[mcp_servers.notes.env]\n",
            ),
        ),
        (
            "goose",
            &GOOSE.replace("    type: builtin\n", "    type: stdio\n    cmd: dev\n"),
            Some(
                "    timeout: 300\n    cmd: \"/usr/bin/sluice\"\n    args: [\"wrap\",\"--name\",\"notes\",\"--yes\",\"--\",\"npx\",\"-y\",\"notes\"]\n",
            ),
        ),
        (
            "opencode",
            "{\"mcp\": {\"a\": {\"command\": [\"x\"], // c\n\"type\": \"local\"}}}",
            Some(
                "{\"mcp\": {\"a\": {\"command\": [\"/usr/bin/sluice\",\"wrap\",\"--name\",\"a\",\"--yes\",\"--\",\"x\"], // c\n\"type\": \"local\"}}}",
            ),
        ),
    ] {
        let text = text.replace(
            ",\n    \"far\": {\"type\": \"http\", \"url\": \"https://a.example/mcp\"}",
            "",
        );
        let stage = Stage::new(client, Some(&text));
        let edited = stage.init(&wrap).unwrap().unwrap().text;
        let expected =
            expected.unwrap_or("\"command\": \"/usr/bin/sluice\",\n      \"args\": [\"wrap\",");
        assert!(edited.contains(expected), "{edited}");
        assert_eq!(stage.init(&wrap).unwrap(), None);
        fs::write(&stage.file.path, edited + "\n").unwrap();
        assert!(matches!(stage.undo()[..], [Ok(Undone::Entries { .. })]));
        let format = stage.file.client.format;
        assert_eq!(format.parse(&stage.bytes()), format.parse(&text));
    }
}

#[test]
fn what_is_not_understood_is_left_alone() {
    for (client, text, message) in [
        (
            "claude-code",
            "{\n  // mine\n  \"mcpServers\": {}\n}",
            "line 2",
        ),
        (
            "claude-code",
            "{\"mcpServers\": {\"a\": {\"command\": \"x\"},}}",
            "line 1",
        ),
        (
            "claude-code",
            "{\"mcpServers\": {\"a\": {}, \"a\": {\"command\": \"x\"}}}",
            "\"a\" occurs twice",
        ),
        (
            "claude-code",
            "{\"mcpServers\": []}",
            "'mcpServers' is written in a form",
        ),
        ("claude-code", "", "the file is empty"),
        (
            "cursor",
            "{\"mcpServers\": {\"a\": {\"command\": \"hush\" \"b\"}}}",
            "line 1",
        ),
        (
            "codex",
            "mcp_servers = { a = { command = \"x\" } }\n",
            "is written in a form",
        ),
        ("codex", "a = 1\na = 2\n", "line 2"),
        (
            "goose",
            "extensions: {a: {type: stdio, cmd: x}}\n",
            "is written in a form",
        ),
        (
            "goose",
            "extensions: &x\n  a:\n    cmd: x\nother: *x\n",
            "is written in a form",
        ),
        ("goose", "a: b: c\n", "line 1"),
    ] {
        let stage = Stage::new(client, Some(text));
        let problem = stage.init(&all).unwrap_err().to_string();
        assert!(
            problem.contains(message) && !problem.contains("hush"),
            "{problem}"
        );
        assert_eq!(stage.bytes(), text);
        assert!(stage.journal().records().unwrap().is_empty());
    }
    let stage = Stage::new("cursor", Some("{}"));
    fs::write(&stage.file.path, b"{\"a\": \"\xff\"}").unwrap();
    assert_eq!(stage.init(&all).unwrap_err().to_string(), "it is not UTF-8");
    fs::write(&stage.file.path, "{}").unwrap();
    fs::hard_link(&stage.file.path, stage.folder.path().join("other")).unwrap();
    assert!(
        stage
            .init(&all)
            .unwrap_err()
            .to_string()
            .contains("hard link")
    );
    fs::remove_file(stage.folder.path().join("other")).unwrap();
    fs::set_permissions(&stage.file.path, fs::Permissions::from_mode(0o444)).unwrap();
    assert!(
        stage
            .init(&all)
            .unwrap_err()
            .to_string()
            .contains("read-only")
    );
    fs::remove_file(&stage.file.path).unwrap();
    symlink("nowhere", &stage.file.path).unwrap();
    assert!(
        stage
            .init(&all)
            .unwrap_err()
            .to_string()
            .contains("not there")
    );
}

#[test]
fn a_link_stays_a_link_and_a_new_file_goes_away() {
    let stage = Stage::new("cursor", None);
    let dotfiles = stage.folder.path().join("dotfiles.json");
    fs::write(&dotfiles, "{}").unwrap();
    symlink(&dotfiles, &stage.file.path).unwrap();
    stage.init(&all).unwrap();
    assert!(
        stage.file.path.is_symlink() && fs::read_to_string(&dotfiles).unwrap().contains("sluice")
    );
    stage.undo();
    assert!(stage.file.path.is_symlink() && fs::read_to_string(&dotfiles).unwrap() == "{}");
    for client in &CLIENTS {
        let stage = Stage::new(client.id, None);
        stage.init(&all).unwrap();
        assert!(is_ours(&stage.file.open().unwrap().lists[0].servers[0].1));
        assert_eq!(stage.undo(), [Ok(Undone::Restored)]);
        assert!(!stage.file.path.exists());
    }
}

#[test]
fn a_write_of_the_client_in_between_is_seen() {
    let stage = Stage::new("claude-code", Some(CLAUDE));
    let path = &stage.file.path;
    // The client writes between our reading and our writing.
    let later = CLAUDE.replace("\"numStartups\": 12", "\"numStartups\": 13");
    let plan = |opened: &Opened| {
        if opened.snapshot.text().unwrap() == Some(CLAUDE) {
            fs::write(path, &later).unwrap();
        }
        all(opened)
    };
    let edited = stage.init(&plan).unwrap().unwrap();
    assert!(edited.text.contains("\"numStartups\": 13"));
    stage.undo();
    assert_eq!(stage.bytes(), later);
    // A client that never stops writing.
    let plan = |opened: &Opened| {
        fs::write(path, stage.bytes() + " ").unwrap();
        all(opened)
    };
    assert!(stage.init(&plan).unwrap_err().is_race);
    assert!(!stage.bytes().contains("sluice") && stage.undo().is_empty());
}

#[test]
fn the_lock_of_claude_code_is_waited_for() {
    let stage = Stage::new("claude-code", Some(CLAUDE));
    let lock = stage.file.path.with_extension("json.lock");
    fs::create_dir(&lock).unwrap();
    std::thread::scope(|scope| {
        let init = scope.spawn(|| stage.init(&all).unwrap());
        std::thread::sleep(Duration::from_millis(150));
        assert!(!init.is_finished());
        assert_eq!(stage.bytes(), CLAUDE);
        fs::remove_dir(&lock).unwrap();
        init.join().unwrap();
    });
    assert!(stage.bytes().contains("sluice") && !lock.exists());
}

/// The program that the next test kills.
#[test]
#[ignore = "it is started by another test, which ends it"]
fn changes_without_end() {
    let Some(home) = std::env::var_os("CLIENTS_TEST_HOME").map(PathBuf::from) else {
        return;
    };
    let client = &CLIENTS[0];
    let file = ClientFile {
        client,
        scope: Scope::User,
        path: home.join(".claude.json"),
    };
    let journal = Journal::open(&home.join("data")).unwrap();
    loop {
        journal.change("1", &file, &[], &all).unwrap();
        println!("changed");
        std::io::stdout().flush().unwrap();
        for record in journal.records().unwrap().iter().rev() {
            let Kind::File(change) = &record.kind else {
                panic!()
            };
            journal.undo(change, &|_| false).unwrap();
            journal.remove(record).unwrap();
        }
    }
}

#[test]
fn a_kill_at_any_time_leaves_the_old_file_or_the_new_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(".claude.json");
    fs::write(&path, CLAUDE).unwrap();
    let expected = CLIENTS[0]
        .format
        .edit(
            CLAUDE,
            &all(&ClientFile {
                client: &CLIENTS[0],
                scope: Scope::User,
                path: path.clone(),
            }
            .open()
            .unwrap()),
        )
        .unwrap()
        .text;
    let mut seen = [0; 2];
    for round in 0..40_u32 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["changes_without_end", "--ignored", "--nocapture"])
            .env("CLIENTS_TEST_HOME", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_micros(u64::from(20_000 + round * 370)));
        child.kill().unwrap();
        child.wait().unwrap();
        let now = fs::read_to_string(&path).unwrap();
        assert!(now == CLAUDE || now == expected, "{now}");
        seen[usize::from(now == expected)] += 1;
        let lock = folder.path().join(".claude.json.lock");
        let _ = fs::remove_dir(lock);
        let journal = Journal::open(&folder.path().join("data")).unwrap();
        for record in journal.records().unwrap().iter().rev() {
            let Kind::File(change) = &record.kind else {
                panic!()
            };
            journal.undo(change, &|_| false).unwrap();
            journal.remove(record).unwrap();
        }
        assert_eq!(fs::read_to_string(&path).unwrap(), CLAUDE);
    }
    assert!(seen[1] > 0, "{seen:?}");
}

#[test]
fn a_record_is_the_users_alone() {
    let stage = Stage::new(
        "cursor",
        Some("{\"mcpServers\": {\"a\": {\"command\": \"x\", \"env\": {\"K\": \"hush\"}}}}"),
    );
    stage.init(&all).unwrap();
    let data = stage.folder.path().join("data");
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    let files: Vec<_> = fs::read_dir(&data)
        .unwrap()
        .map(|it| it.unwrap().path())
        .collect();
    assert_eq!(files.len(), 2);
    assert!(files.iter().all(|file| mode(file) == 0o600));
}

#[test]
fn clients_that_are_used_are_found() {
    let folder = tempfile::tempdir().unwrap();
    let machine = machine(folder.path());
    assert!(find(&machine).is_empty());
    fs::create_dir_all(machine.home.join(".codex")).unwrap();
    fs::create_dir_all(machine.project.join(".vscode")).unwrap();
    for (path, text) in [
        (machine.project.join(".mcp.json"), "{}"),
        (machine.project.join(".vscode/mcp.json"), "{}"),
        (machine.home.join(".claude.json"), CLAUDE),
    ] {
        fs::write(path, text).unwrap();
    }
    let found: Vec<_> = find(&machine)
        .into_iter()
        .map(|it| (it.client.id, it.scope.name()))
        .collect();
    assert_eq!(
        found,
        [
            ("claude-code", "user"),
            ("claude-code", "project"),
            ("codex", "user"),
            ("vscode", "project")
        ]
    );
    let opened = find(&machine)[0].open().unwrap();
    let local = &opened.lists[1];
    assert_eq!(
        (opened.lists.len(), local.scope, local.project.clone()),
        (2, Scope::Local, Some("/home/x/a".into()))
    );
    assert_eq!(
        local.alone("db"),
        json!({"allowedTools": [], "mcpServers": {"db": {"command": "db"}}})
    );
    // With the project as the home, a file is not both.
    let same = Machine {
        project: machine.home.clone(),
        ..machine
    };
    assert!(
        find(&same)
            .iter()
            .all(|it| it.scope == Scope::User || it.client.id != "codex")
    );
}
