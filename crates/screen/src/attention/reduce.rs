//! Attention rows on their way into features: one pass, memory for tokens and regions only.

use std::ops::Range;

use saliency::{Observer, Row};

use super::columns::{Column, Columns};
use super::{Encoded, Sight};

/// Arguments that are kept apart; those after count as one with the last. Each takes a number per
/// input token.
const MOST_ARGUMENTS: usize = 16;

/// Numbers that are added side by side, so that the compiler uses vector instructions.
const LANES: usize = 8;

/// Sees the attention rows of one step and keeps what features are made of.
pub struct Reducer {
    input: usize,
    /// The argument that each output token belongs to, if it is of a value.
    argument: Vec<Option<usize>>,
    /// `|A · ∂L/∂A|` summed over layers and heads: for each output token, one number per input
    /// token. Not summed over output tokens, since these come in any order, and sums would differ
    /// from run to run.
    saliency: Vec<f32>,
    /// The input cut wherever a region begins or ends.
    pieces: Vec<Range<usize>>,
    /// The pieces of each region that is seen.
    regions: Vec<Range<usize>>,
    /// Which element of `heads` belongs to a layer's head.
    slots: Vec<Vec<Option<usize>>>,
    heads: Vec<Head>,
    scratch: Vec<Seen>,
    rows: usize,
    is_broken: bool,
}

/// What is kept of a head.
struct Head {
    rows: usize,
    total: f64,
    regions: Vec<HeadRegion>,
}

/// What a head makes of a region, over the tokens of values.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct HeadRegion {
    /// Sum of `|A · ∂L/∂A|`; [`Reducer::head`] divides it by that of all tokens.
    pub(crate) share: f64,
    /// The largest `A`.
    pub(crate) peak: f32,
    /// The largest fraction in one row.
    pub(crate) spike: f32,
}

#[derive(Clone, Copy, Default)]
struct Seen {
    sum: f32,
    peak: f32,
}

impl Reducer {
    /// For the regions and values of `encoded`, and the heads among `columns`.
    pub fn new(encoded: &Encoded, columns: &Columns) -> Self {
        let input = encoded.input.len();
        let regions = seen(encoded);
        let pieces = pieces(input, &regions);
        let of_region = |region: &Range<usize>| {
            let start = pieces.partition_point(|piece| piece.end <= region.start);
            let end = pieces.partition_point(|piece| piece.start < region.end);
            start..end.max(start)
        };
        let regions: Vec<Range<usize>> = regions.iter().map(of_region).collect();
        let argument = arguments(encoded);
        let (slots, heads) = heads(columns, regions.len());
        Self {
            input,
            saliency: vec![0.0; input * argument.len()],
            argument,
            scratch: vec![Seen::default(); pieces.len()],
            pieces,
            regions,
            slots,
            heads,
            rows: 0,
            is_broken: false,
        }
    }

    /// Whether a row did not fit the step, or none came, or none of a head that is wanted.
    pub(crate) fn is_broken(&self) -> bool {
        let mut heads = self.heads.iter();
        // A head that the weights name and the model lacks gives no row. Its columns must not pass
        // for zeros.
        self.is_broken || self.rows == 0 || heads.any(|head| head.rows == 0)
    }

    /// Whether all rows were finite. A row that is not makes its products so, and their sums.
    pub(crate) fn is_finite(&self) -> bool {
        let mut heads = self.heads.iter();
        let saliency = self.saliency.iter();
        heads.all(|head| head.total.is_finite()) && saliency.copied().all(f32::is_finite)
    }

    /// Saliency per input token, over all output tokens.
    pub(crate) fn over_all(&self) -> Vec<f32> {
        self.sum(|_| true)
    }

    /// Saliency per input token, over the tokens of values.
    pub(crate) fn over_values(&self) -> Vec<f32> {
        self.sum(|argument| argument.is_some())
    }

