//! The routes, all of them, each with what it takes and gives.
//!
//! See [`crate::openapi`] for how one is added.

use axum::routing;

use crate::openapi::{
    BINARY, DocumentedRouter, EVENTS, JSON, QueryParameter, TEXT, delete, get, patch, post,
};
use crate::relay::{self, RELAYED_ROUTES, RelayedRoute};
use crate::{
    calls, chat, compact, conversations, events, files, health, hooks, keys, messages, metrics,
    models, open_calls, responses, socket, tools, turns, usage, users, webhooks,
};

pub(crate) fn all() -> DocumentedRouter {
    let router = of_surroundings(DocumentedRouter::new());
    let router = of_models(router);
    let router = of_turns(router);
    let router = of_conversations(router);
    let router = of_tools(router);
    let router = of_keys(router);
    of_usage(of_open_calls(of_files(of_hooks(of_webhooks(router)))))
}

const FORM: &str = "multipart/form-data";

const fn query(name: &'static str, kind: &'static str, about: &'static str) -> QueryParameter {
    QueryParameter { name, kind, about }
}

fn of_surroundings(router: DocumentedRouter) -> DocumentedRouter {
    let alive = get("getHealth", "Whether the process lives")
        .without_key()
        .gives(&[(JSON, "Health")]);
    let ready = get("getReadiness", "Whether it can do its work")
        .without_key()
        .gives(&[(JSON, "Health")]);
    let measured = get("getMetrics", "What the server counts")
        .scope("admin")
        .gives(&[("text/plain", TEXT), ("application/openmetrics-text", TEXT)]);
    router
        .route("/healthz", routing::get(health::alive), &[alive])
        .route("/readyz", routing::get(health::ready), &[ready])
        .route("/metrics", routing::get(metrics::for_admins), &[measured])
}

const AFTER_MODEL: QueryParameter = query(
    "after_id",
    "string",
    "with anthropic-version: the id that the page follows",
);
const BEFORE_MODEL: QueryParameter = query(
    "before_id",
    "string",
    "with anthropic-version: the id that the page is before",
);

fn of_models(mut router: DocumentedRouter) -> DocumentedRouter {
    let completes = post("createChatCompletion", "Answers a conversation, with tools")
        .scope("chat")
        .takes(&[(JSON, "ChatCompletionRequest")])
        .gives(&[(JSON, "ChatCompletion"), (EVENTS, TEXT)]);
    let says = post(
        "createMessage",
        "Answers a conversation, with tools, in Anthropic's format",
    )
    .scope("chat")
    .takes(&[(JSON, "MessagesRequest")])
    .gives(&[(JSON, "Message"), (EVENTS, TEXT)]);
    let responds = post(
        "createResponse",
        "Answers a conversation, with tools, as a response",
    )
    .scope("chat")
    .takes(&[(JSON, "ResponsesRequest")])
    .gives(&[(JSON, "Response"), (EVENTS, TEXT)]);
    let connects = get(
        "connectResponses",
        "Opens a WebSocket, over which responses come one after the other",
    )
    .scope("chat")
    .status(101);
    let counts_message = post(
        "countMessageTokens",
        "Counts the tokens of a conversation, with the tools that it is offered",
    )
    .scope("chat")
    .takes(&[(JSON, "MessagesCountRequest")])
    .gives(&[(JSON, "MessageTokens")]);
    let counts_response = post(
        "countResponseTokens",
        "Counts the tokens of a response's input, with the tools that it is offered",
    )
    .scope("chat")
    .takes(&[(JSON, "ResponsesRequest")])
    .gives(&[(JSON, "ResponseTokens")]);
    let compacts = post(
        "compactResponse",
        "Makes a conversation smaller, as one sealed item",
    )
    .scope("chat")
    .takes(&[(JSON, "ResponsesRequest")])
    .gives(&[(JSON, "CompactedResponse")]);
    router = of_responses(router);
    let lists = get("listModels", "The models of all upstreams")
        .scope("chat")
        .query(&[LIMIT, AFTER_MODEL, BEFORE_MODEL])
        .gives(&[(JSON, "ModelList")]);
    let shows = get("getModel", "One of them")
        .scope("chat")
        .gives(&[(JSON, "Model")]);
    for route in &RELAYED_ROUTES {
        let create = move |surfaces, id, request| relay::create(route, surfaces, id, request);
        router = router.route(route.route, routing::post(create), &[relays(route)]);
    }
    router
        .route(
            "/v1/chat/completions",
            routing::post(chat::create),
            &[completes],
        )
        .route("/v1/messages", routing::post(messages::create), &[says])
        .route(
            messages::COUNT_ROUTE,
            routing::post(messages::count_tokens),
            &[counts_message],
        )
        .route(
            responses::COUNT_ROUTE,
            routing::post(responses::input_tokens),
            &[counts_response],
        )
        .route(
            "/v1/responses/compact",
            routing::post(compact::create),
            &[compacts],
        )
        .route(
            "/v1/responses",
            routing::post(responses::create).get(socket::connect),
            &[responds, connects],
        )
        .route("/v1/models", routing::get(models::list), &[lists])
        .route("/v1/models/{*id}", routing::get(models::show), &[shows])
}

