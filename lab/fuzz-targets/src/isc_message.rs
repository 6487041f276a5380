//! A message between apps: a schema in the first line, the rest is what an app says. Whatever is admitted must be of the form, say
//! what was said, be no less restrictive than that, and tell nobody what is in a text that this reader may not see.

use hub::isc::{Admitted, Schema};
use ifc::{Dimension, Label, Labeled, Lattice};
use serde_json::Value;
use std::ops::Range;

pub(crate) fn isc_message(bytes: &[u8]) -> bool {
    let Ok(input) = std::str::from_utf8(bytes) else {
        return false;
    };
    let Some((schema, said)) = input.split_once('\n') else {
        return false;
    };
    let Ok(schema) = serde_json::from_str::<Value>(schema) else {
        return false;
    };
    let Ok(schema) = Schema::read(&schema) else {
        return false;
    };
    let lattice = Lattice::four_point();
    let secret = lattice.whole(Dimension::Confidentiality);
    let taint = lattice.whole(Dimension::Integrity);
    let bottom = Label::bottom();

    let checked = schema.check(said);
    let plain = Labeled::trusted_tcb(said);
    let admitted = schema.admit(&plain, &taint);
    if let Ok(Admitted { message, left_out }) = &admitted {
        let text = message.reveal_tcb();
        assert!(message.label().flows_to(&taint));
        if schema.is_text() {
            assert_eq!((text, left_out), (said, &0));
        } else if *left_out == 0 {
            assert!(text.len() <= Schema::MAX_BYTES);
            assert_eq!(checked, Ok(()), "{text}");
            assert_eq!(schema.check(text), Ok(()), "{text}");
            let value = |text: &str| serde_json::from_str::<Value>(text).ok();
            assert_eq!(value(said), value(text));
            // It is in one form: nothing more can be taken out of it.
            let again = schema.admit(&Labeled::trusted_tcb(text), &taint);
            assert_eq!(again, admitted);
        }
    }
    if !schema.is_text() && checked.is_ok() {
        assert!(admitted.is_ok_and(|admitted| admitted.left_out == 0));
    }

    // A secret of the same length in the place of another one, within some string: a reader at ⊥ sees the same.
    // Each costs two admissions, and a text of quotation marks has thousands.
    for inside in strings(said).into_iter().take(4) {
        let other: String = said[inside.clone()]
            .chars()
            // Letters and digits alone, so that what is JSON stays so.
            .map(|c| if c.is_ascii_alphanumeric() { 'x' } else { c })
            .collect();
        let swapped = [&said[..inside.start], &other, &said[inside.end..]].concat();
        let with_secret = |text: &str| {
            let content =
                Labeled::with_regions_tcb(text.to_owned(), [(inside.clone(), secret.clone())])
                    .expect("one region");
            schema
                .admit(&content, &bottom)
                .ok()
                .map(|admitted| seen(&admitted.message))
        };
        if let (Some(one), Some(two)) = (with_secret(said), with_secret(&swapped)) {
            assert_eq!(one, two, "{said} beside {swapped}");
        }
    }
    checked.is_ok()
}

/// The insides of the strings of a JSON text, of those without escapes.
fn strings(text: &str) -> Vec<Range<usize>> {
    let quotes: Vec<usize> = text.match_indices('"').map(|(at, _)| at).collect();
    let pairs = quotes.chunks_exact(2).map(|pair| pair[0] + 1..pair[1]);
    pairs
        .filter(|inside| !text.contains('\\') && !inside.is_empty())
        .collect()
}

/// What a reader sees who may see nothing labelled.
fn seen(message: &Labeled) -> String {
    let (text, mut at, mut shown) = (message.reveal_tcb(), 0, String::new());
    for (region, _) in message.regions() {
        shown += &text[at..region.start];
        if !shown.ends_with('█') {
            shown.push('█');
        }
        at = region.end;
    }
    shown + &text[at..]
}
