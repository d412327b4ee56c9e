import { ApiError, type IMessage, UNREACHABLE } from '../api/client';
import type { ChatEvent, ChatInfo, ErrorInfo } from '../api/events';
import { type AppStore, createStore } from '../state/app';
import { FakeServer } from '../testing/server';
import {
  CALL,
  CHANGE,
  DONE,
  MESSAGE,
  numbered,
  type Payload,
  RESULT,
  story
} from '../testing/events';
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

/** As they are in the list of chats. */
function info(busy: boolean): ChatInfo {
  return { id: 'c', title: '', notebook: null, created: 0, updated: 0, busy };
}

/** The routes of a server on which all goes well. */
const ROUTES: Routes = {
  send: () => Promise.resolve({ chat: 'c', turn: 't' }),
  answerPlan: () => Promise.resolve({ chat: 'c', turn: 't' }),
  answerQuestions: () => Promise.resolve({}),
  stop: () => Promise.resolve(),
  restore: () => Promise.resolve([]),
  combinedChanges: () => Promise.resolve([]),
  keep: () => Promise.resolve(),
  undo: () => Promise.resolve([]),
  chat: () => Promise.reject(CUT)
};

/**
 * Plays these streams, one for each subscription: null cuts the connection, an error is sent.
 */
function plays(...streams: (ChatEvent | Partial<ErrorInfo> | null)[][]): void {
  server.answer = ({ number }) => {
    server.deliver(number, { live: true });
    for (const each of streams.shift() ?? []) {
      if (each === null) {
        // Once what was sent before has arrived.
        void waited().then(() => server.cut());
      } else if ('kind' in each) {
        server.deliver(number, { id: each.number, event: each });
      } else {
        server.fail(number, each);
      }
    }
  };
}

/** What the subscriptions went on after. */
function asked(): unknown[] {
  return server.subscribed.map(({ after }) => after);
}

async function waited(): Promise<void> {
  for (let step = 0; step < 30; step++) {
    await Promise.resolve();
  }
}

let store: AppStore;

let server: FakeServer;

beforeEach(() => {
  store = createStore();
  server = new FakeServer();
});

function chatOf(routes: Routes = ROUTES, id: string | null = null): ChatModel {
  return new ChatModel(routes, server.channel, store, 'chat 1', id);
}

/** Waits until something holds of a chat. */
async function until(holds: () => boolean): Promise<void> {
  while (!holds()) {
    await new Promise<void>(resolve => {
      const unsubscribe = store.subscribe(() => {
        unsubscribe();
        resolve();
      });
    });
  }
}

