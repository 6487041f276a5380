//! What launchers would fetch.

use provision::{Package, Registry, launcher};

fn package(command: &str) -> Option<Package> {
    let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
    launcher(&words, []).ok().flatten()
}

fn check(command: &str, requirement: &str, program: Option<&str>, arguments: &[&str]) {
    let package = package(command).unwrap_or_else(|| unreachable!("{command} is a launcher's"));
    assert_eq!(package.requirement, requirement, "{command}");
    assert_eq!(package.program.as_deref(), program, "{command}");
    assert_eq!(package.arguments, arguments, "{command}");
}

#[test]
fn launchers_name_a_package_and_the_arguments_of_its_program() {
    check(
        "npx -y @a/server@1.2 /tmp -y",
        "@a/server@1.2",
        None,
        &["/tmp", "-y"],
    );
    check(
        "/usr/bin/npx --yes --package=@a/b -- run x",
        "@a/b",
        Some("run"),
        &["x"],
    );
    check("npx -p a -p b run", "a", Some("run"), &[]);
    // npm keeps the first `--` for itself, and npx passes it on.
    check("npm exec -y a -- --port 1", "a", None, &["--port", "1"]);
    check("npm exec a x --yes -- -y", "a", None, &["x", "-y"]);
    check("npx a -- --port 1", "a", None, &["--", "--port", "1"]);
    check("pnpm dlx a", "a", None, &[]);
    check(
        "uvx mcp-server-time --local-timezone UTC",
        "mcp-server-time",
        Some("mcp-server-time"),
        &["--local-timezone", "UTC"],
    );
    check(
        "uvx mcp-server-time@2.0",
        "mcp-server-time==2.0",
        Some("mcp-server-time"),
        &[],
    );
    check("uvx x@latest", "x", Some("x"), &[]);
    check("uvx --from a@latest b", "a", Some("b"), &[]);
    check("uvx --from a[x]@1.2 b@latest", "a[x]==1.2", Some("b"), &[]);
    // Refused later, as it is written.
    check(
        "uvx --from git+https://u@x/a b",
        "git+https://u@x/a",
        Some("b"),
        &[],
    );
    check(
        "uvx --from tools[cli]>=1 run",
        "tools[cli]>=1",
        Some("run"),
        &[],
    );
    check("uv tool run --with b a", "a", Some("a"), &[]);
    check("pipx run --spec=a==1 b", "a==1", Some("b"), &[]);
    check("npx --loglevel silent a", "a", None, &[]);
    check("npx --loglevel=silent a", "a", None, &[]);
    check(
        "npx -p=@a/b run --registry=x",
        "@a/b",
        Some("run"),
        &["--registry=x"],
    );
    check("uvx -p 3.12 --python=3.12 a", "a", Some("a"), &[]);
    check(
        "uvx --from=b a --index-url x",
        "b",
        Some("a"),
        &["--index-url", "x"],
    );
    check("pipx run --python python3 a", "a", Some("a"), &[]);
    let python = |command: &str| package(command).unwrap().python;
    assert_eq!(
        python("uvx -p 3.11 --python=3.12 a").as_deref(),
        Some("3.12")
    );
    assert_eq!(
        python("pipx run --python python3 a").as_deref(),
        Some("python3")
    );
    assert_eq!(python("uvx a"), None);
    assert_eq!(package("npx -p a -p b run").unwrap().with, ["b"]);
    assert_eq!(package("uvx --with b a").unwrap().with, ["b"]);
    assert_eq!(package("uvx a").unwrap().registry, Registry::PyPi);
}

#[test]
fn what_no_registry_of_the_users_has_is_no_package() {
    for command in [
        "node server.js",
        "npm start",
        "npx -c something",
        "npx",
        "uvx --index-url https://x a",
        "uvx",
        "pipx install a",
        "uv run server.py",
    ] {
        assert_eq!(package(command), None, "{command}");
    }
}

