//! `[[upstream]]`: the servers of models.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use serde::Deserialize;
use tw_core::accepts::{
    Accepts, AddressRule, FieldRule, ReasoningSent, SchemaDialect, StrictTools, SystemRole,
    TokenLimit,
};
use tw_core::call_ids::CallIdRule;
use tw_core::model_names::{ModelNames, NamePattern};
use tw_egress::client::proxy::Proxy;
use tw_egress::client::route::Route;
use tw_egress::client::tls::{ClientIdentity, trust};
use tw_egress::secret::Secret;
use tw_egress::upstream::{Upstream, UpstreamAccess, UpstreamKind, UpstreamTimeouts};
use tw_wire::format::WireFormat;
use tw_wire::native_words;

use super::environment::{Environment, check_sendable};
use super::network::{Network, WrittenProxy};
use super::read_script;

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct UpstreamSettings {
    name: String,
    kind: String,
    base_url: Option<String>,
    api_key_env: Option<String>,
    api_version: Option<String>,
    script: Option<PathBuf>,
    #[serde(default)]
    models: Vec<String>,
    #[serde(default)]
    aliases: BTreeMap<String, String>,
    ask_usage: Option<bool>,
    system_role: Option<String>,
    completion_tokens_field: Option<String>,
    images_in_tool_results: Option<bool>,
    part_addresses: Option<String>,
    strict_tools: Option<String>,
    schema_dialect: Option<String>,
    call_ids: Option<String>,
    reasoning_field: Option<String>,
    #[serde(default)]
    fields: BTreeMap<String, WrittenField>,
    connect_s: Option<u64>,
    first_byte_s: Option<u64>,
    idle_s: Option<u64>,
    ca_file: Option<PathBuf>,
    client_cert_file: Option<PathBuf>,
    client_key_file: Option<PathBuf>,
    proxy: Option<WrittenProxy>,
}

/// The setting, as errors name it.
const BASE_URL: &str = "'base_url'";
const URL_VARIABLE: &str = "OPENAI_BASE_URL";
const KEY_VARIABLE: &str = "OPENAI_API_KEY";
const OPENAI_URL: &str = "https://api.openai.com/v1";
const ANTHROPIC_URL_VARIABLE: &str = "ANTHROPIC_BASE_URL";
const ANTHROPIC_KEY_VARIABLE: &str = "ANTHROPIC_API_KEY";
const ANTHROPIC_URL: &str = "https://api.anthropic.com/v1";

/// The upstreams of the config, or else the one that the environment names.
pub fn upstreams(
    written: &[UpstreamSettings],
    environment: &Environment,
    network: &Network,
    answer_bytes_max: usize,
) -> anyhow::Result<Vec<Upstream>> {
    let ground = Ground {
        environment,
        network,
        timeouts: timeouts(environment)?,
        answer_bytes_max,
    };
    if !written.is_empty() {
        let mut names = BTreeSet::new();
        if let Some(twice) = written.iter().position(|one| !names.insert(&one.name)) {
            bail!(
                "upstream[{twice}]: an earlier one has this name; records name upstreams, so each needs its own"
            );
        }
        // By place: whatever stands in a field may stand there by mistake.
        let each = written.iter().enumerate().map(|(place, settings)| {
            settings
                .upstream(&ground)
                .with_context(|| format!("upstream[{place}]"))
        });
        return each.collect();
    }
    let mut found = Vec::new();
    // Its models have names of their own, so it is asked for those before one that may serve any.
    found.extend(of_environment(&ground, &ANTHROPIC)?);
    found.extend(of_environment(&ground, &OPENAI)?);
    if let [one] = found.as_mut_slice() {
        one.models = ModelNames::all();
    }
    Ok(found)
}

/// A provider that variables of the environment are enough for.
struct KnownProvider {
    name: &'static str,
    format: WireFormat,
    key_variable: &'static str,
    url_variable: &'static str,
    url: &'static str,
    /// The models that it serves beside another one; any if there are none.
    models: &'static [&'static str],
}

