//! A remote server's list of tools, and then a call of one of them. Whatever the schemas mark, there are only headers of
//! the protocol's own prefix, few and short, whose values say what the argument is. A tool with a mark that breaks a rule is
//! in no list that is passed on, and a list without one is passed on as it came.

#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    fuzz_targets::run("remote_mirror", bytes);
});
