//! The page of the desk, over HTTP, and what strangers try there.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use reqwest::header::{HeaderMap, SET_COOKIE};
use reqwest::{Client, Method, RequestBuilder, StatusCode};
use serde_json::{Value, json};
use server::desk::page::{Page, PageError, PageSetup};
use store::{Answerer, Desk, NewQuestion, NewToken, QuestionId, Role, Time};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

const LOCAL: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// What is served under it is behind TLS.
const SERVED: &str = "desk.example.org";

struct Stage {
    store: Arc<Desk>,
    client: Client,
    /// Where the page listens.
    at: String,
    /// The name under which it is served.
    host: String,
    login: Box<dyn Fn() -> String>,
    end: Option<oneshot::Sender<()>>,
    serving: JoinHandle<()>,
}

/// An answer: its status, its headers and its text.
type Got = (StatusCode, HeaderMap, String);

fn now() -> Time {
    SystemTime::now().into()
}

fn later(ms: i64) -> Time {
    Time::from_millis(now().millis() + ms)
}

fn setup(store: &Arc<Desk>, address: SocketAddr, hosts: &[&str]) -> PageSetup {
    PageSetup {
        store: Arc::clone(store),
        address,
        hosts: hosts.iter().map(ToString::to_string).collect(),
        user: "owner".to_owned(),
        overview: None,
        audit: None,
        report: |_| {},
    }
}

async fn stage() -> Stage {
    stage_with(Desk::in_memory().unwrap()).await
}

async fn stage_with(store: Desk) -> Stage {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let store = Arc::new(store);
    let page = Page::bind(setup(&store, LOCAL, &[SERVED])).await.unwrap();
    let url = page.routes.url();
    let (logins, (end, ended)) = (page.routes.logins(), oneshot::channel());
    let serving = tokio::spawn(page.serve(async { drop(ended.await) }));
    let client = Client::builder().no_proxy().tls_certs_only([]);
    let client = client.redirect(reqwest::redirect::Policy::none());
    let host = url.strip_prefix("http://").unwrap().to_owned();
    Stage {
        store,
        client: client.build().unwrap(),
        at: format!("http://127.0.0.1:{}", host.rsplit_once(':').unwrap().1),
        login: Box::new(move || {
            let address = logins().unwrap();
            address.strip_prefix(&url).unwrap().to_owned()
        }),
        host,
        end: Some(end),
        serving,
    }
}

async fn got(request: RequestBuilder) -> Got {
    let answer = request.send().await.unwrap();
    let (status, mut headers) = (answer.status(), answer.headers().clone());
    headers.remove("date");
    (status, headers, answer.text().await.unwrap())
}

/// A browser: what it asks for has the name of the page, and with a login its cookie.
struct Browser<'a> {
    stage: &'a Stage,
    cookie: String,
    csrf: String,
}

impl Browser<'_> {
    fn get(&self, path: &str) -> RequestBuilder {
        self.stage
            .ask(Method::GET, path)
            .header("cookie", &self.cookie)
    }

    async fn page(&self, path: &str) -> String {
        let (status, _, text) = got(self.get(path)).await;
        assert_eq!(status, 200, "{path}: {text}");
        text
    }

    fn post(&self, path: &str, form: &[(&str, &str)]) -> RequestBuilder {
        let post = self.stage.form(path, form);
        post.header("cookie", &self.cookie)
    }

    async fn answer(&self, id: QuestionId, answer: &str, more: &[(&str, &str)]) -> Got {
        let form = [&[("csrf", self.csrf.as_str()), ("answer", answer)], more].concat();
        got(self.post(&format!("/questions/{id}"), &form)).await
    }
}

impl Stage {
    fn ask(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.client.request(method, format!("{}{path}", self.at));
        request.header("host", &self.host)
    }

    /// A form as a page of the desk sends it.
    fn form(&self, path: &str, form: &[(&str, &str)]) -> RequestBuilder {
        let encoded = form.iter().map(|(name, value)| format!("{name}={value}"));
        let body = encoded.collect::<Vec<_>>().join("&");
        self.ask(Method::POST, path)
            .header("content-type", "application/x-www-form-urlencoded")
            .header("origin", "null")
            .header("sec-fetch-site", "same-origin")
            .body(body)
    }

