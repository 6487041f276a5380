//! HTML bodies, turned into text.

use std::borrow::Cow;

use mail_parser::decoders::html::html_to_text;

/// Elements whose content is not shown by a mail reader.
const INVISIBLE_ELEMENTS: [&str; 3] = ["script", "style", "title"];

/// The text of an HTML body. Simple on purpose: tags go, entities are decoded, breaks and paragraphs end lines.
pub(crate) fn from_html(html: &str) -> String {
    let mut html = Cow::Borrowed(html);
    for element in INVISIBLE_ELEMENTS {
        html = Cow::Owned(without_element(&html, element));
    }
    html_to_text(&html)
}

/// Removes `<name …>…</name>`; an element that is never closed reaches to the end.
fn without_element(html: &str, name: &str) -> String {
    // Only ASCII changes its case here, so positions in both strings are the same.
    let lower = html.to_ascii_lowercase();
    let (open, close) = (format!("<{name}"), format!("</{name}"));
    let mut kept = String::with_capacity(html.len());
    let mut at = 0;
    while let Some(begin) = lower
        .get(at..)
        .and_then(|rest| rest.find(&open))
        .map(|found| at + found)
    {
        kept.push_str(html.get(at..begin).unwrap_or_default());
        let after_name = lower.as_bytes().get(begin + open.len());
        if after_name.is_some_and(u8::is_ascii_alphanumeric) {
            // Another element with a longer name, such as <styled>.
            kept.push_str(html.get(begin..begin + open.len()).unwrap_or_default());
            at = begin + open.len();
            continue;
        }
        let end = lower
            .get(begin..)
            .and_then(|rest| rest.find(&close))
            .map(|found| begin + found);
        at = end
            .and_then(|end| lower.get(end..)?.find('>').map(|found| end + found + 1))
            .unwrap_or(html.len());
    }
    kept.push_str(html.get(at..).unwrap_or_default());
    kept
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn html_becomes_text() {
        for (input, want) in [
            (
                "<p>Dear Anna,</p><p>5 &lt; 6 &amp; 7<br>Bye</p>",
                "Dear Anna,\n5 < 6 & 7\nBye",
            ),
            (
                "<html><head><title>T</title></head><body><STYLE type=x>p{}</STYLE>a<script>b</script>c</body>",
                "ac",
            ),
            ("x<style>never closed", "x"),
            ("<titles>kept</titles>", "kept"),
        ] {
            assert_eq!(from_html(input).trim(), want, "{input}");
        }
    }

    proptest! {
        #[test]
        fn any_html_is_read(text in "(<|>|/|!|-|&|;|#|p|br|style|script|head|ä| |\n){0,60}") {
            from_html(&text);
        }
    }
}
