//! What the name of an argument says about it.

/// Last words of arguments that only carry content.
pub const CONTENT: &str = "\
    body caption comment content contents description message note notes subject summary text \
    title";
/// Last words of arguments that are a day or a time.
pub const TIMES: &str = "date day deadline due end start time";
/// Words of an amount: a date beside one is a date of payment, which untrusted text must not choose.
pub const AMOUNTS: &str = "amount price sum";
/// Last words of other numbers.
const NUMBERS: &str = "count quantity";

/// Words of tools that take a text from where the app has it.
const FETCHES: &str = "copy download export fetch find forward get pull search summarize";
/// Words of tools that hand a text on.
const HANDS_ON: &str = "forward notify post publish reply send share";
/// Words of arguments that name a text which the app has.
const SOURCES: &str = "\
    document documents file files invoice invoices report reports source \
    statement statements";
/// Last words of arguments that name who gets it.
const RECIPIENTS: &str = "\
    bcc cc channel email invitees participants receiver receivers recipient recipients to webhook";

/// Whether a tool may move text by itself, which no argument carries: its name says that it takes some and hands it on, or one
/// argument names a text of the app's and another one who gets it.
pub fn moves<'a>(tool: &str, arguments: impl IntoIterator<Item = &'a str>) -> bool {
    let has = |words: &[String], list: &str| words.iter().any(|word| is_in(list, word));
    let arguments: Vec<Vec<String>> = arguments.into_iter().map(words).collect();
    let is_recipient = |words: &Vec<String>| words.last().is_some_and(|it| is_in(RECIPIENTS, it));
    let tool = words(tool);
    has(&tool, FETCHES) && has(&tool, HANDS_ON)
        || arguments.iter().any(|it| has(it, SOURCES)) && arguments.iter().any(is_recipient)
}

/// Whether the name is none of content, a time or a number, so that the argument may say who or what a call is about.
pub(super) fn may_name(argument: &str) -> bool {
    let words = words(argument);
    let last = words.last().map_or("", String::as_str);
    ![CONTENT, TIMES, AMOUNTS, NUMBERS]
        .into_iter()
        .any(|list| is_in(list, last))
}

/// Whether a word is in such a list.
#[must_use]
pub fn is_in(list: &str, word: &str) -> bool {
    list.split(' ').any(|it| it == word)
}

/// The words of a name: `getUnreadMails` and `get_unread-mails` have the same three.
#[must_use]
pub fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut before = ' ';
    for letter in name.chars() {
        // A capital after a small letter begins a word.
        if !letter.is_alphanumeric() || letter.is_uppercase() && before.is_lowercase() {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut().filter(|_| letter.is_alphanumeric()) {
            word.extend(letter.to_lowercase());
        }
        before = letter;
    }
    words.retain(|word| !word.is_empty());
    words
}
