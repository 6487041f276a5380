//! What stands on a terminal after all that was written to it, for characters of one column.

/// The lines of a terminal, as far as `sluice` steers one: it returns, erases a line, and moves up.
/// Anything else is an error: then this shows something else than the user saw.
pub(crate) fn lines(written: &str, columns: usize) -> Vec<String> {
    let mut lines: Vec<Vec<char>> = vec![Vec::new()];
    let (mut row, mut column) = (0, 0);
    let down = |lines: &mut Vec<Vec<char>>, row: &mut usize| {
        *row += 1;
        if *row == lines.len() {
            lines.push(Vec::new());
        }
    };
    let mut rest = written.chars();
    while let Some(c) = rest.next() {
        match c {
            '\r' => column = 0,
            '\n' => down(&mut lines, &mut row),
            '\u{1b}' => {
                assert_eq!(rest.next(), Some('['), "an escape that is not known here");
                let mut number = String::new();
                let command = loop {
                    match rest.next().unwrap() {
                        digit if digit.is_ascii_digit() || digit == ';' => number.push(digit),
                        command => break command,
                    }
                };
                match (command, number.as_str()) {
                    ('K', "2") => lines[row].clear(),
                    ('K', "" | "0") => lines[row].truncate(column),
                    ('A', count) => row -= count.parse::<usize>().unwrap_or(1),
                    ('m', _) => {}
                    other => panic!("{other:?} is not known here"),
                }
            }
            c => {
                if column == columns {
                    down(&mut lines, &mut row);
                    column = 0;
                }
                let line = &mut lines[row];
                if line.len() <= column {
                    line.resize(column + 1, ' ');
                }
                line[column] = c;
                column += 1;
            }
        }
    }
    let text = lines.into_iter().map(String::from_iter);
    text.map(|line: String| line.trim_end().to_owned())
        .collect()
}

#[test]
fn what_is_erased_is_not_there() {
    let written = "first\r\n\u{1b}[2K\rspinning\r\u{1b}[2Ksecond\r\n\u{1b}[1A\r\u{1b}[Kthird";
    assert_eq!(lines(written, 80), ["first", "third", ""]);
    assert_eq!(lines("a line\r\n", 5), ["a lin", "e", ""]);
}
