//! What was used of quotas of tokens.

use tw_core::id::{ApiKeyId, OrgId};
use tw_core::quota::ClockMinute;

use super::ReadError;
use super::columns::unsigned;
use crate::session::bound::params;
use crate::store::Store;

/// Tokens that were used in a minute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TokensUsed {
    pub organization: u64,
    pub key: u64,
    /// Zero where nobody is named.
    pub end_user: u64,
}

impl Store {
    /// The tokens that an organization, a key and an end user have used in a minute. Only those of turns that count them
    /// are there.
    ///
    /// # Errors
    /// See [`ReadError`].
    pub async fn tokens_used(
        &self,
        organization: OrgId,
        key: ApiKeyId,
        end_user: Option<String>,
        minute: ClockMinute,
    ) -> Result<TokensUsed, ReadError> {
        self.read(move |conn| {
            let bound = params![organization.0, minute.0, key.0, end_user];
            let mut statement = conn.prepare_cached(TOKENS_USED)?;
            let mut rows = statement.query(bound)?;
            let Some(row) = rows.next()? else {
                return Ok(TokensUsed::default());
            };
            Ok(TokensUsed {
                organization: unsigned(row, "organization")?,
                key: unsigned(row, "key")?,
                end_user: unsigned(row, "end_user")?,
            })
        })
        .await
    }
}

const TOKENS_USED: &str = "SELECT
    coalesce((SELECT used FROM quota_use
              WHERE organization = ?1 AND unit = 'tokens' AND period = ?2 AND holder = 'organization' AND holder_key = 0
                AND tool = ''), 0) AS organization,
    coalesce((SELECT used FROM quota_use
              WHERE organization = ?1 AND unit = 'tokens' AND period = ?2 AND holder = 'key' AND holder_key = ?3
                AND tool = ''), 0) AS key,
    coalesce((SELECT used FROM quota_use
              WHERE organization = ?1 AND unit = 'tokens' AND period = ?2 AND holder = 'end_user'
                AND holder_key = (SELECT key FROM end_user WHERE organization = ?1 AND name = ?4) AND tool = ''), 0)
        AS end_user";

#[cfg(test)]
mod tests {
    use super::TOKENS_USED;
    use crate::read::plan::assert_each_looks;

    #[test]
    fn what_was_used_is_found_by_who_used_it() {
        let by = "organization=? AND unit=? AND period=? AND holder=? AND holder_key=? AND tool=?";
        assert_each_looks(&[(TOKENS_USED, by)]);
    }
}
