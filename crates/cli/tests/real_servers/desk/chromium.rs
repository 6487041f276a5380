//! Chromium over its debugging pipe: JSON of the DevTools protocol on two file descriptors, so no driver and no open port.

use std::cell::{Cell, RefCell};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::rc::Rc;
use std::sync::mpsc::{self, Receiver};
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tempfile::TempDir;

/// Where Debian has it.
const PROGRAM: &str = "/usr/bin/chromium";
/// What makes the browser quiet, and the same on every machine.
const OPTIONS: [&str; 12] = [
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-first-run",
    "--disable-gpu",
    "--disable-popup-blocking",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
    "--font-render-hinting=none",
];
/// Longest that anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A key: its name, its code on Windows, and the text that it types.
pub(crate) struct Key(&'static str, u32, &'static str);
pub(crate) const TAB: Key = Key("Tab", 9, "");
pub(crate) const ENTER: Key = Key("Enter", 13, "\r");

pub(crate) struct Browser {
    pipe: Rc<Pipe>,
    child: Child,
    _profile: TempDir,
}

impl Browser {
    /// Nothing where this machine has none.
    pub(crate) fn start() -> Option<Self> {
        if !Path::new(PROGRAM).exists() {
            return None;
        }
        let profile = tempfile::tempdir().unwrap();
        // The browser reads at 3 and writes at 4.
        let pipes = "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1";
        let mut command = Command::new("sh");
        command
            .args(["-c", pipes, PROGRAM])
            .args(OPTIONS)
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .env("HOME", profile.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        if rustix::process::geteuid().is_root() {
            command.arg("--no-sandbox");
        }
        let mut child = command.arg("about:blank").spawn().unwrap();
        let input = RefCell::new(child.stdin.take().unwrap());
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || {
            let mut message = Vec::new();
            while let Ok(1..) = output.read_until(0, &mut message) {
                message.pop();
                let read = serde_json::from_slice(&message).unwrap();
                if sender.send(read).is_err() {
                    break;
                }
                message.clear();
            }
        });
        let pipe = Pipe {
            input,
            messages,
            last: Cell::new(0),
        };
        Some(Self {
            pipe: Rc::new(pipe),
            child,
            _profile: profile,
        })
    }

    /// A page of a person with cookies of their own.
    pub(crate) fn page(&self) -> Page {
        let context = self.pipe.call("", "Target.createBrowserContext", json!({}));
        self.page_of(context["browserContextId"].as_str().unwrap())
    }

    fn page_of(&self, context: &str) -> Page {
        let new = json!({ "url": "about:blank", "browserContextId": context });
        let target = self.pipe.call("", "Target.createTarget", new);
        let attach = json!({ "targetId": target["targetId"], "flatten": true });
        let session = self.pipe.call("", "Target.attachToTarget", attach);
        let page = Page {
            pipe: Rc::clone(&self.pipe),
            session: session["sessionId"].as_str().unwrap().to_owned(),
            context: context.to_owned(),
        };
        page.call("Page.enable", json!({}));
        page
    }