    async fn browser(&self, entered: Got) -> Browser<'_> {
        let (status, headers, text) = entered;
        assert_eq!(status, 200, "{text}");
        let cookie = headers[SET_COOKIE].to_str().unwrap();
        let mut browser = Browser {
            stage: self,
            cookie: cookie.split(';').next().unwrap().to_owned(),
            csrf: String::new(),
        };
        let page = browser.page("/").await;
        let csrf = page.split("name=\"csrf\" value=\"").nth(1).unwrap();
        browser.csrf = csrf.split('"').next().unwrap().to_owned();
        browser
    }

    /// The browser of the user who started the desk.
    async fn owner(&self) -> Browser<'_> {
        let entered = got(self.ask(Method::GET, &(self.login)())).await;
        self.browser(entered).await
    }

    async fn token(&self, name: &str, apps: &[&str]) -> String {
        let new = NewToken {
            name: name.to_owned(),
            role: Role::Approver,
            tenant: None,
            apps: apps.iter().map(ToString::to_string).collect(),
            effects: Vec::new(),
            expires: None,
        };
        self.store.new_token(&new, now()).await.unwrap()
    }

    async fn approver(&self, token: &str) -> Browser<'_> {
        let entered = got(self.form("/login", &[("token", token)])).await;
        self.browser(entered).await
    }

    async fn asks(
        &self,
        app: &str,
        change: impl FnOnce(&mut NewQuestion, &mut Value),
    ) -> QuestionId {
        let mut shown = shown(app);
        let mut new = NewQuestion {
            front: "proxy".to_owned(),
            session: String::new(),
            conversation: "talk".to_owned(),
            tenant: None,
            asker: None,
            app: app.to_owned(),
            tool: "send".to_owned(),
            effect: "irreversible".to_owned(),
            choices: ["once", "trust", "no"].map(str::to_owned).to_vec(),
            approvers: Vec::new(),
            shown: String::new(),
            expires: later(600_000),
            key: None,
        };
        change(&mut new, &mut shown);
        new.shown = shown.to_string();
        self.store.ask(&new, now()).await.unwrap().id
    }

    async fn answer_to(&self, id: QuestionId) -> Option<(String, Answerer)> {
        let answer = self.store.read(&[id]).await.unwrap().all.pop()?.answer?;
        Some((answer.answer, answer.by))
    }
}

/// What a question about `send` of this app shows.
fn shown(app: &str) -> Value {
    let choice = |answer: &str, meaning: &str| json!({"answer": answer, "words": answer, "meaning": meaning});
    json!({
        "is_unreadable": false,
        "title": [format!("{app} wants to call send (irreversible). This needs your approval:")],
        "app": app, "tool": "send", "effect": "irreversible", "is_answer": false,
        "arguments": [{"name": "to", "value": "\"bob@example.org\"", "mixed": [], "is_covered": false}],
        "text": null, "waiting": [],
        "rule": "send.limit", "argument": null, "limit": [], "excess": ["untrusted"],
        "reasons": ["The rule send.limit allows only trusted and public text."],
        "sources": [{"source": "result of inbox", "label": ["untrusted:mail"], "before": "write to ",
            "text": "bob@example.org", "after": " today", "is_relevant": true, "shared": ["to"], "times": 1,
            "writers": ["sender mallory"]}],
        "descriptions": "3 tool descriptions (untrusted)",
        "notes": ["Without approval it may go to hr@example.org."],
        "trusted": [{"source": "result of inbox", "text": "write to bob@example.org today"}],
        "hosts": [], "instead": null,
        "choices": [choice("once", ""), choice("trust", "trust: the mail may steer this app."), choice("no", "")],
        "approvers": [],
    })
}