const OPENAI: KnownProvider = KnownProvider {
    name: "openai",
    format: WireFormat::OpenAiChat,
    key_variable: KEY_VARIABLE,
    url_variable: URL_VARIABLE,
    url: OPENAI_URL,
    models: &[],
};
const ANTHROPIC: KnownProvider = KnownProvider {
    name: "anthropic",
    format: WireFormat::AnthropicMessages,
    key_variable: ANTHROPIC_KEY_VARIABLE,
    url_variable: ANTHROPIC_URL_VARIABLE,
    url: ANTHROPIC_URL,
    models: &["claude*"],
};

fn of_environment(
    ground: &Ground<'_>,
    provider: &KnownProvider,
) -> anyhow::Result<Option<Upstream>> {
    let (environment, network) = (ground.environment, ground.network);
    let key = environment.get_sendable(provider.key_variable)?;
    let mut url = environment.get_sendable(provider.url_variable)?;
    if key.is_none() && url.is_none() {
        return Ok(None);
    }
    // Anthropic's own clients add the version.
    if provider.format == WireFormat::AnthropicMessages
        && let Some(written) = &mut url
        && !written.trim_end_matches('/').ends_with("/v1")
    {
        *written = format!("{}/v1", written.trim_end_matches('/'));
    }
    let base_url = base_url(
        &format!("the variable {}", provider.url_variable),
        url.as_deref().unwrap_or(provider.url),
    )?;
    let route = Route::new(
        network.trusted_roots.clone(),
        None,
        proxy_of_environment(network, &base_url)?,
    );
    let fields = fields_of(&base_url);
    let patterns = provider
        .models
        .iter()
        .filter_map(|text| NamePattern::new(text));
    let kind = UpstreamKind::Http {
        base_url,
        api_key: key.map(Secret::new),
    };
    Ok(Some(Upstream {
        name: provider.name.to_owned(),
        format: provider.format,
        models: match provider.models {
            [] => ModelNames::all(),
            _ => ModelNames::new(patterns.collect(), Vec::new()),
        },
        timeouts: ground.timeouts.clone(),
        accepts: Accepts {
            fields,
            call_ids: call_ids_of(&kind, provider.format),
            ..Accepts::everything()
        },
        answer_bytes_max: ground.answer_bytes_max,
        access: UpstreamAccess {
            base_url_setting: provider.url_variable.to_owned(),
            api_key_setting: provider.key_variable.to_owned(),
            route,
        },
        kind,
    }))
}

/// Inputs of upstreams besides their own settings.
struct Ground<'a> {
    environment: &'a Environment,
    network: &'a Network,
    /// Timeouts of those upstreams that say nothing else.
    timeouts: UpstreamTimeouts,
    answer_bytes_max: usize,
}

const FIRST_BYTE_VARIABLE: &str = "TURNWRIGHT_FIRST_BYTE_S";

fn timeouts(environment: &Environment) -> anyhow::Result<UpstreamTimeouts> {
    let mut timeouts = UpstreamTimeouts::defaults();
    if let Some(written) = environment.get(FIRST_BYTE_VARIABLE)? {
        let seconds = written.parse().ok().filter(|seconds| *seconds > 0);
        let Some(seconds) = seconds else {
            bail!("the variable {FIRST_BYTE_VARIABLE} is no number of seconds from 1");
        };
        timeouts.first_byte = Duration::from_secs(seconds);
    }
    Ok(timeouts)
}

fn proxy_of_environment(network: &Network, url: &str) -> anyhow::Result<Option<Proxy>> {
    let found = network.proxies.proxy_for(url);
    found.context("HTTPS_PROXY, HTTP_PROXY or ALL_PROXY (NO_PROXY names places without one)")
}

