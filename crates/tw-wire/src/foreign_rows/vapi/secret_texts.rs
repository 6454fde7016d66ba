//! Texts that may be secrets, by the names that they have.

use std::fmt;

/// Secrets that a tool may name.
const SECRETS_MAX: usize = 100;
/// Longest name of a secret, in bytes.
const NAME_BYTES_MAX: usize = 64;
/// Words in a name, without what stands between words, by which its value may be a secret.
const WORDS: [&str; 12] = [
    "secret",
    "token",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "accesskey",
    "privatekey",
    "jwt",
    "authoriz",
    "credential",
    "signature",
];
/// The same, as whole names. Azure Functions have their key in `code`.
const NAMES: [&str; 8] = [
    "auth", "pass", "pwd", "pin", "sig", "bearer", "appid", "code",
];
/// The same, as ends of names.
const END: &str = "key";
/// Beginnings of a header's value that are none of its secret.
const PREFIXES: [&str; 4] = ["Bearer ", "Basic ", "Token ", "Bot "];

/// Beginnings of texts that are secrets, whatever their names are.
const BEGINNINGS: [&str; 14] = [
    "Bearer ",
    "Basic ",
    "sk-",
    "sk_",
    "rk_",
    "ghp_",
    "gho_",
    "github_pat_",
    "glpat-",
    "xoxb-",
    "xoxp-",
    "eyJ",
    "AKIA",
    "whsec_",
];

/// What a text is whose name says that it may be a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SecretText<'a> {
    /// Nothing, or variables alone.
    None,
    Secret {
        prefix: &'a str,
    },
    /// A secret and variables.
    Mixed,
}

/// Whether the value of this name may be a secret.
pub fn may_be_secret(name: &str) -> bool {
    let plain: String = name
        .chars()
        .filter(|char| char.is_ascii_alphanumeric())
        .map(|char| char.to_ascii_lowercase())
        .collect();
    WORDS.iter().any(|word| plain.contains(word))
        || NAMES.contains(&&*plain)
        || plain.ends_with(END)
}

/// Whether a text looks like a secret by itself.
pub fn looks_like_secret(text: &str) -> bool {
    BEGINNINGS.iter().any(|start| text.starts_with(start))
}

pub fn secret_text(text: &str) -> SecretText<'_> {
    let begins = |prefix: &&&str| {
        let start = text.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    let prefix = PREFIXES
        .iter()
        .find(begins)
        .map_or(0, |prefix| prefix.len());
    let (prefix, rest) = text.split_at(prefix);
    let (mut literal, mut rest) = (String::new(), rest);
    let mut has_variables = false;
    while let Some((before, behind)) = rest.split_once("{{") {
        literal.push_str(before);
        has_variables = true;
        rest = behind.split_once("}}").map_or("", |(_, behind)| behind);
    }
    literal.push_str(rest);
    match (literal.trim().is_empty(), has_variables) {
        (true, _) => SecretText::None,
        (false, true) => SecretText::Mixed,
        (false, false) => SecretText::Secret { prefix },
    }
}

/// The texts of a tool that may be secrets, each by the name under which it is to be granted. They are not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct NamedSecretTexts(Vec<(String, String)>);

impl NamedSecretTexts {
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, text)| (&**name, &**text))
    }

    /// The name of a text of this tool. One that stands for another text is numbered; `None` where there are too many.
    pub(super) fn name(&mut self, tool: &str, path: &[&str], text: &str) -> Option<String> {
        for number in 1..=SECRETS_MAX {
            let name = secret_name(tool, path, number);
            let known = self.0.iter().find(|(known, _)| *known == name);
            match known {
                Some((_, known)) if known == text => return Some(name),
                Some(_) => {}
                None if self.0.len() == SECRETS_MAX => return None,
                None => {
                    self.0.push((name.clone(), text.to_owned()));
                    return Some(name);
                }
            }
        }
        None
    }
}

impl fmt::Debug for NamedSecretTexts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set()
            .entries(self.iter().map(|(name, _)| name))
            .finish()
    }
}

