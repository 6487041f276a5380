//! What is offered for an app that is added: folders to write, and domains that it tried to reach.
use std::fs;

use serde_json::{Value, json};

use super::{Stage, add, echo, small};
use crate::terminal::at_terminal;

/// A stage with a file of one server, with these variables and these words after its package.
fn stage(env: &Value, more: &[&str]) -> Stage {
    let stage = Stage::new();
    stage.publish("1.0.0", "look", json!({}));
    fs::create_dir_all(stage.path("home/notes")).unwrap();
    let arguments = [&["-y", "@test/server"] as &[&str], more].concat();
    let server = json!({ "command": "npx", "args": arguments, "env": env });
    let file = json!({ "mcpServers": { "server": server } });
    fs::write(stage.path("home/mcp.json"), file.to_string()).unwrap();
    stage
}

fn config(stage: &Stage) -> String {
    fs::read_to_string(stage.path("config/sluice/sluice.toml")).unwrap_or_default()
}

/// What an import shows at a terminal where these lines are typed, once the user has agreed that it starts.
fn import(stage: &Stage, lines: &[&str]) -> String {
    let mut import = stage.command(&["app", "import", "mcp.json"]);
    import.env("KEY", "mine");
    import.env("MY", "hunter").env("MY_WORD", "hunter2");
    let lines = [&["start"], lines].concat();
    let (code, shown) = at_terminal(&import, &lines, |_| {});
    assert_eq!(code, 0, "{shown}");
    shown
}

#[test]
fn no_command_of_a_file_starts_before_the_user_agrees() {
    let stage = stage(&json!({ "KEY": "${KEY}" }), &[]);
    let papers = stage.text("home/papers");
    let arguments = json!(["-y", "@test/server", papers]);
    let mut file: Value =
        serde_json::from_slice(&fs::read(stage.path("home/mcp.json")).unwrap()).unwrap();
    file["mcpServers"]["server"]["args"] = arguments;
    fs::write(stage.path("home/mcp.json"), file.to_string()).unwrap();
    let mut import = stage.command(&["app", "import", "mcp.json"]);
    import.env("KEY", "mine");
    let (code, shown) = at_terminal(&import, &["no"], |_| {});
    let shown = shown.replace("\r\n| server> ", "");
    let line = format!("npx -y @test/server {papers}; reads {papers}; gets your KEY");
    assert!(code == 3 && shown.contains(&line), "{shown}");
    assert!(
        !shown.contains("fetching") && !shown.contains("mine"),
        "{shown}"
    );
    stage.nothing_is_left();
}

#[test]
fn a_first_start_with_domains_gets_no_secret() {
    let secretive = |env: Value| {
        let stage = stage(&env, &[]);
        stage.publish("1.1.0", "key_$KEY", json!({}));
        stage
    };
    let alone = secretive(json!({ "KEY": "${KEY}" }));
    let shown = import(&alone, &["add"]);
    assert!(shown.contains("server starts, with key_mine."), "{shown}");
    let env = json!({ "KEY": "${KEY}", "LOOKUP": "api.example.org", "NEEDS_IT": "1" });
    let online = secretive(env);
    let shown = import(&online, &["allow", "add"]);
    assert!(
        shown.contains("server starts, with key_placeholder.") && !shown.contains("key_mine"),
        "{shown}"
    );
    assert!(config(&online).contains("env_from = [\"KEY\"]"));
}

#[test]
fn a_first_start_with_domains_gets_no_filled_in_word() {
    let with_word = |env: Value| {
        let stage = stage(&env, &["--tok_${MY_WORD}_${MY}"]);
        stage.publish("1.1.0", "$LAST", json!({}));
        stage
    };
    let alone = with_word(json!({}));
    let shown = import(&alone, &["add"]);
    assert!(
        shown.contains("server starts, with tok_hunter2_hunter."),
        "{shown}"
    );
    let online = with_word(json!({ "LOOKUP": "api.example.org", "NEEDS_IT": "1" }));
    let shown = import(&online, &["allow", "add"]);
    assert!(
        shown.contains("server starts, with tok_placeholder_placeholder."),
        "{shown}"
    );
    for name in ["MY", "MY_WORD"] {
        let note = format!("so {name} is a placeholder");
        assert!(shown.contains(&note), "{shown}");
    }
    assert!(config(&online).contains("--tok_hunter2_hunter"));
}

