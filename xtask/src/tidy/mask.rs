//! Blanks comments and literals out of Rust text, so that a check sees code only; lines and columns stay where they are.

/// What to blank.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Blank {
    /// Comments; literals stay.
    Comments,
    /// Comments and the contents of string and character literals.
    CommentsAndLiterals,
}

/// `text` with spaces in place of what `blank` names.
pub fn mask(text: &str, blank: Blank) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut masked = String::with_capacity(text.len());
    let mut at = 0;
    while at < chars.len() {
        let (length, kind) = token(&chars, at);
        let hide = kind == Kind::Comment || kind == Kind::Literal && blank == Blank::CommentsAndLiterals;
        masked.extend(chars[at..at + length].iter().map(|&c| if hide && c != '\n' { ' ' } else { c }));
        at += length;
    }
    masked
}

#[derive(PartialEq, Eq)]
enum Kind {
    Code,
    Comment,
    Literal,
}

/// Length and kind of the token at `at`; code comes one identifier or character at a time.
fn token(chars: &[char], at: usize) -> (usize, Kind) {
    let rest = &chars[at..];
    match rest {
        ['/', '/', ..] => (until_newline(rest), Kind::Comment),
        ['/', '*', ..] => (block_comment(rest), Kind::Comment),
        ['"', ..] => (quoted(rest, 0), Kind::Literal),
        ['\'', ..] => character(rest),
        [c, ..] if is_word(*c) => word_or_prefixed(rest),
        _ => (1, Kind::Code),
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn until_newline(rest: &[char]) -> usize {
    rest.iter().position(|&c| c == '\n').unwrap_or(rest.len())
}

fn block_comment(rest: &[char]) -> usize {
    let (mut at, mut depth) = (0, 0);
    while at < rest.len() {
        match rest[at..] {
            ['/', '*', ..] => (depth, at) = (depth + 1, at + 2),
            ['*', '/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

/// Length of an escaped string whose opening quote is at `open`.
fn quoted(rest: &[char], open: usize) -> usize {
    let mut at = open + 1;
    while at < rest.len() && rest[at] != '"' {
        at += if rest[at] == '\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// Length of a raw string with `hashes` hashes whose opening quote is at `open`.
fn raw_quoted(rest: &[char], open: usize, hashes: usize) -> usize {
    let closes =
        |at: usize| rest[at] == '"' && rest[at + 1..].iter().take(hashes).filter(|&&c| c == '#').count() == hashes;
    (open + 1..rest.len()).find(|&at| closes(at)).map_or(rest.len(), |at| at + 1 + hashes)
}

/// A character literal, or the tick of a lifetime.
fn character(rest: &[char]) -> (usize, Kind) {
    match rest {
        ['\'', '\\', _, tail @ ..] => {
            (tail.iter().position(|&c| c == '\'').map_or(rest.len(), |close| close + 4), Kind::Literal)
        }
        ['\'', _, '\'', ..] => (3, Kind::Literal),
        _ => (1, Kind::Code),
    }
}

/// An identifier or number, or a literal with a prefix such as `b` or `r#`.
fn word_or_prefixed(rest: &[char]) -> (usize, Kind) {
    let end = rest.iter().position(|&c| !is_word(c)).unwrap_or(rest.len());
    let prefix: String = rest[..end].iter().collect();
    let hashes = rest[end..].iter().take_while(|&&c| c == '#').count();
    let quote = rest.get(end + hashes) == Some(&'"');
    match prefix.as_str() {
        "r" | "br" | "cr" if quote => (raw_quoted(rest, end + hashes, hashes), Kind::Literal),
        "b" | "c" if quote && hashes == 0 => (quoted(rest, end), Kind::Literal),
        _ => (end, Kind::Code),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        assert_eq!(mask(text, Blank::CommentsAndLiterals), expected);
    }

    #[test]
    fn comments_go_and_lines_stay() {
        check("a // b\nc", "a     \nc");
        check("a /* b /* c\n */ d */ e", "a          \n         e");
        check("a / b * c", "a / b * c");
    }

    #[test]
    fn literals_go() {
        check(r#"f("a // b", 1)"#, "f(        , 1)");
        check(r#"f("a\"b")"#, "f(      )");
        check(r##"f(r#"a"b"#, x)"##, "f(        , x)");
        check(r#"f(b"{", br"}")"#, "f(    ,      )");
        check(r"'{' '\'' '\u{7d}' b'x'", "                  b   ");
    }

    #[test]
    fn lifetimes_are_code() {
        check("fn f<'a>(x: &'a str) {}", "fn f<'a>(x: &'a str) {}");
    }

    #[test]
    fn literals_can_stay() {
        assert_eq!(mask("f(\"a // b\") // c", Blank::Comments), "f(\"a // b\")     ");
    }

    #[test]
    fn an_open_end_is_not_a_panic() {
        for text in ["\"abc", "/* abc", "r#\"abc", "'\\", "\"a\\"] {
            assert_eq!(mask(text, Blank::CommentsAndLiterals).len(), text.len());
        }
    }
}
