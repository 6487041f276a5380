//! The first character chooses a format, the rest is a tool's result in it. Labelling must not panic, must keep the text,
//! must forget no byte, must keep under the most restrictive label, and must be the same again. A text that is taken as one
//! of its format has its leaves in their fields: labelling all leaves alike and the structure alike covers the same bytes.
//! The text is the argument of the call as well, and may choose which rules count: it gives no label above the most
//! restrictive one, and another than without arguments only if it names the folder of a rule.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("policy_formats", bytes);
});
