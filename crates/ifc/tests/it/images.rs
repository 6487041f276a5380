//! Images: whoever may read the note of one may be given it, and nobody else.

use std::collections::BTreeMap;

use ifc::{
    CallId, Content, History, Image, Label, Labeled, Prompt, PromptMessage, Relevance, redact,
};

use crate::common::label;

fn png(text: &str) -> Image {
    Image::read([b"\x89PNG\r\n\x1a\n", text.as_bytes()].concat()).unwrap()
}

/// A call under a label, in a history.
fn called(history: &mut History, label: &Label) -> CallId {
    let call = ("look".to_owned(), Labeled::trusted_tcb("{}"));
    let ids = history.push_step(label, label, Labeled::trusted_tcb(""), [call]);
    ids[0]
}

fn pictured(text: Labeled, image: Image, label: &Label) -> Content {
    let mut content = Content::from(text);
    content.attach(image, label);
    content
}

/// The texts and images of a prompt, by message.
fn shown(prompt: &Prompt) -> Vec<(String, Vec<Image>)> {
    let text = |message: &PromptMessage| match message {
        PromptMessage::System(text) | PromptMessage::User(text) => text.clone(),
        PromptMessage::Assistant { text, .. } => text.clone(),
        PromptMessage::Tool { content, .. } => content.clone(),
    };
    let messages = prompt.messages().iter().enumerate();
    let images = |at| prompt.images(at).cloned().collect();
    messages.map(|(at, it)| (text(it), images(at))).collect()
}

#[test]
fn an_image_is_known_by_its_first_bytes() {
    let kinds: BTreeMap<&str, &[u8]> = BTreeMap::from([
        ("image/png", b"\x89PNG\r\n\x1a\n".as_slice()),
        ("image/jpeg", b"\xff\xd8\xff\xe0"),
        ("image/gif", b"GIF89a"),
        ("image/webp", b"RIFF\0\0\0\0WEBPVP8 "),
    ]);
    for (kind, bytes) in kinds {
        let image = Image::read(bytes.to_vec()).unwrap();
        assert_eq!(image.media_type(), kind);
        assert_eq!(
            image.to_string(),
            format!("[image: {kind}, {} bytes]", bytes.len())
        );
        assert!(Image::read(bytes[1..].to_vec()).is_none(), "{kind}");
    }
    for bytes in [
        b"<svg/>".as_slice(),
        b"",
        b"%PDF-1.7",
        b"RIFF\0\0\0\0WAVE",
        b"GIF88a",
    ] {
        assert!(Image::read(bytes.to_vec()).is_none());
    }
    assert!(!format!("{:?}", png("4711")).contains("4711"));
}

#[test]
fn a_prompt_has_an_image_where_it_shows_its_note() {
    let (untrusted, secret) = (label("untrusted"), label("secret"));
    let mut history = History::default();
    history.push_user(Labeled::trusted_tcb("look"));
    let call = called(&mut history, &Label::bottom());
    let mut content = pictured(Labeled::trusted_tcb("two"), png("u"), &untrusted);
    content.attach(png("s"), &secret);
    history.push_result(&Label::bottom(), call, content);

    let at = |label: &Label| shown(&redact(&history, label)).pop().unwrap();
    let note = png("u").to_string();
    let both = untrusted.join(&secret);
    let all = (format!("two\n{note}\n{note}"), vec![png("u"), png("s")]);
    assert_eq!(at(&both), all);
    let low = (format!("two\n{note}"), vec![png("u")]);
    assert_eq!(at(&untrusted), low);
    let high = (format!("two\n{note}"), vec![png("s")]);
    assert_eq!(at(&secret), high);
    assert_eq!(at(&Label::bottom()), ("two".to_owned(), vec![]));
    for (label, count) in [(&both, 2), (&untrusted, 1), (&Label::bottom(), 0)] {
        assert_eq!(history.images_at(2, label), count);
    }
}

/// A model, a user or an app that writes what a note says.
#[test]
fn no_text_stands_for_an_image() {
    let secret = label("secret");
    let note = png("s").to_string();
    let mut history = History::default();
    history.push_system(Labeled::trusted_tcb(note.clone()));
    history.push_user(Labeled::trusted_tcb(note.clone()));
    let call = called(&mut history, &Label::bottom());
    let text = Labeled::trusted_tcb(note.clone());
    history.push_result(&Label::bottom(), call, pictured(text, png("s"), &secret));
    let call = called(&mut history, &Label::bottom());
    history.push_result(&Label::bottom(), call, Labeled::trusted_tcb(note));
    let images = |label: &Label| -> usize {
        let prompt = redact(&history, label);
        shown(&prompt).iter().map(|(_, images)| images.len()).sum()
    };
    assert_eq!(images(&Label::bottom()), 0);
    assert_eq!(images(&secret), 1);
}