#[test]
fn an_import_says_what_it_left_alone() {
    let stage = stage(&json!({}), &[]);
    let write = ["app", "import", "mcp.json", "--write"];
    let said = stage.done(&write);
    assert!(
        said.contains("no tool has a rule") && said.contains("\nadded: server\n"),
        "{said}"
    );
    let gone = json!({ "command": "npx", "args": ["-y", "@test/gone"] });
    let dead = json!({ "command": "no-such-program" });
    let mut file: Value =
        serde_json::from_slice(&fs::read(stage.path("home/mcp.json")).unwrap()).unwrap();
    for (name, server) in [("first", &dead), ("second", &dead), ("third", &gone)] {
        file["mcpServers"][name] = server.clone();
    }
    fs::write(stage.path("home/mcp.json"), file.to_string()).unwrap();
    let said = super::words(&stage.sluice(&write));
    for line in [
        "first was not added: there is no program 'no-such-program' in PATH",
        "second was not added: for the same reason\n",
        "\nalready there: server\nnot added: first, second, third\n",
    ] {
        assert!(said.contains(line), "no {line} in {said}");
    }
    assert!(!said.contains("\nadded: "), "{said}");
}

#[test]
fn the_memory_server_is_told_where_to_store() {
    let stage = stage(&json!({}), &[]);
    let (description, files) = (
        json!({ "name": "@modelcontextprotocol/server-memory", "bin": { "memory": "main.js" } }),
        vec![
            ("main.js", super::SERVER.to_owned()),
            ("tools.txt", "look".to_owned()),
        ],
    );
    let package = super::Package {
        version: "1.0.0".to_owned(),
        description,
        files,
        elsewhere: None,
    };
    let name = "@modelcontextprotocol/server-memory";
    stage.registry.publish(name, package);
    let said = stage.done(&super::add(&[], name));
    assert!(said.contains("--env MEMORY_FILE_PATH="), "{said}");
}

#[test]
fn the_owner_of_a_domain_is_named_first() {
    let stage = stage(&json!({ "LOOKUP": "paypal.com.evil.example" }), &[]);
    let shown = import(&stage, &["no", "add"]);
    let offer = "server tried to connect to evil.example (asked for: paypal.com.evil.example). Allowing it covers paypal.com.evil.example and all names below it. Type allow";
    assert!(shown.contains(offer), "{shown}");
}

#[test]
fn a_domain_that_a_server_tried_is_offered() {
    let env = json!({ "LOOKUP": "api.example.org" });
    let rule = "[[app.server.domain]]\nname = \"api.example.org\"\n";
    let unasked = stage(&env, &[]);
    let said = unasked.done(&["app", "import", "mcp.json", "--write"]);
    assert!(
        said.contains("server tried to connect to example.org (asked for: api.example.org). Allowing it covers api.example.org"),
        "{said}"
    );
    assert!(
        said.contains(rule) && !config(&unasked).contains("domain"),
        "{said}"
    );
    for (answer, is_allowed) in [("allow", true), ("no", false)] {
        let stage = stage(&env, &[]);
        let shown = import(&stage, &[answer, "add"]);
        assert!(
            shown.contains("covers api.example.org and all names below it. Type allow"),
            "{shown}"
        );
        assert_eq!(config(&stage).contains(rule), is_allowed, "{shown}");
        stage.done(&["policy", "check"]);
    }
}

#[test]
fn a_server_that_needs_a_domain_to_start_gets_another_try() {
    let stage = stage(
        &json!({ "LOOKUP": "api.example.org", "NEEDS_IT": "1" }),
        &[],
    );
    stage.refused(
        &["app", "import", "mcp.json", "--write"],
        "tried to reach places",
    );
    assert_eq!(config(&stage), "");
    let shown = import(&stage, &["allow", "add"]);
    assert!(
        config(&stage).contains("name = \"api.example.org\""),
        "{shown}"
    );
}

