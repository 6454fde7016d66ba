// The AI SDK's generateText and streamText, by each of its providers for such a server.

import { DESCRIPTION, PARAMETERS } from './job.mjs';

const STEPS_MAX = 8;
const OUTPUT_TOKENS_MAX = 1000;
// The server puts the schema of its own tools in.
const ANYTHING = { type: 'object' };

export function clients({ ai, createAnthropic, createOpenAI, createOpenAICompatible }) {
  const { generateText, jsonSchema, stepCountIs, streamText, tool } = ai;

  // A tool without `execute` is one that somebody else runs.
  function toolsOf(job) {
    const entries = (job.declared() ?? []).map(({ function: declared }) => {
      const own = declared.name === 'pick_color';
      const made = tool({
        description: own ? DESCRIPTION : undefined,
        inputSchema: jsonSchema(own ? PARAMETERS : ANYTHING),
        ...(own && { execute: (args) => job.pickColor(args) }),
      });
      return [declared.name, made];
    });
    return job.tools ? { tools: Object.fromEntries(entries) } : {};
  }

  function options(job, model, name) {
    return {
      model,
      messages: job.messages,
      maxRetries: 0,
      stopWhen: stepCountIs(STEPS_MAX),
      abortSignal: job.signal,
      ...toolsOf(job),
      // Else it asks what the model may say at most.
      ...(name === 'anthropic' && { maxOutputTokens: OUTPUT_TOKENS_MAX }),
      providerOptions: { [name]: job.user ? userOf(job, name) : {} },
    };
  }

  function userOf(job, name) {
    return name === 'anthropic' ? { metadata: { userId: job.user } } : { user: job.user };
  }

  function answered(job, step) {
    // Calls that the server ran show as those of the provider, where the format has them.
    const own = step.toolCalls.filter((call) => !call.providerExecuted);
    job.answered(
      step.response.id,
      step.text,
      step.finishReason.replace('-', '_'),
      [step.usage.inputTokens, step.usage.outputTokens],
      own.map((call) => [call.toolCallId, call.toolName, JSON.stringify(call.input)]),
    );
  }

  async function generate(job, model, name) {
    const { steps } = await generateText(options(job, model, name));
    steps.forEach((step) => answered(job, step));
  }

  async function stream(job, model, name) {
    let failure;
    const shown = streamText({
      ...options(job, model, name),
      onError: ({ error }) => {
        failure = error;
      },
    });
    for await (const delta of shown.textStream) {
      job.saw(delta);
    }
    if (failure || job.signal.aborted) {
      throw failure ?? new Error('aborted');
    }
    (await shown.steps).forEach((step) => answered(job, step));
  }

  const openai = ({ url, key, model }) =>
    createOpenAI({ baseURL: url, apiKey: key }).chat(model);
  const compatible = ({ url, key, model }) =>
    createOpenAICompatible({ name: 'turnwright', baseURL: url, apiKey: key, includeUsage: true })(
      model,
    );
  const responses = ({ url, key, model }) =>
    createOpenAI({ baseURL: url, apiKey: key }).responses(model);
  const anthropic = ({ url, key, model }) => createAnthropic({ baseURL: url, apiKey: key })(model);
  return {
    'ai openai responses generateText': (job) => generate(job, responses(job), 'openai'),
    'ai openai responses streamText': (job) => stream(job, responses(job), 'openai'),
    'ai anthropic generateText': (job) => generate(job, anthropic(job), 'anthropic'),
    'ai anthropic streamText': (job) => stream(job, anthropic(job), 'anthropic'),
    'ai openai generateText': (job) => generate(job, openai(job), 'openai'),
    'ai openai streamText': (job) => stream(job, openai(job), 'openai'),
    'ai openai-compatible generateText': (job) => generate(job, compatible(job), 'turnwright'),
    'ai openai-compatible streamText': (job) => stream(job, compatible(job), 'turnwright'),
  };
}