#[tokio::test]
async fn without_a_login_every_path_is_the_same_redirect() {
    let stage = stage().await;
    let before = got(stage.ask(Method::GET, "/")).await;
    assert_eq!(
        (before.0, before.1["location"].to_str().unwrap()),
        (StatusCode::SEE_OTHER, "/login")
    );
    let id = stage.asks("mail", |_, _| {}).await;
    let question = format!("/questions/{id}");
    let paths = [
        "/",
        "/version?known=0",
        &question,
        "/questions/0",
        "/nothing",
        "/desk.js",
        "/?app=mail",
    ];
    for path in paths {
        assert_eq!(got(stage.ask(Method::GET, path)).await, before, "{path}");
    }
    for path in [&question, "/logout", "/nothing"] {
        let post = stage.form(path, &[("answer", "once"), ("csrf", "")]);
        assert_eq!(got(post).await, before, "{path}");
    }
    // A cookie that is made up.
    let made_up = stage
        .ask(Method::GET, "/")
        .header("cookie", format!("sluice={}", "0".repeat(32)));
    assert_eq!(got(made_up).await, before);
    assert_eq!(stage.answer_to(id).await, None);
    let login = got(stage.ask(Method::GET, "/login")).await;
    assert!(
        login.0 == 200 && !login.2.contains("question"),
        "{}",
        login.2
    );
}

#[tokio::test]
async fn a_code_logs_in_one_browser_once() {
    let stage = stage().await;
    let older = (stage.login)();
    let newer = (stage.login)();
    // The one before is not valid any more.
    for (path, expected, why) in [
        (&older, 403, "printed a newer one"),
        (&newer, 200, ""),
        (&newer, 403, "was used already"),
        (&"/login?code=".to_owned(), 403, "older than ten minutes"),
    ] {
        let (status, headers, text) = got(stage.ask(Method::GET, path)).await;
        assert!(status == expected && text.contains(why), "{text}");
        assert_eq!(headers.contains_key(SET_COOKIE), expected == 200);
        let Some(cookie) = headers.get(SET_COOKIE) else {
            continue;
        };
        let cookie = cookie.to_str().unwrap();
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict"),
            "{cookie}"
        );
    }
    // A preview of the link does not use it up.
    let link = (stage.login)();
    let preview = got(stage.ask(Method::HEAD, &link)).await;
    assert!(!preview.1.contains_key(SET_COOKIE));
    let browser = stage
        .browser(got(stage.ask(Method::GET, &link)).await)
        .await;
    assert_eq!(got(browser.get("/logout")).await.0, 303);
    browser.page("/").await;
    let out = got(browser.post("/logout", &[("csrf", &browser.csrf)])).await;
    assert_eq!(out.0, 303);
    assert_eq!(got(browser.get("/")).await.0, 303);
}

#[tokio::test]
async fn a_token_that_cannot_be_checked_is_not_called_wrong() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("state/desk.db");
    let stage = stage_with(Desk::open(&file).unwrap()).await;
    let other = rusqlite::Connection::open(&file).unwrap();
    other.execute_batch("DROP TABLE token").unwrap();
    let (status, _, text) = got(stage.form("/login", &[("token", "sluice-x")])).await;
    assert!(
        status == 503 && text.contains("cannot be checked now"),
        "{text}"
    );
}

#[tokio::test]
async fn a_login_counts_after_many_wrong_ones() {
    let stage = stage().await;
    let token = stage.token("ada", &[]).await;
    let code = (stage.login)();
    for guess in 0..30 {
        let guess = format!("sluice-{guess}");
        let path = format!("/login?code={guess}");
        assert_eq!(got(stage.ask(Method::GET, &path)).await.0, 403);
        assert_eq!(got(stage.form("/login", &[("token", &guess)])).await.0, 403);
    }
    assert_eq!(got(stage.form("/login", &[("token", &token)])).await.0, 200);
    assert_eq!(got(stage.ask(Method::GET, &code)).await.0, 200);
}