fn of_responses(router: DocumentedRouter) -> DocumentedRouter {
    const STREAM: QueryParameter = query("stream", "boolean", "true: as its events");
    const STARTING_AFTER: QueryParameter = query(
        "starting_after",
        "integer",
        "the sequence_number of the last event that was seen",
    );
    const ORDER: QueryParameter = query("order", "string", "asc or desc");
    let shows = get("getResponse", "A response as it is now, or its events")
        .query(&[STREAM, STARTING_AFTER])
        .gives(&[(JSON, "Response"), (EVENTS, TEXT)]);
    let deletes = delete("deleteResponse", "Deletes a response")
        .scope("chat")
        .gives(&[(JSON, "ResponseDeleted")]);
    let cancels = post(
        "cancelResponse",
        "Stops a response in the background, and waits for its end",
    )
    .scope("chat")
    .gives(&[(JSON, "Response")]);
    let lists = get("listInputItems", "The items of a response's request")
        .query(&[LIMIT, AFTER_ID, ORDER])
        .gives(&[(JSON, "ItemList")]);
    router
        .route(
            "/v1/responses/{id}",
            routing::get(responses::show::show).delete(responses::delete::delete),
            &[shows, deletes],
        )
        .route(
            "/v1/responses/{id}/cancel",
            routing::post(responses::cancel::cancel),
            &[cancels],
        )
        .route(
            "/v1/responses/{id}/input_items",
            routing::get(responses::input_items::list),
            &[lists],
        )
}

fn relays(route: &RelayedRoute) -> crate::openapi::Operation {
    let answers = post(route.id, "Passed on to the upstream that serves the model")
        .scope("chat")
        .takes(&[(JSON, "RelayedJson"), (FORM, "RelayedForm")]);
    if route.gives_sound {
        return answers.gives(&[("audio/*", BINARY), (EVENTS, TEXT)]);
    }
    answers.gives(&[(JSON, "RelayedAnswer"), (EVENTS, TEXT)])
}

fn of_turns(router: DocumentedRouter) -> DocumentedRouter {
    const FULL: QueryParameter = query("full", "string", "1: results whole, too");
    const FORMAT: QueryParameter = query("format", "string", "chat: as chunks of a completion");
    const AFTER: QueryParameter =
        query("after", "string", "the id of the last event that was seen");
    let shows = get("getTurn", "The record of a turn")
        .query(&[FULL])
        .gives(&[(JSON, "Turn")]);
    let cancels = post("cancelTurn", "Stops a turn, and waits for its end")
        .scope("chat")
        .gives(&[(JSON, "Turn")]);
    let follows = get("followTurn", "The log of a turn, live and afterwards")
        .query(&[AFTER, FORMAT])
        .gives(&[(EVENTS, TEXT)]);
    router
        .route("/v1/turns/{id}", routing::get(turns::show), &[shows])
        .route(
            "/v1/turns/{id}/cancel",
            routing::post(turns::cancel),
            &[cancels],
        )
        .route(
            "/v1/turns/{id}/events",
            routing::get(events::follow),
            &[follows],
        )
}

