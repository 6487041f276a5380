//! Steps of recorded runs, and what each depends on.
