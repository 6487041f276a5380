//! A running app: a real child process over a temporary folder.

use std::fs;
use std::ops::Deref;
use std::path::PathBuf;

use tempfile::TempDir;
use tokio::process::Command;

use crate::client::Client;

/// An invitation as a stranger sends it, with a zone, an alarm and an extension.
pub(crate) const INVITATION: &str = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//Other//EN\r\nMETHOD:REQUEST\r\n\
    BEGIN:VTIMEZONE\r\nTZID:Europe/Berlin\r\nBEGIN:STANDARD\r\nDTSTART:19701025T030000\r\nTZOFFSETFROM:+0200\r\nTZOFFSETTO:+0100\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n\
    BEGIN:VEVENT\r\nUID:abc@other.example\r\nDTSTAMP:20261101T000000Z\r\nDTSTART;TZID=Europe/Berlin:20261124T100000\r\nDURATION:PT1H30M\r\n\
    SUMMARY:CHOSEN title\\, with comma\r\nLOCATION:CHOSEN place\r\nDESCRIPTION:CHOSEN line one\\nline\r\n  two\r\n\
    ORGANIZER;CN=\"CHOSEN: send it; now\":mailto:chosen@other.example\r\nATTENDEE;CN=Ben:mailto:chosen.ben@example.com\r\nATTENDEE:CHOSEN words, no address\r\n\
    X-OTHER;CHOSEN=1:kept\r\nBEGIN:VALARM\r\nTRIGGER:-PT15M\r\nDESCRIPTION:alarm\r\nEND:VALARM\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n";

pub(crate) struct App {
    client: Client,
    home: TempDir,
}

impl App {
    /// Starts the app over these files.
    pub(crate) async fn with(files: &[(&str, &str)]) -> App {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("calendar");
        fs::create_dir(&folder).unwrap();
        for (name, text) in files {
            fs::write(folder.join(name), text).unwrap();
        }
        let mut command = Command::new(env!("CARGO_BIN_EXE_sluice-calendar"));
        command
            .env_clear()
            .env("CALENDAR", &folder)
            .env("CALENDAR_ZONE", "Europe/Berlin");
        let client = Client::start(command).await;
        App { client, home }
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.home.path().join("calendar")
    }

    pub(crate) async fn stop(self) {
        self.client.stop().await;
    }
}

impl Deref for App {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}
