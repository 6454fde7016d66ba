//! URLs: read once into pieces, filled in piece by piece.

use ::url::Url;

use super::{BuildError, UrlPiece, UrlTemplate};
use crate::parameters;
use crate::template::{BadTemplate, url_part, value_of, variable_at};
use crate::variables::Variables;

/// Longest URL as written, in bytes.
const WRITTEN_BYTES_MAX: usize = 2048;

pub(super) fn parse(written: &str) -> Result<UrlTemplate, BadTemplate> {
    if written.len() > WRITTEN_BYTES_MAX {
        return bad(format!("must have at most {WRITTEN_BYTES_MAX} bytes"));
    }
    let (scheme, rest) = written
        .split_once("://")
        .ok_or_else(|| BadTemplate("must begin with https:// or http://".to_owned()))?;
    if !scheme.eq_ignore_ascii_case("https") && !scheme.eq_ignore_ascii_case("http") {
        return bad("must begin with https:// or http://".to_owned());
    }
    let end = rest.find(['/', '?', '#', '\\']).unwrap_or(rest.len());
    let (place, rest) = rest.split_at(end);
    let base = parse_place(scheme, place)?;
    let host = base
        .host_str()
        .ok_or_else(|| BadTemplate("must name a host".to_owned()))?
        .to_owned();
    let (path, query) = split(read_pieces(rest)?)?;
    Ok(UrlTemplate {
        origin: base.origin().ascii_serialization(),
        host,
        path,
        query,
        written: written.to_owned(),
    })
}

fn bad<T>(problem: String) -> Result<T, BadTemplate> {
    Err(BadTemplate(problem))
}

/// Reads host and port by the parser that the guard of addresses uses, alone, so that nothing
/// behind them can change what it sees.
fn parse_place(scheme: &str, place: &str) -> Result<Url, BadTemplate> {
    if place.contains(['{', '}']) {
        return bad("scheme, host and port must be literal".to_owned());
    }
    if place.contains('@') {
        return bad("must not hold a user name or password".to_owned());
    }
    if place.contains(|c: char| c.is_whitespace() || c.is_control()) || place.is_empty() {
        return bad("must name a host".to_owned());
    }
    let mut base = Url::parse(&format!("{scheme}://{place}/"))
        .map_err(|error| BadTemplate(format!("is not a URL: {error}")))?;
    // `example.com.` is the same host, which lists of hosts would not find.
    if let Some(host) = base.host_str().and_then(|host| host.strip_suffix('.')) {
        let host = host.to_owned();
        base.set_host(Some(&host))
            .map_err(|error| BadTemplate(format!("is not a URL: {error}")))?;
    }
    if base.host_str().is_none_or(|host| host.ends_with('.')) {
        return bad("must name a host".to_owned());
    }
    Ok(base)
}

/// Reads path and query.
fn read_pieces(text: &str) -> Result<Vec<UrlPiece>, BadTemplate> {
    let mut pieces = Vec::new();
    let mut literal = String::from(if text.starts_with('/') { "" } else { "/" });
    let mut rest = text;
    while let Some(next) = rest.chars().next() {
        if next == '{' {
            push_literal(&mut pieces, &mut literal);
            let (piece, behind) = placeholder(rest)?;
            pieces.push(piece);
            rest = behind;
            continue;
        }
        rest = &rest[next.len_utf8()..];
        match next {
            '#' => return bad("must not hold a fragment".to_owned()),
            '%' if !is_escape(rest) => {
                return bad("% must be followed by two hexadecimal digits".to_owned());
            }
            '\\' | '"' | '<' | '>' | '^' | '`' | '|' | '}' | '[' | ']' => {
                return bad(format!("{next:?} must be percent-encoded"));
            }
            _ if next.is_whitespace() || next.is_control() => {
                return bad("must not hold white space or control characters".to_owned());
            }
            _ if next.is_ascii() => literal.push(next),
            _ => literal.push_str(&url_part(next.encode_utf8(&mut [0; 4]))),
        }
    }
    push_literal(&mut pieces, &mut literal);
    Ok(pieces)
}

