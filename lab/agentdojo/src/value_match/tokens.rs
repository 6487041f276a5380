//! Text as a sequence of tokens in one spelling, so that a value is found however it was written.

const MONTHS: [&str; 12] = [
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
];

/// The tokens of `text`: lower case, without quotes, YAML's and Python's escapes, punctuation and
/// line breaks; numbers, dates and times in one spelling.
pub fn tokens(text: &str) -> Vec<String> {
    let plain = unescape(text);
    let words: Vec<String> = plain.split_whitespace().flat_map(parts).collect();
    let mut rest = words.as_slice();
    let mut found = Vec::with_capacity(rest.len());
    while let Some((first, after)) = rest.split_first() {
        if let Some((date, used)) = spelled_date(rest) {
            found.push(date);
            rest = rest.get(used..).unwrap_or_default();
        } else if let Some((time, used)) = spelled_time(rest) {
            found.push(time);
            rest = rest.get(used..).unwrap_or_default();
        } else {
            found.push(first.clone());
            rest = after;
        }
    }
    found
}

/// Whether a token says too little to tell where it comes from.
pub fn is_trivial(token: &str) -> bool {
    const EMPTY: [&str; 8] = ["true", "false", "none", "null", "yes", "no", "and", "the"];
    /// Shorter words are in every text.
    const SHORTEST: usize = 3;
    if let Ok(number) = token.parse::<f64>() {
        return number.abs() < 10.0;
    }
    token.chars().count() < SHORTEST || EMPTY.contains(&token)
}

/// A token that names one thing: a number, a date, an address, an account.
pub(super) fn is_hard(token: &str) -> bool {
    !is_trivial(token) && token.contains(|c: char| c.is_ascii_digit() || c == '@')
        || token.contains('.') && token.len() > 4
}

/// Escapes as YAML's double-quoted style, JSON and Python's `repr` write them.
fn unescape(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            plain.push(c);
            continue;
        }
        match rest.next() {
            Some('n' | 't' | 'r') => plain.push(' '),
            Some('x') => plain.extend(code_point(&mut rest, 2)),
            Some('u') => plain.extend(code_point(&mut rest, 4)),
            // YAML folds a line here: the word goes on after the next line's indentation.
            Some('\n') => {
                let ahead = rest.as_str();
                let mut after = ahead.trim_start_matches([' ', '\t']);
                after = after.strip_prefix('\\').unwrap_or(after);
                rest = after.chars();
            }
            Some(other) => plain.push(other),
            None => {}
        }
    }
    plain
}

fn code_point(rest: &mut std::str::Chars<'_>, digits: usize) -> Option<char> {
    let hex = rest.as_str().get(..digits)?;
    let found = char::from_u32(u32::from_str_radix(hex, 16).ok()?)?;
    *rest = rest.as_str().get(digits..)?.chars();
    Some(found)
}

/// The tokens of a word: split at what separates values in YAML, JSON, Python and HTML.
fn parts(word: &str) -> Vec<String> {
    let trimmed = word.trim_matches(is_edge);
    // Before the split, since a number may hold a separator: `1,050`.
    if let Some(number) = number(trimmed) {
        return vec![number];
    }
    let separators = |c: char| "\"'`,;|()[]{}<>=*".contains(c);
    let pieces = trimmed.split(separators);
    pieces.flat_map(piece).collect()
}

fn is_edge(c: char) -> bool {
    !c.is_alphanumeric() && !"-+@#$€£/".contains(c)
}

fn piece(piece: &str) -> Vec<String> {
    let lower = piece.trim_matches(is_edge).to_lowercase();
    // The same page is written with and without its scheme.
    let address = lower
        .trim_start_matches("https://")
        .trim_start_matches("http://");
    let address = address
        .trim_start_matches("www.")
        .trim_matches(['/', '-', '+', '#', ':', '.']);
    let address = address.strip_suffix("'s").unwrap_or(address);
    if address.is_empty() {
        return Vec::new();
    }
    if let Some(number) = number(address) {
        return vec![number];
    }
    // `2024-05-15T10:00:00`
    if let Some((date, time)) = address.split_once('t')
        && let (Some(date), Some(time)) = (numeric_date(date), clock(time))
    {
        return vec![date, time];
    }
    let one = numeric_date(address).or_else(|| clock(address));
    vec![one.unwrap_or_else(|| address.to_owned())]
}

