//! What the tools do, without MCP.

use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use app_support::folder::{Folder, FolderError};
use app_support::tools;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use serde::Serialize;
use serde_json::{Value, json};

use crate::error::CalendarError;
use crate::event::{Draft, Event, Summary};
use crate::file::{File, Line};
use crate::time::{Moment, stamp, zone};

const EXTENSION: &str = ".ics";
/// Most files, and most events of all of them: bounds the time of a listing.
const MAX_FILES: usize = 5_000;
const MAX_EVENTS: usize = 20_000;
/// Longest file: an export of many years. Longer ones are skipped.
const MAX_FILE_BYTES: usize = 2 * 1024 * 1024;
const MAX_LISTED: usize = 100;
const MAX_QUERY_CHARS: usize = 200;

/// The user's calendar: a folder of iCalendar files.
#[derive(Debug)]
pub(crate) struct Calendar {
    /// Calls take turns, so that none writes over what another has just written.
    folder: Mutex<Folder>,
    /// The zone of times that name none.
    home: TimeZone,
}

/// The result of `list_events` and `search_events`: an object, so that rules address `$.events[*].title`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Listing {
    /// By start.
    pub(crate) events: Vec<Summary>,
    /// How many there are, shown or not.
    pub(crate) total: usize,
    /// How many files and events could not be read.
    pub(crate) skipped: usize,
}

struct Found {
    event: Event,
    name: String,
    file: File,
    n: usize,
}

impl Calendar {
    /// Reads the variables `CALENDAR` (a folder) and `CALENDAR_ZONE` (like `Europe/Berlin`; default UTC) through `var`.
    /// An empty value counts as unset.
    pub(crate) fn from_vars(var: impl Fn(&str) -> Option<String>) -> Result<Calendar, String> {
        let var = |name: &str| var(name).filter(|value| !value.is_empty());
        let path = var("CALENDAR")
            .ok_or("CALENDAR is not set: give the path of a folder of .ics files")?;
        let folder = Folder::open(Path::new(&path))
            .map_err(|error| format!("CALENDAR is {path:?}, which cannot be opened: {error}"))?;
        let home = var("CALENDAR_ZONE").unwrap_or_else(|| "UTC".to_owned());
        let home = zone(&home)
            .ok_or_else(|| format!("CALENDAR_ZONE is {home:?}: give a zone like Europe/Berlin"))?;
        Ok(Calendar {
            folder: Mutex::new(folder),
            home,
        })
    }

    /// The events from `from` to `to`; a day as `to` counts as a whole.
    pub(crate) fn list(&self, from: &str, to: &str) -> Result<Listing, CalendarError> {
        let time = |text, name| Moment::parse(text).ok_or(CalendarError::BadTime(name));
        let (from, to) = (time(from, "from")?, time(to, "to")?);
        // A day is exclusive as an end, so that the whole of the last day is in the range.
        let to = to.next_day().unwrap_or(to);
        let range = from.instant(&self.home).zip(to.instant(&self.home));
        let Some((from, to)) = range.filter(|(from, to)| from < to) else {
            return Err(CalendarError::BadOrder);
        };
        self.listing(|event| event.overlaps(from, to, &self.home))
    }

    /// The events that have every word of `text` in title, location, description or an address.
    pub(crate) fn search(&self, text: &str) -> Result<Listing, CalendarError> {
        let words: Vec<String> = text.split_whitespace().map(str::to_lowercase).collect();
        if words.is_empty() || text.chars().count() > MAX_QUERY_CHARS {
            return Err(CalendarError::BadQuery(MAX_QUERY_CHARS));
        }
        self.listing(|event| event.contains(&words))
    }

    pub(crate) fn read(&self, id: &str) -> Result<Event, CalendarError> {
        Ok(find(&self.folder(), id)?.event)
    }

    /// A new event, in a file of its own.
    pub(crate) fn create(&self, draft: &Draft) -> Result<Value, CalendarError> {
        let changes = draft.changes(None, &self.home)?;
        let now = Zoned::now();
        let words = format!("{draft:?}");
        // From nanoseconds and content: a name could only be taken by the same event, made at the same moment.
        let uid = tools::id(&[&now.timestamp().as_nanosecond().to_string(), &words]);
        let mut lines = vec![Line::text("UID", &uid), stamp("DTSTAMP", now.timestamp())];
        lines.extend(changes.lines);
        let name = format!("{uid}{EXTENSION}");
        self.folder()
            .create(&name, &File::with_event(&lines), MAX_FILE_BYTES)?;
        let id = tools::id(&[&name, &uid, ""]);
        Ok(json!({ "created": true, "id": id }))
    }

