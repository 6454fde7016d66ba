// A LangChain chat message history that Turnwright keeps.
//
//     import { TurnwrightChatMessageHistory } from "./turnwright-history.mjs";
//
//     const history = new TurnwrightChatMessageHistory({ baseUrl: "http://127.0.0.1:8787", apiKey, conversation: "session-1" });
//     await history.addMessages([new HumanMessage("Hello")]);
//     await history.getMessages();
//
// It needs `@langchain/core` (1.x) and a runtime with `fetch`.

import { BaseListChatMessageHistory } from "@langchain/core/chat_history";
import { AIMessage, HumanMessage, ToolMessage } from "@langchain/core/messages";

// Rows of one request, and of one page.
const ROWS_MAX = 100;
// The content of a result that is not there yet, as of a call that waits for an approval.
export const NO_RESULT_YET = "There is no result yet.";

/** What the server refused: `status`, and `code` and `param` where it gave them. */
export class TurnwrightError extends Error {
  constructor(status, error) {
    super(error.message ?? `the server answered ${status}`);
    this.name = "TurnwrightError";
    this.status = status;
    this.code = error.code;
    this.param = error.param;
  }
}

/**
 * The messages of one conversation.
 *
 * The conversation is made by the first messages that are added, under the name that is given here. `user` names the end
 * user whose it is; where one is named, nobody else sees it.
 */
export class TurnwrightChatMessageHistory extends BaseListChatMessageHistory {
  lc_namespace = ["turnwright"];

  constructor({ baseUrl, apiKey, conversation, user }) {
    super();
    this.at = `${baseUrl.replace(/\/+$/, "")}/v1/conversations/${encodeURIComponent(conversation)}`;
    this.headers = { authorization: `Bearer ${apiKey}`, "content-type": "application/json" };
    if (user !== undefined) {
      this.headers["turnwright-user"] = user;
    }
  }

  /** All messages, oldest first; none of a conversation that is not there. */
  async getMessages() {
    const messages = [];
    for await (const row of this.rows()) {
      messages.push(messageOf(row));
    }
    return messages;
  }

  /** The rows of the messages, read page by page. */
  async *rows() {
    let after = "";
    for (;;) {
      const query = `shape=langchain&limit=${ROWS_MAX}${after}`;
      const answer = await fetch(`${this.at}/messages?${query}`, { headers: this.headers });
      if (answer.status === 404 && after === "") {
        return;
      }
      const page = await told(answer);
      yield* page.data;
      if (!page.has_more) {
        return;
      }
      after = `&after=${encodeURIComponent(page.last_id)}`;
    }
  }

  async addMessage(message) {
    await this.addMessages([message]);
  }

  /** Appends messages. A result follows the message that makes its call, and is given once. */
  async addMessages(messages) {
    const rows = messages.map(rowOf);
    for (let first = 0; first < rows.length; first += ROWS_MAX) {
      const body = JSON.stringify({ rows: rows.slice(first, first + ROWS_MAX) });
      const to = `${this.at}/rows?shape=langchain`;
      await told(await fetch(to, { method: "POST", headers: this.headers, body }));
    }
  }

  /** Deletes the conversation; its name is free again. */
  async clear() {
    const answer = await fetch(this.at, { method: "DELETE", headers: this.headers });
    if (answer.status !== 404) {
      await told(answer);
    }
  }
}

async function told(answer) {
  if (answer.ok) {
    return answer.json();
  }
  const body = await answer.json().catch(() => ({}));
  throw new TurnwrightError(answer.status, body?.error ?? {});
}

/** The message that a row of the shape `langchain` is. */
export function messageOf(row) {
  const metadata = row.metadata ?? {};
  const content = metadata.content ?? row.content;
  switch (row.role) {
    case "user":
      return new HumanMessage({ content, id: row.id });
    case "assistant":
      return new AIMessage({
        content,
        id: row.id,
        tool_calls: (row.tool_calls ?? []).map((call) => ({ ...call, type: "tool_call" })),
        invalid_tool_calls: (metadata.invalid_tool_calls ?? []).map((call) => ({
          ...call,
          type: "invalid_tool_call",
        })),
        additional_kwargs:
          metadata.reasoning === undefined ? {} : { reasoning_content: metadata.reasoning },
        response_metadata: metadata.model === undefined ? {} : { model_name: metadata.model },
      });
    case "tool":
      return new ToolMessage({
        content: row.status === "pending" ? NO_RESULT_YET : content,
        id: row.id,
        tool_call_id: row.tool_call_id,
        name: row.tool_name ?? undefined,
        status: row.status === "success" ? "success" : "error",
      });
    default:
      throw new Error(`a row with the role "${row.role}"`);
  }
}

/**
 * The row of a message, without what the server fills in.
 *
 * Ids, usage and response metadata of messages are not kept.
 */
export function rowOf(message) {
  const { text, parts } = contentOf(message);
  const row = { content: text };
  const metadata = parts.length > 0 ? { content: parts } : {};
  switch (message.getType()) {
    case "human":
      row.role = "user";
      break;
    case "ai":
      row.role = "assistant";
      if (message.tool_calls?.length > 0) {
        row.tool_calls = message.tool_calls.map(callOf);
      }
      if (message.invalid_tool_calls?.length > 0) {
        metadata.invalid_tool_calls = message.invalid_tool_calls.map(callOf);
      }
      if (message.additional_kwargs?.reasoning_content) {
        metadata.reasoning = message.additional_kwargs.reasoning_content;
      }
      break;
    case "tool":
      row.role = "tool";
      row.tool_call_id = message.tool_call_id;
      row.tool_name = message.name;
      row.status = message.status ?? "success";
      break;
    default:
      throw new Error(
        `a message of the type "${message.getType()}" has no row: what a system says is not kept`,
      );
  }
  if (Object.keys(metadata).length > 0) {
    row.metadata = metadata;
  }
  return row;
}

const callOf = ({ id, name, args }) => ({ id, name, args });

/** The text of a message, and all its parts where it is more than text. */
function contentOf(message) {
  if (typeof message.content === "string") {
    return { text: message.content, parts: [] };
  }
  // Calls stand beside the content; what is left of them in it are only their names.
  const parts = message.content.filter((part) => !CALL_PARTS.includes(part.type)).map(partOf);
  const text = parts.map((part) => (part.type === "text" ? part.text : "")).join("");
  return { text, parts: parts.every((part) => part.type === "text") ? [] : parts };
}

const CALL_PARTS = ["tool_use", "tool_call", "tool_call_chunk", "functionCall"];

/** A part as OpenAI's API has it: LangChain's own image becomes one. */
function partOf(part) {
  if (part.type !== "image") {
    return part;
  }
  const url = part.url ?? `data:${part.mimeType ?? part.mime_type};base64,${part.data}`;
  return { type: "image_url", image_url: { url } };
}