#[tokio::test]
async fn every_answer_keeps_other_sites_out() {
    let stage = stage().await;
    let browser = stage.owner().await;
    let elsewhere = stage.ask(Method::GET, "/").header("host", "evil.example");
    for request in [
        browser.get("/"),
        browser.get("/nothing"),
        browser.get("/style.css"),
        stage.ask(Method::GET, "/"),
        stage.ask(Method::GET, "/login"),
        elsewhere,
    ] {
        let (_, headers, _) = got(request).await;
        let policy = headers["content-security-policy"].to_str().unwrap();
        for part in [
            "default-src 'none'",
            "frame-ancestors 'none'",
            "form-action 'self'",
            "base-uri 'none'",
        ] {
            assert!(policy.contains(part), "{policy}");
        }
        assert!(!policy.contains("unsafe"));
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cross-origin-resource-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(headers[name], value);
        }
    }
}

#[tokio::test]
async fn a_rebound_host_and_another_site_are_refused() {
    let stage = stage().await;
    let browser = stage.owner().await;
    let id = stage.asks("mail", |_, _| {}).await;
    let port = stage.host.rsplit_once(':').unwrap().1.to_owned();
    // At an address each server of this machine would be sent the cookie.
    for host in [
        "evil.example",
        "localhost",
        "127.0.0.1",
        &format!("127.0.0.1:{port}"),
        "x.localhost",
    ] {
        for request in [stage.ask(Method::GET, &(stage.login)()), browser.get("/")] {
            // The header of the stage is replaced.
            let mut request = request.build().unwrap();
            request.headers_mut().insert("host", host.parse().unwrap());
            let answer = stage.client.execute(request).await.unwrap();
            assert_eq!(answer.status(), 403, "{host}");
            assert!(!answer.headers().contains_key(SET_COOKIE));
        }
    }
    let own = format!("http://{}", stage.host);
    let form = [("csrf", browser.csrf.as_str()), ("answer", "once")];
    let question = format!("/questions/{id}");
    for (origin, site) in [
        (Some("https://evil.example"), Some("cross-site")),
        (Some("http://127.0.0.1:8000"), Some("same-site")),
        (Some("http://127.0.0.1:8000"), None),
        (Some("null"), Some("cross-site")),
        (Some("null"), None),
        (Some(own.as_str()), Some("cross-site")),
        (Some("http://evil.example"), Some("same-origin")),
        (None, None),
    ] {
        for (path, form) in [
            (question.as_str(), &form[..]),
            ("/login", &[("token", "x")]),
            ("/logout", &form),
        ] {
            let mut request = browser.post(path, form).build().unwrap();
            let headers = request.headers_mut();
            for (name, value) in [("origin", origin), ("sec-fetch-site", site)] {
                headers.remove(name);
                value.map(|value| headers.insert(name, value.parse().unwrap()));
            }
            let answer = stage.client.execute(request).await.unwrap();
            assert_eq!(answer.status(), 403, "{origin:?} {site:?} {path}");
        }
    }
    // What is loaded into another site's page is not given to it; a link of one may be followed.
    for (mode, expected) in [("no-cors", 403), ("cors", 403), ("navigate", 200)] {
        let get = browser.get("/").header("sec-fetch-site", "cross-site");
        assert_eq!(
            got(get.header("sec-fetch-mode", mode)).await.0,
            expected,
            "{mode}"
        );
    }
    assert_eq!(stage.answer_to(id).await, None);
    // A browser that says its origin alone is one of ours too.
    let mut request = browser.post(&question, &form).build().unwrap();
    request.headers_mut().remove("sec-fetch-site");
    request.headers_mut().insert("origin", own.parse().unwrap());
    assert_eq!(stage.client.execute(request).await.unwrap().status(), 303);
    assert_eq!(stage.answer_to(id).await.unwrap().0, "once");
}

