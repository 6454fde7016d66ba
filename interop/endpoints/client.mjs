// Asks for each thing with openai-node, and prints what it read as suite.py's `python` does.
import { createRequire } from 'node:module';

const require = createRequire(`${process.env.INTEROP_NODE_MODULES}/`);
const { OpenAI, toFile } = require('openai');

const { base_url: baseURL, key: apiKey, sound } = JSON.parse(process.argv[2]);
const client = new OpenAI({ baseURL, apiKey, maxRetries: 0 });
const bytes = Buffer.from(sound, 'base64');
const got = {};

const embedded = await client.embeddings.create({ model: 'small', input: 'Hi' });
got.embeddings = embedded.data[0].embedding;

const stream = await client.completions.create({ model: 'm', prompt: 'Hi', stream: true });
got.completions = '';
for await (const event of stream) got.completions += event.choices[0]?.text ?? '';

got.moderations = (await client.moderations.create({ input: 'Hi' })).results[0].flagged;
got.images = (await client.images.generate({ model: 'm', prompt: 'Hi' })).data[0].b64_json;
const image = () => toFile(bytes, 'a.png', { type: 'image/png' });
got.edits = (await client.images.edit({ image: await image(), prompt: 'Hi', model: 'small' })).data[0].b64_json;
const speech = await client.audio.speech.create({ model: 'm', voice: 'alloy', input: 'Hi' });
got.speech = Buffer.from(await speech.arrayBuffer()).toString('base64');
// The file stands before the model.
const file = () => toFile(bytes, 'a.mp3', { type: 'audio/mpeg' });
got.transcriptions = (await client.audio.transcriptions.create({ file: await file(), model: 'small' })).text;
got.translations = (await client.audio.translations.create({ file: await file(), model: 'm' })).text;
try {
  await client.embeddings.create({ model: 'nobody-has-this', input: 'Hi' });
} catch (error) {
  got.unknown = [error.constructor.name, error.status, error.code];
}
console.log(JSON.stringify(got));
