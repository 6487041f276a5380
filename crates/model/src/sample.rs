//! Choosing the next token: the likeliest one inside the answer's grammar.

use llama_cpp_2::context::LlamaContext;
use llama_cpp_2::model::LlamaModel;
use llama_cpp_2::sampling::LlamaSampler;
use llama_cpp_2::token::{LlamaToken, data::LlamaTokenData, data_array::LlamaTokenDataArray};

use crate::tokens::Specials;

pub(crate) struct Picker {
    grammar: Option<LlamaSampler>,
}

impl Picker {
    pub(crate) fn new(model: &LlamaModel, grammar: Option<&str>) -> Result<Self, String> {
        let grammar = grammar
            .map(|text| LlamaSampler::grammar(model, text, "root"))
            .transpose()
            .map_err(|error| format!("the answer's grammar: {error}"))?;
        Ok(Self { grammar })
    }

    /// The next token, by the logits of the last decoded one.
    pub(crate) fn pick(
        &mut self,
        context: &LlamaContext<'_>,
        specials: &Specials,
    ) -> Result<LlamaToken, String> {
        let logits = context.get_logits_ith(-1);
        // Nearly always the likeliest token is allowed, and asking the grammar about one token costs microseconds, about
        // all of them milliseconds.
        let likeliest =
            likeliest(logits, specials).filter(|(token, logit)| self.allows(*token, *logit));
        let token = match likeliest {
            Some((token, _)) => token,
            None => self.search(logits, specials)?,
        };
        if let Some(grammar) = &mut self.grammar {
            grammar
                .try_accept(token)
                .map_err(|error| format!("the answer's grammar: {error}"))?;
        }
        Ok(token)
    }

    fn allows(&mut self, token: LlamaToken, logit: f32) -> bool {
        let Some(grammar) = &mut self.grammar else {
            return true;
        };
        let mut one = LlamaTokenDataArray::new(vec![LlamaTokenData::new(token, logit, 0.0)], false);
        one.apply_sampler(grammar);
        one.data
            .first()
            // llama.cpp's grammar rules a token out by setting its logit to −∞.
            .is_some_and(|data| data.logit() > f32::NEG_INFINITY)
    }

    /// Asks the grammar about every token.
    fn search(&mut self, logits: &[f32], specials: &Specials) -> Result<LlamaToken, String> {
        let candidates = (0..)
            .zip(logits)
            .map(|(id, logit)| LlamaTokenData::new(LlamaToken(id), *logit, 0.0))
            .filter(|data| !specials.is_banned(data.id()) && !data.logit().is_nan());
        let mut array = LlamaTokenDataArray::from_iter(candidates, false);
        if let Some(grammar) = &mut self.grammar {
            array.apply_sampler(grammar);
        }
        // None is an error, not an end of the answer: a call that was cut here would pass for one that the model ended.
        array
            .data
            .iter()
            .filter(|data| data.logit() > f32::NEG_INFINITY)
            .max_by(|a, b| a.logit().total_cmp(&b.logit()))
            .map(LlamaTokenData::id)
            .ok_or_else(|| "the answer's grammar allows no token here".into())
    }
}

fn likeliest(logits: &[f32], specials: &Specials) -> Option<(LlamaToken, f32)> {
    (0..)
        .zip(logits)
        .map(|(id, logit)| (LlamaToken(id), *logit))
        .filter(|(token, logit)| !specials.is_banned(*token) && !logit.is_nan())
        .max_by(|a, b| a.1.total_cmp(&b.1))
}