#[tokio::test]
async fn a_form_needs_the_field_of_its_own_login() {
    let stage = stage().await;
    let (browser, other) = (stage.owner().await, stage.owner().await);
    let id = stage.asks("mail", |_, _| {}).await;
    let question = format!("/questions/{id}");
    for csrf in [None, Some(""), Some("0"), Some(other.csrf.as_str())] {
        let mut form = vec![("answer", "once")];
        form.extend(csrf.map(|csrf| ("csrf", csrf)));
        assert_eq!(got(browser.post(&question, &form)).await.0, 403, "{csrf:?}");
    }
    let long = "0".repeat(100_000);
    let form = [("csrf", browser.csrf.as_str()), ("answer", &long)];
    assert_eq!(got(browser.post(&question, &form)).await.0, 413);
    // A form that another site may send without a question to us (CORS).
    let plain = browser.post(&question, &[("csrf", &browser.csrf), ("answer", "once")]);
    let mut plain = plain.build().unwrap();
    plain
        .headers_mut()
        .insert("content-type", "text/plain".parse().unwrap());
    assert_eq!(stage.client.execute(plain).await.unwrap().status(), 403);
    assert_eq!(stage.answer_to(id).await, None);
}

#[tokio::test]
async fn behind_tls_the_cookie_is_for_tls_alone() {
    let stage = stage().await;
    let token = stage.token("ada", &[]).await;
    let with_host = |request: RequestBuilder, origin: &str| {
        let mut request = request.build().unwrap();
        request
            .headers_mut()
            .insert("host", SERVED.parse().unwrap());
        request
            .headers_mut()
            .insert("origin", origin.parse().unwrap());
        stage.client.execute(request)
    };
    let enter = || stage.form("/login", &[("token", &token)]);
    assert_eq!(
        with_host(enter(), &format!("http://{SERVED}"))
            .await
            .unwrap()
            .status(),
        403
    );
    let own = format!("https://{SERVED}");
    let entered = with_host(enter(), &own).await.unwrap();
    let cookie = entered.headers()[SET_COOKIE].to_str().unwrap().to_owned();
    assert!(
        cookie.starts_with("__Host-sluice=") && cookie.ends_with("; Secure"),
        "{cookie}"
    );
    let secret = cookie.split(['=', ';']).nth(1).unwrap();
    for (name, expected) in [("__Host-sluice", 200), ("sluice", 303)] {
        let get = stage
            .ask(Method::GET, "/")
            .header("cookie", format!("a=b; {name}={secret}"));
        assert_eq!(
            with_host(get, &own).await.unwrap().status(),
            expected,
            "{name}"
        );
    }
    // Another name of the same page, without TLS.
    let get = stage
        .ask(Method::GET, "/")
        .header("cookie", format!("__Host-sluice={secret}"));
    assert_eq!(got(get).await.0, 303);
    for (address, hosts, is_refused) in [
        ("0.0.0.0:0", &[][..], true),
        ("0.0.0.0:0", &[SERVED], false),
    ] {
        let bound = Page::bind(setup(&stage.store, address.parse().unwrap(), hosts)).await;
        assert_eq!(matches!(bound, Err(PageError::NotLoopback(_))), is_refused);
    }
}

#[tokio::test]
async fn a_question_is_shown_in_full_and_answered() {
    let stage = stage().await;
    let browser = stage.owner().await;
    assert!(browser.page("/").await.contains("No question waits"));
    let id = stage.asks("mail", |_, _| {}).await;
    let list = browser.page("/").await;
    assert!(
        list.contains("1 question waits") && list.contains(&format!("/questions/{id}")),
        "{list}"
    );
    assert!(
        list.contains("mail.send(to: &quot;bob@example.org&quot;)"),
        "{list}"
    );
    let page = browser.page(&format!("/questions/{id}")).await;
    for part in [
        "mail wants to call send (irreversible)",
        "&quot;bob@example.org&quot;</pre>",
        "write to <mark>bob@example.org</mark> today",
        "untrusted:mail",
        "by sender mallory",
        "It may depend on 3 tool descriptions (untrusted).",
        "The rule send.limit allows only trusted and public text.",
        "Without approval it may go to hr@example.org.",
        "trust: the mail may steer this app.",
    ] {
        assert!(page.contains(part), "{part}: {page}");
    }
    // No comes first, and nothing is focused by itself.
    let place = |answer: &str| {
        page.find(&format!("name=\"answer\" value=\"{answer}\""))
            .unwrap()
    };
    assert!(place("no") < place("once") && place("once") < place("trust"));
    assert!(!page.contains("autofocus"));
    let (status, headers, _) = browser.answer(id, "once", &[]).await;
    assert_eq!(
        (status.as_u16(), &headers["location"]),
        (303, &"/".parse().unwrap())
    );
    let by = Answerer {
        name: Some("owner".to_owned()),
        from: "page".to_owned(),
    };
    assert_eq!(stage.answer_to(id).await, Some(("once".to_owned(), by)));
    assert!(browser.page("/").await.contains("once, by owner from page"));
    let (status, _, text) = browser.answer(id, "no", &[]).await;
    assert!(
        status == 409 && text.contains("once, by owner from page"),
        "{text}"
    );
    assert!(
        !text.contains("name=\"answer\""),
        "an answered question has no buttons"
    );
}