describe('a chat', () => {
  it('is followed until it is disposed, also after its turn', async () => {
    plays(happens('message', 'began', 'done'));
    const chat = chatOf();
    expect(await chat.send({ message: 'Hello' })).toBe(true);
    await until(() => chat.state.turns[0]?.end === 'done');
    expect(chat.id).toBe('c');
    // Another window continues it.
    server.publish({ chat: 'c' }, numbered(MESSAGE, 4, 'u'), 4);
    await until(() => chat.busy);
    server.publish({ chat: 'c' }, numbered(DONE, 5, 'u'), 5);
    await until(() => !chat.busy);
    expect([chat.state.turns.length, server.open.size]).toEqual([2, 1]);
    chat.dispose();
    expect(server.open.size).toBe(0);
  });

  it('is followed once its past could be read, after failed attempts', async () => {
    jest.useFakeTimers();
    let fails = 3;
    const past = happens('message', 'done');
    const read: Routes['chat'] = () =>
      fails-- > 0 ? Promise.reject(CUT) : Promise.resolve({ chat: info(false), events: past });
    const chat = chatOf({ ...ROUTES, chat: read }, 'c');
    await chat.load();
    expect(chat.state.problem?.code).toBe(UNREACHABLE);
    await jest.advanceTimersByTimeAsync(60_000);
    jest.useRealTimers();
    expect(chat.state).toMatchObject({ loaded: true, problem: null, last: 2, lost: false });
    expect(asked()).toEqual([2]);
    chat.dispose();
  });

  it('stays to be read when it is deleted in another window', async () => {
    const past = happens('message', 'done');
    const chat = chatOf(
      { ...ROUTES, chat: () => Promise.resolve({ chat: info(false), events: past }) },
      'c'
    );
    await chat.load();
    await waited();
    const [number = 0] = server.open.keys();
    server.fail(number, { code: 'chat_not_found', retryable: false });
    await until(() => chat.state.problem !== null);
    expect(chat.state).toMatchObject({ lost: false, problem: { code: 'chat_not_found' } });
    expect([chat.state.turns.length, chat.active]).toEqual([1, false]);
    chat.dispose();
  });

  it('resumes after the last event when the connection was lost', async () => {
    const events = happens('message', 'began', 'done');
    plays([...events.slice(0, 2), null], [null], events.slice(2));
    const chat = chatOf();
    await chat.send({ message: 'Hello' });
    await until(() => chat.state.lost);
    chat.reconnect();
    await until(() => !chat.state.lost);
    await until(() => chat.state.lost);
    chat.reconnect();
    await until(() => !chat.busy && !chat.state.lost && chat.state.last === 3);
    expect(asked()).toEqual([0, 2, 2]);
  });

  it('shows why a message was not accepted', async () => {
    const chat = chatOf({ ...ROUTES, send: () => Promise.reject(CUT) });
    expect(await chat.send({ message: 'Hello' })).toBe(false);
    expect(chat.state.problem?.code).toBe(UNREACHABLE);
    expect(chat.id).toBeNull();
    chat.dismiss();
    expect(chat.state.problem).toBeNull();
  });

  it('recovers after a failure of the server', async () => {
    const events = happens('message', 'began', 'done');
    plays([...events.slice(0, 2), { code: 'busy' }], events.slice(2));
    const chat = chatOf();
    await chat.send({ message: 'Hello' });
    await until(() => chat.state.last === 3);
    await until(() => !chat.state.lost);
    expect([chat.busy, chat.state.problem]).toEqual([false, null]);
  });

  it('shows that the server does not know it any more, and retries on demand', async () => {
    const events = happens('message', 'began', 'done');
    const gone = { code: 'chat_not_found', retryable: false };
    plays([...events.slice(0, 2), gone], events.slice(2));
    const chat = chatOf();
    await chat.send({ message: 'Hello' });
    await until(() => chat.state.problem !== null);
    expect([chat.state.problem?.code, chat.state.lost]).toEqual(['chat_not_found', false]);
    chat.reconnect();
    await until(() => !chat.busy);
  });

  it('is not marked as lost after a reconnect, even without events', async () => {
    plays([...happens('message', 'began'), null]);
    const chat = chatOf();
    await chat.send({ message: 'Hello' });
    await until(() => chat.state.lost);
    server.connect();
    await until(() => !chat.state.lost);
    expect([server.open.size, chat.busy]).toEqual([1, true]);
    chat.dispose();
  });

  it('is read again if the server has forgotten its events', async () => {
    const events = happens('message', 'began', 'done');
    let reads = 0;
    const chat = chatOf({
      ...ROUTES,
      chat: () => {
        reads++;
        return Promise.resolve({ chat: info(true), events: events.slice(0, 1) });
      }
    });
    plays([...events.slice(0, 2), null]);
    await chat.send({ message: 'Hello' });
    await until(() => chat.state.lost);
    server.answer = ({ number, after }) => {
      if (after === 2) {
        server.deliver(number, { reset: true });
        server.deliver(number, { over: true });
      } else {
        events.slice(1).forEach(event => server.deliver(number, { id: event.number, event }));
      }
    };
    server.connect();
    await until(() => !chat.busy && chat.state.last === 3);
    expect([reads, asked()]).toEqual([1, [0, 2, 1]]);
  });

  it('is one chat even if two messages are sent before it has an id', async () => {
    const sent: IMessage[] = [];
    const answers: (() => void)[] = [];
    const send = (message: IMessage): ReturnType<Routes['send']> => {
      sent.push(message);
      return new Promise(resolve => answers.push(() => resolve({ chat: 'c', turn: 't' })));
    };
    plays(happens('message', 'done'));
    const chat = chatOf({ ...ROUTES, send });
    const both = Promise.all([chat.send({ message: 'One' }), chat.send({ message: 'Two' })]);
    await waited();
    expect(sent).toMatchObject([{ message: 'One' }]);
    answers.shift()?.();
    await until(() => chat.id !== null);
    while (sent.length < 2) {
      await Promise.resolve();
    }
    answers.shift()?.();
    expect(await both).toEqual([true, true]);
    expect(sent[1]).toMatchObject({ message: 'Two', chat: 'c' });
  });

  it('sends later messages after one that failed', async () => {
    let tries = 0;
    const send: Routes['send'] = () =>
      tries++ === 0 ? Promise.reject(CUT) : Promise.resolve({ chat: 'c', turn: 't' });
    plays(happens('message', 'done'));
    const chat = chatOf({ ...ROUTES, send });
    const both = await Promise.all([chat.send({ message: '1' }), chat.send({ message: '2' })]);
    expect(both).toEqual([false, true]);
    await until(() => chat.state.last === 2);
  });

  it('keeps events that arrive before its past is read, and emits no past events', async () => {
    const past = happens('message', 'done').map(each => ({ ...each, turn: 'before' }));
    const now = happens('message', 'began', 'done').map(each => ({
      ...each,
      number: each.number + 2
    }));
    plays(now);
    let answer = (): void => undefined;
    const read = new Promise<{ chat: ChatInfo; events: ChatEvent[] }>(resolve => {
      answer = () => resolve({ chat: info(false), events: past });
    });
    const chat = chatOf({ ...ROUTES, chat: () => read }, 'c');
    const received: number[] = [];
    chat.happened.connect((_, { number }) => received.push(number));
    const loading = chat.load();
    expect(await chat.send({ message: 'Hello' })).toBe(true);
    answer();
    await loading;
    await until(() => chat.state.last === 5);
    expect(chat.state.turns.map(({ id, end }) => [id, end])).toEqual([
      ['before', 'done'],
      ['t', 'done']
    ]);
    expect([received, asked()]).toEqual([[3, 4, 5], [2]]);
  });

  it('loses nothing to an answer that is older than what is known', async () => {
    const events = happens('message', 'began', 'done');
    let reads = 0;
    plays(events);
    const routes: Routes = {
      ...ROUTES,
      chat: () =>
        Promise.resolve({ chat: info(true), events: events.slice(0, reads++ === 0 ? 2 : 1) })
    };
    const chat = chatOf(routes, 'c');
    await chat.load();
    await until(() => !chat.busy);
    await chat.load();
    expect([chat.state.last, chat.state.turns[0]?.end]).toEqual([3, 'done']);
  });
});

