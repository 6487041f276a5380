//! What others get of the desk: a hostile page in the same browser, a stolen token, an approver with a limit, another user of
//! the machine.

use std::fs;
use std::os::unix::fs::MetadataExt;

use serde_json::{Value, json};
use test_support::{Reply, Server, wait};

use super::browser;
use super::chromium::{Browser, Page};
use super::stage::{JSON, Stage, http, question};

/// Tries all that a page may do to another origin. `DESK` are the addresses of the desk, `ID` is a question's id.
const PAGE: &str = r#"<!doctype html><title>hostile</title><body><script>
const within = (ms, promise) => Promise.race([promise, new Promise(done => setTimeout(done, ms, 'nothing'))]);
const paths = ['/', '/questions/ID', '/version?known=0', '/sluice/v1/approvals', '/sluice/v1/openapi.json'];
const body = new URLSearchParams({ answer: 'once', confirm: '1', csrf: 'x' });
async function attack(desk) {
  const got = [], note = (what, value) => got.push(what + ': ' + String(value).slice(0, 100));
  const reads = paths.flatMap(path => ['cors', 'no-cors'].map(async mode => {
    // An answer that is held back until something changes would tell when that is.
    const begun = performance.now();
    await within(15000, fetch(desk + path, { mode, credentials: 'include' })
      .then(async it => { const text = await it.text(); if (it.status || text) note('read ' + path, text) }, () => {}));
    if (performance.now() - begun > 8000) note('slow ' + path, performance.now() - begun);
  }));
  const posts = paths.flatMap(path => ['application/x-www-form-urlencoded', 'text/plain'].map(type =>
    within(2000, fetch(desk + path, { method: 'POST', mode: 'no-cors', credentials: 'include', headers: { 'Content-Type': type },
      body: type === 'text/plain' ? '{"answer":"once"}' : body }).catch(() => {}))));
  const tags = paths.flatMap(path => ['img', 'script', 'iframe', 'link'].map(async tag => {
    const it = document.createElement(tag);
    if (tag === 'link') { it.rel = 'stylesheet'; it.href = desk + path } else it.src = desk + path;
    const loaded = new Promise(done => { it.onload = () => done('loaded'); it.onerror = () => done('failed') });
    document.body.append(it);
    const came = await within(1000, loaded);
    if (tag !== 'iframe' && came === 'loaded') note(tag + ' ' + path, came);
    if (tag === 'iframe') { try { if (it.contentDocument.body.innerText) note('frame ' + path, it.contentDocument.body.innerText) } catch {}
      if (it.contentWindow.length) note('frames ' + path, it.contentWindow.length) }
    it.remove();
  }));
  const form = document.createElement('form'), sink = document.createElement('iframe');
  form.method = 'post'; form.action = desk + '/questions/ID'; form.target = sink.name = 'sink' + Math.random();
  for (const [name, value] of body) { const it = document.createElement('input'); it.name = name; it.value = value; form.append(it) }
  document.body.append(sink, form); form.submit();
  const opened = window.open(desk + '/');
  if (!opened) note('popup', 'blocked');
  await Promise.all([...reads, ...posts, ...tags, within(1000, new Promise(() => {}))]);
  try { if (opened.document.body.innerText) note('opened', opened.document.body.innerText) } catch {}
  if (opened && !opened.closed && opened.length) note('frames of opened', opened.length);
  opened?.close();
  return got;
}
window.done = Promise.all(DESKS.map(attack)).then(all => all.flat());
</script>"#;

/// What the page gets of these addresses, from each name that this machine has in a browser, and the cookies that it is sent.
fn attacked(
    browser: &Browser,
    user: &Page,
    desks: &[String],
    id: &str,
) -> (Vec<Value>, Vec<String>) {
    let text = PAGE
        .replace("DESKS", &json!(desks).to_string())
        .replace("ID", id);
    let server = Server::start(move |_| html(&text));
    let pages = ["127.0.0.1", "localhost", "evil.localhost"].map(|host| {
        let page = browser.beside(user);
        page.open(&format!("http://{host}:{}/", server.port));
        page
    });
    let got = pages.map(|page| page.evaluate("window.done"));
    let cookies = server.requests().into_iter();
    let cookies = cookies.map(|request| request.header("cookie").to_owned());
    (got.to_vec(), cookies.filter(|it| !it.is_empty()).collect())
}

fn html(text: &str) -> Reply {
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let kind = header("Content-Type", "text/html");
    Reply::Whole(200, vec![kind], text.to_owned())
}

#[test]
fn a_hostile_page_reads_counts_and_answers_nothing() {
    let Some(browser) = browser() else { return };
    let stage = Stage::start();
    let user = browser.page();
    user.open(&stage.login);
    let port = stage.url.rsplit(':').next().unwrap();
    // It knows the port, and even the name, which only the user's browser has.
    let local = ["127.0.0.1", "localhost"].map(|host| format!("http://{host}:{port}"));
    let desks: Vec<String> = local.into_iter().chain([stage.url.clone()]).collect();
    // With no question and with several, it finds out the same.
    for count in [0, 5] {
        let ids = (0..count).map(|it| stage.ask(&question(&format!("send_{it}"))));
        let ids: Vec<_> = ids.collect();
        let id = ids
            .first()
            .map_or_else(|| "0".repeat(32), ToString::to_string);
        let (got, cookies) = attacked(&browser, &user, &desks, &id);
        assert!(
            got.iter().all(|got| *got == json!([])),
            "{count} questions: {got:?}"
        );
        // Browsers send cookies to every port of a name.
        assert_eq!(cookies, [""; 0]);
        assert!(ids.iter().all(|id| stage.answer(*id).is_none()));
    }
    user.open(&stage.url);
    assert!(user.text().contains("send_4"), "{}", user.text());
    // A server that keeps nothing from other pages: what is tried above would be noticed.
    let open = Server::start(|_| html("<p>words<iframe></iframe>"));
    open_cookie(&user, &open);
    let (got, cookies) = attacked(&browser, &user, &[open.url("")], "0");
    let got = got[0].to_string();
    for found in ["frames of opened: 1", "frames /: 1"] {
        assert!(got.contains(found), "{got}");
    }
    assert!(cookies.contains(&"its=own".to_owned()), "{cookies:?}");
    let posted = open
        .requests()
        .iter()
        .filter(|it| it.method == "POST")
        .count();
    assert!(posted > 0);
}

