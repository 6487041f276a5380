//! The pages of `sluice desk` beside the questions, with the user's own files.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::fd::OwnedFd;
use std::process::{Child, Stdio};
use std::time::SystemTime;

use hub::trace::{Call, Cause, Event, Flow};
use ifc::{Label, Lattice, Source};
use rustix::pty::{OpenptFlags, openpt, ptsname, unlockpt};
use serde_json::Value;
use server::TraceFile;
use store::{
    Action, App, Content, Domain, Draft, EntryId, Grant, Identity, Limits, Memory, Name, Namespace,
    NewToken, Permissions, Role, Speaker, SqliteMemory,
};
use test_support::wait;

use crate::home::Home;

const CONFIG: &str = r#"
[app.notes]
command = ["/bin/cat", "--token=very-secret"]
description = "<script>alert(1)</script>"

[app.notes.tools."read<b>"]
effect = "read"
limit = "any"

[app.notes.tools.send]
effect = "irreversible"
limit = []
approvers = ["ada"]
parameters = { to = "string", body = "string" }
arguments.body.limit = ["untrusted"]
"#;

/// What an attacker would write into all that the pages show.
const HOSTILE: &str = "<img src=x onerror=alert(1)>\u{202e}txt\u{1b}[2J</pre><form action=//evil>";
const PAGES: [&str; 6] = [
    "/sessions",
    "/sessions/s1",
    "/permissions",
    "/memory",
    "/apps",
    "/policy",
];