const LIMIT: QueryParameter = query("limit", "integer", "how many at most");
const AFTER_ID: QueryParameter = query("after", "string", "the id that the page follows");

fn of_conversations(router: DocumentedRouter) -> DocumentedRouter {
    const ORDER: QueryParameter = query("order", "string", "asc or desc");
    let lists = get("listConversations", "Conversations, newest first")
        .query(&[LIMIT, AFTER_ID])
        .gives(&[(JSON, "ConversationList")]);
    let shows = get("getConversation", "One conversation").gives(&[(JSON, "Conversation")]);
    let deletes = delete(
        "deleteConversation",
        "Deletes a conversation and what was said in it",
    )
    .scope("chat")
    .gives(&[(JSON, "ConversationDeleted")]);
    let turns = get("listConversationTurns", "The turns of a conversation")
        .query(&[LIMIT, AFTER_ID, ORDER])
        .gives(&[(JSON, "TurnList")]);
    let creates = post("createConversation", "Makes a conversation")
        .scope("chat")
        .takes(&[(JSON, "ConversationRequest")])
        .gives(&[(JSON, "Conversation")]);
    let changes = post("changeConversation", "Gives a conversation other metadata")
        .scope("chat")
        .takes(&[(JSON, "ConversationChange")])
        .gives(&[(JSON, "Conversation")]);
    of_shapes(of_items(router))
        .route(
            "/v1/conversations",
            routing::get(conversations::list).post(conversations::create),
            &[lists, creates],
        )
        .route(
            "/v1/conversations/{id}",
            routing::get(conversations::show)
                .post(conversations::change)
                .delete(conversations::delete),
            &[shows, changes, deletes],
        )
        .route(
            "/v1/conversations/{id}/turns",
            routing::get(conversations::turns),
            &[turns],
        )
}

fn of_shapes(router: DocumentedRouter) -> DocumentedRouter {
    const SHAPE: QueryParameter =
        query("shape", "string", "openai, langchain, blocks or pocketbase");
    const ORDER: QueryParameter = query("order", "string", "asc or desc");
    const TOOL_CALL_ID: QueryParameter = query("tool_call_id", "string", "the id of a call");
    const STATUS: QueryParameter = query("status", "string", "failed: calls that failed");
    let lists = get(
        "listConversationMessages",
        "What was said in a conversation, as rows of a shape",
    )
    .query(&[SHAPE, LIMIT, AFTER_ID, ORDER])
    .gives(&[(JSON, "MessageRowList")]);
    let appends = post(
        "appendConversationRows",
        "Appends rows of a shape to a conversation",
    )
    .scope("chat")
    .query(&[SHAPE])
    .takes(&[(JSON, "MessageRowsRequest")])
    .gives(&[(JSON, "MessageRowList")]);
    let finds = get(
        "findCalls",
        "Calls by their id, or those that failed, newest first",
    )
    .query(&[TOOL_CALL_ID, STATUS, LIMIT, AFTER_ID])
    .gives(&[(JSON, "CallList")]);
    router
        .route(
            "/v1/conversations/{id}/messages",
            routing::get(conversations::shaped::list),
            &[lists],
        )
        .route(
            "/v1/conversations/{id}/rows",
            routing::post(conversations::shaped::append),
            &[appends],
        )
        .route("/v1/calls", routing::get(calls::list), &[finds])
}

