//! Databases of other applications, built by their own statements, and all that is in them as text.

use std::path::PathBuf;

use rusqlite::types::ValueRef;
use tempfile::TempDir;
use tokio_postgres::Client;
use tw_testkit::postgres::PostgresSchema;

/// A database of an application.
pub enum ForeignDatabase {
    File { path: PathBuf, _folder: TempDir },
    Server(PostgresSchema),
}

/// What kind of database an application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignEngine {
    Sqlite,
    Postgres,
    /// PostgreSQL, in a database that does not know what the bytes of its texts mean.
    PostgresBytes,
}

impl ForeignDatabase {
    /// A database of which nothing is there; `None` where there is no server.
    pub async fn empty(engine: ForeignEngine) -> Option<Self> {
        match engine {
            ForeignEngine::Sqlite => {
                let folder = TempDir::new().unwrap();
                let path = folder.path().join("app.db");
                let _folder = folder;
                Some(Self::File { path, _folder })
            }
            ForeignEngine::Postgres => PostgresSchema::create().await.map(Self::Server),
            ForeignEngine::PostgresBytes => {
                PostgresSchema::create_of_bytes().await.map(Self::Server)
            }
        }
    }

    /// What a command names it by.
    pub fn word(&self) -> String {
        match self {
            Self::File { path, .. } => path.to_str().unwrap().to_owned(),
            Self::Server(schema) => schema.url.clone(),
        }
    }

    pub async fn run(&self, sql: &str) {
        match self {
            Self::File { path, .. } => {
                let conn = rusqlite::Connection::open(path).unwrap();
                conn.execute_batch(sql).unwrap();
            }
            Self::Server(schema) => {
                schema.client().await.batch_execute(sql).await.unwrap();
            }
        }
    }

    /// All that is in it, each row and each part of its schema as a line, in order.
    pub async fn dump(&self) -> Vec<String> {
        match self {
            Self::File { path, .. } => dump_file(path),
            Self::Server(schema) => dump_server(&schema.client().await).await,
        }
    }
}

fn dump_file(path: &std::path::Path) -> Vec<String> {
    let conn = rusqlite::Connection::open(path).unwrap();
    let version = "SELECT 'user_version ' || user_version FROM pragma_user_version";
    let mut lines = vec![conn.query_row(version, [], |row| row.get(0)).unwrap()];
    let sql = "SELECT name, sql, type FROM sqlite_schema WHERE name NOT LIKE 'sqlite_autoindex%'";
    let mut statement = conn.prepare(sql).unwrap();
    let found = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)));
    let found: Vec<(String, Option<String>, String)> =
        found.unwrap().collect::<Result<_, _>>().unwrap();
    for (name, sql, kind) in found {
        lines.push(format!("{name}: {sql:?}"));
        if kind != "table" {
            continue;
        }
        let mut statement = conn.prepare(&format!("SELECT * FROM \"{name}\"")).unwrap();
        let columns = statement.column_count();
        let mut rows = statement.query([]).unwrap();
        while let Some(row) = rows.next().unwrap() {
            let value = |at| match row.get_ref(at).unwrap() {
                ValueRef::Text(text) => format!("{:?}", text.escape_ascii().to_string()),
                other => format!("{other:?}"),
            };
            let values: Vec<String> = (0..columns).map(value).collect();
            lines.push(format!("{name}: {}", values.join(" | ")));
        }
    }
    lines.sort();
    lines
}

async fn dump_server(client: &Client) -> Vec<String> {
    let sql = "SELECT 'column ' || c.relname || ' ' || a.attname || ' ' || format_type(a.atttypid, a.atttypmod)
            || ' ' || a.attnotnull || coalesce(' ' || pg_get_expr(d.adbin, d.adrelid), '')
        FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0
        LEFT JOIN pg_attrdef d ON d.adrelid = c.oid AND d.adnum = a.attnum
        WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind = 'r'
        UNION ALL
        SELECT 'constraint ' || conrelid::regclass || ' ' || conname || ' ' || pg_get_constraintdef(oid, true)
        FROM pg_constraint WHERE connamespace = current_schema()::regnamespace
        UNION ALL
        SELECT 'index ' || pg_get_indexdef(indexrelid, 0, true)
        FROM pg_index JOIN pg_class c ON c.oid = indexrelid WHERE c.relnamespace = current_schema()::regnamespace";
    let rows = client.query(sql, &[]).await.unwrap();
    let mut lines: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    let tables = "SELECT quote_ident(relname) FROM pg_class
        WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'";
    for table in client.query(tables, &[]).await.unwrap() {
        let table: String = table.get(0);
        let sql = format!("SELECT convert_to(t::text, getdatabaseencoding()) FROM {table} t");
        let rows = client.query(&sql, &[]).await.unwrap();
        let line = |row: &tokio_postgres::Row| {
            let bytes: &[u8] = row.get(0);
            format!("{table} {}", bytes.escape_ascii())
        };
        lines.extend(rows.iter().map(line));
    }
    lines.sort();
    lines
}