/// The name of a secret: that of the tool and the way to it, of a long one the end, and behind it its number if it is not
/// the first.
fn secret_name(tool: &str, path: &[&str], number: usize) -> String {
    let words = std::iter::once(tool).chain(path.iter().copied());
    let words: Vec<String> = words
        .map(|word| {
            let fit = |char: char| match char.is_ascii_alphanumeric() {
                true => char.to_ascii_uppercase(),
                false => '_',
            };
            word.chars().map(fit).collect()
        })
        .collect();
    let mut name = words.join("_");
    if number > 1 {
        name.push_str(&format!("_{number}"));
    }
    // All of it is ASCII.
    name[name.len().saturating_sub(NAME_BYTES_MAX)..].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_secrets_are_found() {
        for (name, expected) in [
            ("Authorization", true),
            ("x-api-key", true),
            ("access_token", true),
            ("client.secret", true),
            ("key", true),
            ("Ocp-Apim-Subscription-Key", true),
            ("app_key", true),
            ("consumerKey", true),
            ("signing_key", true),
            ("private_key", true),
            ("accessKey", true),
            ("api_key_2", true),
            ("jwt", true),
            ("x-jwt-assertion", true),
            ("code", true),
            ("country_code", false),
            ("key_figures", false),
            ("Auth", true),
            ("author", false),
            ("keyword", false),
            ("passenger", false),
            ("message", false),
            ("", false),
        ] {
            assert_eq!(may_be_secret(name), expected, "{name}");
        }
    }

    #[test]
    fn a_text_is_a_secret_unless_it_is_filled_in() {
        for (text, expected) in [
            ("", SecretText::None),
            ("{{token}}", SecretText::None),
            ("Bearer {{ token }}", SecretText::None),
            ("Bearer", SecretText::Secret { prefix: "" }),
            ("abc", SecretText::Secret { prefix: "" }),
            ("bearer abc", SecretText::Secret { prefix: "bearer " }),
            ("Basic YTpi", SecretText::Secret { prefix: "Basic " }),
            ("a{{b}}", SecretText::Mixed),
            ("{{b", SecretText::None),
            ("ü", SecretText::Secret { prefix: "" }),
        ] {
            assert_eq!(secret_text(text), expected, "{text}");
        }
    }

    #[test]
    fn some_secrets_are_known_by_their_beginnings() {
        for (text, expected) in [
            ("sk-live-1", true),
            ("Bearer abc", true),
            ("eyJhbGciOi", true),
            ("skate", false),
            ("Hello", false),
            ("", false),
        ] {
            assert_eq!(looks_like_secret(text), expected, "{text}");
        }
    }

    #[test]
    fn a_secret_is_named_by_its_tool_and_its_place() {
        let mut named = NamedSecretTexts::default();
        let mut name = |path: &[&str], text: &str| named.name("send_sms", path, text).unwrap();
        assert_eq!(name(&["x-api-key"], "a"), "SEND_SMS_X_API_KEY");
        let long = secret_name(&"ü".repeat(100), &["a", "0", "b"], 1);
        assert_eq!((long.len(), long.ends_with("_A_0_B")), (64, true));
    }

    #[test]
    fn no_name_stands_for_two_texts() {
        let mut named = NamedSecretTexts::default();
        let mut name = |path: &[&str], text: &str| named.name("t", path, text);
        let long = "x".repeat(70);
        let other = format!("y{long}");
        for (path, text, expected) in [
            (&["Token"][..], "a", "T_TOKEN".to_owned()),
            (&["token"], "b", "T_TOKEN_2".to_owned()),
            (&["token", "2"], "c", "T_TOKEN_2_2".to_owned()),
            (&["TOKEN"], "a", "T_TOKEN".to_owned()),
            (&["TOKEN"], "b", "T_TOKEN_2".to_owned()),
            (&[&long], "a", "X".repeat(64)),
            (&[&other], "b", format!("{}_2", "X".repeat(62))),
        ] {
            assert_eq!(name(path, text), Some(expected), "{path:?}");
        }
        for n in 5..SECRETS_MAX {
            assert!(name(&[&n.to_string()], "a").is_some());
        }
        assert_eq!(name(&["more"], "a"), None);
        assert_eq!(name(&["token"], "a"), Some("T_TOKEN".to_owned()));
        assert_eq!(format!("{named:?}").matches("\"a\"").count(), 0);
    }
}