/// `sluice desk`, and a browser that has logged in.
struct Desk {
    process: Child,
    _keyboard: OwnedFd,
    host: String,
    cookie: String,
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Desk {
    fn start(home: &Home) -> Self {
        let mut command = home.sluice(&["desk", "--json", "--listen", "127.0.0.1:0"]);
        // Without a terminal there is no address that logs in.
        let keyboard = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        unlockpt(&keyboard).unwrap();
        let terminal = ptsname(&keyboard, Vec::new()).unwrap();
        let terminal = fs::File::open(terminal.to_str().unwrap()).unwrap();
        let command = command.stdin(terminal).stdout(Stdio::piped());
        let mut process = command.spawn().unwrap();
        let mut line = String::new();
        let stdout = BufReader::new(process.stdout.as_mut().unwrap());
        { stdout }.read_line(&mut line).unwrap();
        let line: Value = serde_json::from_str(&line).unwrap();
        let url = line["url"].as_str().unwrap();
        let login = line["login"].as_str().unwrap();
        let mut desk = Self {
            process,
            _keyboard: keyboard,
            host: url.strip_prefix("http://").unwrap().to_owned(),
            cookie: String::new(),
        };
        let (_, answer) = desk.send("GET", login.strip_prefix(url).unwrap(), "");
        desk.keep_cookie(&answer);
        desk
    }

    fn keep_cookie(&mut self, answer: &str) {
        let lines = answer.lines();
        let mut cookies = lines.filter_map(|line| line.strip_prefix("set-cookie: "));
        let cookie = cookies.next().unwrap().split(';').next().unwrap();
        self.cookie = cookie.to_owned();
    }

    /// The status, and head and body as text.
    fn send(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        let (_, port) = self.host.rsplit_once(':').unwrap();
        let mut stream = TcpStream::connect(format!("127.0.0.1:{port}")).unwrap();
        let (host, cookie, length) = (&self.host, &self.cookie, body.len());
        write!(
            stream,
            "{method} {path} HTTP/1.1\r\nHost: {host}\r\nOrigin: http://{host}\r\nCookie: {cookie}\r\nConnection: close\r\n\
             Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        (answer[9..12].parse().unwrap(), answer)
    }

    /// A page that is there, and has nothing of an attacker's but text.
    fn page(&self, path: &str) -> String {
        let (status, page) = self.send("GET", path, "");
        assert_eq!(status, 200, "{path}: {page}");
        for hostile in ["<img", "<script>", "<b>", "//evil>", "\u{202e}", "\u{1b}"] {
            assert!(!page.contains(hostile), "{path}: {hostile}: {page}");
        }
        page
    }

    /// The hidden field of the form on a page.
    fn csrf(&self, path: &str) -> String {
        let page = self.page(path);
        let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
        rest.split('"').next().unwrap().to_owned()
    }
}

/// Writes a trace of a session in which a hostile text was read and a call was asked about. It has a damaged line.
fn record(home: &Home) -> TraceFile {
    let label = || vec![HOSTILE.to_owned()];
    let call = Call {
        app: "notes".to_owned(),
        tool: "send".into(),
        arguments: HOSTILE.into(),
        label: label(),
        data: [(HOSTILE.to_owned(), label())].into(),
    };
    let flow = || Flow::Call(call.clone());
    let folder = home.path("state/sluice/traces");
    let mut trace = TraceFile::create(&folder, "s1").unwrap();
    let mut add = |event| trace.append_to(Some(HOSTILE), event).unwrap();
    add(Event::User {
        text: HOSTILE.into(),
        label: Vec::new(),
        name: None,
    });
    add(Event::Returned {
        call: call.clone(),
        bytes: 7,
        is_error: false,
        label: label(),
        regions: 1,
        refused: Some(HOSTILE.into()),
    });
    add(Event::Redacted {
        step: 1,
        label: label(),
        kept: 3,
        masked: 2,
    });
    add(Event::Allowed {
        step: 1,
        flow: flow(),
        by: format!("policy {HOSTILE}"),
    });
    add(Event::Asked {
        step: 1,
        flow: flow(),
        rule: HOSTILE.to_owned(),
        limit: Vec::new(),
        effect: "write".to_owned(),
        excess: label(),
        causes: vec![Cause {
            region: 1,
            source: Source::Tool(HOSTILE.to_owned()),
            excerpt: HOSTILE.into(),
            label: label(),
            relevant: true,
            quotes: Vec::new(),
            text: HOSTILE.into(),
            writers: Vec::new(),
        }],
        ran: None,
    });
    add(Event::Replied {
        answer: "once".to_owned(),
        by: Some("ada".to_owned()),
        from: Some("page".to_owned()),
    });
    add(Event::Denied {
        step: 1,
        flow: flow(),
        rule: None,
        reason: HOSTILE.into(),
    });
    let path = trace.path().to_owned();
    let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
    file.write_all(format!("{HOSTILE}\n").as_bytes()).unwrap();
    trace
}

/// A home with a permission and a memory, both of which quote an attacker, and its permissions.
fn home() -> (Home, Permissions) {
    let home = Home::with(CONFIG);
    // The name of the file of memories is that of the configuration.
    home.run(&["memory", "list"]);
    let lattice = Lattice::four_point;
    let mut files = fs::read_dir(home.path("state/sluice/memory")).unwrap();
    let file = files.find_map(|file| {
        let path = file.unwrap().path();
        path.extension()
            .is_some_and(|it| it == "sqlite")
            .then_some(path)
    });
    let memory = SqliteMemory::open(&file.unwrap(), lattice(), Limits::default()).unwrap();
    let draft = Draft {
        id: EntryId::from_bytes([0xaa; 16]),
        content: Content::Interaction {
            speaker: Speaker::User,
            text: HOSTILE.to_owned(),
        },
        label: Label::top(),
        sources: Vec::new(),
        origin: "s1".to_owned(),
        time: SystemTime::now().into(),
    };
    memory.append(&Namespace::Hub, &[draft]).unwrap();
    let file = home.path("state/sluice/permissions.sqlite");
    let permissions = Permissions::open(&file, lattice()).unwrap();
    let grant = Grant {
        action: Action::Egress {
            app: App {
                name: Name::new("<b>").unwrap(),
                identity: Identity::from_digest([7; 32]),
            },
            domain: Domain::new("example.org").unwrap(),
        },
        limit: Label::bottom(),
        expires: None,
        scripts: false,
    };
    permissions.grant(&grant, SystemTime::now().into()).unwrap();
    (home, permissions)
}

#[test]
fn the_pages_show_the_users_files_and_hostile_text_as_text() {
    let (home, permissions) = home();
    let mut trace = record(&home);
    let desk = Desk::start(&home);
    let sessions = desk.page("/sessions");
    assert!(sessions.contains("href=\"/sessions/s1\""), "{sessions}");
    // The damaged line costs itself. What is invisible or turns text around is visible.
    let session = desk.page("/sessions/s1");
    for expected in [
        "You wrote",
        "<code>notes.send</code>",
        "texts masked",
        "\\u{202e}txt\\u{1b}[2J",
        "Line 8 is no record",
        "by ada",
        "because of",
        "Denied",
    ] {
        assert!(session.contains(expected), "{expected}: {session}");
    }
    let memory = desk.page("/memory");
    assert!(
        memory.contains(&format!("sluice memory forget {}", "aa".repeat(16))),
        "{memory}"
    );
    assert!(memory.contains("anything"), "{memory}");
    let apps = desk.page("/apps");
    assert!(apps.contains("runs in a sandbox: /bin/cat"), "{apps}");
    assert!(apps.contains("only ada may allow it"), "{apps}");
    assert!(!apps.contains("very-secret"), "{apps}");
    let policy = desk.page("/policy");
    assert!(policy.contains("sluice.toml:"), "{policy}");
    assert!(policy.contains("limit of body"), "{policy}");
    // They are read in the background.
    let mut tries = 0..100;
    while !desk
        .page("/policy")
        .contains("1 allowed, 1 asked, 1 denied")
    {
        assert!(tries.next().is_some(), "{}", desk.page("/policy"));
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    // A page of a session that grows says so, and no sooner.
    let (_, poll) = session.split_once("data-poll=\"").unwrap();
    let poll = poll.split('"').next().unwrap();
    trace.append(Event::Unknown).unwrap();
    assert_eq!(desk.send("GET", poll, "").0, 200);
    for unknown in [
        "/sessions/s2",
        "/sessions/..%2fs1",
        "/sessions/%2fetc%2fpasswd",
    ] {
        let (status, page) = desk.send("GET", unknown, "");
        assert!(status >= 400, "{unknown}: {page}");
    }
    // A configuration with a mistake costs the pages that need it.
    home.configure("[app.notes]\nlimit = 7\n");
    assert_eq!(desk.send("GET", "/apps", "").0, 500);
    desk.page("/sessions/s1");
    assert_eq!(permissions.ids().unwrap().len(), 1);
}

#[test]
fn a_permission_is_revoked_in_two_steps_by_its_own_form() {
    let (home, permissions) = home();
    let desk = Desk::start(&home);
    let id = permissions.ids().unwrap()[0].to_string();
    let revoke = format!("/permissions/{id}/revoke");
    let left = || permissions.ids().unwrap().len();
    assert!(desk.page("/permissions").contains(&revoke));
    let csrf = desk.csrf(&revoke);
    assert_eq!(left(), 1);
    for body in ["", "csrf=", "csrf=x"] {
        assert_eq!(desk.send("POST", &revoke, body).0, 403, "{body}");
    }
    let body = format!("csrf={csrf}");
    let other = format!("/permissions/{}/revoke", "0".repeat(id.len()));
    assert_eq!(desk.send("POST", &other, &body).0, 500);
    assert_eq!(left(), 1);
    assert_eq!(desk.send("POST", &revoke, &body).0, 303);
    assert_eq!(left(), 0);
    assert!(!desk.page("/permissions").contains(&revoke));
}

#[test]
fn an_approvers_token_sees_none_of_these_pages() {
    let (home, permissions) = home();
    let _trace = record(&home);
    let store = store::Desk::open(&home.path("state/sluice/desk.db")).unwrap();
    // Not even one without limits: it is for questions.
    let token = NewToken {
        name: "ada".to_owned(),
        role: Role::Approver,
        tenant: None,
        apps: Vec::new(),
        effects: Vec::new(),
        expires: None,
    };
    let token = wait(store.new_token(&token, SystemTime::now().into())).unwrap();
    let mut desk = Desk::start(&home);
    desk.cookie.clear();
    let (_, answer) = desk.send("POST", "/login", &format!("token={token}"));
    desk.keep_cookie(&answer);
    // Her own login, as the page of the questions has it.
    let csrf = desk.csrf("/");
    let id = permissions.ids().unwrap()[0].to_string();
    let revoke = format!("/permissions/{id}/revoke");
    let body = |page: String| page.split_once("\r\n\r\n").unwrap().1.to_owned();
    let (_, refused) = desk.send("GET", "/apps", "");
    let refused = body(refused);
    let version = "/sessions/s1/version?known=0";
    for path in PAGES.iter().chain(&[version, "/sessions/s2", &revoke]) {
        let (status, page) = desk.send("GET", path, "");
        assert_eq!((status, body(page)), (403, refused.clone()), "{path}");
    }
    assert!(
        !refused.contains("notes") && !refused.contains("/sessions"),
        "{refused}"
    );
    assert_eq!(desk.send("POST", &revoke, &format!("csrf={csrf}")).0, 403);
    assert_eq!(permissions.ids().unwrap().len(), 1);
}
