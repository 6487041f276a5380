//! The arguments of a call, read strictly, and the parameters of a tool.

use std::collections::BTreeMap;
use std::fmt;

use ifc::json::Number;
use serde_json::{Map, Value, json};

/// The arguments of a call, with their values read.
#[derive(Debug, Default)]
pub(crate) struct Arguments<'c>(BTreeMap<&'c str, Argument<'c>>);

/// One argument.
#[derive(Debug)]
pub(crate) struct Argument<'c> {
    /// The text that is sent. Numbers are judged by it, since `value` has them rounded.
    text: &'c str,
    value: Value,
}

impl<'c> Arguments<'c> {
    /// Reads the arguments.
    ///
    /// # Errors
    /// One line that says what is wrong.
    pub(crate) fn read(arguments: &'c ifc::Arguments) -> Result<Self, String> {
        let read = arguments.iter().map(|(name, labeled)| {
            let text = labeled.reveal_tcb();
            let value = serde_json::from_str(text)?;
            Ok((name, Argument { text, value }))
        });
        let read: serde_json::Result<_> = read.collect();
        read.map(Self)
            .map_err(|error| format!("the arguments are not understood: {error}"))
    }

    /// The argument; `None` if it is absent or `null`.
    pub(crate) fn get(&self, name: &str) -> Option<&Argument<'c>> {
        self.0
            .get(name)
            .filter(|argument| !argument.value.is_null())
    }

    /// Whether there is a value for this required parameter. For [`ParameterKind::Any`] `null` is one, as for a schema with
    /// `{"type": ["string", "null"]}`.
    fn has(&self, name: &str, kind: ParameterKind) -> bool {
        match kind {
            ParameterKind::Any => self.0.contains_key(name),
            _ => self.get(name).is_some(),
        }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().copied()
    }
}

impl Argument<'_> {
    pub(crate) fn value(&self) -> &Value {
        &self.value
    }

    /// The text that is sent.
    pub(super) fn text(&self) -> &str {
        self.text
    }

    /// The exact number, if conditions can compare it.
    pub(crate) fn decimal(&self) -> Option<Decimal> {
        Decimal::of(self.text)
    }

    /// The whole number, if conditions can compare it.
    pub(crate) fn long(&self) -> Option<i64> {
        long(self.text)
    }

    /// Whether it is a number without a fraction in any spelling: JSON Schema's `integer`.
    fn is_whole(&self) -> bool {
        Number::read(self.text).is_some_and(|number| is_whole(&number))
    }
}

/// The type of a parameter. It takes the values of JSON Schema's type of that name. Conditions can compare fewer numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterKind {
    /// Text.
    String,
    /// Text of one line, such as a subject, a title or a name: at most 998 characters, none of which ends a line or
    /// steers a program, not even as an escape. Otherwise a subject could add a header: `Hello\r\nBcc: eve@example.org`.
    Line,
    /// An array of texts.
    Strings,
    /// A number without a fraction, such as 5, 5.0 and 5e3. Conditions compare up to 64 bits.
    Integer,
    /// A number. Conditions compare up to 900 billion with at most four digits after the point.
    Number,
    /// An amount of money to pay: a number above zero with at most two digits after the point.
    ///
    /// A condition like "more than 1000 asks" would miss -5000, which some banks read as a payment the other way, and
    /// 0.004, which an app may round.
    Amount,
    /// True or false.
    Boolean,
    /// Anything. Conditions cannot look at it.
    Any,
}

impl ParameterKind {
    /// Every kind with its name in a configuration.
    pub const NAMED: [(&str, ParameterKind); 8] = [
        ("string", ParameterKind::String),
        ("line", ParameterKind::Line),
        ("strings", ParameterKind::Strings),
        ("integer", ParameterKind::Integer),
        ("number", ParameterKind::Number),
        ("amount", ParameterKind::Amount),
        ("boolean", ParameterKind::Boolean),
        ("any", ParameterKind::Any),
    ];