    /// Changes the given fields of one event, and no byte of anything else but its time stamps.
    pub(crate) fn update(&self, id: &str, draft: &Draft) -> Result<Value, CalendarError> {
        let folder = self.folder();
        let found = find(&folder, id)?;
        let mut changes = draft.changes(Some(&found.event), &self.home)?;
        if changes.lines.is_empty() && changes.removed.is_empty() {
            return Err(CalendarError::NothingToChange);
        }
        let now = Timestamp::now();
        changes
            .lines
            .extend(["DTSTAMP", "LAST-MODIFIED"].map(|name| stamp(name, now)));
        let text = found
            .file
            .with_changes(found.n, &changes.removed, &changes.lines);
        folder.replace(&found.name, &text, MAX_FILE_BYTES)?;
        Ok(json!({ "updated": true }))
    }

    /// Deletes one event for good; a series with the occurrences that were changed.
    pub(crate) fn delete(&self, id: &str) -> Result<Value, CalendarError> {
        let folder = self.folder();
        let found = find(&folder, id)?;
        let goes = |n: &usize| {
            let same = |other: Event| other.uid == found.event.uid;
            // Occurrences that were changed are events of their own with the same UID. They go with their series; a
            // changed occurrence goes alone.
            let series = found.event.recurring && !found.event.exception;
            *n == found.n || (series && Event::read(&found.name, &found.file, *n).is_some_and(same))
        };
        let gone: Vec<usize> = (0..found.file.len()).filter(goes).collect();
        match found.file.without(&gone) {
            Some(text) => folder.replace(&found.name, &text, MAX_FILE_BYTES)?,
            None => folder.delete(&found.name)?,
        }
        Ok(json!({ "deleted": true }))
    }

    fn listing(&self, wanted: impl Fn(&Event) -> bool) -> Result<Listing, CalendarError> {
        let mut events = Vec::new();
        let skipped = each(&self.folder(), |_, _, _, event| {
            if wanted(&event) {
                events.push(event);
            }
        })?;
        events.sort_by_cached_key(|event| (event.start.instant(&self.home), event.id.clone()));
        Ok(Listing {
            total: events.len(),
            events: events
                .into_iter()
                .take(MAX_LISTED)
                .map(Event::summary)
                .collect(),
            skipped,
        })
    }

    fn folder(&self) -> MutexGuard<'_, Folder> {
        // All state is on the disk, which a call that was cut short left whole.
        self.folder.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The event with this id. An id is only ever compared, so it cannot name a path.
fn find(folder: &Folder, id: &str) -> Result<Found, CalendarError> {
    if !tools::is_id(id) {
        return Err(CalendarError::BadId);
    }
    let (mut found, mut several) = (None, false);
    // To the end even after a hit: a second event with this id makes acting on it a guess.
    each(folder, |name, file, n, event| {
        if event.id == id {
            let (name, file) = (name.to_owned(), file.clone());
            let place = Found {
                event,
                name,
                file,
                n,
            };
            several |= found.replace(place).is_some();
        }
    })?;
    match several {
        true => Err(CalendarError::AmbiguousId),
        false => found.ok_or(CalendarError::UnknownId),
    }
}

/// Shows every event with its place; the number of files and events that cannot be read.
fn each(
    folder: &Folder,
    mut seen: impl FnMut(&str, &File, usize, Event),
) -> Result<usize, CalendarError> {
    let names = folder.names(EXTENSION, MAX_FILES)?;
    let (mut skipped, mut count) = (names.skipped, 0);
    for name in &names.files {
        let text = match folder.read(name, MAX_FILE_BYTES) {
            Ok(content) => content.text,
            // Deleted since it was listed.
            Err(FolderError::NotFound) => continue,
            Err(error @ FolderError::Io { .. }) => return Err(error.into()),
            Err(_) => {
                skipped += 1;
                continue;
            }
        };
        let Ok(file) = File::parse(&text) else {
            skipped += 1;
            continue;
        };
        // Counted before the events are read, so that no single file costs more than the limit.
        count += file.len();
        if count > MAX_EVENTS {
            return Err(CalendarError::TooMany(MAX_EVENTS));
        }
        for n in 0..file.len() {
            match Event::read(name, &file, n) {
                Some(event) => seen(name, &file, n, event),
                None => skipped += 1,
            }
        }
    }
    Ok(skipped)
}