/// The user has a cookie of this server.
fn open_cookie(user: &Page, server: &Server) {
    user.open(&server.url("/"));
    user.evaluate("document.cookie = 'its=own; SameSite=Strict'");
}

#[test]
#[ignore = "server tests the same over HTTP"]
fn a_stolen_token_is_worth_nothing_after_its_end() {
    let Some(browser) = browser() else { return };
    let stage = Stage::start();
    let page = browser.page();
    let token = stage.token("stolen");
    let id = stage.ask(&question("send_mail"));
    stage.log_in(&page, &token);
    page.open(&format!("{}/questions/{id}", stage.url));
    assert!(page.text().contains("Allow once"), "{}", page.text());
    let port = stage.url.rsplit(':').next().unwrap();
    let api = &format!("127.0.0.1:{port}");
    let bearer = format!("Authorization: Bearer {token}\r\n{JSON}");
    let approvals = "/sluice/v1/approvals";
    assert_eq!(http(api, "GET", approvals, &bearer, "").0, 200);
    assert!(wait(stage.store.revoke("stolen")).unwrap());
    // A page that is open already, a cookie, and the token itself.
    page.loading(|page| page.tap("button", "Allow once"));
    page.open(&stage.url);
    assert!(!page.text().contains("send_mail"), "{}", page.text());
    assert_eq!(http(api, "GET", approvals, &bearer, "").0, 401);
    let answer = r#"{"answer": "once"}"#;
    let path = format!("{approvals}/{id}");
    assert_eq!(http(api, "POST", &path, &bearer, answer).0, 401);
    assert_eq!(stage.answer(id), None);
}

#[test]
#[ignore = "server tests the same over HTTP"]
fn an_approver_with_a_limit_sees_and_counts_what_is_within() {
    let Some(browser) = browser() else { return };
    let stage = Stage::start();
    let page = browser.page();
    stage.log_in(&page, &stage.token_for("limited", &["notes"]));
    let outside = stage.ask(&question("send_mail"));
    let before = page_text(&stage, &page);
    let more = stage.ask(&question("send_more"));
    assert_eq!(page_text(&stage, &page), before);
    assert!(!before.contains("send_mail"), "{before}");
    for id in [outside, more] {
        page.open(&format!("{}/questions/{id}", stage.url));
        assert!(!page.text().contains("send_"), "{}", page.text());
        // As if there were no such question.
        let shown = page.text();
        page.open(&format!("{}/questions/{}", stage.url, "0".repeat(32)));
        assert_eq!(page.text(), shown);
    }
    for path in ["/sessions", "/permissions", "/memory", "/apps", "/policy"] {
        page.open(&format!("{}{path}", stage.url));
        let status = page.evaluate("performance.getEntriesByType('navigation')[0].responseStatus");
        assert!(status == 403 || status == 404, "{path}: {}", page.text());
    }
}

fn page_text(stage: &Stage, page: &Page) -> String {
    page.open(&stage.url);
    page.text()
}

#[test]
fn another_user_of_the_machine_gets_nothing() {
    let stage = Stage::start();
    let id = stage.ask(&question("send_mail"));
    let desk = stage.url.trim_start_matches("http://");
    let port = desk.rsplit(':').next().unwrap();
    // Without a token, under each name, each path is as empty as with no question.
    for host in [
        desk,
        &format!("127.0.0.1:{port}"),
        &format!("localhost:{port}"),
    ] {
        for path in [
            "/",
            "/version?known=0",
            &format!("/questions/{id}"),
            "/sluice/v1/approvals",
            "/sessions",
        ] {
            let (status, answer) = http(host, "GET", path, "", "");
            assert!(
                status != 200 && !answer.contains("send_mail"),
                "{host}{path}: {answer}"
            );
        }
    }
    // Arguments of programs are everyone's to read.
    let process = format!("/proc/{}", stage.process());
    let arguments = fs::read_to_string(format!("{process}/cmdline")).unwrap();
    let code = stage.login.rsplit('=').next().unwrap();
    let name = stage
        .url
        .trim_start_matches("http://")
        .split('.')
        .next()
        .unwrap();
    assert!(
        !arguments.contains(code) && !arguments.contains(name),
        "{arguments}"
    );
    // Only their owner reads the files, and the folder in which they are.
    let folder = stage.path("state/sluice");
    let mode = |path: &std::path::Path| fs::metadata(path).unwrap().mode() & 0o077;
    for entry in fs::read_dir(&folder).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0, "{}", path.display());
    }
    // A code is for one login.
    let path = stage.login.split_once(desk).unwrap().1;
    let (status, answer) = http(desk, "GET", path, "", "");
    assert_eq!(status, 200, "{answer}");
    let (status, again) = http(desk, "GET", path, "", "");
    assert!(status != 200 || !again.contains("Set-Cookie"), "{again}");
    assert_eq!(stage.answer(id), None);
}
