//! Names of models: those that an upstream serves, and those that it is sent instead.

/// A name of a model, or a pattern for some: `*` stands for any text, also for none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamePattern(String);

/// The models of one upstream.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ModelNames {
    /// Empty for all models.
    patterns: Vec<NamePattern>,
    /// Names that clients write, and the names that the upstream is sent instead; the most exact
    /// first.
    aliases: Vec<(NamePattern, String)>,
}

impl NamePattern {
    /// `None` for an empty text, which is no name.
    pub fn new(text: &str) -> Option<Self> {
        (!text.is_empty()).then(|| Self(text.to_owned()))
    }

    pub fn matches(&self, name: &str) -> bool {
        let Some((head, rest)) = self.0.split_once('*') else {
            return self.0 == name;
        };
        let Some(name) = name.strip_prefix(head) else {
            return false;
        };
        // What stands behind the last star is the end of the name; each part before it is taken
        // as early as it comes, which leaves the most for those behind it.
        let (middle, tail) = rest.rsplit_once('*').unwrap_or(("", rest));
        let Some(mut left) = name.strip_suffix(tail) else {
            return false;
        };
        for part in middle.split('*') {
            let Some((_, behind)) = left.split_once(part) else {
                return false;
            };
            left = behind;
        }
        true
    }

    /// The one name that it stands for; `None` for a pattern.
    pub fn name(&self) -> Option<&str> {
        (!self.0.contains('*')).then_some(self.0.as_str())
    }

    /// Orders by how little it leaves open: the text that it fixes, then the fewest stars.
    pub(crate) fn exactness(&self) -> (usize, std::cmp::Reverse<usize>) {
        let stars = self.0.matches('*').count();
        (self.0.len() - stars, std::cmp::Reverse(stars))
    }
}

impl ModelNames {
    /// The names of an upstream that serves every model under the name that clients write.
    pub fn all() -> Self {
        Self::default()
    }

    /// `patterns` empty means all models; a name with an alias is served in any case.
    pub fn new(patterns: Vec<NamePattern>, mut aliases: Vec<(NamePattern, String)>) -> Self {
        aliases.sort_by_key(|(alias, _)| std::cmp::Reverse(alias.exactness()));
        Self { patterns, aliases }
    }

    pub fn serves(&self, name: &str) -> bool {
        self.patterns.is_empty()
            || self.patterns.iter().any(|pattern| pattern.matches(name))
            || self.aliases.iter().any(|(alias, _)| alias.matches(name))
    }

    /// The name by which the upstream knows the model.
    pub fn sent<'a>(&'a self, name: &'a str) -> &'a str {
        self.aliases
            .iter()
            .find(|(alias, _)| alias.matches(name))
            .map_or(name, |(_, sent)| sent)
    }

    /// Names that are written out, without any pattern: first those with an alias.
    pub fn written(&self) -> impl Iterator<Item = &str> {
        let aliases = self.aliases.iter().map(|(alias, _)| alias);
        aliases.chain(&self.patterns).filter_map(NamePattern::name)
    }
}

#[cfg(test)]
mod tests;
