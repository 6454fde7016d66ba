//! Layouts as SQL views: statements by which an application sees the record, or the tools, as its own tables.
//!
//! On SQLite a connection runs them for itself; on PostgreSQL they make a schema, whose views show to each role the rows
//! of one organization.

use tw_core::id::{ApiKeyId, OrgId};
use tw_core::shape::{Shape, TableLayout};

use crate::db_error::DbError;
use crate::session::Engine;
use crate::session::postgres::PostgresServer;

/// The statements that make the views of a layout.
fn statements(layout: TableLayout, engine: Engine) -> &'static str {
    match (layout, engine) {
        (TableLayout::Record(shape), engine) => statements_of_shape(shape, engine),
        (TableLayout::Vapi, Engine::Sqlite) => include_str!("../shapes/sqlite/vapi.sql"),
        (TableLayout::Vapi, Engine::Postgres) => include_str!("../shapes/postgres/vapi.sql"),
    }
}

fn statements_of_shape(shape: Shape, engine: Engine) -> &'static str {
    match (shape, engine) {
        (Shape::OpenAi, Engine::Sqlite) => include_str!("../shapes/sqlite/openai.sql"),
        (Shape::OpenAi, Engine::Postgres) => include_str!("../shapes/postgres/openai.sql"),
        (Shape::LangChain, Engine::Sqlite) => include_str!("../shapes/sqlite/langchain.sql"),
        (Shape::LangChain, Engine::Postgres) => include_str!("../shapes/postgres/langchain.sql"),
        (Shape::Blocks, Engine::Sqlite) => include_str!("../shapes/sqlite/blocks.sql"),
        (Shape::Blocks, Engine::Postgres) => include_str!("../shapes/postgres/blocks.sql"),
        (Shape::PocketBase, Engine::Sqlite) => include_str!("../shapes/sqlite/pocketbase.sql"),
        (Shape::PocketBase, Engine::Postgres) => {
            include_str!("../shapes/postgres/pocketbase.sql")
        }
    }
}

/// What a role is allowed of the views of a layout.
fn grants(layout: TableLayout) -> &'static [&'static str] {
    match layout {
        TableLayout::Record(Shape::OpenAi | Shape::Blocks) => {
            &["SELECT ON conversations, messages"]
        }
        // What else than an insert is tried is refused by a trigger that says where it is done.
        TableLayout::Record(Shape::LangChain) => &[
            "SELECT, INSERT, UPDATE, DELETE ON conversations, messages",
            "SELECT ON queued_messages, whose",
            "INSERT ON inbox",
        ],
        TableLayout::Record(Shape::PocketBase) => &["SELECT ON conversations, turns, tool_calls"],
        TableLayout::Vapi => &["SELECT ON tools"],
    }
}

/// Whose rows the views show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ViewsOf {
    pub organization: OrgId,
    /// The key whose rows are those that are inserted; without it none are.
    pub api_key: Option<ApiKeyId>,
}

const SAID_SQLITE: &str = include_str!("../shapes/sqlite/said.sql");
const SAID_POSTGRES: &str = include_str!("../shapes/postgres/said.sql");

impl ViewsOf {
    fn api_key_literal(&self) -> String {
        let key = self.api_key.map(|key| key.0.to_string());
        key.unwrap_or_else(|| "NULL".to_owned())
    }
}

/// The statements for a connection to a SQLite file. They change nothing of the file, and may be run again.
pub fn sqlite_script(layout: TableLayout, of: &ViewsOf) -> String {
    let rows = [of.organization.0.to_string(), of.api_key_literal()].join(", ");
    [
        "-- Run on each connection: what it makes is seen by that one alone.\n\
         DROP TABLE IF EXISTS temp.whose;\n\
         CREATE TEMP TABLE whose (organization INTEGER NOT NULL, api_key INTEGER);\n\
         INSERT INTO temp.whose VALUES (",
        &rows,
        ");\n\n",
        SAID_SQLITE,
        "\n",
        statements(layout, Engine::Sqlite),
    ]
    .concat()
}

/// A schema with the views of a layout, in a database on a PostgreSQL server.
#[derive(Clone, Copy, Debug)]
pub struct ViewSchema<'a> {
    pub layout: TableLayout,
    pub name: &'a str,
    /// The role that sees the organization's rows; `None` for that of the connection.
    pub role: Option<&'a str>,
    pub of: ViewsOf,
}

const READER: &str = r#"
-- Whose rows a role is shown.
CREATE TABLE IF NOT EXISTS reader (
    role         text   COLLATE "C" PRIMARY KEY,
    organization bigint NOT NULL,
    api_key      bigint
);
"#;

impl ViewSchema<'_> {
    /// The statements that make the schema, or bring it to what this program knows, in one transaction. They are for
    /// whoever owns the record's tables.
    pub fn script(&self) -> String {
        let schema = quoted(self.name, '"');
        let role = self.role.map(|role| quoted(role, '"'));
        let role = role.as_deref().unwrap_or("CURRENT_USER");
        let role_name = self.role.map(|role| quoted(role, '\''));
        let role_name = role_name.as_deref().unwrap_or("current_user");
        let organization = self.of.organization.0.to_string();
        let api_key = self.of.api_key_literal();
        let mut script = [
            "BEGIN;\nCREATE SCHEMA IF NOT EXISTS ",
            &schema,
            ";\nDO $$ BEGIN PERFORM set_config('search_path', ",
            &quoted(&(schema.clone() + ", "), '\''),
            " || current_setting('search_path'), true); END $$;\n",
            READER,
            "INSERT INTO reader VALUES (",
            role_name,
            ", ",
            &organization,
            ", ",
            &api_key,
            ")\nON CONFLICT (role) DO UPDATE\n    SET organization = excluded.organization, api_key = excluded.api_key;\n\n",
            SAID_POSTGRES,
            "\n",
            statements(self.layout, Engine::Postgres),
            "\nGRANT USAGE ON SCHEMA ",
            &schema,
            " TO ",
            role,
            ";\n",
        ]
        .concat();
        for grant in grants(self.layout) {
            script += &["GRANT ", grant, " TO ", role, ";\n"].concat();
        }
        script + "COMMIT;\n"
    }

    /// Makes the schema in the database that `url` names, or brings it to what this program knows; blocks.
    ///
    /// # Errors
    /// The server does not take the connection, or a statement.
    pub fn make(&self, url: &str, tls: Option<rustls::ClientConfig>) -> Result<(), DbError> {
        let connection = PostgresServer::of(url, tls)?.connect()?;
        connection.run_script(&self.script())
    }
}

/// A name or a text as a statement has it, between such marks.
fn quoted(text: &str, mark: char) -> String {
    let mut out = String::from(mark);
    for char in text.chars() {
        out.extend(std::iter::repeat_n(char, if char == mark { 2 } else { 1 }));
    }
    out.push(mark);
    out
}