    /// Another page of the same person: it has the same cookies.
    pub(crate) fn beside(&self, page: &Page) -> Page {
        self.page_of(&page.context)
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        self.pipe.send("", "Browser.close", json!({}));
        let end = Instant::now() + Duration::from_secs(5);
        while matches!(self.child.try_wait(), Ok(None)) {
            if Instant::now() > end {
                let _ = self.child.kill();
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

struct Pipe {
    input: RefCell<ChildStdin>,
    messages: Receiver<Value>,
    last: Cell<u64>,
}

impl Pipe {
    fn send(&self, session: &str, method: &str, params: Value) -> u64 {
        let id = self.last.get() + 1;
        self.last.set(id);
        let mut message = json!({ "id": id, "method": method, "params": params });
        if !session.is_empty() {
            message["sessionId"] = session.into();
        }
        let message = format!("{message}\0");
        // A browser that has ended says so to whom waits for its answer.
        let _ = self.input.borrow_mut().write_all(message.as_bytes());
        id
    }

    fn call(&self, session: &str, method: &str, params: Value) -> Value {
        let mut answer = self.answer(session, method, params);
        assert!(answer.get("error").is_none(), "{method}: {answer}");
        answer["result"].take()
    }

    /// The answer to a command. Nothing waits for events.
    fn answer(&self, session: &str, method: &str, params: Value) -> Value {
        let id = self.send(session, method, params);
        loop {
            let message = self.messages.recv_timeout(PATIENCE);
            assert!(message.is_ok(), "{method}: {message:?}");
            let message = message.unwrap();
            if message["id"] == id {
                return message;
            }
        }
    }
}

pub(crate) struct Page {
    pipe: Rc<Pipe>,
    session: String,
    context: String,
}

impl Page {
    pub(crate) fn call(&self, method: &str, params: Value) -> Value {
        self.pipe.call(&self.session, method, params)
    }

    /// Does what loads another page, and waits until that is there.
    pub(crate) fn loading<T>(&self, act: impl FnOnce(&Self) -> T) -> T {
        self.evaluate("globalThis.isLeft = true");
        let done = act(self);
        let begun = Instant::now();
        // While the page is left, there is nothing to ask.
        while self.tried("!globalThis.isLeft && document.readyState === 'complete'")
            != Some(true.into())
        {
            assert!(begun.elapsed() < PATIENCE, "no other page: {}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
        done
    }

    pub(crate) fn open(&self, address: &str) {
        self.loading(|page| page.call("Page.navigate", json!({ "url": address })));
    }

    /// The value of an expression, if it has one.
    fn tried(&self, expression: &str) -> Option<Value> {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.pipe.answer(&self.session, "Runtime.evaluate", params);
        let result = answer.get_mut("result")?;
        result
            .get("exceptionDetails")
            .is_none()
            .then(|| result["result"]["value"].take())
    }

    /// The value of an expression, or of its promise.
    pub(crate) fn evaluate(&self, expression: &str) -> Value {
        let params =
            json!({ "expression": expression, "awaitPromise": true, "returnByValue": true });
        let mut answer = self.call("Runtime.evaluate", params);
        let failed = &answer["exceptionDetails"];
        assert!(failed.is_null(), "{expression}: {failed}");
        answer["result"]["value"].take()
    }

    /// What a reader sees of the page.
    pub(crate) fn text(&self) -> String {
        let text = self.evaluate("document.body.innerText");
        text.as_str().unwrap_or_default().to_owned()
    }

    /// Waits until an expression holds.
    pub(crate) fn wait_for(&self, expression: &str) -> Duration {
        let begun = Instant::now();
        while self.tried(expression) != Some(true.into()) {
            assert!(begun.elapsed() < PATIENCE, "{expression}: {}", self.text());
            std::thread::sleep(Duration::from_millis(5));
        }
        begun.elapsed()
    }

    pub(crate) fn press(&self, Key(name, code, text): &Key) {
        let mut event =
            json!({ "type": "keyDown", "key": name, "code": name, "windowsVirtualKeyCode": code });
        if !text.is_empty() {
            event["text"] = (*text).into();
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event);
    }

    pub(crate) fn type_text(&self, text: &str) {
        self.call("Input.insertText", json!({ "text": text }));
    }

    /// Presses Tab until what has the focus shows this text or has this name. Returns what had the focus before it.
    pub(crate) fn tab_to(&self, wanted: &str) -> Vec<String> {
        const FOCUSED: &str = "(it => it === document.body ? '' :
            (it.getAttribute('aria-label') || it.innerText || it.value || it.name || it.tagName).trim())(document.activeElement)";
        let mut passed = Vec::new();
        loop {
            self.press(&TAB);
            let focused = self.evaluate(FOCUSED);
            let focused = focused.as_str().unwrap().to_owned();
            if focused.contains(wanted) {
                return passed;
            }
            passed.push(focused);
            assert!(
                passed.len() < 250,
                "no {wanted:?} among {:?}: {}",
                passed,
                self.text()
            );
        }
    }

    /// A finger touches the first element that shows this text.
    pub(crate) fn tap(&self, selector: &str, wanted: &str) {
        let find = format!(
            "(() => {{ const it = [...document.querySelectorAll({selector:?})].find(it => (it.innerText || it.value || '').includes({wanted:?}));
                it.scrollIntoView({{ block: 'center', behavior: 'instant' }}); const at = it.getBoundingClientRect();
                return [at.x + at.width / 2, at.y + at.height / 2]; }})()"
        );
        let at = self.evaluate(&find);
        let point = json!([{ "x": at[0], "y": at[1] }]);
        let begin = json!({ "type": "touchStart", "touchPoints": point });
        self.call("Input.dispatchTouchEvent", begin);
        let end = json!({ "type": "touchEnd", "touchPoints": [] });
        self.call("Input.dispatchTouchEvent", end);
    }

    /// The size of the screen in CSS pixels. What is narrow is a phone's, with a finger in the place of a mouse.
    pub(crate) fn size(&self, width: u32, height: u32) {
        let is_phone = width < 600;
        let metrics =
            json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": is_phone });
        self.call("Emulation.setDeviceMetricsOverride", metrics);
        let touch = json!({ "enabled": is_phone });
        self.call("Emulation.setTouchEmulationEnabled", touch);
    }

    /// `light` or `dark`.
    pub(crate) fn scheme(&self, scheme: &str) {
        let features = json!([{ "name": "prefers-color-scheme", "value": scheme }]);
        self.call(
            "Emulation.setEmulatedMedia",
            json!({ "features": features }),
        );
    }

    /// Whether scripts of pages that are loaded from now on run.
    pub(crate) fn scripts(&self, run: bool) {
        let params = json!({ "value": !run });
        self.call("Emulation.setScriptExecutionDisabled", params);
    }

    /// Writes all of the page into a file, or its beginning.
    pub(crate) fn screenshot(&self, width: u32, most: u64, file: &Path) {
        self.size(width, 500);
        let height = self.evaluate("document.documentElement.scrollHeight");
        self.size(width, height.as_u64().unwrap().min(most) as u32);
        let image = self.call("Page.captureScreenshot", json!({ "format": "png" }));
        let image = STANDARD.decode(image["data"].as_str().unwrap()).unwrap();
        std::fs::write(file, image).unwrap();
    }
}