describe('the error of a request', () => {
  type Chat = ReturnType<typeof chatOf>;
  const refused = (): Promise<never> =>
    Promise.reject(new ApiError({ code: 'refused', message: '', hint: '', retryable: false }));
  const asks: Record<string, (chat: Chat) => unknown> = {
    answerPlan: chat => chat.answerPlan('t', { answer: 'approve', mode: 'edit' }),
    restore: chat => chat.restore('t'),
    send: chat => chat.send({ message: 'Hello' }),
    stop: chat => chat.stop(),
    undo: chat => chat.undo('a.ipynb', { 1: ['x'] })
  };
  const reads: ((chat: Chat) => unknown)[] = [chat => chat.combinedChanges('t')];

  it.each(Object.keys(asks))('is neither cleared nor set by what is read (%s)', async name => {
    const past = story(MESSAGE, { kind: 'began' }, CALL, CHANGE, RESULT, DONE);
    let fails = false;
    const read =
      <T>(answer: T) =>
      (): Promise<T> =>
        fails ? refused() : Promise.resolve(answer);
    const chat = chatOf(
      {
        ...ROUTES,
        chat: () => Promise.resolve({ chat: info(false), events: past }),
        combinedChanges: read([]),
        [name]: refused
      },
      'c'
    );
    await chat.load();
    await asks[name]?.(chat);
    expect(chat.state.problem?.code).toBe('refused');
    await Promise.all(reads.map(each => each(chat)));
    expect(chat.state.problem?.code).toBe('refused');
    chat.dismiss();
    fails = true;
    await Promise.all(reads.map(each => each(chat)));
    expect(chat.state.problem).toBeNull();
  });
});
