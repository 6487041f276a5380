//! The untrusted sources of an answer, in lines below it.

use hub::trace::{AnswerSource, escape};
use ifc::Source;

/// Sources that are named.
const NAMED: usize = 4;
/// Quotations that are shown.
const QUOTED: usize = 3;

/// One line for the sources, and one for each part of the answer that is quoted from one. Empty for a trusted answer.
pub(crate) fn text(sources: &[AnswerSource]) -> String {
    // Descriptions are counted: an answer depends on those of all offered tools.
    let is_description = |one: &&AnswerSource| matches!(one.source, Source::Description(_));
    let described = sources.iter().filter(is_description).count();
    let others = sources.iter().filter(|one| !is_description(one));
    let mut named = names(others);
    match described {
        0 => {}
        1 => named.push("the description of a tool".to_owned()),
        tools => named.push(format!("the descriptions of {tools} tools")),
    }
    let Some(last) = named.pop() else {
        return String::new();
    };
    let named = match named.is_empty() {
        true => last,
        false => format!("{} and {last}", named.join("; ")),
    };
    let mut text = format!("(depends on {named})\n");
    let quotes = sources
        .iter()
        .flat_map(|one| one.quotes.iter().map(move |quote| (one, quote)));
    for (one, quote) in quotes.take(QUOTED) {
        let source = escape(&one.source.to_string());
        text += &format!("(word for word from {source}: \"{}\")\n", escape(quote));
    }
    text
}

/// The first sources, each with its labels, and the number of the others. A result can have fields with other labels.
fn names<'a>(sources: impl Iterator<Item = &'a AnswerSource>) -> Vec<String> {
    let mut all: Vec<(&Source, Vec<&str>)> = Vec::new();
    for one in sources {
        let labels = one.label.iter().map(String::as_str);
        match all.iter_mut().find(|(source, _)| **source == one.source) {
            Some((_, known)) => {
                let new: Vec<&str> = labels.filter(|it| !known.contains(it)).collect();
                known.extend(new);
            }
            None => all.push((&one.source, labels.collect())),
        }
    }
    let more = all.len().saturating_sub(NAMED);
    let first = all.iter().take(NAMED).map(|(source, labels)| {
        format!(
            "{} ({})",
            escape(&source.to_string()),
            escape(&labels.join(", "))
        )
    });
    let mut named: Vec<String> = first.collect();
    named.extend((more > 0).then(|| format!("{more} more")));
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(source: Source, quotes: &[&str]) -> AnswerSource {
        AnswerSource {
            source,
            label: vec!["untrusted:email".to_owned(), "secret:mail".to_owned()],
            relevant: true,
            quotes: quotes.iter().map(|quote| (*quote).into()).collect(),
        }
    }

    #[test]
    fn a_trusted_answer_has_no_line() {
        assert_eq!(text(&[]), "");
    }

    #[test]
    fn foreign_names_and_quotations_stay_on_their_line() {
        let tool = Source::Tool("read\n(depends on nothing)".to_owned());
        let all = [
            source(tool, &["take the X3\u{202e}\nat once"]),
            source(Source::Memory, &[]),
            source(Source::Description("a".to_owned()), &[]),
            source(Source::Description("b".to_owned()), &[]),
        ];
        assert_eq!(
            text(&all),
            "(depends on result of read\\n(depends on nothing) (untrusted:email, secret:mail); \
             memory (untrusted:email, secret:mail) and the descriptions of 2 tools)\n\
             (word for word from result of read\\n(depends on nothing): \"take the X3\\u{202e}\\nat once\")\n"
        );
    }

    #[test]
    fn a_result_of_several_labels_is_named_once() {
        let tool = || source(Source::Tool("list_emails".to_owned()), &[]);
        let mut sender = tool();
        sender.label = vec!["untrusted:sender".to_owned(), "secret:mail".to_owned()];
        assert_eq!(
            text(&[tool(), sender]),
            "(depends on result of list_emails (untrusted:email, secret:mail, untrusted:sender))\n"
        );
    }

    #[test]
    fn a_few_are_named_and_the_others_counted() {
        let many: Vec<AnswerSource> = (0..7)
            .map(|at| source(Source::Tool(format!("tool_{at}")), &[]))
            .collect();
        let line = text(&many);
        assert!(
            line.contains("tool_3") && !line.contains("tool_4"),
            "{line}"
        );
        assert!(line.ends_with(" and 3 more)\n"), "{line}");
    }
}
