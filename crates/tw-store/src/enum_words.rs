//! The words of columns whose values the core does not name itself.

use tw_core::change::AttemptOutcome;
use tw_core::request::Role;
use tw_core::tenant::{KeyMemory, KeyScope};
use tw_core::turn_policy::{OnLeave, RecordPolicy, Surface};

pub fn surface(surface: Surface) -> &'static str {
    match surface {
        Surface::ChatCompletions => "chat_completions",
        Surface::Messages => "messages",
        Surface::Responses => "responses",
    }
}

pub fn read_surface(word: &str) -> Option<Surface> {
    match word {
        "chat_completions" => Some(Surface::ChatCompletions),
        "messages" => Some(Surface::Messages),
        "responses" => Some(Surface::Responses),
        _ => None,
    }
}

pub fn on_leave(on_leave: OnLeave) -> &'static str {
    match on_leave {
        OnLeave::Stop => "stop",
        OnLeave::Finish => "finish",
    }
}

pub fn read_on_leave(word: &str) -> Option<OnLeave> {
    match word {
        "stop" => Some(OnLeave::Stop),
        "finish" => Some(OnLeave::Finish),
        _ => None,
    }
}

pub fn record(record: RecordPolicy) -> &'static str {
    match record {
        RecordPolicy::Full => "full",
        RecordPolicy::Minimal => "minimal",
    }
}

pub fn read_record(word: &str) -> Option<RecordPolicy> {
    match word {
        "full" => Some(RecordPolicy::Full),
        "minimal" => Some(RecordPolicy::Minimal),
        _ => None,
    }
}

pub fn memory(memory: KeyMemory) -> &'static str {
    match memory {
        KeyMemory::Off => "off",
        KeyMemory::Key => "key",
    }
}

pub fn read_memory(word: &str) -> Option<KeyMemory> {
    match word {
        "off" => Some(KeyMemory::Off),
        "key" => Some(KeyMemory::Key),
        _ => None,
    }
}

pub fn role(role: Role) -> &'static str {
    match role {
        Role::System => "system",
        Role::Developer => "developer",
        Role::User => "user",
        Role::Assistant => "assistant",
        Role::Tool => "tool",
    }
}

pub fn read_role(word: &str) -> Option<Role> {
    [
        Role::System,
        Role::Developer,
        Role::User,
        Role::Assistant,
        Role::Tool,
    ]
    .into_iter()
    .find(|known| role(*known) == word)
}

pub fn scopes(scopes: &[KeyScope]) -> String {
    let words: Vec<&str> = scopes.iter().map(|scope| scope.as_str()).collect();
    words.join(" ")
}

pub fn read_scopes(text: &str) -> Option<Vec<KeyScope>> {
    text.split_whitespace().map(KeyScope::parse).collect()
}

/// The outcome for a stored word; words that are none of ours are the log's own.
pub fn read_outcome(word: String) -> AttemptOutcome {
    match word.as_str() {
        "ok" => AttemptOutcome::Ok,
        "cancelled" => AttemptOutcome::Cancelled,
        "interrupted" => AttemptOutcome::Interrupted,
        _ => AttemptOutcome::Failed(word),
    }
}
