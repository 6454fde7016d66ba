// One job of a Node client: what it asks, its own tools, and what came of it.

const COLOR = 'blue';
export const DESCRIPTION = 'The colour that suits a mood.';
export const PARAMETERS = {
  type: 'object',
  properties: { mood: { type: 'string' } },
  required: ['mood'],
  additionalProperties: false,
};

export class Job {
  constructor(sent, url) {
    Object.assign(this, sent);
    this.url = url;
    this.key = process.env.OPENAI_API_KEY;
    this.controller = new AbortController();
    this.outcome = { answers: [], ran: [], seen: [], error: null };
    this.firstText = new Promise((resolve) => {
      this.sawSome = resolve;
    });
  }

  get signal() {
    return this.controller.signal;
  }

  saw(text) {
    if (text) {
      this.outcome.seen.push(text);
      this.sawSome();
    }
  }

  answered(id, text, finish, usage, calls) {
    this.outcome.answers.push({ id, text, finish, usage, calls });
  }

  pickColor({ mood }) {
    this.outcome.ran.push(['pick_color', JSON.stringify({ mood })]);
    return COLOR;
  }

  failed(error) {
    if (this.signal.aborted) {
      this.outcome.error = { class: 'aborted' };
      return;
    }
    this.outcome.error = {
      class: error.constructor.name === 'Error' ? error.name : error.constructor.name,
      status: error.status ?? error.statusCode ?? null,
      code: error.code ?? error.data?.error?.code ?? kindOf(error),
      message: error.message,
      request_id: error.requestID ?? error.responseHeaders?.['x-request-id'] ?? null,
    };
  }

  // Leaves: a stream once it has shown something.
  async abort() {
    if (this.client.includes('stream')) {
      await this.firstText;
    }
    this.controller.abort();
  }

  // The tools as the Chat Completions format has them; undefined for no list at all.
  declared() {
    return this.tools?.map((name) => ({
      type: 'function',
      // The server puts its own description and schema in for those that are its own.
      function: name === 'pick_color' ? { name, description: DESCRIPTION, parameters: PARAMETERS } : { name },
    }));
  }
}

// The type of an error of Messages, which has no code.
function kindOf(error) {
  return error.data?.error?.type ?? error.error?.error?.type ?? null;
}