#[test]
fn an_option_that_may_change_what_is_fetched_is_refused() {
    let option_of = |command: &str| {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let refused = launcher(&words, []).expect_err(command);
        assert!(!refused.to_string().contains("secret"), "{refused}");
        (refused.launcher, refused.given)
    };
    for (command, launcher, option) in [
        ("npx --registry=https://secret@x a", "npx", "--registry"),
        ("npx --registry https://x a", "npx", "--registry"),
        ("npx -y --userconfig npmrc a", "npx", "--userconfig"),
        ("npx --pack=b a", "npx", "--pack"),
        ("npx -c something", "npx", "-c"),
        ("npx --no-install a", "npx", "--no-install"),
        ("npx --yes=false a", "npx", "--yes"),
        ("npx -p --yes a", "npx", "-p"),
        ("npx -p", "npx", "-p"),
        ("bunx --registry x a", "bunx", "--registry"),
        // npm reads its options behind the package too, and has another one of this name.
        ("npm exec a --registry=https://x", "npm exec", "--registry"),
        ("npm exec -p a run", "npm exec", "-p"),
        ("pnpm dlx --shell-mode a", "pnpm dlx", "--shell-mode"),
        ("uvx --index-url https://x a", "uvx", "--index-url"),
        ("uvx --index-url=https://secret@x a", "uvx", "--index-url"),
        ("uvx --default-index=https://x a", "uvx", "--default-index"),
        (
            "uvx --with-requirements req.txt a",
            "uvx",
            "--with-requirements",
        ),
        ("uvx --find-links=files a", "uvx", "--find-links"),
        ("uv tool run --index b=https://x a", "uvx", "--index"),
        (
            "pipx run --pip-args=--index-url=https://x a",
            "pipx run",
            "--pip-args",
        ),
        ("pipx run -e a", "pipx run", "-e"),
    ] {
        assert_eq!(
            option_of(command),
            (launcher, option.to_owned()),
            "{command}"
        );
    }
}

#[test]
fn a_variable_that_names_another_registry_is_refused() {
    let given = |command: &str, variable: &str| {
        let words: Vec<String> = command.split(' ').map(str::to_owned).collect();
        let variables = ["LANG".to_owned(), variable.to_owned()];
        launcher(&words, &variables).map_err(|refused| refused.given)
    };
    for (command, variable) in [
        ("npx a", "npm_config_registry"),
        ("npm exec a", "NPM_CONFIG_REGISTRY"),
        ("npx a", "npm_config_@b:registry"),
        ("npx a", "npm_config_userconfig"),
        ("uvx a", "UV_DEFAULT_INDEX"),
        ("pipx run a", "PIP_INDEX_URL"),
    ] {
        assert_eq!(
            given(command, variable),
            Err(variable.to_owned()),
            "{command}"
        );
    }
    for (command, variable) in [
        ("npx a", "npm_config_loglevel"),
        ("npx a", "PIP_INDEX_URL"),
        ("node server.js", "npm_config_registry"),
    ] {
        assert!(given(command, variable).is_ok(), "{command}, {variable}");
    }
}

#[test]
fn a_refused_option_is_named_with_a_remedy() {
    let message = |words: &[&str]| {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        launcher(&words, []).unwrap_err().to_string()
    };
    assert_eq!(
        message(&["uvx", "--index-url=https://x", "a"]),
        "'--index-url' may change what uvx fetches; leave it out, and name other registries in the settings of pip"
    );
    assert_eq!(
        message(&["npm", "exec", "a", "--port\n1"]),
        "'--port\\n1' may change what npm exec fetches; leave it out, or put it behind -- if it is the program's, and \
         name other registries in the settings of npm"
    );
}

/// What a stranger could put in the place of a known package has no name.
#[test]
fn only_a_package_alone_has_its_name() {
    let name = |line: &str| package(line)?.name();
    for (line, expected) in [
        ("npx -y @scope/name /papers", Some("@scope/name")),
        ("npx -y @scope/name@1.2.3", Some("@scope/name")),
        ("npx -p @scope/name name", Some("@scope/name")),
        ("npx -p @scope/name other", None),
        ("npx -p @scope/name -p more name", None),
        ("npx name@npm:other", None),
        ("npx github:eve/name", None),
        ("npx ./name", None),
        ("npx https://eve.example/name.tgz", None),
        ("uvx My_Server.Git", Some("my-server-git")),
        ("uvx my-server-git[all]==1.2", Some("my-server-git")),
        (
            "uvx --from my-server-git==1 my-server-git",
            Some("my-server-git"),
        ),
        ("uvx --from my-server-git other", None),
        ("uvx --with more my-server-git", None),
        ("uvx --from git+https://eve.example/x my-server-git", None),
        ("uvx --from ./x my-server-git", None),
    ] {
        assert_eq!(name(line).as_deref(), expected, "{line}");
    }
}