#[test]
fn a_public_suffix_is_not_offered() {
    let stage = stage(&json!({ "LOOKUP": "co.uk" }), &[]);
    let said = stage.done(&["app", "import", "mcp.json", "--write"]);
    assert!(!said.contains("[[app.server.domain]]"), "{said}");
}

#[test]
fn the_folder_of_a_variable_or_an_argument_is_offered_to_be_written() {
    let papers = |stage: &Stage| stage.text("home/papers");
    let notes = |stage: &Stage| stage.text("home/notes");
    let both = || {
        let bare = stage(&json!({}), &[]);
        let env = json!({ "MEMORY_FILE_PATH": bare.text("home/notes/memory.json") });
        let server = json!({ "command": "npx", "args": ["-y", "@test/server", bare.text("home/names"), papers(&bare)], "env": env });
        fs::write(bare.path("home/names"), "look").unwrap();
        let file = json!({ "mcpServers": { "server": server } });
        fs::write(bare.path("home/mcp.json"), file.to_string()).unwrap();
        bare
    };
    let writable = |stage: &Stage, folder: &str| {
        let mount = format!("source = \"{folder}\"\ntarget = \"{folder}\"\nwrite = true\n");
        config(stage).contains(&mount)
    };
    let stage = both();
    let said = stage.done(&["app", "import", "mcp.json", "--write"]);
    for line in [
        "which MEMORY_FILE_PATH names. To allow it",
        "which its command names. To allow it",
        "write = true",
    ] {
        assert!(said.contains(line), "no {line} in {said}");
    }
    assert!(!config(&stage).contains("write = true"), "{said}");
    // In the order of their paths.
    for (answers, expected) in [
        (["write", "no"], [true, false]),
        (["no", "write"], [false, true]),
        (["no", ""], [false, false]),
    ] {
        let stage = both();
        let shown = import(&stage, &[answers[0], answers[1], "add"]);
        let found = [
            writable(&stage, &notes(&stage)),
            writable(&stage, &papers(&stage)),
        ];
        assert_eq!(found, expected, "{shown}");
    }
}

/// A home with a server of the user's own, and a file that starts it with these words and variables.
fn own_server(words: &Value, env: &Value) -> Stage {
    let stage = Stage::new();
    program(&stage, "home/server", super::SERVER);
    for name in ["home/project/src", "home/notes", "home/tools"] {
        fs::create_dir_all(stage.path(name)).unwrap();
    }
    fs::write(stage.path("home/tools.txt"), "look").unwrap();
    fs::write(stage.path("home/project/Makefile"), "").unwrap();
    let server = json!({ "command": "./server", "args": words, "env": env });
    let file = json!({ "mcpServers": { "server": server } });
    fs::write(stage.path("home/mcp.json"), file.to_string()).unwrap();
    stage
}

fn program(stage: &Stage, name: &str, text: &str) -> String {
    let file = stage.path(name);
    fs::create_dir_all(file.parent().unwrap()).unwrap();
    fs::write(&file, text).unwrap();
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&file, permissions).unwrap();
    stage.text(name)
}

/// The lines of a mount.
fn mount(stage: &Stage, place: &str, more: &str) -> String {
    let path = stage.text(place);
    format!("source = \"{path}\"\ntarget = \"{path}\"\n{more}label")
}