fn of_items(router: DocumentedRouter) -> DocumentedRouter {
    const ORDER: QueryParameter = query("order", "string", "asc or desc");
    const INCLUDE: QueryParameter = query(
        "include",
        "string",
        "what items leave out unless it is asked for",
    );
    let lists = get("listConversationItems", "The items of a conversation")
        .query(&[LIMIT, AFTER_ID, ORDER, INCLUDE])
        .gives(&[(JSON, "ItemList")]);
    let adds = post("createConversationItems", "Adds items to a conversation")
        .scope("chat")
        .query(&[INCLUDE])
        .takes(&[(JSON, "ItemsRequest")])
        .gives(&[(JSON, "ItemList")]);
    let shows = get("getConversationItem", "One item")
        .query(&[INCLUDE])
        .gives(&[(JSON, "Item")]);
    let deletes = delete(
        "deleteConversationItem",
        "Takes an item out of its conversation",
    )
    .scope("chat")
    .gives(&[(JSON, "Conversation")]);
    router
        .route(
            "/v1/conversations/{id}/items",
            routing::get(conversations::items::list).post(conversations::items::create),
            &[lists, adds],
        )
        .route(
            "/v1/conversations/{id}/items/{item}",
            routing::get(conversations::items::show).delete(conversations::items::delete),
            &[shows, deletes],
        )
}

fn of_tools(router: DocumentedRouter) -> DocumentedRouter {
    const VERSION: QueryParameter = query("version", "integer", "an earlier version");
    let lists = get("listTools", "The tools of an organization, by name")
        .scope("tools:read")
        .query(&[LIMIT, AFTER_ID])
        .gives(&[(JSON, "ToolList")]);
    let creates = post("createTool", "Makes a tool")
        .scope("tools:write")
        .takes(&[(JSON, "ToolDefinition")])
        .status(201)
        .gives(&[(JSON, "Tool")]);
    let previews = post("previewTool", "What a definition would send")
        .scope("tools:write")
        .takes(&[(JSON, "ToolPreviewRequest")])
        .gives(&[(JSON, "ToolPreview")]);
    let shows = get("getTool", "One tool")
        .scope("tools:read")
        .query(&[VERSION])
        .gives(&[(JSON, "Tool")]);
    let changes = patch("changeTool", "A new version of a tool, by a merge patch")
        .scope("tools:write")
        .takes(&[(JSON, "ToolPatch")])
        .gives(&[(JSON, "Tool")]);
    let deletes = delete("deleteTool", "Takes a tool away")
        .scope("tools:write")
        .gives(&[(JSON, "ToolDeleted")]);
    let tests = post("testTool", "What a tool would send, or does send and get")
        .scope("tools:write")
        .takes(&[(JSON, "ToolTestRequest")])
        .gives(&[(JSON, "ToolTest")]);
    router
        .route(
            "/api/{slug}/tools",
            routing::get(tools::list).post(tools::create),
            &[lists, creates],
        )
        .route(
            "/api/{slug}/tools/preview",
            routing::post(tools::preview),
            &[previews],
        )
        .route(
            "/api/{slug}/tools/{id}",
            routing::get(tools::show)
                .patch(tools::change)
                .delete(tools::delete),
            &[shows, changes, deletes],
        )
        .route(
            "/api/{slug}/tools/{id}/test",
            routing::post(tools::test),
            &[tests],
        )
}

fn of_keys(router: DocumentedRouter) -> DocumentedRouter {
    let lists = get(
        "listApiKeys",
        "The keys of an organization, in the order in which they were made",
    )
    .scope("admin")
    .query(&[LIMIT, AFTER_ID])
    .gives(&[(JSON, "ApiKeyList")]);
    let creates = post("createApiKey", "Makes a key, which is told once")
        .scope("admin")
        .takes(&[(JSON, "ApiKeyRequest")])
        .status(201)
        .gives(&[(JSON, "ApiKeyMade")]);
    let shows = get("getApiKey", "One key")
        .scope("admin")
        .gives(&[(JSON, "ApiKey")]);
    let changes = patch(
        "changeApiKey",
        "Changes the name, tools and limits of a key",
    )
    .scope("admin")
    .takes(&[(JSON, "ApiKeyPatch")])
    .gives(&[(JSON, "ApiKey")]);
    let ends = delete("endApiKey", "Ends a key")
        .scope("admin")
        .gives(&[(JSON, "ApiKeyEnded")]);
    router
        .route(
            "/api/{slug}/keys",
            routing::get(keys::list).post(keys::create),
            &[lists, creates],
        )
        .route(
            "/api/{slug}/keys/{id}",
            routing::get(keys::show)
                .patch(keys::change)
                .delete(keys::end),
            &[shows, changes, ends],
        )
}