impl UpstreamSettings {
    fn upstream(&self, ground: &Ground<'_>) -> anyhow::Result<Upstream> {
        let environment = ground.environment;
        if self.name.is_empty() || self.name.len() > NAME_BYTES_MAX {
            bail!("a name has from 1 to {NAME_BYTES_MAX} bytes");
        }
        if self.api_version.is_some() && self.kind != "azure" {
            bail!("only kind \"azure\" has 'api_version'");
        }
        let kind = match self.kind.as_str() {
            "openai" | "openai_responses" => self.http(environment, OPENAI_URL)?,
            "anthropic" => self.http(environment, ANTHROPIC_URL)?,
            "azure" => self.azure(environment)?,
            "scripted" => {
                let Some(file) = &self.script else {
                    bail!("a scripted model needs 'script'");
                };
                let script = read_script(file).context("reading what 'script' names")?;
                UpstreamKind::Scripted(Arc::new(script))
            }
            _ => bail!(
                "'kind' may be \"openai\", \"openai_responses\", \"anthropic\", \"azure\" or \"scripted\""
            ),
        };
        let defaults = &ground.timeouts;
        let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
        Ok(Upstream {
            name: self.name.clone(),
            format: self.format(),
            models: self.models()?,
            timeouts: UpstreamTimeouts {
                connect: seconds(self.connect_s, defaults.connect),
                first_byte: seconds(self.first_byte_s, defaults.first_byte),
                idle: seconds(self.idle_s, defaults.idle),
            },
            accepts: self.accepts(&kind)?,
            answer_bytes_max: ground.answer_bytes_max,
            access: self.access(ground, &kind)?,
            kind,
        })
    }

    fn format(&self) -> WireFormat {
        match self.kind.as_str() {
            "anthropic" => WireFormat::AnthropicMessages,
            "openai_responses" => WireFormat::OpenAiResponses,
            _ => WireFormat::OpenAiChat,
        }
    }

    fn http(&self, environment: &Environment, default: &str) -> anyhow::Result<UpstreamKind> {
        Ok(UpstreamKind::Http {
            base_url: base_url(BASE_URL, self.base_url.as_deref().unwrap_or(default))?,
            api_key: self.api_key(environment)?,
        })
    }

    fn access(&self, ground: &Ground<'_>, kind: &UpstreamKind) -> anyhow::Result<UpstreamAccess> {
        let here = |field: &str| format!("'{field}' of the upstream '{}'", self.name);
        let key = self.api_key_env.clone();
        Ok(UpstreamAccess {
            base_url_setting: here("base_url"),
            api_key_setting: key.unwrap_or_else(|| here("api_key_env")),
            route: self.route(ground, kind)?,
        })
    }

    fn route(&self, ground: &Ground<'_>, kind: &UpstreamKind) -> anyhow::Result<Route> {
        let mut roots = ground.network.trusted_roots.clone();
        if let Some(file) = &self.ca_file {
            trust(&mut roots, file).context("'ca_file'")?;
        }
        let identity = match (&self.client_cert_file, &self.client_key_file) {
            (None, None) => None,
            (Some(certificate), Some(key)) => {
                let read = ClientIdentity::read(certificate, key);
                Some(read.context("'client_cert_file' and 'client_key_file'")?)
            }
            (Some(_), None) | (None, Some(_)) => {
                bail!("'client_cert_file' and 'client_key_file' go together")
            }
        };
        let proxy = match (&self.proxy, kind) {
            (None, UpstreamKind::Scripted(_)) => None,
            (Some(written), _) => written.read()?,
            (None, UpstreamKind::Http { base_url, .. } | UpstreamKind::Azure { base_url, .. }) => {
                proxy_of_environment(ground.network, base_url)?
            }
        };
        Ok(Route::new(roots, identity, proxy))
    }

    fn api_key(&self, environment: &Environment) -> anyhow::Result<Option<Secret>> {
        let Some(variable) = &self.api_key_env else {
            return Ok(None);
        };
        let key = environment.need("api_key_env", variable)?;
        check_sendable(&format!("the variable {variable}"), &key)?;
        Ok(Some(Secret::new(key)))
    }