#[tokio::test]
async fn a_lasting_answer_needs_a_second_step() {
    let stage = stage().await;
    let browser = stage.owner().await;
    let id = stage.asks("mail", |_, _| {}).await;
    let (status, _, text) = browser.answer(id, "trust", &[]).await;
    assert!(status == 200 && text.contains("name=\"confirm\""), "{text}");
    assert!(
        text.contains("write to bob@example.org today</pre>"),
        "all of the text is shown: {text}"
    );
    assert_eq!(stage.answer_to(id).await, None);
    assert_eq!(
        browser.answer(id, "trust", &[("confirm", "1")]).await.0,
        303
    );
    assert_eq!(stage.answer_to(id).await.unwrap().0, "trust");
}

#[tokio::test]
async fn what_the_page_does_not_show_cannot_be_allowed() {
    let stage = stage().await;
    let browser = stage.owner().await;
    let no_text = stage
        .asks("mail", |_, shown| shown["trusted"] = json!([]))
        .await;
    let not_offered = stage
        .asks("mail", |new, _| new.choices.retain(|it| it != "trust"))
        .await;
    let unreadable = stage
        .asks("mail", |_, shown| *shown = json!({"title": 1}))
        .await;
    let others = stage
        .asks("mail", |new, _| new.approvers = vec!["ada".to_owned()])
        .await;
    let no_object = stage
        .asks("mail", |_, shown| {
            shown["is_unreadable"] = json!(true);
            shown["text"] = json!("{to: bob");
        })
        .await;
    let page = browser.page(&format!("/questions/{no_object}")).await;
    assert!(page.contains("can only be denied") && page.contains("{to: bob</pre>"));
    for (id, answer) in [
        (no_object, "once"),
        (no_text, "trust"),
        (not_offered, "trust"),
        (no_text, "session"),
        (no_text, ""),
        (unreadable, "once"),
        (others, "once"),
    ] {
        let (status, _, text) = browser.answer(id, answer, &[("confirm", "1")]).await;
        assert_eq!(status, 400, "{answer}: {text}");
        assert_eq!(stage.answer_to(id).await, None);
    }
    let gone = stage.asks("mail", |new, _| new.expires = later(-1)).await;
    assert_eq!(browser.answer(gone, "once", &[]).await.0, 410);
    let page = browser.page(&format!("/questions/{others}")).await;
    assert!(page.contains("log in with a token of ada"), "{page}");
    for id in [unreadable, others, no_object] {
        assert_eq!(browser.answer(id, "no", &[]).await.0, 303);
    }
    // The one who may, and the one who asked, who may not.
    let ada = stage.token("ada", &[]).await;
    let ada = stage.approver(&ada).await;
    for (asker, expected) in [("bob", 303), ("ada", 400)] {
        let id = stage
            .asks("mail", |new, _| {
                new.approvers = vec!["ada".to_owned()];
                new.asker = Some(asker.to_owned());
            })
            .await;
        assert_eq!(ada.answer(id, "once", &[]).await.0, expected, "{asker}");
    }
}

/// Waits until this page says that something has changed for this browser.
async fn news(browser: &Browser<'_>, page: &str, within: u64) -> Option<Got> {
    let page = browser.page(page).await;
    let poll = page.split("data-poll=\"").nth(1).unwrap();
    let poll = poll.split('"').next().unwrap().replace("&amp;", "&");
    let news = tokio::time::timeout(Duration::from_millis(within), got(browser.get(&poll)));
    news.await.ok()
}

