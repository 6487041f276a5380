//! Every action in every way of using a browser, and what axe-core finds on the pages.

use std::fs;
use std::path::Path;

use serde_json::Value;

use super::browser;
use super::chromium::{ENTER, Page};
use super::stage::{Stage, question};
use crate::node;
use crate::registry::{Mode, Registry};
use crate::say;

const LOCK: &str = include_str!("../desk.lock.txt");

/// How a person uses a page.
#[derive(Debug, Clone, Copy)]
struct Way {
    by_touch: bool,
    scripts: bool,
}

impl Way {
    const ALL: [Self; 4] = [
        Self::new(false, true),
        Self::new(false, false),
        Self::new(true, true),
        Self::new(true, false),
    ];

    const fn new(by_touch: bool, scripts: bool) -> Self {
        Self { by_touch, scripts }
    }

    /// Follows a link or presses a button.
    fn choose(self, page: &Page, text: &str) {
        self.reach(page, "a, button", text);
        page.loading(|page| match self.by_touch {
            true => page.tap("a, button", text),
            false => page.press(&ENTER),
        });
    }

    /// Types into the only field.
    fn fill(self, page: &Page, text: &str) {
        match self.by_touch {
            true => page.tap("input:not([type=hidden])", ""),
            false => {
                while page.evaluate("document.activeElement.matches('input')") != true {
                    page.press(&super::chromium::TAB);
                }
            }
        }
        page.type_text(text);
    }

    fn reach(self, page: &Page, selector: &str, text: &str) {
        match self.by_touch {
            true => fits(page, selector),
            false => _ = page.tab_to(text),
        }
    }
}

/// Nothing is wider than a phone, and what is touched is as large as a finger.
fn fits(page: &Page, selector: &str) {
    let wide = page.evaluate("document.documentElement.scrollWidth");
    assert!(wide.as_u64().unwrap() <= 320, "{wide} px: {}", page.text());
    let small = page.evaluate(
        "[...document.querySelectorAll('button')].filter(it => it.getBoundingClientRect().height < 44).map(it => it.innerText)",
    );
    assert_eq!(small, serde_json::json!([]), "{selector}");
}

#[test]
#[ignore = "takes long"]
fn each_question_is_answered_by_keyboard_by_touch_and_without_scripts() {
    let Some(browser) = browser() else { return };
    let stage = Stage::start();
    for (number, way) in Way::ALL.into_iter().enumerate() {
        let page = browser.page();
        page.scripts(way.scripts);
        match way.by_touch {
            true => page.size(320, 640),
            false => page.size(1000, 700),
        }
        page.open(&format!("{}/login", stage.url));
        way.fill(&page, &stage.token(&format!("way-{number}")));
        way.choose(&page, "Log in");
        for (answer, buttons) in [
            ("no", &["Deny"][..]),
            ("once", &["Allow once"][..]),
            ("trust", &["Allow: trust", "Yes: trust"][..]),
        ] {
            let tool = format!("send_{answer}_{number}");
            let id = stage.ask(&question(&tool));
            page.open(&stage.url);
            way.choose(&page, &tool);
            if !way.by_touch {
                // Enter alone allows nothing, and what denies comes first.
                let before = page.tab_to("Deny");
                let allows = before.iter().any(|it| it.starts_with("Allow"));
                assert!(!allows, "{way:?}: {before:?}");
                page.evaluate("document.activeElement.blur()");
            }
            for button in buttons {
                assert_eq!(stage.answer(id), None, "{way:?}: {}", page.text());
                way.choose(&page, button);
            }
            let given = stage.answered(id);
            assert_eq!(given, (answer.to_owned(), "page".to_owned()), "{way:?}");
        }
        way.choose(&page, "Log out");
        page.open(&stage.url);
        assert!(!page.text().contains("send_"), "{}", page.text());
    }
}