    fn azure(&self, environment: &Environment) -> anyhow::Result<UpstreamKind> {
        let Some(written) = &self.base_url else {
            bail!("an Azure resource needs 'base_url'");
        };
        let base_url = base_url(BASE_URL, written)?;
        if base_url.ends_with("/openai") || base_url.ends_with("/openai/v1") {
            bail!("{BASE_URL} is to be the resource's own, without /openai");
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
        if let Some(version) = &self.api_version
            && (version.is_empty() || !version.bytes().all(allowed))
        {
            bail!("'api_version' is no version, such as \"2024-10-21\"");
        }
        Ok(UpstreamKind::Azure {
            base_url,
            api_key: self.api_key(environment)?,
            api_version: self.api_version.clone(),
        })
    }

    /// Models that the upstream serves, and the names that clients have for them.
    fn models(&self) -> anyhow::Result<ModelNames> {
        let pattern =
            |text: &String| NamePattern::new(text).context("an empty text is no name of a model");
        let patterns = self.models.iter().map(pattern);
        let aliases = self.aliases.iter().map(|(alias, sent)| {
            if sent.is_empty() || sent.contains('*') {
                bail!("{alias:?} does not stand for the name of one model");
            }
            Ok((pattern(alias)?, sent.clone()))
        });
        Ok(ModelNames::new(
            patterns.collect::<anyhow::Result<_>>().context("models")?,
            aliases.collect::<anyhow::Result<_>>().context("aliases")?,
        ))
    }

    fn accepts(&self, kind: &UpstreamKind) -> anyhow::Result<Accepts> {
        use ReasoningSent::{Field, Never};
        let place = |word| native_words::place(word).map_or(Never, Field);
        let all = Accepts::everything();
        Ok(Accepts {
            usage_in_streams: self.ask_usage.unwrap_or(all.usage_in_streams),
            system_role: word(
                "system_role",
                self.system_role.as_deref(),
                &[
                    ("as_sent", SystemRole::AsSent),
                    ("system", SystemRole::System),
                    ("developer", SystemRole::Developer),
                ],
            )?,
            token_limit: word(
                "completion_tokens_field",
                self.completion_tokens_field.as_deref(),
                &[
                    ("as_sent", TokenLimit::AsSent),
                    ("max_tokens", TokenLimit::MaxTokens),
                    ("max_completion_tokens", TokenLimit::MaxCompletionTokens),
                ],
            )?,
            images_in_results: self.images_in_tool_results.unwrap_or(all.images_in_results),
            addresses: word(
                "part_addresses",
                self.part_addresses.as_deref(),
                &[
                    ("as_sent", AddressRule::AsSent),
                    ("downloaded", AddressRule::Downloaded),
                ],
            )?,
            strict: word(
                "strict_tools",
                self.strict_tools.as_deref(),
                &[
                    ("as_sent", StrictTools::AsSent),
                    ("where_it_fits", StrictTools::WhereItFits),
                    ("never", StrictTools::Never),
                ],
            )?,
            schemas: word(
                "schema_dialect",
                self.schema_dialect.as_deref(),
                &[
                    ("json_schema", SchemaDialect::JsonSchema),
                    ("openapi", SchemaDialect::OpenApi),
                ],
            )?,
            reasoning: word(
                "reasoning_field",
                self.reasoning_field.as_deref(),
                &[
                    ("as_sent", ReasoningSent::AsSent),
                    ("reasoning_content", place("reasoning_content")),
                    ("reasoning", place("reasoning")),
                    ("thinking", place("thinking")),
                    ("none", Never),
                ],
            )?,
            call_ids: match self.call_ids.as_deref() {
                None => call_ids_of(kind, self.format()),
                written => word(
                    "call_ids",
                    written,
                    &[
                        ("as_sent", CallIdRule::AsSent),
                        ("plain", CallIdRule::Plain),
                        ("nine_letters", CallIdRule::NineLetters),
                    ],
                )?,
            },
            unknown_call_ids: CallIdRule::AsSent,
            fields: self.fields(kind)?,
        })
    }

    fn fields(&self, kind: &UpstreamKind) -> anyhow::Result<BTreeMap<Box<str>, FieldRule>> {
        let mut fields = match kind {
            UpstreamKind::Http { base_url, .. } => fields_of(base_url),
            UpstreamKind::Azure { .. } | UpstreamKind::Scripted(_) => BTreeMap::new(),
        };
        for (name, written) in &self.fields {
            for name in [Some(name), written.name()].into_iter().flatten() {
                if FIELDS_OF_OURS.contains(&name.as_str()) {
                    bail!("'fields': '{name}' is written by this server");
                }
            }
            fields.insert(name.as_str().into(), written.rule());
        }
        Ok(fields)
    }
}

/// A field's rule as it is written: whether it is sent, or the name under which it is.
#[derive(Deserialize, Debug)]
#[serde(untagged, expecting = "true, false or another field's name")]
enum WrittenField {
    Sent(bool),
    Renamed(String),
}

impl WrittenField {
    fn name(&self) -> Option<&String> {
        match self {
            Self::Sent(_) => None,
            Self::Renamed(name) => Some(name),
        }
    }

