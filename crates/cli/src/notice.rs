//! What is sent when a question waits: a line to a webhook, and a notification of the desktop. They say that something waits,
//! and decide nothing.

use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use config::{DeskSettings, Webhook};
use hub::question::Shown;
use hub::trace::escape;
use names::{Place, WebUrl};
use reqwest::header::CONTENT_TYPE;
use reqwest::{Client, redirect::Policy};
use serde_json::{Value, json};
use server::desk::Notice;
use store::KeptQuestion;
use tokio::process::Command;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::secrets::Secrets;
use crate::terminal::{aside, message};
use crate::words::counted;

/// At most one notice in this time. Questions that come meanwhile are one notice.
const PAUSE: Duration = Duration::from_secs(5);
/// Longest wait for a server or a program that is told.
const PATIENCE: Duration = Duration::from_secs(5);

/// Tells those that `[desk]` names, in the background.
pub(crate) struct Notices {
    newest: watch::Sender<Option<Waiting>>,
    contents: bool,
}

/// What is said.
#[derive(Debug, Clone)]
struct Waiting {
    count: usize,
    front: String,
    /// App, tool and title, if they may be said.
    contents: Option<[String; 3]>,
}

impl Notices {
    /// Those of `[desk]`; `None` if it names none. An address that cannot be used is a line, and is not told.
    pub(crate) fn of(desk: &DeskSettings) -> Option<Arc<dyn Notice>> {
        let hook = desk.webhook.as_ref().map(Hook::new);
        let hook = hook.transpose().unwrap_or_else(|error| {
            message(&format!("note: the webhook is not told: {error:#}"));
            None
        });
        if hook.is_none() && !desk.notify {
            return None;
        }
        let (newest, told) = watch::channel(None);
        tokio::spawn(tell(told, hook, desk.clone(), PAUSE));
        let contents = desk.contents;
        Some(Arc::new(Self { newest, contents }))
    }
}

impl Notice for Notices {
    fn waits(&self, count: usize, question: &KeptQuestion) {
        let question = &question.question;
        let contents = self.contents.then(|| {
            let shown: Shown = serde_json::from_str(&question.shown).unwrap_or_default();
            [&question.app, &question.tool, &shown.title.join(" ")].map(|text| escape(text))
        });
        let front = question.front.clone();
        self.newest.send_replace(Some(Waiting {
            count,
            front,
            contents,
        }));
    }
}

async fn tell(
    mut newest: watch::Receiver<Option<Waiting>>,
    hook: Option<Hook>,
    desk: DeskSettings,
    pause: Duration,
) {
    let page = desk.page.map(|page| page.to_string());
    let mut has_failed = false;
    while newest.changed().await.is_ok() {
        let Some(waiting) = newest.borrow_and_update().clone() else {
            continue;
        };
        let mut failed = Vec::new();
        if let Some(hook) = &hook {
            failed.extend(hook.post(&waiting.body(page.as_deref())).await.err());
        }
        if desk.notify {
            failed.extend(waiting.notify(page.as_deref()).await.err());
        }
        // Once: the same would be said at each question.
        for error in failed.iter().filter(|_| !has_failed) {
            aside(&format!("note: a notice was not delivered: {error:#}"));
        }
        has_failed |= !failed.is_empty();
        sleep(pause).await;
    }
}

/// A webhook.
struct Hook {
    client: Client,
    /// It may be a secret, so no message has it.
    url: WebUrl,
}

impl Hook {
    fn new(webhook: &Webhook) -> Result<Self> {
        let url = match webhook {
            Webhook::Address(url) => url.clone(),
            Webhook::Secret(name) => {
                let secret = Secrets::of_user()?.all()?.remove(name);
                let secret = secret.with_context(|| format!("there is no secret '{name}'; set it with `sluice secret set {name} --for https://SERVER`"))?;
                let url = WebUrl::new(secret.value.reveal())
                    .with_context(|| format!("the secret '{name}'"))?;
                if url.origin().as_str() != secret.origin {
                    bail!(
                        "the secret '{name}' is for {}, and its address is at another server",
                        secret.origin
                    );
                }
                url
            }
        };
        llm::set_up_tls();
        // A redirect would take it to an address that the user has not named.
        let mut client = Client::builder().redirect(Policy::none()).timeout(PATIENCE);
        if url.place() == Place::ThisMachine {
            client = client.no_proxy();
        }
        let client = client.build().map_err(reqwest::Error::without_url)?;
        Ok(Self { client, url })
    }

    async fn post(&self, body: &Value) -> Result<()> {
        let request = self.client.post(self.url.as_str());
        let request = request
            .header(CONTENT_TYPE, "application/json")
            .body(body.to_string());
        let answer = request.send().await.map_err(reqwest::Error::without_url);
        let status = answer.context("the webhook cannot be reached")?.status();
        if !status.is_success() {
            bail!("the webhook answered {status}");
        }
        Ok(())
    }
}

impl Waiting {
    /// `2 questions of guard wait`. No word of it is an app's: chat programs read marks and links in it.
    fn text(&self) -> String {
        let wait = if self.count == 1 { "waits" } else { "wait" };
        format!(
            "{} of {} {wait}",
            counted(self.count, "question", "questions"),
            self.front
        )
    }