    /// Saliency per input token, of each argument.
    pub(crate) fn over_arguments(&self) -> Vec<Vec<f32>> {
        let last = self.argument.iter().flatten().max();
        let arguments = 0..last.map_or(0, |last| last + 1);
        arguments
            .map(|wanted| self.sum(|argument| argument == Some(wanted)))
            .collect()
    }

    /// Over the output tokens with such an argument, in order.
    fn sum(&self, counts: impl Fn(Option<usize>) -> bool) -> Vec<f32> {
        let mut sums = vec![0.0f64; self.input];
        let outputs = self.saliency.chunks_exact(self.input.max(1));
        for (saliency, argument) in outputs.zip(&self.argument) {
            if counts(*argument) {
                for (sum, part) in sums.iter_mut().zip(saliency) {
                    *sum += f64::from(*part);
                }
            }
        }
        sums.into_iter().map(|sum| sum as f32).collect()
    }

    /// What a head makes of the region that is the `region`-th to be seen.
    pub(crate) fn head(&self, layer: u16, head: u16, region: usize) -> Option<HeadRegion> {
        let slot = self.slots.get(usize::from(layer))?.get(usize::from(head))?;
        let head = self.heads.get((*slot)?)?;
        let mut seen = *head.regions.get(region)?;
        seen.share = if head.total > 0.0 {
            seen.share / head.total
        } else {
            0.0
        };
        Some(seen)
    }

    /// A row of a token of a value, in a head that is wanted.
    fn measure(&mut self, slot: usize, output: Range<usize>, attention: &[f32], gradient: &[f32]) {
        let Some(saliency) = self.saliency.get_mut(output) else {
            return;
        };
        let mut total = 0.0;
        // By pieces, not by regions: regions may share tokens, and each token is to count once in
        // the row's total.
        for (piece, seen) in self.pieces.iter().zip(&mut self.scratch) {
            let parts = (
                saliency.get_mut(piece.clone()),
                attention.get(piece.clone()),
                gradient.get(piece.clone()),
            );
            if let (Some(saliency), Some(attention), Some(gradient)) = parts {
                *seen = accumulate(saliency, attention, gradient);
                total += seen.sum;
            }
        }
        let Some(head) = self.heads.get_mut(slot) else {
            return;
        };
        head.rows += 1;
        head.total += f64::from(total);
        for (pieces, region) in self.regions.iter().zip(&mut head.regions) {
            let mut of_region = Seen::default();
            for seen in self.scratch.get(pieces.clone()).unwrap_or_default() {
                of_region.sum += seen.sum;
                of_region.peak = of_region.peak.max(seen.peak);
            }
            region.share += f64::from(of_region.sum);
            region.peak = region.peak.max(of_region.peak);
            // Of this row alone, so it must be taken before rows are added up.
            region.spike = region.spike.max(ratio(of_region.sum, total));
        }
    }
}

impl Observer for Reducer {
    fn row(&mut self, row: Row<'_>) {
        self.rows += 1;
        let argument = self.argument.get(row.output);
        let rows = (
            // Beyond the input are earlier output tokens; what a draft copies from itself says
            // nothing about a region.
            row.attention.get(..self.input),
            row.gradient.get(..self.input),
        );
        let (Some(argument), (Some(attention), Some(gradient))) = (argument, rows) else {
            self.is_broken = true;
            return;
        };
        let slot = self
            .slots
            .get(row.layer)
            .and_then(|layer| layer.get(row.head));
        let output = row.output * self.input..(row.output + 1) * self.input;
        match (argument, slot) {
            // `measure` adds to the saliency in the same pass; all other rows are only added.
            (Some(_), Some(Some(slot))) => self.measure(*slot, output, attention, gradient),
            _ => {
                if let Some(saliency) = self.saliency.get_mut(output) {
                    row.add_to(saliency);
                }
            }
        }
    }
}

/// The tokens of every region that is seen.
pub(crate) fn seen(encoded: &Encoded) -> Vec<Range<usize>> {
    let seen = encoded.regions.iter().filter_map(|sight| match sight {
        Sight::Tokens(tokens) => Some(tokens.clone()),
        Sight::Cut | Sight::Description => None,
    });
    seen.collect()
}