    fn rule(&self) -> FieldRule {
        match self {
            Self::Sent(true) => FieldRule::Sent,
            Self::Sent(false) => FieldRule::LeftOut,
            Self::Renamed(name) => FieldRule::Renamed(name.as_str().into()),
        }
    }
}

/// Fields that have rules of their own, or none that could be another.
const FIELDS_OF_OURS: [&str; 12] = [
    "model",
    "messages",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
    "stream",
    "stream_options",
    "max_tokens",
    "max_completion_tokens",
    "n",
];

/// Providers that refuse a request for a field that they do not know, by the end of their hosts, and the fields of
/// OpenAI's that each does not know.
const UNKNOWN_FIELDS: [(&str, &[&str]); 3] = [
    (
        "mistral.ai",
        &["metadata", "store", "safety_identifier", "user"],
    ),
    (
        "generativelanguage.googleapis.com",
        &["metadata", "store", "safety_identifier", "user"],
    ),
    ("groq.com", &["metadata", "store", "safety_identifier"]),
];

/// The rules of a provider that is known by its host.
fn fields_of(base_url: &str) -> BTreeMap<Box<str>, FieldRule> {
    let mut known = UNKNOWN_FIELDS.iter();
    let unknown = known.find(|(end, _)| is_of_host(base_url, end));
    let unknown = unknown.map_or(&[][..], |(_, fields)| fields);
    let left_out = unknown
        .iter()
        .map(|name| ((*name).into(), FieldRule::LeftOut));
    left_out.collect()
}

/// Whether an address is that of a provider's host, or of one below it.
fn is_of_host(base_url: &str, end: &str) -> bool {
    let host = base_url
        .split_once("://")
        .map_or(base_url, |(_, rest)| rest);
    let host = host.split(['/', ':', '?']).next().unwrap_or_default();
    let before = host.strip_suffix(end);
    before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
}

/// Providers that refuse ids of calls in another form than theirs, by the end of their hosts.
const CALL_IDS: [(&str, CallIdRule); 2] = [
    ("mistral.ai", CallIdRule::NineLetters),
    ("anthropic.com", CallIdRule::Plain),
];

fn call_ids_of(kind: &UpstreamKind, format: WireFormat) -> CallIdRule {
    if format == WireFormat::AnthropicMessages {
        return CallIdRule::Plain;
    }
    let UpstreamKind::Http { base_url, .. } = kind else {
        return CallIdRule::AsSent;
    };
    let mut known = CALL_IDS.iter();
    known
        .find(|(end, _)| is_of_host(base_url, end))
        .map_or(CallIdRule::AsSent, |(_, rule)| *rule)
}

/// The meaning of a word; without one, that of the first of `known`.
fn word<T: Copy>(field: &str, written: Option<&str>, known: &[(&str, T)]) -> anyhow::Result<T> {
    let word = written.unwrap_or(known[0].0);
    let found = known.iter().find(|(name, _)| *name == word);
    let Some((_, meant)) = found else {
        let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
        bail!("'{field}' may be one of {}", names.join(", "));
    };
    Ok(*meant)
}

/// Longest name of an upstream, in bytes: it stands in every attempt's record.
const NAME_BYTES_MAX: usize = 64;

/// Checks the address that `named` holds.
fn base_url(named: &str, text: &str) -> anyhow::Result<String> {
    check_sendable(named, text)?;
    let trimmed = text.trim_end_matches('/');
    // No error shows the address: people write keys into it.
    let uri: http::Uri = trimmed
        .parse()
        .with_context(|| format!("{named} is no address, such as {OPENAI_URL}"))?;
    let names_host = uri.host().is_some_and(|host| !host.is_empty());
    if !(matches!(uri.scheme_str(), Some("http" | "https")) && names_host) {
        bail!("{named} must begin with http:// or https:// and name a host");
    }
    if uri.query().is_some() || trimmed.contains('#') {
        bail!("{named} must end with its path");
    }
    if uri
        .authority()
        .is_some_and(|place| place.as_str().contains('@'))
    {
        bail!("{named} must not hold a user or a key: 'api_key_env' names the key");
    }
    Ok(trimmed.to_owned())
}