#[test]
fn what_arguments_name_is_shown_in_each_form() {
    let words = json!([
        "tools.txt",
        "--root=./papers",
        "--more=~/notes",
        "--db=~/project/new.db"
    ]);
    let stage = own_server(&words, &json!({}));
    let said = stage.done(&["app", "import", "mcp.json", "--write"]);
    let config = config(&stage);
    for place in ["home/papers", "home/notes", "home/tools.txt"] {
        assert!(
            config.contains(&mount(&stage, place, "")),
            "no {place} in {config}"
        );
    }
    // A new file needs its folder.
    let offer = format!(
        "server does not see {}, which its command names, and has Makefile",
        stage.text("home/project")
    );
    assert!(said.contains(&offer), "{said}");
    assert!(!config.contains("home/project\"\n"), "{config}");
    let file = format!("file://{}", stage.text("home/papers"));
    let root = [
        "app",
        "add",
        "other",
        "--yes",
        "--",
        "./server",
        "tools.txt",
        "--root=~/papers",
        &file,
    ];
    stage.done(&root);
    let written = self::config(&stage);
    let root = format!("\"--root={}\", \"{file}\"]", stage.text("home/papers"));
    assert!(written.contains(&root), "{written}");
}

#[test]
fn the_git_folder_of_a_worktree_is_read_and_not_offered_to_be_written() {
    let stage = own_server(&json!(["tools.txt", "./tree"]), &json!({}));
    let git = "home/bare/worktrees/tree";
    for (name, text) in [
        ("home/tree/.git", format!("gitdir: {}", stage.text(git))),
        (&format!("{git}/gitdir"), stage.text("home/tree/.git")),
        (&format!("{git}/commondir"), "../..".to_owned()),
        ("home/bare/HEAD", "ref: refs/heads/main".to_owned()),
        ("home/bare/objects/info/packs", String::new()),
        ("home/bare/refs/heads/main", String::new()),
    ] {
        fs::create_dir_all(stage.path(name).parent().unwrap()).unwrap();
        fs::write(stage.path(name), text).unwrap();
    }
    let said = stage.done(&["app", "import", "mcp.json", "--write"]);
    let lines = mount(&stage, "home/bare", "");
    assert!(config(&stage).contains(&lines), "{said}");
    let offered = format!("server may not write {}", stage.text("home/tree"));
    assert!(said.contains(&offered), "{said}");
    let other = format!("server may not write {}", stage.text("home/bare"));
    assert!(!said.contains(&other), "{said}");
}

#[test]
fn a_link_in_a_folder_that_the_app_may_write_mounts_nothing() {
    let stage = own_server(&json!([]), &json!({}));
    let link = stage.path("home/notes/db");
    std::os::unix::fs::symlink(stage.path("home/tools"), link).unwrap();
    let add = [
        "app",
        "add",
        "server",
        "--yes",
        "--replace",
        "--write",
        "notes",
    ];
    let option = format!("--db={}", stage.text("home/notes/db"));
    for word in [
        &stage.text("home/notes/db"),
        "./notes/db",
        &option,
        "--db=notes/db",
    ] {
        let words = ["--", "./server", "tools.txt", word];
        let said = stage.done(&[&add[..], &words].concat());
        let written = config(&stage);
        let lines = mount(&stage, "home/notes", "write = true\n");
        assert!(written.contains(&lines), "{written}");
        assert!(!written.contains("home/tools\""), "{written}");
        assert!(!said.contains("home/tools,"), "{said}");
    }
    for command in [&add[..], &["wrap", "--write", "notes"]] {
        let words = ["--write", "notes/db", "--", "./server", "tools.txt"];
        let command = [command, &words].concat();
        stage.refused(&command, "notes/db leads over a link in a folder");
    }
}

#[test]
fn a_project_is_offered_to_be_read_first() {
    let stage = own_server(
        &json!(["tools.txt", "./project"]),
        &json!({ "OUT": "~/notes/x" }),
    );
    let shown = import(&stage, &["no", "write", "add"]);
    let words: Vec<&str> = shown.split_whitespace().collect();
    let said = "names, and has Makefile: with write it can change code that you run. Type write to allow it [no]";
    assert!(words.join(" ").contains(said), "{shown}");
    for (answer, more) in [("read", ""), ("write", "write = true\n")] {
        let stage = own_server(&json!(["tools.txt"]), &json!({ "OUT": "~/project/src/x" }));
        let shown = import(&stage, &[answer, "add"]);
        assert!(shown.contains("or write to let it write too"), "{shown}");
        let lines = mount(&stage, "home/project/src", more);
        assert!(config(&stage).contains(&lines), "{shown}");
    }
}

