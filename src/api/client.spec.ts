/** @jest-environment node */

import { ServerConnection } from '@jupyterlab/services';

import { ApiError, ChatApi, UNREACHABLE } from './client';

/** The routes of a server whose answers are cut after some words. */
function cut(words: string): ChatApi {
  const answer = (): Response => {
    const pieces = [new TextEncoder().encode(words)];
    const pull = (controller: ReadableStreamDefaultController): void => {
      const piece = pieces.shift();
      if (piece === undefined) {
        controller.error(new TypeError('network error'));
      } else {
        controller.enqueue(piece);
      }
    };
    return new Response(new ReadableStream({ pull }));
  };
  const settings = ServerConnection.makeSettings({ baseUrl: 'http://localhost/' });
  return new ChatApi({ ...settings, fetch: () => Promise.resolve(answer()) });
}

/** What went wrong. */
async function problemOf(asked: Promise<unknown>): Promise<string> {
  try {
    await asked;
    return 'none';
  } catch (error) {
    return error instanceof ApiError ? error.problem.code : String(error);
  }
}

describe('an answer that is cut', () => {
  it('is as if the server could not be reached', async () => {
    const api = cut('{"chats": [');
    const asked = [
      api.chats(),
      api.artifact('a'),
      api.send({ message: 'Hello' }),
      api.answerPlan('c', 'p', { answer: 'approve', mode: 'ask' })
    ];
    expect(await Promise.all(asked.map(problemOf))).toEqual(asked.map(() => UNREACHABLE));
  });
});