    /// The JSON Schema for a model.
    fn schema(self) -> Value {
        match self {
            Self::String => json!({"type": "string"}),
            Self::Line => json!({"type": "string", "maxLength": MAX_LINE}),
            Self::Strings => json!({"type": "array", "items": {"type": "string"}}),
            Self::Integer => json!({"type": "integer"}),
            Self::Number => json!({"type": "number"}),
            Self::Amount => json!({"type": "number", "exclusiveMinimum": 0}),
            Self::Boolean => json!({"type": "boolean"}),
            Self::Any => json!({}),
        }
    }

    /// Its name in a configuration.
    pub fn name(self) -> &'static str {
        let found = Self::NAMED.iter().find(|(_, kind)| *kind == self);
        found.map_or("any", |(name, _)| name)
    }
}

/// One parameter of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Parameter {
    /// Its type.
    pub kind: ParameterKind,
    /// Whether every call must have it.
    pub required: bool,
}

/// The parameters of a tool, by name. A call with any other argument is denied, and so is one without a required argument
/// or with a value of another kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Parameters(pub BTreeMap<String, Parameter>);

impl Parameters {
    /// Checks the arguments.
    ///
    /// # Errors
    /// One line that names the first wrong argument.
    pub(crate) fn check(&self, arguments: &Arguments<'_>) -> Result<(), String> {
        if let Some(other) = arguments.names().find(|name| !self.0.contains_key(*name)) {
            // A model chose the name, and the user is shown the reason: it must not steer a terminal or fill it.
            let other: String = other.escape_debug().take(MAX_NAME).collect();
            return Err(format!(
                "the argument '{other}' is not among its parameters ({})",
                self.names().collect::<Vec<_>>().join(", ")
            ));
        }
        for (name, parameter) in &self.0 {
            if parameter.required && !arguments.has(name, parameter.kind) {
                return Err(format!("the argument '{name}' is missing"));
            }
            if let Some(argument) = arguments.get(name) {
                check_kind(name, parameter.kind, argument)?;
            }
        }
        Ok(())
    }

    /// As JSON Schema, for a model.
    pub(crate) fn schema(&self) -> String {
        let properties = self.0.iter();
        let properties =
            properties.map(|(name, parameter)| (name.clone(), parameter.kind.schema()));
        let properties: Map<String, Value> = properties.collect();
        let required = self.0.iter().filter(|(_, parameter)| parameter.required);
        let required: Vec<&str> = required.map(|(name, _)| name.as_str()).collect();
        json!({
            "type": "object",
            "properties": properties,
            "required": required,
            "additionalProperties": false,
        })
        .to_string()
    }

    /// Their names.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.keys().map(String::as_str)
    }
}

/// Most characters of an argument's name in a message.
const MAX_NAME: usize = 64;

fn check_kind(name: &str, kind: ParameterKind, argument: &Argument<'_>) -> Result<(), String> {
    let value = argument.value();
    let strings = |items: &Vec<Value>| items.iter().all(Value::is_string);
    let (fits, is) = match kind {
        ParameterKind::Any => (true, ""),
        ParameterKind::String => (value.is_string(), "text"),
        ParameterKind::Line => (
            value.as_str().is_some_and(is_line),
            "one line of text: up to 998 characters, without control characters, line separators and escapes of them",
        ),
        ParameterKind::Strings => (value.as_array().is_some_and(strings), "an array of texts"),
        ParameterKind::Integer => (argument.is_whole(), "a whole number"),
        ParameterKind::Number => (value.is_number(), "a number"),
        ParameterKind::Amount => (
            argument.decimal().is_some_and(Decimal::is_amount),
            "an amount above zero and up to 900 billion, with at most two digits after the point",
        ),
        ParameterKind::Boolean => (value.is_boolean(), "true or false"),
    };
    match fits {
        true => Ok(()),
        false => Err(format!("the argument '{name}' is not {is}")),
    }
}

/// Most characters of a line: what a line of a mail may have (RFC 5322 §2.1.1).
const MAX_LINE: usize = 998;

