//! Dependency screeners: baselines and the LM judge (RTBAS section 7).
