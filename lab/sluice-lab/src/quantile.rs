//! Quantiles by the nearest rank, the way that every bench counts them.

/// What this part of all, in hundredths, is at most.
pub(crate) fn at<T: Copy + Default>(sorted: &[T], percent: usize) -> T {
    let last = sorted.len().saturating_sub(1);
    let value = sorted.get((last * percent).div_ceil(100));
    value.copied().unwrap_or_default()
}
