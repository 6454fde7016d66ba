//! Images and files that a written request names by their addresses, and their contents in place of those.
//!
//! Each format has its own places for both. A request is taken apart for it, so that its white space goes and the order
//! of its fields and the digits of its numbers stay.

use tw_core::json::Json;
use tw_core::json::tree::{JsonTree, MemberOrder};

use crate::format::WireFormat;

/// A request to an upstream, taken apart.
#[derive(Debug)]
pub struct AddressedRequest {
    request: JsonTree,
    format: WireFormat,
}

/// A part that names its content by an address.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PartAddress {
    pub kind: AddressedKind,
    /// Begins with `http://` or `https://`.
    pub url: String,
}

/// The kinds of parts whose contents are downloaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum AddressedKind {
    Image,
    File,
}

impl AddressedKind {
    /// The word for it, in errors.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Image => "image",
            Self::File => "file",
        }
    }
}

/// The content behind an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartContent {
    /// Such as `image/png`, without parameters.
    pub media_type: String,
    pub base64: String,
    /// The content as text, if it is one.
    pub text: Option<String>,
}

impl PartContent {
    fn data_url(&self) -> JsonTree {
        let Self {
            media_type, base64, ..
        } = self;
        JsonTree::Text(format!("data:{media_type};base64,{base64}"))
    }
}

impl AddressedRequest {
    /// Takes a request in a format apart; `None` for one that names no address, or is none.
    pub fn read(body: &[u8], format: WireFormat) -> Option<Self> {
        let text = std::str::from_utf8(body).ok()?;
        // Most requests have none, and are not taken apart.
        if !text.contains("http") {
            return None;
        }
        let request = JsonTree::read(&Json::parse(text).ok()?)?;
        let request = Self { request, format };
        (!request.addresses().is_empty()).then_some(request)
    }

    /// The addresses that it names, each once.
    pub fn addresses(&self) -> Vec<PartAddress> {
        let mut found = Vec::new();
        each_object(self.messages(), &mut |part| {
            found.extend(address_of(part, self.format));
        });
        found.sort();
        found.dedup();
        found
    }

    /// The request with the contents of these addresses; one without a content stays.
    pub fn with_contents<'a>(
        mut self,
        content: impl Fn(&PartAddress) -> Option<&'a PartContent>,
    ) -> Vec<u8> {
        let format = self.format;
        if let Some(messages) = messages_of(&mut self.request, format) {
            each_object_mut(messages, &mut |part| {
                if let Some(address) = address_of(part, format)
                    && let Some(content) = content(&address)
                {
                    put(part, address.kind, content, format);
                }
            });
        }
        self.request.write(MemberOrder::AsItIs).into_bytes()
    }

    fn messages(&self) -> Option<&JsonTree> {
        field(&self.request, messages_name(self.format))
    }
}

fn messages_name(format: WireFormat) -> &'static str {
    match format {
        WireFormat::OpenAiChat | WireFormat::AnthropicMessages => "messages",
        WireFormat::OpenAiResponses => "input",
    }
}

fn messages_of(request: &mut JsonTree, format: WireFormat) -> Option<&mut JsonTree> {
    field_mut(request, messages_name(format))
}

/// The address that an object names, if it is a part that does.
fn address_of(part: &JsonTree, format: WireFormat) -> Option<PartAddress> {
    let word = text(field(part, "type")?)?;
    let (kind, url) = match (format, word) {
        (WireFormat::OpenAiChat, "image_url") => {
            let image = field(part, "image_url")?;
            let url = field(image, "url").unwrap_or(image);
            (AddressedKind::Image, url)
        }
        (WireFormat::OpenAiChat, "file") => {
            let data = field(field(part, "file")?, "file_data")?;
            (AddressedKind::File, data)
        }
        (WireFormat::OpenAiResponses, "input_image") => {
            (AddressedKind::Image, field(part, "image_url")?)
        }
        (WireFormat::OpenAiResponses, "input_file") => {
            (AddressedKind::File, field(part, "file_url")?)
        }
        (WireFormat::AnthropicMessages, "image" | "document") => {
            let source = field(part, "source")?;
            if field(source, "type").and_then(text) != Some("url") {
                return None;
            }
            let kind = if word == "image" {
                AddressedKind::Image
            } else {
                AddressedKind::File
            };
            (kind, field(source, "url")?)
        }
        (
            WireFormat::OpenAiChat | WireFormat::OpenAiResponses | WireFormat::AnthropicMessages,
            _,
        ) => {
            return None;
        }
    };
    let url = text(url)?;
    let is_address = url.starts_with("https://") || url.starts_with("http://");
    is_address.then(|| PartAddress {
        kind,
        url: url.to_owned(),
    })
}

