//! Rows on disk: JSON lines that are only ever appended to.

use std::{
    collections::HashMap,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::Cell;
use crate::report::{Row, TaskKey};

const ROWS: &str = "rows.jsonl";

/// An output folder.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    done: HashMap<TaskKey, u32>,
    rows: Vec<Row>,
}

impl Store {
    /// Opens a folder, and reads what an earlier run left. Its last line may be torn, when the run
    /// was killed; it is cut off, and its task runs again. Tasks that ended in an error do, too.
    pub fn open(folder: &Path) -> Result<Self> {
        let path = folder.join(ROWS);
        let open = || -> io::Result<(File, Vec<Row>)> {
            fs::create_dir_all(folder)?;
            let file = OpenOptions::new().create(true).append(true).open(&path)?;
            let text = fs::read_to_string(&path)?;
            let complete = complete_lines(&text);
            file.set_len(u64::try_from(complete.len()).map_err(io::Error::other)?)?;
            Ok((file, parse(complete)?))
        };
        let (file, mut rows) = open().with_context(|| cannot_use(&path))?;
        rows.retain(|row| row.error.is_none());
        Ok(Self {
            path,
            file,
            done: rows.iter().map(|row| (row.key(), row.questions)).collect(),
            rows,
        })
    }

    /// The questions of a cell's task, if it has its row.
    pub fn questions(
        &self,
        model: &str,
        cell: &Cell,
        (user_task, injection_task): (&str, Option<&str>),
    ) -> Option<u32> {
        let text = |text: &str| text.to_owned();
        let key = [
            text(model),
            cell.defence_name(),
            cell.version.clone(),
            cell.suite.clone(),
            text(user_task),
            text(injection_task.unwrap_or_default()),
            cell.attack.clone().unwrap_or_default(),
            cell.user.name(),
        ];
        self.done.get(&key).copied()
    }

    /// Appends a row with one write.
    pub fn keep(&mut self, row: Row) -> Result<()> {
        write(&mut self.file, &row).with_context(|| cannot_use(&self.path))?;
        self.done.insert(row.key(), row.questions);
        self.rows.push(row);
        Ok(())
    }

    /// All rows, of earlier runs too.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

fn cannot_use(path: &Path) -> String {
    let path = path.display();
    format!("cannot use {path}; correct or delete it and run again")
}

/// Without the torn last line of a run that was killed.
fn complete_lines(text: &str) -> &str {
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    text.get(..end).unwrap_or_default()
}

fn parse(text: &str) -> io::Result<Vec<Row>> {
    let rows = text.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().map_err(io::Error::other)
}

fn write(file: &mut File, row: &Row) -> io::Result<()> {
    let mut line = serde_json::to_vec(row)?;
    line.push(b'\n');
    file.write_all(&line)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::closed_loop::{Defence, UserModel};
    use crate::policies::Answers;

    fn row(task: &str) -> Row {
        serde_json::from_value(json!({
            "defence": "judge", "version": "v1", "suite": "banking", "user_task": task,
            "injection_task": null, "attack": null, "model": "worst-case", "user_model": "absent",
            "utility": true, "attack_succeeded": null, "questions": 0, "llm_calls": 1,
            "judge_calls": 0, "prompt_tokens": 1, "completion_tokens": 1, "seconds": 0.5,
            "error": null,
        }))
        .unwrap()
    }

    fn keep_all(folder: &Path, rows: &[Row]) {
        let mut store = Store::open(folder).unwrap();
        for row in rows {
            store.keep(row.clone()).unwrap();
        }
    }

    #[test]
    fn rows_are_read_again_but_for_a_torn_line_and_failed_tasks() {
        let folder = tempfile::tempdir().unwrap();
        let mut failed = row("user_task_1");
        failed.error = Some("no answer".to_owned());
        keep_all(folder.path(), &[row("user_task_0"), failed]);
        let path = folder.path().join(ROWS);
        let torn = fs::read_to_string(&path).unwrap() + "{\"defence\": \"ju";
        fs::write(&path, &torn).unwrap();
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.rows(), [row("user_task_0")]);
        assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 2);
        let cell = |user| Cell {
            defence: Defence::parse("judge").unwrap(),
            version: "v1".to_owned(),
            suite: "banking".to_owned(),
            attack: None,
            user,
            answers: Answers::Policy,
        };
        let questions = |task: &str, user| {
            let cell = cell(user);
            store.questions("worst-case", &cell, (task, None))
        };
        assert_eq!(questions("user_task_0", UserModel::ABSENT), Some(0));
        assert_eq!(questions("user_task_0", UserModel::IDEAL), None);
        assert_eq!(questions("user_task_1", UserModel::ABSENT), None);
        drop(store);
        fs::write(&path, "{}\n").unwrap();
        assert!(Store::open(folder.path()).is_err(), "another form");
    }
}
