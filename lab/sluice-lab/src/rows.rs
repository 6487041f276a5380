//! Rows in a file as they are made, so that a run of hours that is ended goes on where it was.

use std::fs::{self, File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What one run of a benchmark came to.
pub(crate) trait Row: Serialize + DeserializeOwned {
    /// The name of the file in the folder of the runs.
    const FILE: &'static str;

    /// Whether it is to be run again, since it failed.
    fn has_failed(&self) -> bool;
}

/// The rows of a run so far.
pub(crate) struct Rows<R> {
    rows: Vec<R>,
    file: Option<(PathBuf, File)>,
}

impl<R: Row> Rows<R> {
    /// The rows of a run that is kept in `folder`; none are there at first unless it is resumed.
    ///
    /// # Errors
    /// The folder or its file cannot be written, or what is to be resumed is not rows.
    pub(crate) fn open(folder: Option<&Path>, is_resumed: bool) -> Result<Self> {
        let Some(folder) = folder else {
            return Ok(Self {
                rows: Vec::new(),
                file: None,
            });
        };
        fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let path = folder.join(R::FILE);
        let rows = match is_resumed && path.exists() {
            true => finished(&path)?,
            false => Vec::new(),
        };
        // Replaced at once: an interruption here must not cost the rows that were there.
        let beside = folder.join(format!("{}.new", R::FILE));
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

    /// Those that are there.
    pub(crate) fn all(&self) -> &[R] {
        &self.rows
    }

    /// Adds a row, to the file too.
    pub(crate) fn add(&mut self, row: R) -> Result<()> {
        // The file first: what is reported is what a resumed run will find.
        if let Some((path, file)) = &mut self.file {
            let line = lines(std::slice::from_ref(&row))?;
            file.write_all(line.as_bytes())
                .with_context(|| format!("cannot write {}", path.display()))?;
        }
        self.rows.push(row);
        Ok(())
    }

    /// All of them, in the order in which they were made.
    pub(crate) fn into_vec(self) -> Vec<R> {
        self.rows
    }
}

/// What to tell a user who has interrupted a run that is kept in `folder`.
pub(crate) fn interrupted<R: Row>(folder: &Path) -> String {
    let file = folder.join(R::FILE);
    format!(
        "what was run is in {}; the same command with --resume goes on\n",
        file.display()
    )
}

/// The rows of a run that was ended: without those that failed, which are run again, and without a last line that was
/// being written.
fn finished<R: Row>(path: &Path) -> Result<Vec<R>> {
    let text = text(path)?;
    // Without a line break at its end a row is not complete, even if what is there of it parses.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let mut rows: Vec<R> = parse(whole, path)?;
    rows.retain(|row| !row.has_failed());
    Ok(rows)
}

fn text(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn parse<R: Row>(text: &str, path: &Path) -> Result<Vec<R>> {
    let rows = text.lines().enumerate().map(|(number, line)| {
        let place = || format!("{}, line {}", path.display(), number + 1);
        serde_json::from_str(line).with_context(place)
    });
    rows.collect()
}

fn lines<R: Row>(rows: &[R]) -> Result<String> {
    let lines = rows
        .iter()
        .map(|row| Ok(serde_json::to_string(row)? + "\n"));
    lines.collect()
}
