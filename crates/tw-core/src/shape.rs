//! Layouts in which applications keep conversations.

/// A layout, after the applications that have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    OpenAi,
    LangChain,
    Blocks,
    PocketBase,
}

impl Shape {
    pub const ALL: [Self; 4] = [
        Self::OpenAi,
        Self::LangChain,
        Self::Blocks,
        Self::PocketBase,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::LangChain => "langchain",
            Self::Blocks => "blocks",
            Self::PocketBase => "pocketbase",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|shape| shape.as_str() == word)
    }

    /// Whether its rows hold results whole, and not as the model was given them.
    pub fn shows_whole_results(self) -> bool {
        match self {
            Self::OpenAi | Self::LangChain => false,
            Self::Blocks | Self::PocketBase => true,
        }
    }
}

/// A layout of another application's tables, for those that come in, go back, or are shown by SQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableLayout {
    /// Conversations in a shape.
    Record(Shape),
    /// Tools, and the agents that have them, of an application whose calls VAPI makes.
    Vapi,
}

impl TableLayout {
    pub const ALL: [Self; 5] = [
        Self::Record(Shape::OpenAi),
        Self::Record(Shape::LangChain),
        Self::Record(Shape::Blocks),
        Self::Record(Shape::PocketBase),
        Self::Vapi,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Record(shape) => shape.as_str(),
            Self::Vapi => "vapi",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|layout| layout.as_str() == word)
    }
}