/// An application: its tables, and rows for them.
pub struct ForeignApp {
    pub shape: &'static str,
    pub engine: ForeignEngine,
    pub tables: &'static str,
    /// Statements that fill the tables; `{rows}` is how many rows of messages there are to be.
    pub fill: &'static str,
}

impl ForeignApp {
    /// A database of the application with so many rows; `None` where there is no server.
    pub async fn filled(&self, rows: u64) -> Option<ForeignDatabase> {
        let fill = self.fill.replace("{rows}", &rows.to_string());
        self.filled_by(&fill).await
    }

    /// The same with the rows that statements make.
    pub async fn filled_by(&self, statements: &str) -> Option<ForeignDatabase> {
        let database = ForeignDatabase::empty(self.engine).await?;
        database.run(self.tables).await;
        database.run(statements).await;
        Some(database)
    }
}

/// The application of the shape.
pub fn app(shape: &str) -> &'static ForeignApp {
    APPS.iter().find(|app| app.shape == shape).unwrap()
}

pub const APPS: &[ForeignApp] = &[
    // Seed document 001, with the table that it refers to.
    ForeignApp {
        shape: "langchain",
        engine: ForeignEngine::Postgres,
        tables: "
            CREATE TABLE conversations (id UUID PRIMARY KEY, user_id TEXT, title TEXT);
            CREATE TABLE messages (
              id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
              created_at TIMESTAMP WITH TIME ZONE DEFAULT TIMEZONE('utc', NOW()) NOT NULL,
              conversation_id UUID NOT NULL REFERENCES conversations(id) ON DELETE CASCADE,
              content TEXT NOT NULL,
              role TEXT NOT NULL CHECK (role IN ('user', 'assistant', 'tool')),
              tool_calls JSONB DEFAULT NULL,
              tool_call_id TEXT DEFAULT NULL,
              tool_name TEXT DEFAULT NULL,
              status TEXT DEFAULT NULL CHECK (status IS NULL OR status IN ('pending', 'success', 'error')),
              metadata JSONB DEFAULT '{}'::jsonb
            );
            CREATE INDEX idx_messages_tool_call_id ON messages(tool_call_id) WHERE tool_call_id IS NOT NULL;",
        fill: r#"
            INSERT INTO conversations SELECT md5('c' || n)::uuid, 'user ' || n % 7, 'title ' || n
            FROM generate_series(0, {rows} / 10) n;
            INSERT INTO messages
            SELECT md5('m' || n)::uuid, to_timestamp(1700000000 + n * 0.001), md5('c' || n / 10)::uuid, 'text ' || n,
                CASE n % 5 WHEN 0 THEN 'user' WHEN 1 THEN 'assistant' WHEN 4 THEN 'assistant' ELSE 'tool' END,
                CASE n % 5 WHEN 1 THEN jsonb_build_array(
                    jsonb_build_object('id', 'call_' || n + 1, 'name', 'list', 'args', jsonb_build_object('n', n)),
                    jsonb_build_object('id', 'call_' || n + 2, 'name', 'list', 'args', '{}'::jsonb)) END,
                CASE WHEN n % 5 IN (2, 3) THEN 'call_' || n END, CASE WHEN n % 5 IN (2, 3) THEN 'list' END,
                CASE n % 5 WHEN 2 THEN 'success' WHEN 3 THEN 'error' END, '{"k": [1.50, null]}'
            FROM generate_series(0, {rows} - 1) n;"#,
    },
    // Seed document 002.
    ForeignApp {
        shape: "blocks",
        engine: ForeignEngine::Postgres,
        tables: "
            CREATE TABLE conversations (
              id UUID PRIMARY KEY, user_id UUID, created_at TIMESTAMP, updated_at TIMESTAMP
            );
            CREATE TABLE messages (
              id UUID PRIMARY KEY,
              conversation_id UUID NOT NULL REFERENCES conversations(id),
              role VARCHAR(20) NOT NULL,
              content JSONB NOT NULL,
              created_at TIMESTAMP NOT NULL DEFAULT now()
            );",
        fill: r#"
            INSERT INTO conversations SELECT md5('c' || n)::uuid, md5('u' || n % 7)::uuid, '2025-12-31 12:00:00', NULL
            FROM generate_series(0, {rows} / 10) n;
            INSERT INTO messages
            SELECT md5('m' || n)::uuid, md5('c' || n / 10)::uuid, CASE n % 2 WHEN 0 THEN 'user' ELSE 'assistant' END,
                CASE n % 2 WHEN 0 THEN jsonb_build_array(jsonb_build_object('type', 'text', 'text', 'songs ' || n))
                ELSE jsonb_build_array(
                    jsonb_build_object('type', 'text', 'text', 'Let me search'),
                    jsonb_build_object('type', 'tool_use', 'id', 'tc_' || n, 'name', 'semanticSearch',
                        'input', jsonb_build_object('query', 'songs', 'limit', 10)),
                    jsonb_build_object('type', 'tool_result', 'tool_use_id', 'tc_' || n,
                        'content', jsonb_build_object('tracks', '[]'::jsonb, 'durationMs', n)),
                    jsonb_build_object('type', 'text', 'text', 'I found none.')) END,
                timestamp '2025-12-31 12:00:00' + n * interval '1 millisecond'
            FROM generate_series(0, {rows} - 1) n;"#,
    },
    // Seed document 003, with a table of its users.
    ForeignApp {
        shape: "openai",
        engine: ForeignEngine::Sqlite,
        tables: "
            PRAGMA user_version = 7;
            CREATE TABLE users (id TEXT PRIMARY KEY, password_hash TEXT);
            CREATE TABLE conversations (
              id TEXT PRIMARY KEY, user_id TEXT, title TEXT, metadata TEXT DEFAULT '{}',
              created_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL
            );
            CREATE TABLE messages (
              id INTEGER PRIMARY KEY AUTOINCREMENT,
              conversation_id TEXT NOT NULL,
              role TEXT NOT NULL,
              status TEXT NOT NULL DEFAULT 'final',
              content TEXT NOT NULL DEFAULT '',
              content_json TEXT NULL,
              seq INTEGER NOT NULL,
              tool_calls TEXT NULL,
              function_call TEXT NULL,
              tool_call_id TEXT NULL,
              created_at DATETIME DEFAULT CURRENT_TIMESTAMP NOT NULL,
              UNIQUE (conversation_id, seq),
              FOREIGN KEY (conversation_id) REFERENCES conversations(id) ON DELETE CASCADE
            );
            CREATE INDEX idx_messages_conversation ON messages(conversation_id, id);
            CREATE TRIGGER touched AFTER UPDATE ON messages BEGIN SELECT 1; END;",
        fill: r#"
            INSERT INTO users VALUES ('u0', '$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy');
            WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {rows} / 10)
            INSERT INTO conversations (id, user_id, title) SELECT 'conv-' || n, 'u' || (n % 7), 'title' FROM s;
            WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {rows} - 1)
            INSERT INTO messages (conversation_id, role, content, content_json, seq, tool_calls, tool_call_id, created_at)
            SELECT 'conv-' || (n / 10),
                CASE n % 5 WHEN 0 THEN 'user' WHEN 1 THEN 'assistant' WHEN 4 THEN 'assistant' ELSE 'tool' END,
                CASE n % 5 WHEN 1 THEN '' WHEN 3 THEN '' ELSE 'text ' || n END,
                CASE n % 5 WHEN 3 THEN '{"tempC":22,"n":9007199254740993}' END, n % 10,
                CASE n % 5 WHEN 1 THEN '[{"id":"call_' || (n + 1) || '","type":"function","function":{"name":"get_weather","arguments":"{\"city\":\"Oslo\"}"}},'
                    || '{"id":"call_' || (n + 2) || '","type":"function","function":{"name":"get_weather","arguments":"{}"}}]' END,
                CASE WHEN n % 5 IN (2, 3) THEN 'call_' || n END,
                strftime('%Y-%m-%d %H:%M:%S', 1700000000 + n, 'unixepoch')
            FROM s;"#,
    },
    // Seed document 000, as PocketBase makes tables.
    ForeignApp {
        shape: "pocketbase",
        engine: ForeignEngine::Sqlite,
        tables: "
            CREATE TABLE `_collections` (`id` TEXT PRIMARY KEY NOT NULL, `name` TEXT UNIQUE NOT NULL, `fields` JSON DEFAULT '[]' NOT NULL);
            CREATE TABLE `users` (`id` TEXT PRIMARY KEY DEFAULT ('r'||lower(hex(randomblob(7)))) NOT NULL,
              `email` TEXT DEFAULT '' NOT NULL, `password` TEXT DEFAULT '' NOT NULL, `tokenKey` TEXT DEFAULT '' NOT NULL,
              `verified` BOOLEAN DEFAULT FALSE NOT NULL);
            CREATE TABLE `conversations` (`id` TEXT PRIMARY KEY DEFAULT ('r'||lower(hex(randomblob(7)))) NOT NULL,
              `user` TEXT DEFAULT '' NOT NULL, `title` TEXT DEFAULT '' NOT NULL, `meta` JSON DEFAULT NULL, `created` TEXT DEFAULT '' NOT NULL);
            CREATE TABLE `turns` (`id` TEXT PRIMARY KEY DEFAULT ('r'||lower(hex(randomblob(7)))) NOT NULL,
              `conversation` TEXT DEFAULT '' NOT NULL, `role` TEXT DEFAULT '' NOT NULL, `content` TEXT DEFAULT '' NOT NULL,
              `has_tool_calls` BOOLEAN DEFAULT FALSE NOT NULL, `tool_count` NUMERIC DEFAULT 0 NOT NULL, `created` TEXT DEFAULT '' NOT NULL);
            CREATE TABLE `tool_calls` (`id` TEXT PRIMARY KEY DEFAULT ('r'||lower(hex(randomblob(7)))) NOT NULL,
              `turn` TEXT DEFAULT '' NOT NULL, `tool_name` TEXT DEFAULT '' NOT NULL, `tool_call_id` TEXT DEFAULT '' NOT NULL,
              `arguments` JSON DEFAULT NULL, `result` JSON DEFAULT NULL, `status` TEXT DEFAULT '' NOT NULL,
              `error` TEXT DEFAULT '' NOT NULL, `external_id` TEXT DEFAULT '' NOT NULL, `metadata` JSON DEFAULT NULL,
              `created` TEXT DEFAULT '' NOT NULL);
            CREATE INDEX `idx_tool_calls_turn` ON `tool_calls` (`turn`);
            CREATE INDEX `idx_tool_calls_status` ON `tool_calls` (`status`);",
        fill: r#"
            INSERT INTO _collections VALUES ('pbc_1', 'turns', '[{"name":"role"}]');
            WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < 6)
            INSERT INTO users SELECT printf('user%011d', n), 'u' || n || '@example.com',
                '$2a$10$N9qo8uLOickgx2ZMRZoMyeIjZAgcfl7p92ldGxad68LJZdL17lhWy', 'key', 1 FROM s;
            WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {rows} / 10)
            INSERT INTO conversations SELECT printf('conv%011d', n), printf('user%011d', n % 7), 'title', '{"n":1.0}', '2025-01-01 00:00:00.000Z' FROM s;
            WITH RECURSIVE s(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM s WHERE n < {rows} - 1)
            INSERT INTO turns SELECT printf('turn%011d', n), printf('conv%011d', n / 10), CASE n % 2 WHEN 0 THEN 'user' ELSE 'assistant' END,
                'text ' || n, n % 2, n % 2, printf('2025-01-01 00:00:%06.3fZ', n % 10) FROM s;
            INSERT INTO tool_calls SELECT 'call' || substr(id, 5), id, 'generate_image', 'call_' || id, '{"prompt":"A beautiful sunset"}',
                '{"imageUrls":["https://example.com/image.jpg"],"costTime":8}', 'completed', '', 'task_' || id, '{"cost":100}', created
            FROM turns WHERE has_tool_calls;"#,
    },
    // Seed document 004, with the tables that it refers to.
    ForeignApp {
        shape: "vapi",
        engine: ForeignEngine::Postgres,
        tables: "
            CREATE TABLE organisations (id UUID PRIMARY KEY DEFAULT gen_random_uuid(), slug TEXT UNIQUE NOT NULL);
            CREATE TABLE agents (
              id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
              organization_id UUID NOT NULL REFERENCES organisations(id) ON DELETE CASCADE,
              name TEXT NOT NULL, vapi_assistant_id TEXT, config JSONB
            );
            CREATE TABLE tools (
              id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
              name TEXT NOT NULL,
              label TEXT NOT NULL,
              description TEXT,
              organization_id UUID NOT NULL REFERENCES organisations(id) ON DELETE CASCADE,
              external_tool_id TEXT UNIQUE,
              type TEXT NOT NULL CHECK (type IN ('query', 'sms', 'apiRequest', 'transferCall', 'externalApp', 'pipedream_action', 'transfer_call')),
              function_schema JSONB NOT NULL,
              static_config JSONB,
              config_metadata JSONB,
              async BOOLEAN DEFAULT false,
              execute_on_call_start BOOLEAN DEFAULT false,
              attach_to_agent BOOLEAN DEFAULT true,
              data JSONB NOT NULL,
              created_at TIMESTAMP WITH TIME ZONE DEFAULT NOW(),
              updated_at TIMESTAMP WITH TIME ZONE DEFAULT NOW()
            );
            CREATE INDEX idx_tools_organization_id ON tools(organization_id);
            CREATE INDEX idx_tools_external_tool_id ON tools(external_tool_id);
            CREATE INDEX idx_tools_type ON tools(type);
            CREATE TABLE agent_tools (
              id UUID PRIMARY KEY DEFAULT gen_random_uuid(),
              agent_id UUID NOT NULL REFERENCES agents(id) ON DELETE CASCADE,
              tool_id UUID NOT NULL REFERENCES tools(id) ON DELETE CASCADE,
              is_vapi_attached BOOLEAN NOT NULL DEFAULT true,
              created_at TIMESTAMP WITH TIME ZONE DEFAULT NOW(),
              updated_at TIMESTAMP WITH TIME ZONE DEFAULT NOW(),
              UNIQUE (agent_id, tool_id)
            );",
        fill: r#"
            INSERT INTO organisations SELECT md5('o' || n)::uuid, 'org-' || n FROM generate_series(0, 6) n;
            INSERT INTO agents SELECT md5('a' || n)::uuid, md5('o' || n % 7)::uuid, 'Agent ' || n, 'assistant-' || n, '{"n": 1.50}'
            FROM generate_series(0, {rows} / 20) n;
            INSERT INTO tools
            SELECT md5('t' || n)::uuid, 'tool_' || n, 'Tool ' || n, CASE n % 3 WHEN 0 THEN 'Does it.' END, md5('o' || n % 7)::uuid,
                CASE WHEN n % 4 < 3 THEN 'vapi-' || n END, (ARRAY['sms', 'query', 'pipedream_action', 'apiRequest'])[n % 4 + 1],
                jsonb_build_object('name', 'tool_' || n, 'description', 'Number ' || n, 'parameters', jsonb_build_object('type', 'object',
                    'properties', jsonb_build_object('message', '{"type": "string"}'::jsonb), 'required', '["message"]'::jsonb)),
                CASE n % 2 WHEN 0 THEN '{"from": {"type": "called_number"}}'::jsonb END, '{"type": "sms", "params": {}}',
                false, n % 4 = 3, n % 4 < 3,
                CASE WHEN n % 4 < 3 THEN jsonb_build_object('id', 'vapi-' || n, 'type', 'apiRequest', 'name', 'tool_' || n, 'method', 'POST',
                    'url', 'https://app.example/api/tools/' || n || '/execute') ELSE '{}' END,
                to_timestamp(1700000000 + n * 0.001), to_timestamp(1700000000 + n)
            FROM generate_series(0, {rows} / 10) n;
            INSERT INTO agent_tools
            SELECT md5('at' || n)::uuid, md5('a' || n / 20)::uuid, md5('t' || (n + n / 20) % ({rows} / 10 + 1))::uuid, n % 4 < 3, now(), now()
            FROM generate_series(0, {rows} - 1) n;"#,
    },
];