fn is_escape(behind: &str) -> bool {
    behind
        .as_bytes()
        .get(..2)
        .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
}

fn push_literal(pieces: &mut Vec<UrlPiece>, literal: &mut String) {
    if !literal.is_empty() {
        pieces.push(UrlPiece::Text(std::mem::take(literal)));
    }
}

/// The placeholder at the start of `text`, and what is behind it.
fn placeholder(text: &str) -> Result<(UrlPiece, &str), BadTemplate> {
    if text.starts_with("{{") {
        let (name, behind) = variable_at(text)?;
        return Ok((UrlPiece::Variable(name.to_owned()), behind));
    }
    let found = text[1..]
        .split_once('}')
        .filter(|(name, _)| parameters::is_name(name));
    match found {
        Some((name, behind)) => Ok((UrlPiece::Parameter(name.to_owned()), behind)),
        None => bad("{ must be followed by the name of a parameter and }".to_owned()),
    }
}

type PathAndQuery = (Vec<UrlPiece>, Vec<Vec<UrlPiece>>);

fn split(pieces: Vec<UrlPiece>) -> Result<PathAndQuery, BadTemplate> {
    let mut path = Vec::new();
    let mut query: Vec<Vec<UrlPiece>> = Vec::new();
    for piece in pieces {
        let UrlPiece::Text(text) = &piece else {
            match query.last_mut() {
                Some(pair) => pair.push(piece),
                None => path.push(piece),
            }
            continue;
        };
        let mut text = text.as_str();
        if query.is_empty() {
            let (before, behind) = match text.split_once('?') {
                Some((before, behind)) => (before, Some(behind)),
                None => (text, None),
            };
            push_text(&mut path, before);
            let Some(behind) = behind else { continue };
            query.push(Vec::new());
            text = behind;
        }
        for (index, part) in text.split('&').enumerate() {
            if index > 0 {
                query.push(Vec::new());
            }
            if let Some(pair) = query.last_mut() {
                push_text(pair, part);
            }
        }
    }
    query.retain(|pair| !pair.is_empty());
    check_path(&path)?;
    for pair in &query {
        check_pair(pair)?;
    }
    Ok((path, query))
}

fn push_text(pieces: &mut Vec<UrlPiece>, text: &str) {
    if !text.is_empty() {
        pieces.push(UrlPiece::Text(text.to_owned()));
    }
}

fn check_path(path: &[UrlPiece]) -> Result<(), BadTemplate> {
    let literal: String = path
        .iter()
        .map(|piece| match piece {
            UrlPiece::Text(text) => text.as_str(),
            // Stands for a value, which is looked at when there is one.
            UrlPiece::Variable(_) | UrlPiece::Parameter(_) => "*",
        })
        .collect();
    if literal.split('/').any(is_dots) {
        return bad("must not hold the path segments . and ..".to_owned());
    }
    Ok(())
}

fn check_pair(pair: &[UrlPiece]) -> Result<(), BadTemplate> {
    let starts_literally = matches!(pair.first(), Some(UrlPiece::Text(text)) if text.contains('='));
    if pair.len() > 1 && !starts_literally || !matches!(pair.first(), Some(UrlPiece::Text(_))) {
        return bad("names in the query must be literal, as in ?name={value}".to_owned());
    }
    Ok(())
}

/// Whether a path segment is `.` or `..` to any reader: encoded dots count.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    // What is behind `;` is no part of the segment's name for some servers.
    let name = plain.split(';').next().unwrap_or_default();
    matches!(name, "." | "..")
}

/// A source of the values of a URL's placeholders, by name; `None` for a placeholder without a
/// value.
pub(super) type PlaceholderSource<'a> = dyn Fn(&str) -> Result<Option<String>, BuildError> + 'a;