    fn body(&self, page: Option<&str>) -> Value {
        let text = match page {
            Some(page) => format!("Sluice: {}. {page}", self.text()),
            None => format!("Sluice: {}.", self.text()),
        };
        let mut body = json!({
            "text": text,
            "waiting": self.count,
            "front": self.front,
            "address": page,
        });
        if let (Some(body), Some(contents)) = (body.as_object_mut(), &self.contents) {
            for (key, value) in ["app", "tool", "title"].into_iter().zip(contents) {
                body.insert(key.to_owned(), value.as_str().into());
            }
        }
        body
    }

    /// Runs `notify-send`.
    async fn notify(&self, page: Option<&str>) -> Result<()> {
        let title = self.contents.as_ref().map(|[.., title]| title.as_str());
        let lines: Vec<String> = title.into_iter().chain(page).map(plain).collect();
        let mut program = Command::new("notify-send");
        program.args(["--app-name=Sluice", "--", &self.text(), &lines.join("\n")]);
        program
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        program.kill_on_drop(true);
        let status = match timeout(PATIENCE, program.status()).await {
            Ok(status) => status.context("notify-send")?,
            Err(_) => bail!("notify-send does not end"),
        };
        match status.success() {
            true => Ok(()),
            false => bail!("notify-send ended with {status}"),
        }
    }
}

/// Text in which a desktop reads no marks.
fn plain(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::mpsc;

    use store::{Desk, NewQuestion, Time};

    use super::*;

    /// A server that answers with this status, and the bodies that it gets.
    fn server(status: &'static str) -> (String, mpsc::Receiver<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/k3y", listener.local_addr().unwrap());
        let (bodies, got) = mpsc::channel();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let (mut text, mut buffer) = (String::new(), [0; 4096]);
                while !text.ends_with('}') {
                    let count = stream.read(&mut buffer).unwrap();
                    text += std::str::from_utf8(&buffer[..count]).unwrap();
                }
                let head = format!(
                    "HTTP/1.1 {status}\r\nlocation: /elsewhere\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
                );
                stream.write_all(head.as_bytes()).unwrap();
                bodies.send(text).unwrap();
            }
        });
        (url, got)
    }

    async fn kept() -> KeptQuestion {
        let shown = Shown {
            title: vec!["bank wants to call pay.".to_owned()],
            ..Shown::default()
        };
        let new = NewQuestion {
            front: "proxy".to_owned(),
            session: String::new(),
            conversation: String::new(),
            tenant: None,
            asker: None,
            app: "<!channel> bank".to_owned(),
            tool: "pay\u{202e}".to_owned(),
            effect: "write".to_owned(),
            choices: vec!["no".to_owned()],
            approvers: Vec::new(),
            shown: serde_json::to_string(&shown).unwrap(),
            expires: Time::from_millis(1_000),
            key: None,
        };
        let desk = Desk::in_memory().unwrap();
        let id = desk.ask(&new, Time::from_millis(0)).await.unwrap().id;
        desk.find(&id.to_string()).await.unwrap().unwrap()
    }

    fn telling(url: &str, contents: bool) -> Notices {
        let hook = Hook::new(&Webhook::Address(WebUrl::new(url).unwrap())).unwrap();
        let (newest, told) = watch::channel(None);
        let settings = DeskSettings {
            contents,
            ..DeskSettings::default()
        };
        tokio::spawn(tell(told, Some(hook), settings, Duration::from_millis(200)));
        Notices { newest, contents }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn several_questions_are_one_notice_without_their_words() {
        let (url, got) = server("200 OK");
        let (notices, question) = (telling(&url, false), kept().await);
        notices.waits(1, &question);
        let first = got.recv_timeout(PATIENCE).unwrap();
        assert!(
            first.contains("\"waiting\":1") && first.contains("1 question of proxy waits"),
            "{first}"
        );
        for count in 2..5 {
            notices.waits(count, &question);
        }
        let second = got.recv_timeout(PATIENCE).unwrap();
        assert!(second.contains("\"waiting\":4"), "{second}");
        for text in [&first, &second] {
            assert!(!text.contains("bank") && !text.contains("pay"), "{text}");
        }
        assert!(got.recv_timeout(Duration::from_millis(400)).is_err());
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn contents_are_members_of_their_own_and_no_redirect_is_followed() {
        let (url, got) = server("302 Found");
        let (notices, question) = (telling(&url, true), kept().await);
        notices.waits(1, &question);
        let body = got.recv_timeout(PATIENCE).unwrap();
        let (_, body) = body.split_once("\r\n\r\n").unwrap();
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["title"], "bank wants to call pay.");
        assert_eq!(body["tool"], "pay\\u{202e}");
        assert!(!body["text"].as_str().unwrap().contains("channel"));
        assert!(got.recv_timeout(Duration::from_millis(300)).is_err());
        let hook = Hook::new(&Webhook::Address(WebUrl::new(&url).unwrap())).unwrap();
        let error = format!("{:#}", hook.post(&body).await.unwrap_err());
        assert!(error.contains("302") && !error.contains("k3y"), "{error}");
        let hook = Hook::new(&Webhook::Address(
            WebUrl::new("http://127.0.0.1:1/k3y").unwrap(),
        ))
        .unwrap();
        let error = format!("{:#}", hook.post(&body).await.unwrap_err());
        assert!(
            error.contains("cannot be reached") && !error.contains("k3y"),
            "{error}"
        );
        assert_eq!(plain("<a href='x'>&"), "&lt;a href='x'&gt;&amp;");
    }
}
