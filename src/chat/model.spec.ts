import { ApiError, UNREACHABLE } from '../api/client';
import type { ChatEvent } from '../api/events';
import { ChatModel, type Routes } from './model';

function happens(...kinds: ('message' | 'began' | 'done')[]): ChatEvent[] {
  return kinds.map((kind, place) => ({
    id: place + 1,
    turn: 't',
    time: 0,
    kind,
    chat: 'c',
    text: '',
    notebook: null,
    mode: 'ask',
    model: 'm',
    attachments: [],
    waits: 0,
    end: 'done'
  }));
}

const CUT = new ApiError({ code: UNREACHABLE, message: '', hint: '', retryable: true });

/** A server that plays these streams, one for each time it is asked; an error cuts the line. */
function server(...streams: (ChatEvent | Error)[][]): Routes & { asked: number[] } {
  const asked: number[] = [];
  return {
    asked,
    send: () => Promise.resolve({ chat: 'c', turn: 't' }),
    changes: () => Promise.resolve({ changes: [], since: 0 }),
    answerPlan: () => Promise.resolve({ chat: 'c', turn: 't' }),
    stop: () => Promise.resolve(),
    answer: () => Promise.resolve(),
    undo: () => Promise.resolve([]),
    chat: () => Promise.reject(CUT),
    async *events(_, after) {
      asked.push(after);
      await Promise.resolve();
      for (const each of streams.shift() ?? []) {
        if (each instanceof Error) {
          throw each;
        }
        yield each;
      }
    }
  };
}

/** Waits until something holds of a chat. */
async function until(chat: ChatModel, holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise<void>(resolve => {
      const changed = (): void => {
        chat.changed.disconnect(changed);
        resolve();
      };
      chat.changed.connect(changed);
    });
  }
}

describe('a chat', () => {
  it('is followed until its turn has ended', async () => {
    const chat = new ChatModel(server(happens('message', 'began', 'done')));
    expect(await chat.send({ message: 'Hello' })).toBe(true);
    await until(chat, () => chat.state.turns[0]?.end === 'done');
    expect(chat.id).toBe('c');
  });

  it('goes on after the last event when the line is cut', async () => {
    const events = happens('message', 'began', 'done');
    const routes = server([...events.slice(0, 2), CUT], [CUT], events.slice(2));
    const chat = new ChatModel(routes);
    await chat.send({ message: 'Hello' });
    await until(chat, () => chat.line === 'lost');
    chat.reconnect();
    await until(chat, () => !chat.busy && chat.line === 'open' && chat.state.last === 3);
    expect(routes.asked).toEqual([0, 2, 2]);
  });

  it('says why a message was not taken', async () => {
    const chat = new ChatModel({ ...server(), send: () => Promise.reject(CUT) });
    expect(await chat.send({ message: 'Hello' })).toBe(false);
    expect(chat.problem?.code).toBe(UNREACHABLE);
    expect(chat.id).toBeNull();
    chat.dismiss();
    expect(chat.problem).toBeNull();
  });
});