/// The pages of the desk for the user who started it.
const PAGES: [&str; 6] = [
    "/",
    "/sessions",
    "/permissions",
    "/memory",
    "/apps",
    "/policy",
];

#[test]
#[ignore = "takes long"]
fn axe_finds_nothing_serious_in_light_and_dark() {
    let mode = match Mode::of(LOCK) {
        Ok(mode) => mode,
        Err(reason) => return say(&format!("{reason}\n")),
    };
    let Some(browser) = browser() else { return };
    let registry = Registry::start(mode, LOCK);
    let folder = node::install(&registry, &["axe-core"]);
    let axe = fs::read_to_string(folder.path().join("node_modules/axe-core/axe.min.js")).unwrap();
    let stage = Stage::start();
    let page = browser.page();
    page.open(&format!("{}/login", stage.url));
    let mut faults = faults(&page, &axe, "/login");
    page.open(&stage.login);
    let agent = stage.agent();
    agent.work(0);
    let real = stage.waiting(1)[0].id;
    let odd = stage.ask(&question("send_\u{202e}odd<b>"));
    let mut paths: Vec<String> = PAGES.map(str::to_owned).to_vec();
    paths.extend([real, odd].map(|id| format!("/questions/{id}")));
    for path in &paths {
        page.open(&format!("{}{path}", stage.url));
        faults.extend(self::faults(&page, &axe, path));
        page.size(320, 640);
        fits(&page, path);
        page.size(1000, 700);
    }
    // The second step, and the page after an answer.
    for text in ["Allow: trust", "Yes: trust"] {
        page.loading(|page| page.tap("button", text));
        faults.extend(self::faults(&page, &axe, text));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    registry.done(LOCK, "desk.lock.txt");
}

/// What axe-core calls serious or critical, in both schemes.
fn faults(page: &Page, axe: &str, path: &str) -> Vec<String> {
    page.evaluate(&format!("{axe}; 0"));
    let mut faults = Vec::new();
    for scheme in ["light", "dark"] {
        page.scheme(scheme);
        let found = page.evaluate(
            "axe.run(document).then(({ violations }) => violations.filter(it => ['serious', 'critical'].includes(it.impact))
                .map(it => `${it.id}: ${it.nodes.map(node => node.html.slice(0, 200) + ' ' + node.failureSummary).join(' | ')}`))",
        );
        let found = found.as_array().unwrap().iter().filter_map(Value::as_str);
        faults.extend(found.map(|fault| format!("{path} ({scheme}): {fault}")));
    }
    faults
}

/// Pictures for the documentation, made anew with `SLUICE_SCREENSHOTS=1`.
#[test]
#[ignore = "writes into docs"]
fn screenshots_are_of_real_questions() {
    if std::env::var_os("SLUICE_SCREENSHOTS").is_none() {
        return;
    }
    let Some(browser) = browser() else { return };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/desk");
    fs::create_dir_all(&folder).unwrap();
    let stage = Stage::start();
    let page = browser.page();
    page.size(1000, 700);
    page.open(&stage.login);
    let agent = stage.agent();
    agent.work(0);
    agent.work(1);
    let id = stage.waiting(2)[0].id;
    let of_question = format!("/questions/{id}");
    for (name, path, scheme, width) in [
        ("questions", "/", "light", 1000),
        ("question", &of_question, "light", 1000),
        ("question-dark", &of_question, "dark", 1000),
        ("phone", &of_question, "light", 320),
    ] {
        page.scheme(scheme);
        page.open(&format!("{}{path}", stage.url));
        page.screenshot(width, 1400, &folder.join(format!("{name}.png")));
    }
    page.scheme("light");
    page.size(1000, 700);
    page.open(&format!("{}{of_question}", stage.url));
    page.loading(|page| page.tap("button", "Allow once"));
    page.open(&format!("{}/sessions", stage.url));
    page.loading(|page| page.tap("main a", "proxy"));
    page.screenshot(1000, 900, &folder.join("session.png"));
}
