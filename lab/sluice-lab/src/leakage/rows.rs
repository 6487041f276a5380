//! Rows in a file as they are made, so that a run of hours that is ended goes on where it was.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use leakage::{Row, Scenario, Settings, User};

/// The name of the file in the folder of a run.
const FILE: &str = "rows.jsonl";

/// The rows of a run so far.
pub(super) struct Rows {
    rows: Vec<Row>,
    file: Option<(PathBuf, File)>,
}

impl Rows {
    /// The rows of a run that is kept in `folder`; none are there at first unless it is resumed.
    ///
    /// # Errors
    /// The folder or its file cannot be written, or what is to be resumed is not rows.
    pub(super) fn open(folder: Option<&Path>, is_resumed: bool) -> Result<Self> {
        let Some(folder) = folder else {
            return Ok(Self {
                rows: Vec::new(),
                file: None,
            });
        };
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(FILE);
        let rows = match is_resumed && path.exists() {
            true => finished(&path)?,
            false => Vec::new(),
        };
        // Replaced at once: an interruption here must not cost the rows that were there.
        let beside = folder.join("rows.jsonl.new");
        fs::write(&beside, lines(&rows)?)
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("cannot write {}", path.display()))?;
        let file = OpenOptions::new().append(true).open(&path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self {
            rows,
            file: Some((path, file)),
        })
    }

    /// Whether there is a row of this run already.
    pub(super) fn has(&self, settings: &Settings, scenario: &Scenario, user: User) -> bool {
        let seed = scenario.seeded.then_some(settings.seed);
        self.rows.iter().any(|row| {
            row.domain == scenario.domain.name()
                && row.task == scenario.task.id
                && row.seed == seed
                && row.agent == settings.agent()
                && row.defence == settings.defence.name()
                && row.arguments == settings.arguments
                && row.injected == scenario.injected.is_some()
                && row.allowed == (user == User::Allows)
        })
    }

    /// Adds a row, to the file too.
    pub(super) fn add(&mut self, row: Row) -> Result<()> {
        if let Some((path, file)) = &mut self.file {
            let line = lines(std::slice::from_ref(&row))?;
            file.write_all(line.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// All of them, in the order in which they were made.
    pub(super) fn into_vec(self) -> Vec<Row> {
        self.rows
    }
}

/// The rows of a file.
///
/// # Errors
/// It cannot be read, or a line is not a row.
pub(super) fn read(path: &Path) -> Result<Vec<Row>> {
    parse(&text(path)?, path)
}

/// The rows of a run that was ended: without those that failed, which are run again, and without a last line that was
/// being written.
fn finished(path: &Path) -> Result<Vec<Row>> {
    let text = text(path)?;
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut rows = parse(whole, path)?;
    rows.retain(|row| row.error.is_none());
    Ok(rows)
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn parse(text: &str, path: &Path) -> Result<Vec<Row>> {
    let rows = text.lines().enumerate().map(|(number, line)| {
        let place = || format!("{}, line {}", path.display(), number + 1);
        serde_json::from_str(line).with_context(place)
    });
    rows.collect()
}

fn lines(rows: &[Row]) -> Result<String> {
    let lines = rows
        .iter()
        .map(|row| Ok(serde_json::to_string(row)? + "\n"));
    lines.collect()
}
