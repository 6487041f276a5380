//! `sluice desk` in a real browser: every action by keyboard, by touch, and without scripts; what a hostile page, a stolen
//! token and another user of the machine get of it; and how long it takes.
//!
//! The browser is the system's Chromium. axe-core, which looks for what keeps people from using a page, comes from the npm
//! registry like the real servers.

mod chromium;
mod figures;
mod hostile;
mod stage;
mod usable;

use crate::say;
use chromium::Browser;

/// The browser, or a line that says that the test is not run.
fn browser() -> Option<Browser> {
    let browser = Browser::start();
    if browser.is_none() {
        say("NOT RUN: there is no /usr/bin/chromium (apt-get install chromium)\n");
    }
    browser
}