/// Escapes of characters that end a line, in lower case. Some programs decode them once more: templates those with a
/// backslash, `mailto:` and URLs those with a percent sign, mails those with `=`, pages entities.
const LINE_ENDS: &str = "\\r \\n \\v \\f %0a %0d %c2%85 %e2%80%a =0a =0d =c2=85 =e2=80=a &newline;";

/// What is before the number of a character, the base of the number, and its most digits.
const ESCAPES: [(&str, u32, usize); 8] = [
    ("\\x", 16, 2),
    ("\\x{", 16, 8),
    ("%u", 16, 4),
    ("\\u", 16, 4),
    ("\\u{", 16, 8),
    ("\\0", 8, 2),
    ("&#", 10, 32),
    ("&#x", 16, 32),
];

fn is_line(text: &str) -> bool {
    // U+0085 is a control character; these two are not.
    let ends_line = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    let lower = text.to_ascii_lowercase();
    // Some programs decode twice.
    let lower = lower.replace("%25", "%").replace("&amp;", "&");
    let has_escape = |(before, base, most): &(&str, u32, usize)| {
        lower.split(*before).skip(1).any(|after| {
            let digits = after.chars().take(*most).take_while(|c| c.is_digit(*base));
            let code = u32::from_str_radix(&digits.collect::<String>(), *base);
            code.is_ok_and(|code| char::from_u32(code).is_some_and(ends_line))
        })
    };
    text.chars().count() <= MAX_LINE
        && !text.contains(ends_line)
        && !LINE_ENDS.split(' ').any(|escape| lower.contains(escape))
        && !ESCAPES.iter().any(has_escape)
}

/// The largest whole number up to which every double is apart from its neighbours, 2^53.
const MAX_DOUBLE: i64 = 1 << 53;

/// Whether a number has no fraction: its last digit other than zero is not behind the point.
fn is_whole(number: &Number) -> bool {
    number.exponent >= 0
}

/// A number in units of ten to the power of `-places`; `None` for one with more places, or beyond 64 bits.
fn scaled(number: &Number, places: i64) -> Option<i64> {
    let power = u32::try_from(number.exponent + places).ok()?;
    if number.digits.is_empty() {
        return Some(0);
    }
    let size = number.digits.parse::<i64>().ok()?;
    let size = size.checked_mul(10_i64.checked_pow(power)?)?;
    Some(if number.is_negative { -size } else { size })
}

/// The whole number that every app reads in this text; `None` for any other.
///
/// With a point or an exponent most readers take it for a double, and beyond 2^53 that may be another number than the one
/// that a condition would compare.
pub(super) fn long(text: &str) -> Option<i64> {
    let number = Number::read(text).filter(is_whole)?;
    if !text.contains(['.', 'e', 'E']) {
        // Digits alone are exact, and `parse` refuses a number beyond 64 bits.
        return text.parse().ok();
    }
    scaled(&number, 0).filter(|long| long.abs() <= MAX_DOUBLE)
}

/// A number as Cedar has it: ten-thousandths, exactly.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Decimal(pub(super) i64);

impl Decimal {
    /// Digits after the point of a Cedar decimal.
    const DIGITS: i64 = 4;
    /// One, in ten-thousandths.
    const ONE: i64 = 10_000;
    /// A hundredth, in ten-thousandths.
    const CENT: i64 = 100;
    /// The largest number, 900 billion. Apps read numbers as doubles, and up to 2^53 / 10^4 a double has every multiple of
    /// 0.0001 apart from its neighbours. Above, two amounts would be one.
    const MAX: i64 = 900_000_000_000 * Self::ONE;

    /// Reads a number of JSON. `None` for a number with more digits, other than zeros, and for any other value. Nothing is
    /// rounded, since the app gets the digits of the text.
    pub(super) fn of(text: &str) -> Option<Self> {
        let units = scaled(&Number::read(text)?, Self::DIGITS)?;
        (units.abs() <= Self::MAX).then_some(Self(units))
    }

