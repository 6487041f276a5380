//! Features against a computation that keeps everything and takes its time.