#[tokio::test]
async fn a_limited_approver_sees_and_counts_and_answers_only_its_own() {
    let stage = stage().await;
    let token = stage.token("ada", &["mail"]).await;
    let ada = stage.approver(&token).await;
    let empty = ada.page("/").await;
    let secret = stage.asks("bank", |_, _| {}).await;
    // Not even that there is one.
    assert_eq!(ada.page("/").await, empty);
    let nothing = got(ada.get(&format!("/questions/{}", "0".repeat(32)))).await;
    assert_eq!(nothing.0, 404);
    assert_eq!(got(ada.get(&format!("/questions/{secret}"))).await, nothing);
    assert_eq!(ada.answer(secret, "once", &[]).await, nothing);
    assert_eq!(ada.answer(secret, "no", &[]).await, nothing);
    let (waits, asked) = tokio::join!(news(&ada, "/", 600), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.asks("bank", |_, _| {}).await
    });
    assert!(
        waits.is_none(),
        "it learns that something of another app was asked"
    );
    let owner = stage.owner().await;
    assert_eq!(owner.answer(asked, "no", &[]).await.0, 303);
    assert_eq!(ada.page("/").await, empty);
    let own = stage.asks("mail", |_, _| {}).await;
    assert!(ada.page("/").await.contains("1 question waits"));
    assert_eq!(ada.answer(own, "once", &[]).await.0, 303);
    assert_eq!(
        stage.answer_to(own).await.unwrap().1.name.as_deref(),
        Some("ada")
    );
    assert_eq!(stage.answer_to(secret).await, None);
}

#[tokio::test]
async fn a_revoked_token_ends_its_logins_at_once() {
    let stage = stage().await;
    let token = stage.token("ada", &[]).await;
    let ada = stage.approver(&token).await;
    let id = stage.asks("mail", |_, _| {}).await;
    // Another token of the same name is not this one.
    stage.store.revoke("ada").await.unwrap();
    tokio::time::sleep(Duration::from_millis(2)).await;
    stage.token("ada", &[]).await;
    for path in ["/", "/version?known=", &format!("/questions/{id}")] {
        assert_eq!(got(ada.get(path)).await.0, 303, "{path}");
    }
    assert_eq!(ada.answer(id, "once", &[]).await.0, 303);
    assert_eq!(stage.answer_to(id).await, None);
    assert_eq!(got(stage.form("/login", &[("token", &token)])).await.0, 403);
}

#[tokio::test]
async fn foreign_text_stays_text() {
    let stage = stage().await;
    let browser = stage.owner().await;
    let evil = "</pre></mark><script>alert(1)</script>\"'><img src=x onerror=alert(1)>\u{202e}\u{200b}\u{1b}[2J\u{0}";
    let huge = format!("{evil}{}", "x".repeat(1 << 20));
    let texts = |value: &mut Value| {
        fn spread(value: &mut Value, evil: &str) {
            match value {
                Value::String(text) => *text = evil.to_owned(),
                Value::Array(all) => all.iter_mut().for_each(|it| spread(it, evil)),
                Value::Object(all) => {
                    let all = all.iter_mut().filter(|(name, _)| *name != "answer");
                    all.for_each(|(_, it)| spread(it, evil));
                }
                _ => {}
            }
        }
        spread(value, evil);
    };
    let id = stage
        .asks(evil, |new, shown| {
            texts(shown);
            shown["text"] = json!(huge);
            for text in [
                &mut new.conversation,
                &mut new.tool,
                &mut new.effect,
                &mut new.front,
            ] {
                evil.clone_into(text);
            }
            new.approvers = vec![evil.to_owned(), "owner".to_owned()];
        })
        .await;
    stage.asks("other", |_, _| {}).await;
    let question = format!("/questions/{id}");
    let mut pages = vec![browser.page("/").await, browser.page(&question).await];
    pages.push(browser.answer(id, "trust", &[]).await.2);
    assert!(pages.iter().skip(1).all(|page| page.len() > 1 << 20));
    let filtered = format!("/?app={}", "%3Cscript%3E%E2%80%AE");
    pages.push(browser.page(&filtered).await);
    browser.answer(id, "no", &[]).await;
    pages.push(browser.page("/").await);
    pages.push(browser.page(&question).await);
    for page in pages {
        for part in [
            "<script>alert",
            "<img",
            "\u{202e}",
            "\u{200b}",
            "\u{1b}",
            "\u{0}",
        ] {
            assert!(
                !page.contains(part),
                "{part:?} in {}",
                &page[..page.len().min(8000)]
            );
        }
        assert_eq!(
            page.matches("<script").count(),
            page.matches("<script src=\"/desk.js\"").count()
        );
    }
}