    /// Whether it is above zero and has at most two digits after the point.
    fn is_amount(self) -> bool {
        self.0 > 0 && self.0 % Self::CENT == 0
    }
}

/// As Cedar writes decimals.
impl fmt::Display for Decimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.0 < 0 { "-" } else { "" };
        let units = self.0.unsigned_abs();
        let one = Self::ONE.unsigned_abs();
        write!(f, "{sign}{}.{:04}", units / one, units % one)
    }
}

#[cfg(test)]
mod tests {
    use ifc::Label;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn arguments_that_cannot_be_read_are_refused() {
        let read = |text: &str| {
            let arguments =
                ifc::Arguments::parse(text, &Label::bottom()).map_err(|e| e.to_string())?;
            Arguments::read(&arguments).map(|_| ())
        };
        for text in [
            "",
            "[]",
            "1",
            "null",
            "{\"a\":1}x",
            "{\"a\":1,\"a\":1}",
            "{a:1}",
            "{\"a\":{\"b\":1,\"\\u0062\":2}}",
            "{\"a\":[{\"b\":1,\"b\":2}]}",
            "{\"a\":1e999}",
        ] {
            assert!(read(text).is_err(), "{text}");
        }
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read(&deep).is_err());
        let text = "{\"a\":null,\"b\":[1,-2,0.5,true,\"x\",{}]}";
        let arguments = ifc::Arguments::parse(text, &Label::bottom()).unwrap();
        let arguments = Arguments::read(&arguments).unwrap();
        assert!(arguments.0.contains_key("a") && arguments.get("a").is_none());
        let expected: Value = serde_json::from_str("[1,-2,0.5,true,\"x\",{}]").unwrap();
        assert_eq!(arguments.get("b").unwrap().value(), &expected);
    }

    #[test]
    fn an_amount_is_above_zero_and_has_cents() {
        for (text, expected) in [
            ("5", true),
            ("5.25", true),
            ("5.2500", true),
            ("0.01", true),
            ("1e3", true),
            ("1e-2", true),
            ("5.251", false),
            ("5.2500000000000000000001", false),
            ("0.001", false),
            ("0.0099999999999999999999", false),
            ("0", false),
            ("-0.0", false),
            ("-5000", false),
            ("900000000000", true),
            ("1000000000000", false),
            ("1e12", false),
            ("\"5\"", false),
            ("null", false),
        ] {
            let amount = Decimal::of(text).is_some_and(Decimal::is_amount);
            assert_eq!(amount, expected, "{text}");
        }
    }

    #[test]
    fn numbers_are_exact_or_nothing() {
        for (text, expected) in [
            ("1000", Some("1000.0000")),
            ("1e3", Some("1000.0000")),
            ("1E+3", Some("1000.0000")),
            ("-0.0", Some("0.0000")),
            ("0e9", Some("0.0000")),
            ("-0.5", Some("-0.5000")),
            ("98.7001", Some("98.7001")),
            ("98.700100000000000000000", Some("98.7001")),
            ("0.0001", Some("0.0001")),
            ("-1e-4", Some("-0.0001")),
            ("123450000e-8", Some("1.2345")),
            ("0.00000000012345e10", Some("1.2345")),
            ("900000000000", Some("900000000000.0000")),
            ("-900000000000.0000", Some("-900000000000.0000")),
            // One digit more than there is room for.
            ("0.00001", None),
            ("1e-5", None),
            ("98.70011", None),
            ("900000000000.0001", None),
            ("1e12", None),
            // As doubles these would be 1000, 0.5 and 0.
            ("1000.00000000000000001", None),
            ("0.49999999999999999999999", None),
            ("1e-400", None),
            // Cedar's own largest, one more, and what no double holds.
            ("922337203685477.5807", None),
            ("922337203685477.5808", None),
            ("9007199254740993", None),
            ("-1e300", None),
            ("1e99999999999", None),
            ("\"1\"", None),
            ("true", None),
            ("", None),
            ("-", None),
            (".5", None),
        ] {
            let decimal = Decimal::of(text).map(|decimal| decimal.to_string());
            assert_eq!(decimal.as_deref(), expected, "{text}");
        }
    }

    #[test]
    fn a_whole_number_is_one_however_it_is_written() {
        // Whether it is whole, and what conditions compare.
        for (text, whole, long) in [
            ("5", true, Some(5)),
            ("5.0", true, Some(5)),
            ("5e0", true, Some(5)),
            ("50E-1", true, Some(5)),
            ("-0.5e1", true, Some(-5)),
            ("0", true, Some(0)),
            ("-0", true, Some(0)),
            ("-0.0e-7", true, Some(0)),
            ("9223372036854775807", true, Some(i64::MAX)),
            ("-9223372036854775808", true, Some(i64::MIN)),
            ("9007199254740993", true, Some(9_007_199_254_740_993)),
            ("9007199254740992.0", true, Some(9_007_199_254_740_992)),
            // A reader of doubles would have another number.
            ("9007199254740993.0", true, None),
            ("9223372036854775808", true, None),
            ("-9223372036854775809", true, None),
            ("18446744073709551615", true, None),
            ("1e18", true, None),
            ("1e300", true, None),
            ("5.5", false, None),
            ("5e-1", false, None),
            ("5.00000000000000000000001", false, None),
            ("1e-400", false, None),
            ("1e99999999999", false, None),
            ("\"5\"", false, None),
            ("true", false, None),
            ("[5]", false, None),
            ("", false, None),
        ] {
            let found = Number::read(text).is_some_and(|number| is_whole(&number));
            assert_eq!((found, super::long(text)), (whole, long), "{text}");
        }
    }

    #[test]
    fn a_kind_takes_what_its_type_of_json_schema_takes() {
        let taken = |kind, required, value: &str| {
            let text = format!("{{\"a\":{value}}}");
            let arguments = ifc::Arguments::parse(&text, &Label::bottom()).unwrap();
            let arguments = Arguments::read(&arguments).unwrap();
            let parameter = Parameter { kind, required };
            let parameters = Parameters(BTreeMap::from([("a".to_owned(), parameter)]));
            parameters
                .check(&arguments)
                .map_err(|error| error.replace("the argument 'a' is ", ""))
        };
        use ParameterKind as Kind;
        for (kind, value, expected) in [
            (Kind::Number, "0.123456789", Ok(())),
            (Kind::Number, "1e300", Ok(())),
            (Kind::Number, "-0.0", Ok(())),
            (Kind::Number, "18446744073709551615", Ok(())),
            (Kind::Number, "\"5\"", Err("not a number")),
            (Kind::Integer, "5.0", Ok(())),
            (Kind::Integer, "18446744073709551615", Ok(())),
            (Kind::Integer, "5.5", Err("not a whole number")),
            (Kind::Integer, "\"5\"", Err("not a whole number")),
            (Kind::Any, "null", Ok(())),
            (Kind::String, "null", Err("missing")),
            (Kind::String, "\"\"", Ok(())),
            (Kind::Strings, "[]", Ok(())),
            (Kind::Strings, "[null]", Err("not an array of texts")),
            (Kind::Line, "\"\"", Ok(())),
            (Kind::Line, "\"Zürich: 10 % off, see \\\"a/b\\\"\"", Ok(())),
            (Kind::Boolean, "1", Err("not true or false")),
            // What a rule of the user's own says exactly stays as it is.
            (
                Kind::Amount,
                "0.001",
                Err(
                    "not an amount above zero and up to 900 billion, with at most two digits after the point",
                ),
            ),
            (
                Kind::Amount,
                "1e12",
                Err(
                    "not an amount above zero and up to 900 billion, with at most two digits after the point",
                ),
            ),
        ] {
            let found = taken(kind, true, value);
            assert_eq!(found, expected.map_err(str::to_owned), "{kind:?} {value}");
        }
        for (_, kind) in Kind::NAMED {
            assert_eq!(taken(kind, false, "null"), Ok(()), "{kind:?}");
        }
    }

    #[test]
    fn a_line_cannot_begin_another_one() {
        let taken = |subject: &str| {
            let text = json!({ "subject": subject }).to_string();
            let arguments = ifc::Arguments::parse(&text, &Label::bottom()).unwrap();
            let kind = ParameterKind::Line;
            let parameter = Parameter {
                kind,
                required: true,
            };
            let parameters = Parameters(BTreeMap::from([("subject".to_owned(), parameter)]));
            parameters
                .check(&Arguments::read(&arguments).unwrap())
                .is_ok()
        };
        for between in [
            "\r\n",
            "\n",
            "\r",
            "\t",
            "\0",
            "\u{b}",
            "\u{c}",
            "\u{1b}[2J",
            "\u{85}",
            "\u{2028}",
            "\u{2029}",
            r"\r\n",
            r"\n",
            r"\u000D\u000a",
            r"\u2028",
            r"\x0A",
            r"\u{a}",
            r"\u{00000D}",
            r"\U0000000A",
            r"\012",
            r"\015",
            r"\u0085",
            r"\x1b[2J",
            r"\x{a}",
            r"\x{2028}",
            r"\v",
            r"\f",
            "%u000A",
            "%0d%0A",
            "%250a",
            "%25E2%2580%25A8",
            "=C2=85",
            "=E2=80=A8",
            "&amp;#10;",
            "&amp;#xA;",
            "%E2%80%A8",
            "=0A",
            "=0d=0a",
            "&#10;",
            "&#0000010;",
            "&#xA;",
            "&#x0d ",
            "&#8232;",
            "&NewLine;",
        ] {
            let subject = format!("Hello{between}Bcc: eve@example.org");
            assert!(!taken(&subject), "{subject:?}");
        }
        for line in [
            "Hello, Bcc: eve@example.org",
            r"50%, a=10 & b=05 in C:\2026\x, #10 and &#228;",
            "Caf%C3%A9 =C3=A9 \\u00e9 \\u{e9} \\x{e9} %u00e9 &eacute; &amp;#228; R&amp;D 5%10 5%2510",
        ] {
            assert!(taken(line), "{line}");
        }
        assert!(taken(&"ä".repeat(998)) && !taken(&"ä".repeat(999)));
    }

    #[test]
    fn parameters_are_told_to_a_model_as_a_schema() {
        let parameter = |kind, required| Parameter { kind, required };
        let parameters = Parameters(BTreeMap::from([
            ("to".to_owned(), parameter(ParameterKind::Strings, true)),
            ("sum".to_owned(), parameter(ParameterKind::Amount, true)),
            ("note".to_owned(), parameter(ParameterKind::Any, false)),
        ]));
        let schema: Value = serde_json::from_str(&parameters.schema()).unwrap();
        assert_eq!(
            schema,
            json!({
                "type": "object",
                "properties": {
                    "to": { "type": "array", "items": { "type": "string" } },
                    "sum": { "type": "number", "exclusiveMinimum": 0 },
                    "note": {},
                },
                "required": ["sum", "to"],
                "additionalProperties": false,
            })
        );
    }

    proptest! {
        /// What is read means the same digits again, however it was written.
        #[test]
        fn every_way_to_write_a_number_is_the_same_number(
            units in -Decimal::MAX..=Decimal::MAX, shift in 0usize..20, more in 1u64..,
        ) {
            let number = Decimal(units);
            prop_assert_eq!(Decimal::of(&number.to_string()), Some(number));
            let scaled = format!("{units}{}e-{}", "0".repeat(shift), shift + 4);
            prop_assert_eq!(Decimal::of(&scaled), Some(number));
            // With any further digit it is no such number.
            prop_assert_eq!(Decimal::of(&format!("{number}{}{more}", "0".repeat(shift))), None);
        }
    }
}
