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
use crate::tuning::Tuning;

const ROWS: &str = "rows.jsonl";

/// An output folder.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    file: File,
    /// The questions of each row.
    done: HashMap<TaskKey, u32>,
    rows: Vec<Row>,
}

impl Store {
    /// Opens a folder, and reads what an earlier run left. Its last line may be torn, when the run
    /// was killed; it is cut off, and its task runs again. Tasks that ended in an error do, too.
    ///
    /// # Errors
    /// The folder cannot be used, or holds lines of another form.
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

    /// The questions of a cell's task, if it has its row. `tuning` is that of the attention screener, for a
    /// defence that has one: rows of another, or of an unknown one, are of another experiment.
    #[must_use]
    pub fn questions(
        &self,
        model: &str,
        cell: &Cell,
        tuning: Option<&Tuning>,
        (user_task, injection_task): (&str, Option<&str>),
    ) -> Option<u32> {
        // Nothing can be said to be of the same experiment where the tuning is unknown.
        if cell.defence.needs_attention() != tuning.is_some() {
            return None;
        }
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
            tuning.map(Tuning::tag).unwrap_or_default(),
        ];
        self.done.get(&key).copied()
    }

    /// Appends a row with one write.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn keep(&mut self, row: Row) -> Result<()> {
        write(&mut self.file, &row).with_context(|| cannot_use(&self.path))?;
        self.done.insert(row.key(), row.questions);
        self.rows.push(row);
        Ok(())
    }

    /// All rows, of earlier runs too.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }
}

/// The rows of an output folder, without changing it.
///
/// # Errors
/// There are no rows, or lines of another form.
pub fn read_folder(folder: &Path) -> Result<Vec<Row>> {
    let path = folder.join(ROWS);
    let rows = fs::read_to_string(&path).and_then(|text| parse(complete_lines(&text)));
    rows.with_context(|| cannot_use(&path))
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
    use hub::Screening;
    use serde_json::json;

    use super::*;
    use crate::closed_loop::{Defence, UserModel};
    use crate::copying::tuned;
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
    fn a_folder_is_read_without_changing_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read_folder(folder.path()).is_err(), "there are no rows");
        let rows = [row("user_task_0"), row("user_task_1")];
        keep_all(folder.path(), &rows);
        // Somebody is writing at the moment.
        let path = folder.path().join(ROWS);
        let torn = fs::read_to_string(&path).unwrap() + "{\"defence\": \"ju";
        fs::write(&path, &torn).unwrap();
        assert_eq!(read_folder(folder.path()).unwrap(), rows);
        assert_eq!(fs::read_to_string(&path).unwrap(), torn);
        fs::write(&path, "{}\n").unwrap();
        assert!(read_folder(folder.path()).is_err(), "another form");
    }

    #[test]
    fn only_rows_of_the_same_tuning_are_had() {
        let cell = |defence| Cell {
            defence,
            version: "v1".to_owned(),
            suite: "banking".to_owned(),
            attack: None,
            user: UserModel::ABSENT,
            answers: Answers::Policy,
        };
        let of = |defence: &str, tuning: Option<&Tuning>| Row {
            defence: defence.to_owned(),
            tuning: tuning.cloned(),
            ..row("user_task_0")
        };
        let first = tuned().tuning;
        let second = Tuning {
            recall: 70,
            ..first.clone()
        };
        let third = Tuning {
            weights: "000000000000".to_owned(),
            ..first.clone()
        };
        let attention = cell(Defence::Attention(Screening::LAZY));
        let folder = tempfile::tempdir().unwrap();
        // An earlier version kept no tuning.
        let rows = [of("judge", None), of("attention", None)];
        keep_all(folder.path(), &rows);
        let mut store = Store::open(folder.path()).unwrap();
        let has = |store: &Store, cell: &Cell, tuning: Option<&Tuning>| {
            let task = ("user_task_0", None);
            store.questions("worst-case", cell, tuning, task).is_some()
        };
        assert!(has(
            &store,
            &cell(Defence::Guarded("judge", Screening::LAZY)),
            None
        ));
        assert!(!has(&store, &attention, None));
        assert!(!has(&store, &attention, Some(&first)));
        let kept = of("attention", Some(&first));
        store.keep(kept.clone()).unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.rows().last(), Some(&kept));
        assert!(has(&store, &attention, Some(&first)));
        for other in [&second, &third] {
            assert!(!has(&store, &attention, Some(other)), "{other:?}");
        }
        let drafted = cell(Defence::parse("attention-drafted").unwrap());
        assert!(drafted.defence.needs_attention());
        assert!(!has(&store, &drafted, Some(&first)));
    }
}
