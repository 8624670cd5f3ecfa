//! A place in a text, and the small things that can be read there. Blank space and `#` comments are skipped everywhere.

use std::fmt;

#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("line {line}: {message}")]
pub struct ParseError {
    /// Counted from 1.
    pub line: usize,
    pub message: String,
}

pub(crate) type Parsed<T> = Result<T, ParseError>;

pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor { text, at: 0 }
    }

    fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    /// What follows, behind blanks and comments. The cursor stays, so that a comment can still be read as a location.
    fn ahead(&self) -> &'a str {
        let mut rest = self.rest().trim_start();
        while let Some(comment) = rest.strip_prefix('#') {
            rest = comment.find('\n').map_or("", |end| &comment[end..]).trim_start();
        }
        rest
    }

    fn move_to(&mut self, rest: &'a str) {
        self.at = self.text.len() - rest.len();
    }

    pub fn at_end(&self) -> bool {
        self.ahead().is_empty()
    }

    pub fn peek(&self, token: &str) -> bool {
        self.ahead().starts_with(token)
    }

    pub fn eat(&mut self, token: &str) -> bool {
        match self.ahead().strip_prefix(token) {
            Some(rest) => {
                self.move_to(rest);
                true
            }
            None => false,
        }
    }

    /// Takes `token` if `next` stands behind it.
    pub fn eat_if_followed_by(&mut self, token: &str, next: &str) -> bool {
        let followed = self.ahead().strip_prefix(token).is_some_and(|rest| Cursor { text: rest, at: 0 }.peek(next));
        followed && self.eat(token)
    }

    pub fn expect(&mut self, token: &str) -> Parsed<()> {
        if self.eat(token) { Ok(()) } else { Err(self.expected(format!("`{token}`"))) }
    }

    /// The word ahead (letters, digits and `_`), not yet taken; maybe empty.
    pub fn peek_word(&self) -> &'a str {
        let ahead = self.ahead();
        let end = ahead.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_')).unwrap_or(ahead.len());
        &ahead[..end]
    }

    /// The word behind `token`, if that is ahead; nothing is taken.
    pub fn peek_word_after(&self, token: &str) -> &'a str {
        self.ahead().strip_prefix(token).map_or("", |rest| Cursor { text: rest, at: 0 }.peek_word())
    }

    pub fn word(&mut self) -> Parsed<&'a str> {
        let word = self.peek_word();
        if word.is_empty() {
            return Err(self.expected("a word"));
        }
        self.move_to(&self.ahead()[word.len()..]);
        Ok(word)
    }

    /// Takes the word if it is this one, whole.
    pub fn eat_word(&mut self, word: &str) -> bool {
        self.peek_word() == word && self.eat(word)
    }

    pub fn expect_word(&mut self, word: &str) -> Parsed<()> {
        if self.eat_word(word) { Ok(()) } else { Err(self.expected(format!("`{word}`"))) }
    }

    /// A number in digits, with a sign.
    pub fn int(&mut self) -> Parsed<i64> {
        let literal = self.number_literal();
        match literal.parse() {
            Ok(value) => {
                self.move_to(&self.ahead()[literal.len()..]);
                Ok(value)
            }
            Err(_) => Err(self.expected("an integer")),
        }
    }

    /// The longest text ahead that looks like a number: `-12`, `1.5`, `1e-5`, `inf`, `-nan`. `..` ends it.
    pub fn number_literal(&self) -> &'a str {
        let ahead = self.ahead();
        let bytes = ahead.as_bytes();
        let mut end = usize::from(bytes.first() == Some(&b'-'));
        while end < bytes.len() {
            let c = bytes[end];
            let sign_of_exponent = c == b'-' && end > 1 && bytes[end - 1] == b'e' && bytes[end - 2].is_ascii_digit();
            let point = c == b'.' && bytes.get(end + 1) != Some(&b'.');
            if !(c.is_ascii_alphanumeric() || point || sign_of_exponent) {
                break;
            }
            end += 1;
        }
        &ahead[..end]
    }

    pub fn take(&mut self, literal: &str) {
        let taken = self.eat(literal);
        debug_assert!(taken);
    }

    /// A string in double quotes, as `quote` prints it.
    pub fn string(&mut self) -> Parsed<String> {
        self.expect("\"")?;
        let mut out = String::new();
        let mut chars = self.rest().char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '"' => {
                    self.at += at + 1;
                    return Ok(out);
                }
                '\\' => match chars.next().map(|(_, c)| c) {
                    Some('n') => out.push('\n'),
                    Some('r') => out.push('\r'),
                    Some(c) => out.push(c),
                    None => break,
                },
                c => out.push(c),
            }
        }
        Err(self.error("a string without its closing quote"))
    }

    /// The comment at the end of the current line, without `#`; empty if there is none.
    pub fn comment(&mut self) -> &'a str {
        let rest = self.rest().trim_start_matches([' ', '\t']);
        let Some(comment) = rest.strip_prefix('#') else { return "" };
        let (comment, rest) = comment.split_at(comment.find('\n').unwrap_or(comment.len()));
        self.move_to(rest);
        comment.trim()
    }

    pub fn expected(&self, what: impl fmt::Display) -> ParseError {
        let found = self.ahead().lines().next().unwrap_or("").chars().take(30).collect::<String>();
        let found = if found.is_empty() { "the end of the text".into() } else { format!("`{found}`") };
        self.error(format!("expected {what}, found {found}"))
    }

    pub fn error(&self, message: impl fmt::Display) -> ParseError {
        let line = self.text[..self.text.len() - self.ahead().len()].matches('\n').count() + 1;
        ParseError { line, message: message.to_string() }
    }
}

/// A string in double quotes on one line.
pub(crate) fn quote(s: &str) -> String {
    let escaped = s.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n").replace('\r', "\\r");
    format!("\"{escaped}\"")
}