impl UrlTemplate {
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        self.pieces().filter_map(|piece| match piece {
            UrlPiece::Variable(name) => Some(name.as_str()),
            UrlPiece::Text(_) | UrlPiece::Parameter(_) => None,
        })
    }

    pub(crate) fn path_parameters(&self) -> impl Iterator<Item = &str> {
        parameters_in(self.path.iter())
    }

    pub(crate) fn query_parameters(&self) -> impl Iterator<Item = &str> {
        parameters_in(self.query.iter().flatten())
    }

    /// The names of the query's members, decoded as a form.
    pub(crate) fn query_names(&self) -> impl Iterator<Item = String> {
        self.query.iter().filter_map(|pair| match pair.first() {
            Some(UrlPiece::Text(text)) => ::url::form_urlencoded::parse(text.as_bytes())
                .next()
                .map(|(name, _)| name.into_owned()),
            Some(UrlPiece::Variable(_) | UrlPiece::Parameter(_)) | None => None,
        })
    }

    fn pieces(&self) -> impl Iterator<Item = &UrlPiece> {
        self.path.iter().chain(self.query.iter().flatten())
    }

    /// The URL's origin and path, filled in.
    pub(super) fn fill_path(
        &self,
        variables: &Variables,
        parameter: &PlaceholderSource<'_>,
    ) -> Result<String, BuildError> {
        let mut path = String::new();
        for piece in &self.path {
            match piece {
                UrlPiece::Text(text) => path.push_str(text),
                UrlPiece::Variable(name) => {
                    let value = variable(variables, name)?;
                    path.push_str(&path_part(&format!("the variable {name:?}"), value)?);
                }
                UrlPiece::Parameter(name) => {
                    let what = format!("the argument {name:?}");
                    let value =
                        parameter(name)?.ok_or_else(|| BuildError(format!("{what} is missing")))?;
                    path.push_str(&path_part(&what, &value)?);
                }
            }
        }
        // A dot of the template may stand beside one of a value.
        if path.split('/').any(is_dots) {
            return Err(BuildError(
                "the path must not hold the segments . and ..".to_owned(),
            ));
        }
        Ok(format!("{}{path}", self.origin))
    }

    /// The query's members, each as `name=value`; those whose parameter is absent are left out.
    pub(super) fn fill_query(
        &self,
        variables: &Variables,
        parameter: &PlaceholderSource<'_>,
    ) -> Result<Vec<String>, BuildError> {
        let mut pairs = Vec::new();
        'pairs: for pieces in &self.query {
            let mut pair = String::new();
            for piece in pieces {
                match piece {
                    UrlPiece::Text(text) => pair.push_str(text),
                    UrlPiece::Variable(name) => {
                        pair.push_str(&url_part(variable(variables, name)?));
                    }
                    UrlPiece::Parameter(name) => match parameter(name)? {
                        Some(value) => pair.push_str(&url_part(&value)),
                        None => continue 'pairs,
                    },
                }
            }
            pairs.push(pair);
        }
        Ok(pairs)
    }
}

fn parameters_in<'a>(pieces: impl Iterator<Item = &'a UrlPiece>) -> impl Iterator<Item = &'a str> {
    pieces.filter_map(|piece| match piece {
        UrlPiece::Parameter(name) => Some(name.as_str()),
        UrlPiece::Text(_) | UrlPiece::Variable(_) => None,
    })
}

fn variable<'a>(variables: &'a Variables, name: &str) -> Result<&'a str, BuildError> {
    Ok(value_of(variables, name)?)
}

/// A value as a path segment, or as a part of one.
///
/// An empty one is refused because it names the folder in place of what is in it, and dots
/// between slashes are, although they are encoded, because some servers decode before they walk.
fn path_part(what: &str, value: &str) -> Result<String, BuildError> {
    if value.is_empty() {
        return Err(BuildError(format!("{what} must not be empty")));
    }
    if value.split(['/', '\\']).any(is_dots) {
        return Err(BuildError(format!("{what} must not be . or ..")));
    }
    Ok(url_part(value))
}