/// One bit: whether the inbox shows a picture of somebody.
#[test]
fn a_prompt_below_an_image_is_the_same_without_it() {
    let (untrusted, secret) = (label("untrusted"), label("secret"));
    let texts = || {
        let part = |text: &str, label: &Label| Labeled::label_tcb(text, label.clone());
        [
            Labeled::trusted_tcb(""),
            Labeled::trusted_tcb("a"),
            part("", &secret),
            part("a", &secret),
            part("a", &untrusted),
            Labeled::concat([&part("a", &untrusted), &part("", &secret)]),
            Labeled::concat([&Labeled::trusted_tcb("a"), &part("", &secret)]),
        ]
    };
    for text in texts() {
        for step in [Label::bottom(), untrusted.clone()] {
            let history = |count: usize| {
                let mut history = History::default();
                let call = called(&mut history, &step);
                let mut content = Content::from(text.clone());
                (0..count).for_each(|_| content.attach(png("x"), &secret));
                history.push_result(&step, call, content);
                history
            };
            for at in [Label::bottom(), untrusted.clone()] {
                let [none, one, two] = [0, 1, 2].map(|count| shown(&redact(&history(count), &at)));
                assert_eq!(none, one, "{text:?}");
                assert_eq!(none, two, "{text:?}");
            }
        }
    }
}

/// What is said of a call is above the label of the call, and so is an image.
#[test]
fn an_image_is_as_restricted_as_its_message() {
    let secret = label("secret");
    let mut history = History::default();
    history.push_user(Labeled::trusted_tcb("look"));
    let call = called(&mut history, &secret);
    let content = pictured(Labeled::trusted_tcb(""), png("x"), &Label::bottom());
    history.push_result(&secret, call, content);
    assert_eq!(shown(&redact(&history, &Label::bottom())).len(), 1);
    assert_eq!(
        shown(&redact(&history, &secret)).pop().unwrap().1,
        [png("x")]
    );
}

#[test]
fn a_part_of_a_history_keeps_its_images() {
    let secret = label("secret");
    let mut history = History::default();
    history.push_user(pictured(Labeled::trusted_tcb("this"), png("u"), &secret));
    let call = called(&mut history, &Label::bottom());
    let content = pictured(Labeled::trusted_tcb(""), png("x"), &Label::bottom());
    history.push_result(&Label::bottom(), call, content);
    let part = history.part(1..3, &Labeled::trusted_tcb("before: "));
    let high = shown(&redact(&part, &secret));
    let images: Vec<Image> = high.into_iter().flat_map(|(_, images)| images).collect();
    assert_eq!(images, [png("u"), png("x")]);
    let low = shown(&redact(&part, &Label::bottom()));
    assert_eq!(low[0], ("before: this".to_owned(), vec![]));
}

/// The user has read a note, and an injection is in the image.
#[test]
fn to_vouch_for_a_text_is_not_to_vouch_for_its_images() {
    let untrusted = label("untrusted");
    let mut history = History::default();
    let call = called(&mut history, &Label::bottom());
    let text = Labeled::label_tcb("nice weather", untrusted.clone());
    history.push_result(&Label::bottom(), call, pictured(text, png("x"), &untrusted));
    let all = history.regions().map(|region| region.id).collect();
    let pieces = history.pieces_of(&Relevance::Only(all));
    history.endorse_tcb(&pieces, &untrusted, 7);
    let endorsed = untrusted.endorse_tcb(&untrusted, 7);
    let (text, images) = shown(&redact(&history, &endorsed)).pop().unwrap();
    assert!(text.starts_with("nice weather"), "{text}");
    assert_eq!(images, []);
    assert_eq!(
        shown(&redact(&history, &untrusted)).pop().unwrap().1,
        [png("x")]
    );
}

/// A step that has seen an image is above it, whatever becomes of the labels of the rest.
#[test]
fn what_was_made_from_an_image_stays_above_it() {
    let (untrusted, secret) = (label("untrusted"), label("secret"));
    let mut history = History::default();
    let call = called(&mut history, &Label::bottom());
    let text = Labeled::label_tcb("nice weather", untrusted.clone());
    let content = pictured(text, png("x"), &secret);
    history.push_result(&Label::bottom(), call, content);
    let both = untrusted.join(&secret);
    history.push_step(&both, &Label::bottom(), Labeled::trusted_tcb("so"), []);
    let all = history.regions().map(|region| region.id).collect();
    let pieces = history.pieces_of(&Relevance::Only(all));
    history.endorse_tcb(&pieces, &untrusted, 7);
    let (step, _) = history.messages().last().unwrap();
    let endorsed = untrusted.endorse_tcb(&untrusted, 7);
    assert_eq!(*step, endorsed.join(&secret));
}

#[test]
fn the_bytes_of_images_count() {
    let mut history = History::default();
    let before = history.bytes();
    history.push_user(pictured(
        Labeled::trusted_tcb(""),
        png("1234"),
        &Label::bottom(),
    ));
    let note = png("1234").to_string().len();
    assert_eq!(history.bytes() - before, note + png("1234").bytes().len());
}
