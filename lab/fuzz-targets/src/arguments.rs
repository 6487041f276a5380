//! The arguments of a call as a model wrote them. Whatever is read must have one text that is read as the same again, and
//! other readers must find in that text exactly what they find in the original.

use ifc::{Arguments, Label};
use serde_json::Value;

pub(crate) fn arguments(bytes: &[u8]) -> bool {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return false;
    };
    let label = Label::top();
    let Ok(arguments) = Arguments::parse(text, &label) else {
        return false;
    };
    assert!(text.len() <= Arguments::MAX_BYTES);
    // No member of an object may lose the label that the whole text had.
    assert!(arguments.is_empty() || arguments.label() == label);

    let canonical = arguments.to_json();
    let again = Arguments::parse(&canonical, &label).expect("the canonical text is read");
    assert!(again.same(&arguments));
    assert_eq!(again.to_json(), canonical);

    // serde_json refuses numbers beyond a double, which are tokens to us.
    let value = |text: &str| serde_json::from_str::<Value>(text).ok();
    let (before, after) = (value(text), value(&canonical));
    assert_eq!(before, after);
    if let Some(Value::Object(members)) = after {
        let names = arguments.iter().map(|(name, _)| name);
        assert!(names.eq(members.keys().map(String::as_str)));
    }
    true
}