#[test]
fn a_program_among_the_arguments_may_be_run() {
    let words = json!(["tools.txt", "--command=~/tools/helper", "~/tools/notes.txt"]);
    for (answer, more) in [("no", ""), ("run", "execute = true\n")] {
        let stage = own_server(&words, &json!({}));
        program(&stage, "home/tools/helper", "#!/bin/sh\n");
        program(&stage, "home/tools/notes.txt", "no program");
        let shown = import(&stage, &[answer, "add"]);
        let lines = mount(&stage, "home/tools/helper", more);
        assert!(config(&stage).contains(&lines), "{shown}");
        assert!(
            config(&stage).contains(&mount(&stage, "home/tools/notes.txt", "")),
            "{shown}"
        );
        // The rest of the command is found all the same.
        assert_eq!(stage.tools("server"), ["look"]);
    }
}

#[test]
fn folders_of_homes_and_programs_are_never_offered() {
    let bare = stage(&json!({}), &[]);
    for folder in ["elsewhere/.git/hooks", "programs"] {
        fs::create_dir_all(bare.path(folder)).unwrap();
    }
    let env = json!({
        "STORE": bare.text("home/store.json"), "FOLDER": bare.text("home/.ssh/known"), "OWN": bare.text("state/sluice/x"),
        "HOOKS": bare.text("elsewhere/.git/hooks/x"), "PROGRAMS": bare.text("programs/x"),
    });
    let file = json!({ "mcpServers": { "server": { "command": "npx", "args": ["-y", "@test/server"], "env": env } } });
    fs::create_dir_all(bare.path("state/sluice")).unwrap();
    fs::write(bare.path("home/mcp.json"), file.to_string()).unwrap();
    let path = std::env::var("PATH").unwrap();
    let mut import = bare.command(&["app", "import", "mcp.json", "--write"]);
    import.env("PATH", format!("{path}:{}", bare.text("programs")));
    let said = super::words(&import.output().unwrap());
    assert!(
        said.contains("added: server") && !said.contains("write = true"),
        "{said}"
    );
}

#[test]
fn a_service_that_a_variable_names_is_offered() {
    let service = format!("127.0.0.1:{}", echo());
    let env = json!({ "SERVICE": format!("tcp://{service}/db") });
    let line = format!("connect = [\"{service}\"]\n");
    let unasked = stage(&env, &[]);
    let said = super::words(&unasked.sluice(&["app", "import", "mcp.json", "--write"]));
    assert!(
        said.contains(&format!("[app.server]\n{line}"))
            && said.contains(&format!("{service} (the app says so")),
        "{said}"
    );
    assert_eq!(config(&unasked), "");
    let shown = import(&unasked, &["allow", "add"]);
    let offer = format!(
        "server may not connect to {service} on this machine, which SERVICE names. Type allow to"
    );
    assert!(shown.contains(&offer), "{shown}");
    assert!(config(&unasked).contains(&line), "{shown}");
    unasked.done(&["app", "test", "server"]);
    let without = config(&unasked).replace(&line, "");
    fs::write(unasked.path("config/sluice/sluice.toml"), without).unwrap();
    unasked.refused(
        &["app", "call", "server", "look"],
        &format!("To allow the connection, have {}", line.trim_end()),
    );
}

#[test]
fn a_service_that_the_user_types_needs_no_question() {
    let service = format!("127.0.0.1:{}", echo());
    let variable = format!("SERVICE=tcp://{service}/db");
    let line = format!("connect = [\"{service}\"]\n");
    let stage = stage(&json!({}), &[]);
    let said = stage.done(&add(&["--env", &variable], "@test/server"));
    assert!(said.contains("which SERVICE names"), "{said}");
    assert!(config(&stage).contains(&line), "{said}");
}