#[tokio::test]
async fn of_two_answers_the_first_counts() {
    let stage = stage().await;
    let (one, other) = (stage.owner().await, stage.owner().await);
    for _ in 0..8 {
        let id = stage.asks("mail", |_, _| {}).await;
        let (yes, no) = tokio::join!(one.answer(id, "once", &[]), other.answer(id, "no", &[]));
        let mut both = [(yes.0.as_u16(), "once"), (no.0.as_u16(), "no")];
        both.sort_unstable();
        assert_eq!([both[0].0, both[1].0], [303, 409]);
        assert_eq!(stage.answer_to(id).await.unwrap().0, both[0].1);
    }
}

#[tokio::test]
async fn a_thousand_questions_are_pages_of_a_hundred() {
    let stage = stage().await;
    let browser = stage.owner().await;
    for number in 0..1000 {
        stage
            .asks(["mail", "b&nk"][usize::from(number % 10 == 0)], |_, _| {})
            .await;
    }
    let begun = Instant::now();
    let list = browser.page("/").await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    let rows = |page: &str| page.matches("href=\"/questions/").count();
    assert!(list.contains("1000 questions wait") && rows(&list) == 100);
    let last = browser.page("/?page=10").await;
    assert!(rows(&last) == 100 && !list.contains("value=\"11\""));
    // Beyond the end is the end.
    assert_eq!(rows(&browser.page("/?page=99999").await), 100);
    let some = browser.page("/?app=b%26nk").await;
    assert!(
        some.contains("100 questions wait") && rows(&some) == 100,
        "{some}"
    );
}

#[tokio::test]
async fn a_question_that_is_answered_elsewhere_loses_its_buttons() {
    let stage = stage().await;
    let browser = stage.owner().await;
    let id = stage.asks("mail", |_, _| {}).await;
    let question = format!("/questions/{id}");
    // Another question is no news here.
    let (news, ()) = tokio::join!(self::news(&browser, &question, 600), async {
        tokio::time::sleep(Duration::from_millis(100)).await;
        stage.asks("mail", |_, _| {}).await;
    });
    assert!(news.is_none());
    let (news, ()) = tokio::join!(self::news(&browser, &question, 5000), async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        let by = Answerer {
            name: None,
            from: "terminal".to_owned(),
        };
        stage.store.answer(id, "no", &by, now()).await.unwrap();
    });
    assert_eq!(news.unwrap().0, 200);
    let page = browser.page(&question).await;
    assert!(page.contains("Answered: no") && !page.contains("name=\"answer\""));
    assert!(page.contains("id=\"live\"") && !page.contains("data-poll"));
}

#[tokio::test]
async fn news_comes_soon_and_keeps_no_server_running() {
    let mut stage = stage().await;
    let end = stage.end.take();
    let browser = stage.owner().await;
    let (news, ()) = tokio::join!(self::news(&browser, "/", 5000), async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        stage.asks("mail", |_, _| {}).await;
    });
    assert_eq!(news.unwrap().0, 200);
    let begun = Instant::now();
    let (news, ()) = tokio::join!(self::news(&browser, "/", 5000), async {
        tokio::time::sleep(Duration::from_millis(150)).await;
        drop(end);
    });
    assert_eq!(news.unwrap().0, 204);
    (&mut stage.serving).await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(5));
}
