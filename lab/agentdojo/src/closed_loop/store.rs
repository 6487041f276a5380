//! Rows on disk: JSON lines that are only ever appended to.

use std::{
    collections::HashSet,
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
};

use serde::Serialize;

use super::Cell;
use crate::report::{Detail, Row, TaskKey, key_of_row, key_of_tuning};
use crate::tuning::Tuning;

const ROWS: &str = "rows.jsonl";
const DETAILS: &str = "details.jsonl";

/// An output folder.
#[derive(Debug)]
pub struct Store {
    folder: PathBuf,
    rows: File,
    details: File,
    done: HashSet<TaskKey>,
    kept: Vec<Row>,
    kept_details: Vec<Detail>,
}

/// Why rows cannot be read or kept.
#[derive(Debug, thiserror::Error)]
#[error("cannot use {}; correct or delete it and run again", path.display())]
pub struct StoreError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

impl Store {
    /// Opens a folder, and reads what an earlier run left. Its last line may be torn, when the run
    /// was killed; it is cut off, and its task runs again. Tasks that ended in an error do, too.
    ///
    /// # Errors
    /// The folder cannot be used, or holds lines of another form.
    pub fn open(folder: &Path) -> Result<Self, StoreError> {
        let failed = |path: &Path| {
            let path = path.to_owned();
            move |error| StoreError { path, error }
        };
        fs::create_dir_all(folder).map_err(failed(folder))?;
        let (rows_path, details_path) = (folder.join(ROWS), folder.join(DETAILS));
        let mut kept: Vec<Row> = read(&rows_path).map_err(failed(&rows_path))?;
        let kept_details = read(&details_path).map_err(failed(&details_path))?;
        kept.retain(|row| row.error.is_none());
        Ok(Self {
            folder: folder.to_owned(),
            rows: append(&rows_path).map_err(failed(&rows_path))?,
            details: append(&details_path).map_err(failed(&details_path))?,
            done: kept.iter().map(key_of_row).collect(),
            kept,
            kept_details,
        })
    }

    /// Whether a task of a cell has its row. `tuning` is that of the attention screener, for a
    /// defence that has one: rows of another, or of an unknown one, are of another experiment.
    #[must_use]
    pub fn has(
        &self,
        model: &str,
        cell: &Cell,
        tuning: Option<&Tuning>,
        (user_task, injection_task): (&str, Option<&str>),
    ) -> bool {
        if cell.defence.needs_attention() != tuning.is_some() {
            return false;
        }
        let text = |text: &str| text.to_owned();
        self.done.contains(&[
            text(model),
            cell.defence_name(),
            cell.version.clone(),
            cell.suite.clone(),
            text(user_task),
            text(injection_task.unwrap_or_default()),
            cell.attack.clone().unwrap_or_default(),
            text(cell.user.name()),
            key_of_tuning(tuning),
        ])
    }

    /// Keeps a row and what is known beside it, each with one write.
    ///
    /// # Errors
    /// The disk refuses.
    pub fn keep(&mut self, row: Row, detail: Detail) -> Result<(), StoreError> {
        // The detail first: a row that is there says that all of it is.
        let written = write(&mut self.details, &detail).and_then(|()| write(&mut self.rows, &row));
        written.map_err(|error| StoreError {
            path: self.folder.clone(),
            error,
        })?;
        self.done.insert(key_of_row(&row));
        self.kept.push(row);
        self.kept_details.push(detail);
        Ok(())
    }

    /// All rows, of earlier runs too.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.kept
    }

    /// What is known beside the rows.
    #[must_use]
    pub fn details(&self) -> &[Detail] {
        &self.kept_details
    }
}

/// What an output folder holds, without changing it. Details are there only for some rows.
///
/// # Errors
/// There are no rows, or lines of another form.
pub fn read_folder(folder: &Path) -> Result<(Vec<Row>, Vec<Detail>), StoreError> {
    let lines = |name: &str| {
        let path = folder.join(name);
        (path.clone(), move |error| StoreError { path, error })
    };
    let (path, failed) = lines(ROWS);
    let rows = fs::read_to_string(&path).and_then(|text| parse(whole_lines(&text)));
    let rows = rows.map_err(failed)?;
    let (path, failed) = lines(DETAILS);
    let details = match fs::read_to_string(&path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        other => other.and_then(|text| parse(whole_lines(&text))),
    };
    Ok((rows, details.map_err(failed)?))
}