/// Puts a content where the address stood.
fn put(part: &mut JsonTree, kind: AddressedKind, content: &PartContent, format: WireFormat) {
    match (format, kind) {
        (WireFormat::OpenAiChat, AddressedKind::Image) => {
            let Some(image) = field_mut(part, "image_url") else {
                return;
            };
            match field_mut(image, "url") {
                Some(url) => *url = content.data_url(),
                None => *image = content.data_url(),
            }
        }
        (WireFormat::OpenAiChat, AddressedKind::File) => {
            if let Some(file) = field_mut(part, "file") {
                set(file, "file_data", content.data_url());
            }
        }
        (WireFormat::OpenAiResponses, AddressedKind::Image) => {
            set(part, "image_url", content.data_url());
        }
        (WireFormat::OpenAiResponses, AddressedKind::File) => {
            let named = field(part, "filename").is_some();
            let JsonTree::Object(fields) = part else {
                return;
            };
            fields.retain(|(name, _)| name != "file_url");
            if !named {
                let name = JsonTree::Text(FILE_NAME.to_owned());
                fields.push(("filename".to_owned(), name));
            }
            fields.push(("file_data".to_owned(), content.data_url()));
        }
        (WireFormat::AnthropicMessages, _) => set(part, "source", anthropic_source(content)),
    }
}

/// The name of a file that has none, where a format wants one.
const FILE_NAME: &str = "file";

fn anthropic_source(content: &PartContent) -> JsonTree {
    let (kind, media_type, data) = match &content.text {
        // The only type that a text may have there.
        Some(text) => ("text", "text/plain", text),
        None => ("base64", content.media_type.as_str(), &content.base64),
    };
    let fields = [("type", kind), ("media_type", media_type), ("data", data)];
    let field = |(name, value): (&str, &str)| (name.to_owned(), JsonTree::Text(value.to_owned()));
    JsonTree::Object(fields.into_iter().map(field).collect())
}

fn each_object(tree: Option<&JsonTree>, seen: &mut impl FnMut(&JsonTree)) {
    match tree {
        Some(JsonTree::Array(items)) => {
            for item in items {
                each_object(Some(item), seen);
            }
        }
        Some(object @ JsonTree::Object(fields)) => {
            seen(object);
            for (_, value) in fields {
                each_object(Some(value), seen);
            }
        }
        Some(JsonTree::Scalar(_) | JsonTree::Text(_)) | None => {}
    }
}

fn each_object_mut(tree: &mut JsonTree, seen: &mut impl FnMut(&mut JsonTree)) {
    if matches!(tree, JsonTree::Object(_)) {
        seen(tree);
    }
    match tree {
        JsonTree::Array(items) => {
            for item in items {
                each_object_mut(item, seen);
            }
        }
        JsonTree::Object(fields) => {
            for (_, value) in fields {
                each_object_mut(value, seen);
            }
        }
        JsonTree::Scalar(_) | JsonTree::Text(_) => {}
    }
}

fn text(tree: &JsonTree) -> Option<&str> {
    match tree {
        JsonTree::Text(text) => Some(text),
        JsonTree::Scalar(_) | JsonTree::Array(_) | JsonTree::Object(_) => None,
    }
}

fn field<'a>(tree: &'a JsonTree, name: &str) -> Option<&'a JsonTree> {
    match tree {
        JsonTree::Object(fields) => {
            let found = fields.iter().find(|(known, _)| known == name);
            found.map(|(_, value)| value)
        }
        JsonTree::Scalar(_) | JsonTree::Text(_) | JsonTree::Array(_) => None,
    }
}

fn field_mut<'a>(tree: &'a mut JsonTree, name: &str) -> Option<&'a mut JsonTree> {
    match tree {
        JsonTree::Object(fields) => {
            let found = fields.iter_mut().find(|(known, _)| known == name);
            found.map(|(_, value)| value)
        }
        JsonTree::Scalar(_) | JsonTree::Text(_) | JsonTree::Array(_) => None,
    }
}

fn set(tree: &mut JsonTree, name: &str, value: JsonTree) {
    if let Some(known) = field_mut(tree, name) {
        *known = value;
    }
}

#[cfg(test)]
mod tests;
