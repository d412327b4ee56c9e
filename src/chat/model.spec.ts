import { ApiError, type IMessage, UNREACHABLE } from '../api/client';
import type { ChatEvent, ChatInfo } from '../api/events';
import { Lines } from '../api/lines';
import { MESSAGE, type Payload, story } from '../testing/events';
import { ChatModel, type Routes } from './model';

function happens(...kinds: ('message' | 'began' | 'done')[]): ChatEvent[] {
  return story(
    ...kinds.map((kind): Payload => {
      switch (kind) {
        case 'message':
          return MESSAGE;
        case 'began':
          return { kind };
        case 'done':
          return { kind, end: 'done', text: '' };
      }
    })
  );
}

const CUT = new ApiError({ code: UNREACHABLE, message: '', hint: '', retryable: true });

/** What answers with a status: a proxy, a login, or the server where it is one of its own. */
function refusal(status: number): ApiError {
  const code = `http_${status}`;
  return new ApiError({ code, message: code, hint: '', retryable: status >= 500 }, status);
}

/** As they are in the list of chats. */
function info(busy: boolean): ChatInfo {
  return { id: 'c', title: '', notebook: null, created: 0, updated: 0, busy };
}

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
    const chat = new ChatModel(server(happens('message', 'began', 'done')), new Lines());
    expect(await chat.send({ message: 'Hello' })).toBe(true);
    await until(chat, () => chat.state.turns[0]?.end === 'done');
    expect(chat.id).toBe('c');
  });

  it('goes on after the last event when the line is cut', async () => {
    const events = happens('message', 'began', 'done');
    const routes = server([...events.slice(0, 2), CUT], [CUT], events.slice(2));
    const chat = new ChatModel(routes, new Lines());
    await chat.send({ message: 'Hello' });
    await until(chat, () => chat.line === 'lost');
    chat.reconnect();
    await until(chat, () => !chat.busy && chat.line === 'open' && chat.state.last === 3);
    expect(routes.asked).toEqual([0, 2, 2]);
  });

  it('says why a message was not taken', async () => {
    const routes = { ...server(), send: () => Promise.reject(CUT) };
    const chat = new ChatModel(routes, new Lines());
    expect(await chat.send({ message: 'Hello' })).toBe(false);
    expect(chat.problem?.code).toBe(UNREACHABLE);
    expect(chat.id).toBeNull();
    chat.dismiss();
    expect(chat.problem).toBeNull();
  });

  it.each([403, 424, 502, 503])('comes back after its line met a %d', async status => {
    const events = happens('message', 'began', 'done');
    const routes = server([...events.slice(0, 2), CUT], [refusal(status)], events.slice(2));
    const chat = new ChatModel(routes, new Lines());
    await chat.send({ message: 'Hello' });
    await until(chat, () => chat.state.last === 3);
    expect([chat.busy, chat.line, chat.problem]).toEqual([false, 'open', null]);
  });

  it('says that the server does not know it any more, and asks once more when it is told to', async () => {
    const events = happens('message', 'began', 'done');
    const routes = server([...events.slice(0, 2), CUT], [refusal(404)], events.slice(2));
    const chat = new ChatModel(routes, new Lines());
    await chat.send({ message: 'Hello' });
    await until(chat, () => chat.problem !== null);
    expect([chat.problem?.code, chat.line]).toEqual(['http_404', 'open']);
    chat.reconnect();
    await until(chat, () => !chat.busy);
  });

  it('is not said to be cut off once the server listens again, though nothing happens', async () => {
    const [message, began] = happens('message', 'began');
    const routes = server([message as ChatEvent, began as ChatEvent, CUT]);
    const { events } = routes;
    let lines = 0;
    const listening: Routes['events'] = async function* (id, after, signal) {
      yield* events(id, after, signal);
      lines++;
      yield null;
      await new Promise<void>(resolve => signal.addEventListener('abort', () => resolve()));
    };
    const chat = new ChatModel({ ...routes, events: listening }, new Lines());
    await chat.send({ message: 'Hello' });
    await until(chat, () => chat.line === 'lost');
    await until(chat, () => chat.line === 'open');
    expect([lines, chat.busy]).toEqual([1, true]);
    chat.dispose();
  });

  it('is one chat also where two messages are sent before it has an id', async () => {
    const sent: IMessage[] = [];
    const answers: (() => void)[] = [];
    const send = (message: IMessage): ReturnType<Routes['send']> => {
      sent.push(message);
      return new Promise(resolve => answers.push(() => resolve({ chat: 'c', turn: 't' })));
    };
    const chat = new ChatModel({ ...server(happens('message', 'done')), send }, new Lines());
    const both = Promise.all([chat.send({ message: 'One' }), chat.send({ message: 'Two' })]);
    await Promise.resolve();
    expect(sent).toEqual([{ message: 'One' }]);
    answers.shift()?.();
    await until(chat, () => chat.id !== null);
    while (sent.length < 2) {
      await Promise.resolve();
    }
    answers.shift()?.();
    expect(await both).toEqual([true, true]);
    expect(sent[1]).toEqual({ message: 'Two', chat: 'c' });
  });

  it('sends on after a message that did not get through', async () => {
    let tries = 0;
    const send: Routes['send'] = () =>
      tries++ === 0 ? Promise.reject(CUT) : Promise.resolve({ chat: 'c', turn: 't' });
    const chat = new ChatModel({ ...server(happens('message', 'done')), send }, new Lines());
    const both = await Promise.all([chat.send({ message: '1' }), chat.send({ message: '2' })]);
    expect(both).toEqual([false, true]);
    await until(chat, () => chat.state.last === 2);
  });

  it('keeps what the stream told before its past was read, and tells the past to nobody', async () => {
    const past = happens('message', 'done').map(each => ({ ...each, turn: 'before' }));
    const now = happens('message', 'began', 'done').map(each => ({
      ...each,
      number: each.number + 2
    }));
    const routes = server(now);
    let answer = (): void => undefined;
    const read = new Promise<{ chat: ChatInfo; events: ChatEvent[] }>(resolve => {
      answer = () => resolve({ chat: info(false), events: past });
    });
    const chat = new ChatModel({ ...routes, chat: () => read }, new Lines(), 'c');
    const told: number[] = [];
    chat.happened.connect((_, { number }) => told.push(number));
    const loading = chat.load();
    expect(await chat.send({ message: 'Hello' })).toBe(true);
    answer();
    await loading;
    await until(chat, () => chat.state.last === 5);
    expect(chat.state.turns.map(({ id, end }) => [id, end])).toEqual([
      ['before', 'done'],
      ['t', 'done']
    ]);
    expect([told, routes.asked]).toEqual([[3, 4, 5], [2]]);
  });

  it('loses nothing to an answer that is older than what is known', async () => {
    const events = happens('message', 'began', 'done');
    let reads = 0;
    const routes: Routes = {
      ...server(events),
      chat: () =>
        Promise.resolve({ chat: info(true), events: events.slice(0, reads++ === 0 ? 2 : 1) })
    };
    const chat = new ChatModel(routes, new Lines(), 'c');
    await chat.load();
    await until(chat, () => !chat.busy);
    await chat.load();
    expect([chat.state.last, chat.state.turns[0]?.end]).toEqual([3, 'done']);
  });
});