fn of_webhooks(router: DocumentedRouter) -> DocumentedRouter {
    const READ: &str = "webhooks:read";
    const WRITE: &str = "webhooks:write";
    let lists = get(
        "listWebhooks",
        "The webhooks of an organization, oldest first",
    )
    .scope(READ)
    .gives(&[(JSON, "WebhookList")]);
    let creates = post(
        "createWebhook",
        "Makes a webhook, whose secret is told once",
    )
    .scope(WRITE)
    .takes(&[(JSON, "WebhookRequest")])
    .status(201)
    .gives(&[(JSON, "WebhookMade")]);
    let shows = get("getWebhook", "One webhook")
        .scope(READ)
        .gives(&[(JSON, "Webhook")]);
    let changes = patch("changeWebhook", "Changes, enables or disables a webhook")
        .scope(WRITE)
        .takes(&[(JSON, "WebhookPatch")])
        .gives(&[(JSON, "Webhook")]);
    let deletes = delete("deleteWebhook", "Takes a webhook away")
        .scope(WRITE)
        .gives(&[(JSON, "WebhookDeleted")]);
    let rotates = post("rotateWebhookSecret", "Gives a webhook a new secret")
        .scope(WRITE)
        .takes(&[(JSON, "WebhookRotation")])
        .gives(&[(JSON, "WebhookMade")]);
    let tests = post("testWebhook", "Sends a test event")
        .scope(WRITE)
        .status(202)
        .gives(&[(JSON, "WebhookDelivery")]);
    let router = router
        .route(
            "/api/{slug}/webhooks",
            routing::get(webhooks::list).post(webhooks::create),
            &[lists, creates],
        )
        .route(
            "/api/{slug}/webhooks/{id}",
            routing::get(webhooks::show)
                .patch(webhooks::change)
                .delete(webhooks::delete),
            &[shows, changes, deletes],
        )
        .route(
            "/api/{slug}/webhooks/{id}/rotate",
            routing::post(webhooks::rotate),
            &[rotates],
        )
        .route(
            "/api/{slug}/webhooks/{id}/test",
            routing::post(webhooks::test),
            &[tests],
        );
    of_deliveries(router)
}

fn of_deliveries(router: DocumentedRouter) -> DocumentedRouter {
    const STATE: QueryParameter = query("state", "string", "pending, delivered or dead");
    const EVENT: QueryParameter = query("event", "string", "a kind of event");
    let lists = get("listWebhookDeliveries", "Deliveries, newest first")
        .scope("webhooks:read")
        .query(&[LIMIT, AFTER_ID, STATE, EVENT])
        .gives(&[(JSON, "WebhookDeliveryList")]);
    let shows = get("getWebhookDelivery", "One delivery, with its attempts")
        .scope("webhooks:read")
        .gives(&[(JSON, "WebhookDelivery")]);
    let replays = post("replayWebhookDelivery", "Sends a delivery again")
        .scope("webhooks:write")
        .status(202)
        .gives(&[(JSON, "WebhookDelivery")]);
    let replays_dead = post("replayDeadDeliveries", "Sends the dead deliveries again")
        .scope("webhooks:write")
        .status(202)
        .gives(&[(JSON, "WebhookReplayed")]);
    router
        .route(
            "/api/{slug}/webhooks/{id}/replay",
            routing::post(webhooks::replay_dead),
            &[replays_dead],
        )
        .route(
            "/api/{slug}/webhooks/{id}/deliveries",
            routing::get(webhooks::list_deliveries),
            &[lists],
        )
        .route(
            "/api/{slug}/webhooks/{id}/deliveries/{event}",
            routing::get(webhooks::show_delivery),
            &[shows],
        )
        .route(
            "/api/{slug}/webhooks/{id}/deliveries/{event}/replay",
            routing::post(webhooks::replay),
            &[replays],
        )
}