/// Writes an output folder anew.
///
/// # Errors
/// The disk refuses.
pub fn write_folder(folder: &Path, rows: &[Row], details: &[Detail]) -> Result<(), StoreError> {
    fn lines(path: PathBuf, values: &[impl Serialize]) -> Result<(), StoreError> {
        let all = || -> io::Result<()> {
            let mut file = io::BufWriter::new(File::create(&path)?);
            values
                .iter()
                .try_for_each(|value| write(&mut file, value))?;
            file.flush()
        };
        all().map_err(|error| StoreError { path, error })
    }
    lines(folder.join(DETAILS), details)?;
    lines(folder.join(ROWS), rows)
}

fn read<T: serde::de::DeserializeOwned>(path: &Path) -> io::Result<Vec<T>> {
    let text = match fs::read_to_string(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let whole = whole_lines(&text);
    if whole.len() < text.len() {
        let file = OpenOptions::new().write(true).open(path)?;
        file.set_len(u64::try_from(whole.len()).map_err(io::Error::other)?)?;
    }
    parse(whole)
}

/// Without the torn last line of a run that was killed.
fn whole_lines(text: &str) -> &str {
    let end = text.rfind('\n').map_or(0, |end| end + 1);
    text.get(..end).unwrap_or_default()
}

fn parse<T: serde::de::DeserializeOwned>(text: &str) -> io::Result<Vec<T>> {
    let lines = text.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().map_err(io::Error::other)
}

fn append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn write(file: &mut impl Write, value: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(value)?;
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

    #[test]
    fn a_folder_is_read_without_changing_it() {
        let folder = tempfile::tempdir().unwrap();
        assert!(read_folder(folder.path()).is_err(), "there are no rows");
        let rows = [row("user_task_0"), row("user_task_1")];
        write_folder(folder.path(), &rows, &[]).unwrap();
        // Somebody is writing at the moment.
        let path = folder.path().join(ROWS);
        let torn = fs::read_to_string(&path).unwrap() + "{\"defence\": \"ju";
        fs::write(&path, &torn).unwrap();
        let (read, details) = read_folder(folder.path()).unwrap();
        assert_eq!((read.as_slice(), details.len()), (&rows[..], 0));
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
            user: UserModel::Absent,
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
        let attention = cell(Defence::Attention(Screening::Lazy));
        let folder = tempfile::tempdir().unwrap();
        // An earlier version kept no tuning.
        let rows = [of("judge", None), of("attention", None)];
        write_folder(folder.path(), &rows, &[]).unwrap();
        let mut store = Store::open(folder.path()).unwrap();
        let has = |store: &Store, cell: &Cell, tuning: Option<&Tuning>| {
            store.has("worst-case", cell, tuning, ("user_task_0", None))
        };
        assert!(has(
            &store,
            &cell(Defence::Guarded("judge", Screening::Lazy)),
            None
        ));
        assert!(!has(&store, &attention, None));
        assert!(!has(&store, &attention, Some(&first)));
        let kept = of("attention", Some(&first));
        let detail = serde_json::from_value(json!({
            "defence": "attention", "model": "worst-case", "version": "v1", "suite": "banking",
            "user_task": "user_task_0", "injection_task": null, "attack": null,
            "user_model": "absent", "goal_seen": null, "questions": [], "success": null,
            "output": null, "tuning": first,
        }));
        store.keep(kept.clone(), detail.unwrap()).unwrap();
        drop(store);
        let store = Store::open(folder.path()).unwrap();
        assert_eq!(store.rows().last(), Some(&kept));
        assert!(has(&store, &attention, Some(&first)));
        for other in [&second, &third] {
            assert!(!has(&store, &attention, Some(other)), "{other}");
        }
        let drafted = cell(Defence::parse("attention-drafted").unwrap());
        assert!(drafted.defence.needs_attention());
        assert!(!has(&store, &drafted, Some(&first)));
    }
}
