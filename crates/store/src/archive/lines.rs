//! The lines of an export.

use std::io::{self, BufRead, Read, Write};

use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{ArchiveError, Kind, TABLES, Table};
use crate::id::{read_hex, write_hex};

/// The first line. Another form has another number.
const HEADER: &str = r#"{"sluice_state":1}"#;
/// Longest line: the longest text of the store, of which JSON makes six times as much at worst.
const MOST_LINE: u64 = 256 << 20;

/// Largest number of what is counted. A service would count beyond its end otherwise.
const MOST_COUNTED: i64 = 1 << 53;

/// Writes rows as lines.
pub(crate) struct Writer {
    to: Box<dyn Write + Send>,
    digest: Sha256,
    rows: u64,
}

impl Writer {
    pub(crate) fn new(to: Box<dyn Write + Send>) -> io::Result<Self> {
        let (digest, rows) = (Sha256::new(), 0);
        let mut writer = Self { to, digest, rows };
        writer.line(HEADER)?;
        Ok(writer)
    }

    pub(super) fn row(&mut self, table: &Table, values: Vec<Value>) -> io::Result<()> {
        let mut row = vec![Value::from(table.name)];
        row.extend(values);
        self.rows += 1;
        self.line(&Value::Array(row).to_string())
    }

    /// The last line. Returns the number of rows.
    pub(crate) fn end(mut self) -> io::Result<u64> {
        let digest = hex(&self.digest.clone().finalize());
        self.line(&json!({"rows": self.rows, "sha256": digest}).to_string())?;
        self.to.flush()?;
        Ok(self.rows)
    }

    fn line(&mut self, text: &str) -> io::Result<()> {
        let line = format!("{text}\n");
        self.digest.update(&line);
        self.to.write_all(line.as_bytes())
    }
}

/// Reads lines as rows.
pub(crate) struct Reader {
    from: Box<dyn BufRead + Send>,
    digest: Sha256,
    rows: u64,
    lines: u64,
}

impl Reader {
    pub(crate) fn new(from: Box<dyn BufRead + Send>) -> Result<Self, ArchiveError> {
        let mut reader = Self {
            from,
            digest: Sha256::new(),
            rows: 0,
            lines: 0,
        };
        match reader.line()?.as_deref() {
            Some(HEADER) => Ok(reader),
            _ => Err(ArchiveError::Foreign),
        }
    }

    /// The next row; `None` after the last one, when all of them are known to be as they were written.
    pub(super) fn next(&mut self) -> Result<Option<(&'static Table, Vec<Value>)>, ArchiveError> {
        let before = hex(&self.digest.clone().finalize());
        let line = self.line()?.ok_or(ArchiveError::Cut)?;
        let damaged = |reason| ArchiveError::Line(self.lines, reason);
        match serde_json::from_str(&line) {
            Ok(Value::Array(mut row)) if !row.is_empty() => {
                let values = row.split_off(1);
                let name = row.first().and_then(Value::as_str);
                let mut tables = TABLES.iter();
                let table = tables.find(|table| name == Some(table.name));
                let table = table.ok_or_else(|| damaged("it is of an unknown table"))?;
                if !table.fits(&values) {
                    return Err(damaged("its values are not those of the table"));
                }
                self.rows += 1;
                Ok(Some((table, values)))
            }
            Ok(end) if end == json!({"rows": self.rows, "sha256": before}) => match self.line()? {
                None => Ok(None),
                Some(_) => Err(ArchiveError::Line(self.lines, "the export has ended")),
            },
            Ok(Value::Object(_)) => Err(ArchiveError::Changed),
            Ok(_) => Err(damaged("it is no row")),
            // The last bytes of a file that was cut.
            Err(error) if error.is_eof() => Err(ArchiveError::Cut),
            Err(_) => Err(damaged("it is not JSON")),
        }
    }

    /// The row that was read last breaks a rule of the tables.
    pub(super) fn refuse(&self) -> ArchiveError {
        ArchiveError::Line(self.lines, "it contradicts another row, or its table")
    }

    fn line(&mut self) -> Result<Option<String>, ArchiveError> {
        let mut line = String::new();
        let mut limited = (&mut self.from).take(MOST_LINE);
        limited.read_line(&mut line)?;
        self.lines += 1;
        if line.is_empty() {
            return Ok(None);
        }
        self.digest.update(&line);
        match line.strip_suffix('\n') {
            Some(text) => Ok(Some(text.to_owned())),
            None if line.len() as u64 >= MOST_LINE => {
                Err(ArchiveError::Line(self.lines, "it is too long"))
            }
            None => Err(ArchiveError::Cut),
        }
    }
}

impl Table {
    fn fits(&self, values: &[Value]) -> bool {
        values.len() == self.columns().count()
            && (values.iter().zip(self.columns())).all(|(value, (name, kind))| {
                match (value, kind) {
                    (Value::Null, _) => true,
                    (value, Kind::Text) => value.as_str().is_some_and(|text| match name {
                        // JSON, which escapes them.
                        "body" | "question" | "token" | "head" | "entry" => !text.contains('\0'),
                        _ => !text.contains(char::is_control),
                    }),
                    (value, Kind::Bytes) => bytes(value).is_some(),
                    (value, Kind::Number | Kind::Counter) => {
                        let most = match name {
                            "head" | "version" | "number" | "hour" | "count" => MOST_COUNTED,
                            _ => i64::MAX,
                        };
                        value.as_i64().is_some_and(|it| (0..=most).contains(&it))
                    }
                }
            })
    }
}

pub(super) fn hex(bytes: &[u8]) -> String {
    struct Hex<'a>(&'a [u8]);
    impl std::fmt::Display for Hex<'_> {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write_hex(self.0, f)
        }
    }
    Hex(bytes).to_string()
}

/// The bytes of a value. Ids have 16, digests 32.
pub(super) fn bytes(value: &Value) -> Option<Vec<u8>> {
    let text = value.as_str()?;
    let id = || read_hex::<16>(text).map(Vec::from);
    read_hex::<32>(text).map(Vec::from).or_else(id)
}