fn of_hooks(router: DocumentedRouter) -> DocumentedRouter {
    let takes = post("takeCallback", "Takes what a tool tells of a job")
        .without_key()
        .takes(&[("application/octet-stream", BINARY)])
        .gives(&[(JSON, "Callback")]);
    router.route(
        "/hooks/{tool}/{token}",
        routing::post(hooks::take),
        &[takes],
    )
}

fn of_open_calls(router: DocumentedRouter) -> DocumentedRouter {
    const WHICH: QueryParameter = query("which", "string", "stuck, unless it is all");
    let lists = get(
        "listOpenCalls",
        "Calls that wait for somebody outside, oldest first",
    )
    .scope("admin")
    .query(&[WHICH, LIMIT, AFTER_ID])
    .gives(&[(JSON, "OpenCallList")]);
    let acts = |id, summary| {
        post(id, summary)
            .scope("admin")
            .gives(&[(JSON, "OpenCallChanged")])
    };
    let polls = acts("pollOpenCall", "Asks about the job of a call at once");
    let fails = acts("failOpenCall", "Ends a call as failed").takes(&[(JSON, "OpenCallFailure")]);
    let completes =
        acts("completeOpenCall", "Ends a call with a result").takes(&[(JSON, "OpenCallResult")]);
    router
        .route(
            "/api/{slug}/open-calls",
            routing::get(open_calls::list),
            &[lists],
        )
        .route(
            "/api/{slug}/open-calls/{id}/poll",
            routing::post(open_calls::poll),
            &[polls],
        )
        .route(
            "/api/{slug}/open-calls/{id}/fail",
            routing::post(open_calls::fail),
            &[fails],
        )
        .route(
            "/api/{slug}/open-calls/{id}/complete",
            routing::post(open_calls::complete),
            &[completes],
        )
}

fn of_files(router: DocumentedRouter) -> DocumentedRouter {
    const EXPIRES: QueryParameter = query("expires", "integer", "as the link has it");
    const SIGNATURE: QueryParameter = query("signature", "string", "as the link has it");
    let reads = get("getFile", "A file that a job has made, by its link")
        .without_key()
        .query(&[EXPIRES, SIGNATURE])
        .gives(&[("application/octet-stream", BINARY)]);
    router.route("/files/{id}", routing::get(files::read), &[reads])
}

fn of_usage(router: DocumentedRouter) -> DocumentedRouter {
    const FROM: QueryParameter = query("from", "string", "the first day, YYYY-MM-DD in UTC");
    const TO: QueryParameter = query("to", "string", "the last day; today unless it is given");
    const BY: QueryParameter = query(
        "by",
        "string",
        "day, model, tool, key and user, with commas between",
    );
    let shows = get(
        "getUsage",
        "Turns, calls, tokens and costs of an organization",
    )
    .scope("admin")
    .query(&[FROM, TO, BY])
    .gives(&[(JSON, "Usage")]);
    let erases = delete(
        "eraseEndUser",
        "Deletes and erases all turns of an end user; counts and costs stay under another name",
    )
    .scope("admin")
    .gives(&[(JSON, "EndUserErased")]);
    router
        .route("/api/{slug}/usage", routing::get(usage::show), &[shows])
        .route(
            "/api/{slug}/users/{name}",
            routing::delete(users::erase),
            &[erases],
        )
}