/// `1,050.00`, `$50`, `5 %`: the number alone.
fn number(word: &str) -> Option<String> {
    let word = word
        .trim_start_matches(['$', '€', '£', '+'])
        .trim_end_matches(['%', '€', '$', '£']);
    let numeric = |c: char| c.is_ascii_digit() || c == '.' || c == ',';
    let digits = word.strip_prefix('-').unwrap_or(word);
    if !digits.starts_with(|c: char| c.is_ascii_digit()) || !digits.chars().all(numeric) {
        return None;
    }
    // A leading zero is a part of a name: a telephone number, an identifier.
    if digits.len() > 1 && digits.starts_with('0') && !digits.starts_with("0.") {
        return None;
    }
    let value: f64 = word.replace(',', "").parse().ok()?;
    Some(value.to_string())
}

/// `2024-05-15`, `2024/05/15`, `15.05.2024`.
fn numeric_date(word: &str) -> Option<String> {
    let mut fields = word.split(['-', '/', '.']);
    let (a, b, c) = (fields.next()?, fields.next()?, fields.next()?);
    if fields.next().is_some()
        || !word
            .chars()
            .all(|c| c.is_ascii_digit() || "-/.".contains(c))
    {
        return None;
    }
    let parse = |field: &str| field.parse::<u32>().ok();
    // Four digits tell which end is the year. Two at both ends could be anything.
    match (a.len(), c.len()) {
        (4, 1..=2) => date(Some(parse(a)?), parse(b)?, parse(c)?),
        (1..=2, 4) => date(Some(parse(c)?), parse(b)?, parse(a)?),
        _ => None,
    }
}

fn date(year: Option<u32>, month: u32, day: u32) -> Option<String> {
    if !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    Some(match year {
        Some(year) => format!("{year:04}-{month:02}-{day:02}"),
        None => format!("-{month:02}-{day:02}"),
    })
}

/// A date without its year, as a text may say it; `None` if the token is no date.
pub fn without_year(token: &str) -> Option<&str> {
    numeric_date(token)?;
    token.get(4..)
}

/// `May 15th, 2024`, `15 May 2024`, `15th of May`: the date and the number of words it takes.
fn spelled_date(words: &[String]) -> Option<(String, usize)> {
    let word = |at: usize| words.get(at).map(String::as_str);
    let month = |at: usize| {
        let word = word(at)?;
        let is = |name: &str| name == word || word.len() == 3 && name.starts_with(word);
        let position = MONTHS.iter().position(|name| is(name));
        position.and_then(|position| u32::try_from(position + 1).ok())
    };
    let day = |at: usize| {
        let digits = word(at)?.trim_end_matches(|c: char| c.is_ascii_alphabetic());
        let day: u32 = digits.parse().ok()?;
        (digits.len() <= 2 && (1..=31).contains(&day)).then_some(day)
    };
    let year = |at: usize| {
        word(at)?
            .parse()
            .ok()
            .filter(|year| (1900..2200).contains(year))
    };
    let (month, day, used) = if let (Some(month), Some(day)) = (month(0), day(1)) {
        (month, day, 2)
    } else if let (Some(day), Some(month)) = (day(0), month(1)) {
        (month, day, 2)
    } else if let (Some(day), Some("of"), Some(month)) = (day(0), word(1), month(2)) {
        (month, day, 3)
    } else {
        return None;
    };
    let year = year(used);
    Some((date(year, month, day)?, used + usize::from(year.is_some())))
}

/// `10:00`, `10:00:00`.
fn clock(word: &str) -> Option<String> {
    let mut fields = word.split(':');
    let hour: u32 = fields.next()?.parse().ok()?;
    let minute = fields
        .next()
        .filter(|field| field.len() == 2)?
        .parse::<u32>()
        .ok()?;
    let seconds = fields
        .next()
        .is_none_or(|field| field.parse::<f64>().is_ok());
    let fits = hour < 24 && minute < 60 && seconds && fields.next().is_none();
    fits.then(|| format!("{hour:02}:{minute:02}"))
}

/// `10 am`, `3:30 pm`, `10am`.
fn spelled_time(words: &[String]) -> Option<(String, usize)> {
    let first = words.first()?;
    let (digits, half, used) = match (first.strip_suffix("am"), first.strip_suffix("pm")) {
        (Some(digits), _) => (digits, "am", 1),
        (_, Some(digits)) => (digits, "pm", 1),
        _ => (first.as_str(), words.get(1)?.as_str(), 2),
    };
    let (hour, minute): (u32, u32) = match digits.split_once(':') {
        Some((hour, minute)) => (hour.parse().ok()?, minute.parse().ok()?),
        None => (digits.parse().ok()?, 0),
    };
    let hour = match half {
        // 12 am is midnight, 12 pm is noon.
        "am" if hour == 12 => 0,
        "am" => hour,
        "pm" if hour == 12 => 12,
        "pm" => hour + 12,
        _ => return None,
    };
    (hour < 24 && minute < 60).then(|| (format!("{hour:02}:{minute:02}"), used))
}
