//! One query by one system.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result};
use case_apps::App;
use serde_json::Value;
use tempfile::TempDir;

use super::queries::{Benchmark, Query};
use super::score::Score;
use super::system::System;
use crate::case_app;
use crate::served::{Served, provider_table};
use crate::sluice::{Home, Sluice, binary};

#[derive(Debug, Clone)]
pub(super) struct Row {
    pub(super) benchmark: &'static str,
    pub(super) category: &'static str,
    pub(super) system: System,
    pub(super) query: String,
    /// The tools that were really called, in order.
    pub(super) calls: Vec<String>,
    pub(super) answer: Option<String>,
    pub(super) score: Score,
    pub(super) questions: usize,
    /// Completions that the model was asked for.
    pub(super) completions: usize,
    /// Why `sluice` failed, if it did: then the score says nothing.
    pub(super) error: Option<String>,
}

/// Runs the queries of one benchmark.
pub(super) struct Runner<'a> {
    benchmark: &'a Benchmark,
    served: Served,
    sluice: &'a Sluice,
    case_apps: PathBuf,
}

const LATTICE: &str = "[lattice]\nintegrity = { categories = [\"places\", \"foods\", \"others\"] }\nconfidentiality = { categories = [\"people\"] }\n";

impl<'a> Runner<'a> {
    /// Finds the programs.
    pub(super) fn new(
        benchmark: &'a Benchmark,
        served: Served,
        sluice: &'a Sluice,
    ) -> Result<Self> {
        Ok(Self {
            benchmark,
            served,
            sluice,
            case_apps: binary("sluice-case-apps")?,
        })
    }

    /// One query in a world of its own; `None` after Ctrl-C.
    pub(super) async fn run(
        &self,
        query: &Query,
        system: System,
        arguments: Vec<String>,
    ) -> Result<Option<Row>> {
        let folder = tempfile::tempdir().context("cannot make a temporary folder")?;
        let home = self.world(&folder, system)?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        self.served.forget();
        let session = self
            .sluice
            .ask(&home, &[&query.text], &arguments, false)
            .await?;
        if session.interrupted {
            return Ok(None);
        }
        let calls = returned(&session.records);
        let tools: Vec<String> = calls.iter().map(|(tool, _)| tool.clone()).collect();
        let typed: String = calls.iter().map(|(_, letter)| letter.as_str()).collect();
        let answer = session.answers.last().cloned();
        Ok(Some(Row {
            benchmark: self.benchmark.name,
            category: self.benchmark.category,
            system,
            query: query.text.clone(),
            score: Score::of(query, &tools, &typed, answer.as_deref()),
            calls: tools,
            answer,
            questions: session.questions,
            completions: self.served.prompts().len(),
            error: session.failure,
        }))
    }

    fn world(&self, folder: &TempDir, system: System) -> Result<Home> {
        let folder = folder.path();
        let protected = system != System::Vanilla;
        let provider = provider_table(&self.served.base_url);
        let mut config = format!("{LATTICE}\n{provider}\n[screener]\nkind = \"judge\"\n");
        if !protected {
            // Where nothing is labelled, no screener has anything to do; this one needs no model.
            config = config.replace("\"judge\"", "\"naive\"");
        }
        for name in &self.benchmark.apps {
            let app = App::find(name).with_context(|| format!("there is no app {name}"))?;
            let state = folder.join(format!("state-of-{name}"));
            config += &case_app::table(folder, (name, &app), protected, &self.case_apps, &state)?;
            // In the user's own words, so that the planner asks about all apps together.
            let description = serde_json::to_string(&app.description)?;
            config += &format!("description = {description}\n");
        }
        if self.benchmark.apps.len() > 1 {
            let apps = serde_json::to_string(&self.benchmark.apps)?;
            config += &format!("\n[group.all]\napps = {apps}\n");
        }
        let home = Home::at(folder).quietly(folder);
        fs::write(&home.config, config)?;
        Ok(home)
    }
}

/// The calls that returned without an error, in order: the tool, and the letter that it typed if it types.
fn returned(records: &[Value]) -> Vec<(String, String)> {
    let events = records.iter().filter_map(|record| record.get("event"));
    let returned = events.filter(|event| {
        event.get("kind").is_some_and(|kind| kind == "returned")
            && event
                .get("is_error")
                .is_some_and(|is_error| is_error == false)
    });
    let calls = returned.filter_map(|event| {
        let tool = event.pointer("/call/tool")?.as_str()?;
        let arguments = event.pointer("/call/arguments")?.as_str()?;
        let arguments: Value = serde_json::from_str(arguments).ok()?;
        let letter = match arguments.get("letter") {
            // The one tool for all letters has the letter as its argument; each of the 26 is named by its own.
            Some(letter) => letter.as_str().unwrap_or_default(),
            None if tool.chars().count() == 1 => tool,
            None => "",
        };
        Some((tool.to_owned(), letter.to_owned()))
    });
    calls.collect()
}