/// `0..input`, cut wherever a region begins or ends.
fn pieces(input: usize, regions: &[Range<usize>]) -> Vec<Range<usize>> {
    let ends = regions.iter().flat_map(|region| [region.start, region.end]);
    // With the first and the last position the pieces cover all of the input, so a row's total is
    // the sum over its pieces.
    let mut cuts: Vec<usize> = ends.filter(|cut| *cut < input).chain([0, input]).collect();
    cuts.sort_unstable();
    cuts.dedup();
    let pairs = cuts.iter().zip(cuts.iter().skip(1));
    pairs.map(|(start, end)| *start..*end).collect()
}

/// The argument of each output token. A draft without values is about all that it says.
fn arguments(encoded: &Encoded) -> Vec<Option<usize>> {
    if encoded.values.is_empty() {
        return vec![Some(0); encoded.output.len()];
    }
    let mut argument = vec![None; encoded.output.len()];
    for value in &encoded.values {
        for own in argument.get_mut(value.tokens.clone()).unwrap_or_default() {
            // A token between two values belongs to the first.
            own.get_or_insert(value.argument.min(MOST_ARGUMENTS - 1));
        }
    }
    argument
}

fn heads(columns: &Columns, regions: usize) -> (Vec<Vec<Option<usize>>>, Vec<Head>) {
    let mut slots: Vec<Vec<Option<usize>>> = Vec::new();
    let mut heads = Vec::new();
    for column in columns.as_slice() {
        let Column::Head { layer, head, .. } = *column else {
            continue;
        };
        let (layer, head) = (usize::from(layer), usize::from(head));
        if slots.len() <= layer {
            slots.resize(layer + 1, Vec::new());
        }
        let Some(of_layer) = slots.get_mut(layer) else {
            continue;
        };
        if of_layer.len() <= head {
            of_layer.resize(head + 1, None);
        }
        if let Some(slot @ None) = of_layer.get_mut(head) {
            *slot = Some(heads.len());
            heads.push(Head {
                rows: 0,
                total: 0.0,
                regions: vec![HeadRegion::default(); regions],
            });
        }
    }
    (slots, heads)
}

fn ratio(part: f32, total: f32) -> f32 {
    if total > 0.0 { part / total } else { 0.0 }
}

/// Adds the row to `saliency`; its sum, and the largest attention.
fn accumulate(saliency: &mut [f32], attention: &[f32], gradient: &[f32]) -> Seen {
    let mut sums = [0.0f32; LANES];
    let mut peaks = [0.0f32; LANES];
    let (saliency, saliency_rest) = saliency.as_chunks_mut::<LANES>();
    let (attention, attention_rest) = attention.as_chunks::<LANES>();
    let (gradient, gradient_rest) = gradient.as_chunks::<LANES>();
    for ((saliency, attention), gradient) in saliency.iter_mut().zip(attention).zip(gradient) {
        let lanes = saliency.iter_mut().zip(attention).zip(gradient);
        for (((saliency, attention), gradient), (sum, peak)) in
            lanes.zip(sums.iter_mut().zip(&mut peaks))
        {
            let product = (attention * gradient).abs();
            *saliency += product;
            *sum += product;
            // A comparison, not `f32::max`, whose rule for NaN keeps the compiler from using one
            // instruction. NaN shows in the sum.
            *peak = if *attention > *peak {
                *attention
            } else {
                *peak
            };
        }
    }
    let mut seen = Seen {
        sum: sums.iter().sum(),
        peak: peaks.iter().copied().fold(0.0, f32::max),
    };
    let rest = saliency_rest
        .iter_mut()
        .zip(attention_rest)
        .zip(gradient_rest);
    for ((saliency, attention), gradient) in rest {
        let product = (attention * gradient).abs();
        *saliency += product;
        seen.sum += product;
        seen.peak = seen.peak.max(*attention);
    }
    seen
}