#[test]
fn an_app_reaches_a_granted_port_and_no_other() {
    let (granted, other) = (echo().to_string(), echo().to_string());
    let stage = Stage::new();
    stage.publish("1.0.0", "dial|||id", json!({}));
    let connect = format!("127.0.0.1:{granted}");
    stage.done(&add(&["--connect", &connect], "@test/server"));
    let dial = |port: &str| {
        let argument = json!({ "id": port }).to_string();
        let output = stage.sluice(&["app", "call", "server", "dial", &argument]);
        (output.status.success(), super::words(&output))
    };
    let (done, said) = dial(&granted);
    assert!(done && said.contains("hello"), "{said}");
    let (done, said) = dial(&other);
    let line = format!("[app.server]\nconnect = [\"127.0.0.1:{other}\"]\n");
    assert!(
        !done && said.contains(&line) && !said.contains("hello"),
        "{said}"
    );
    let config = config(&stage);
    fs::write(
        stage.path("config/sluice/sluice.toml"),
        config.replace(&format!("connect = [\"{connect}\"]\n"), ""),
    )
    .unwrap();
    let (done, said) = dial(&granted);
    assert!(!done && !said.contains("hello"), "{said}");
}

#[test]
fn a_granted_service_that_does_not_run_is_named() {
    let stage = stage(&json!({}), &[]);
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let service = free.local_addr().unwrap().to_string();
    drop(free);
    let variable = format!("SERVICE=tcp://{service}");
    let words = add(&["--connect", &service, "--env", &variable], "@test/server");
    stage.refused(
        &words,
        &format!("{service} (no connection: Connection refused"),
    );
}

/// Names of folders, variables, tools and files, and the words of an app, each padded or with a line break.
#[test]
fn no_foreign_sentence_begins_a_line() {
    const FORGED: &str = "sluice: FORGED www.evil.example";
    let stage = Stage::new();
    let padded = |start: &str| format!("{start}{}{FORGED}", " ".repeat(180));
    let program = |name: &str, text: &str| program(&stage, name, text);
    let server = program("home/server", super::SERVER);
    let refusing = program(
        "home/refusing",
        r#"#!/usr/bin/env node
require("readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const error = { code: -32603, message: process.argv[2] };
  console.log(JSON.stringify({ jsonrpc: "2.0", id: JSON.parse(line).id, error }));
});"#,
    );
    let tools = format!("look\nwrite|Writes.||id\n{}", padded("x"));
    fs::write(stage.path("home/tools.txt"), tools).unwrap();
    let folder = stage.path(&format!("home/{}", padded("f")));
    fs::create_dir(&folder).unwrap();
    let tools = stage.text("home/tools.txt");
    let (broken, name) = (format!("/x\n{FORGED}"), format!("R\n{FORGED}"));
    let file = json!({ "mcpServers": {
        "server": {
            "command": server,
            "args": [tools, &folder],
            "env": { padded("K"): stage.text("home/papers"), name: "https://a.example" },
        },
        "refusing": { "command": refusing, "args": [padded("m")] },
        "broken": { "command": broken, "args": [] },
        "unknown": { "command": format!("x\n{FORGED}"), "args": [] },
    } });
    fs::write(stage.path("home/mcp.json"), file.to_string()).unwrap();
    let check = |arguments: &[&str], lines: &[&str], parts: &[&str]| {
        let command = small(&stage.command(arguments));
        let (_, shown) = at_terminal(&command, lines, |_| {});
        for row in shown
            .split(['\n', '\r'])
            .filter(|row| !row.contains('\u{1b}'))
        {
            assert!(row.chars().count() <= 80, "{row:?} in {shown}");
            assert!(!row.starts_with("sluice: F"), "{shown}");
        }
        let words: Vec<&str> = shown.split_whitespace().collect();
        let words = words.join(" ");
        for part in parts {
            assert!(words.contains(part), "no {part} in {shown}");
        }
    };
    check(
        &["app", "import", "mcp.json"],
        &["start", "no", "add"],
        &[
            "not added: ",
            "is left out, because its name",
            "Type write to",
        ],
    );
    let file = folder.join(padded("k"));
    let arguments = json!({ "id": file }).to_string();
    check(
        &["app", "call", "server", "write", &arguments],
        &["o"],
        &["says that it could not write"],
    );
}
