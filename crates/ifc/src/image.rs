//! Images: bytes that nothing here reads, beside a note in a text.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::writer::Writer;
use crate::{Label, Labeled};

/// An image of a known kind.
///
/// The first bytes tell the kind, and nothing else is read. `Debug` shows no byte.
#[derive(Clone, PartialEq, Eq)]
pub struct Image {
    kind: Kind,
    bytes: Arc<[u8]>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Png,
    Jpeg,
    Gif,
    Webp,
}

impl Image {
    /// An image of these bytes; `None` if they do not begin as a PNG, JPEG, GIF or WebP does, which every provider takes.
    #[must_use]
    pub fn read(bytes: Vec<u8>) -> Option<Self> {
        let kind = match bytes.as_slice() {
            [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1a, b'\n', ..] => Kind::Png,
            [0xff, 0xd8, 0xff, ..] => Kind::Jpeg,
            [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Kind::Gif,
            [
                b'R',
                b'I',
                b'F',
                b'F',
                _,
                _,
                _,
                _,
                b'W',
                b'E',
                b'B',
                b'P',
                ..,
            ] => Kind::Webp,
            _ => return None,
        };
        let bytes = bytes.into();
        Some(Self { kind, bytes })
    }

    /// `image/png`, and the like.
    #[must_use]
    pub fn media_type(&self) -> &'static str {
        match self.kind {
            Kind::Png => "image/png",
            Kind::Jpeg => "image/jpeg",
            Kind::Gif => "image/gif",
            Kind::Webp => "image/webp",
        }
    }

    /// All of its bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

/// Its note in a text.
impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (kind, bytes) = (self.media_type(), self.bytes.len());
        write!(f, "[image: {kind}, {bytes} bytes]")
    }
}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Image({}, {} bytes)",
            self.media_type(),
            self.bytes.len()
        )
    }
}

/// The content of a message: a text, and images with a note each at the end of the text.
///
/// An image is tied to the place of its note, so no text that an app writes stands for an image. It has the label of its
/// note, and a prompt that does not show the note does not have the image. A note that a prompt does not show leaves no
/// mark.
#[derive(Debug, Clone)]
pub struct Content {
    pub(crate) text: Labeled,
    pub(crate) images: Vec<Pictured>,
    pub(crate) writers: Vec<(Range<usize>, Writer)>,
}

/// An image, and the span of its note in the message's text, with the line break before it.
#[derive(Debug, Clone)]
pub(crate) struct Pictured {
    pub(crate) span: Range<usize>,
    pub(crate) image: Image,
}

impl Content {
    /// Puts an image with this label at the end.
    pub fn attach(&mut self, image: Image, label: &Label) {
        let start = self.text.len();
        let gap = if self.text.is_empty() { "" } else { "\n" };
        let note = Labeled::label_tcb(format!("{gap}{image}"), label.clone());
        self.text.push(&note);
        let span = start..self.text.len();
        self.images.push(Pictured { span, image });
    }

    /// Says who wrote which parts of the text, in the order of their beginnings. The user can vouch for their text
    /// ([`Policy::writers`](crate::Policy::writers)).
    #[must_use]
    pub fn written_by(self, writers: Vec<(Range<usize>, Writer)>) -> Self {
        Self { writers, ..self }
    }

    /// The text, with the notes.
    #[must_use]
    pub fn text(&self) -> &Labeled {
        &self.text
    }
}

impl From<Labeled> for Content {
    fn from(text: Labeled) -> Self {
        Self {
            text,
            images: Vec::new(),
            writers: Vec::new(),
        }
    }
}

impl Pictured {
    /// The label of its note in this text; ⊤ if it is not there.
    pub(crate) fn label_in(&self, text: &Labeled) -> Label {
        if text.reveal_tcb().get(self.span.clone()).is_none() {
            return Label::top();
        }
        let over = text.regions().filter(|(span, _)| self.covers(span));
        over.map(|(_, label)| label).collect()
    }

    /// Whether a part of its note is in this span.
    pub(crate) fn covers(&self, span: &Range<usize>) -> bool {
        span.start < self.span.end && self.span.start < span.end
    }
}
