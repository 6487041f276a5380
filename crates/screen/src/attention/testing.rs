//! For tests: a model that attends to the words which the draft repeats, and a classifier of the
//! attention's sum.

use saliency::{Observer, Row, SaliencyError};

use super::{
    About, Attend, Classifier, Columns, Encode, Linear, Network, Normalisation, Platt, RECALLS,
    Token,
};

/// Whether a repeated word is attended to. Any other word may come from anywhere.
pub type Telling = fn(&str) -> bool;

/// One head, which attends only to earlier occurrences of a telling word.
#[derive(Debug, Clone, Copy)]
pub struct Copying;

/// The attention to the first token where no word is repeated, so that rows are never all 0.
const IDLE: f32 = 0.01;

/// The least token of a telling word. Below are control tokens and bytes.
const FIRST_WORD: u32 = 1000;

impl Attend for Copying {
    fn attend(
        &self,
        input: &[u32],
        output: &[u32],
        observer: &mut dyn Observer,
    ) -> Result<(), SaliencyError> {
        for (index, wanted) in output.iter().enumerate() {
            let copied = |token: &u32| match token == wanted && *wanted >= FIRST_WORD {
                true => 1.0,
                false => 0.0,
            };
            let before = output.iter().take(index);
            let mut attention: Vec<f32> = input.iter().chain(before).map(copied).collect();
            attention.iter_mut().take(1).for_each(|it| *it = IDLE);
            let gradient = vec![-1.0; attention.len()];
            observer.row(Row {
                output: index,
                layer: 0,
                head: 0,
                attention: &attention,
                gradient: &gradient,
            });
        }
        Ok(())
    }
}

/// A token for each telling word, regardless of case, and for each other byte.
#[derive(Debug, Clone, Copy)]
pub struct Words(pub Telling);

impl Encode for Words {
    fn encode(&self, text: &str) -> Vec<Token> {
        let mut tokens: Vec<Token> = Vec::new();
        let mut start = 0;
        while let Some(first) = text.as_bytes().get(start) {
            let rest = text.as_bytes().iter().skip(start);
            let length = rest.take_while(|byte| byte.is_ascii_alphanumeric()).count();
            let word = text.get(start..start + length).unwrap_or_default();
            let (id, bytes) = match !word.is_empty() && self.0(word) {
                true => (id(word), length),
                false => (u32::from(*first), 1),
            };
            let end = start + bytes;
            tokens.push(Token {
                id,
                bytes: start..end,
            });
            start = end;
        }
        tokens
    }

    fn control(&self, name: &str) -> Option<u32> {
        match name {
            "<|im_start|>" => Some(FIRST_WORD - 1),
            "<|im_end|>" => Some(FIRST_WORD - 2),
            _ => None,
        }
    }
}

fn id(word: &str) -> u32 {
    let bytes = word
        .bytes()
        .map(|byte| u32::from(byte.to_ascii_lowercase()));
    FIRST_WORD + bytes.fold(7u32, |id, byte| id.wrapping_mul(31).wrapping_add(byte)) % 1_000_000
}

/// A region is relevant if it has a twentieth of all attention.
pub fn by_sum() -> Classifier {
    let columns = Columns::paper();
    let features = columns.len();
    let sum_alone = (0..features).map(|at| if at == 0 { 100.0 } else { 0.0 });
    Classifier {
        about: About {
            name: "by sum".to_owned(),
            model: "none".to_owned(),
            data: "none".to_owned(),
            command: "by hand".to_owned(),
        },
        normalisation: Normalisation {
            mean: vec![0.0; features],
            std_dev: vec![1.0; features],
        },
        network: Network {
            projection: None,
            layers: Vec::new(),
            head: Linear {
                inputs: features,
                weights: sum_alone.collect(),
                bias: vec![-5.0],
            },
        },
        columns,
        platt: Platt::default(),
        thresholds: vec![0.5; RECALLS.len()],
        target_recall: 95,
    }
}
