import { ApiError, unreachable } from '../api/client';
import type { PermissionEvent, PermissionInfo } from '../api/events';
import { type AppStore, createStore, NEW_CHAT } from '../state/app';
import { FakeServer } from '../testing/server';
import { request } from '../testing/events';
import { type IEnded, Questions } from './model';

type Answering = ConstructorParameters<typeof Questions>[1]['answer'];

function refused(code: string): ApiError {
  return new ApiError({ code, message: code, hint: '', retryable: false });
}

describe('the questions of other agents', () => {
  let server: FakeServer;
  let waits: PermissionInfo[];
  let refusal: ApiError | null;
  let store: AppStore;
  let questions: Questions;
  let asked: string[];
  let ended: [string, IEnded['outcome'], boolean][];

  const publish = (event: PermissionEvent): void => server.publish({ permissions: true }, event);

  /** Waits until so many wait. */
  const count = (number: number): Promise<void> =>
    new Promise(resolve => {
      const look = (): void => {
        if (store.state.requests.length === number) {
          unsubscribe();
          // After all signals of the change were emitted.
          queueMicrotask(resolve);
        }
      };
      const unsubscribe = store.subscribe(look);
      look();
    });

  beforeEach(async () => {
    server = new FakeServer();
    server.answer = ({ number }) => {
      server.deliver(number, { reset: true });
      server.deliver(number, { id: 1, event: { kind: 'waiting', permissions: waits } });
    };
    store = createStore();
    waits = [request('a')];
    refusal = null;
    const answer: Answering = (id, outcome) => {
      if (refusal !== null) {
        return Promise.reject(refusal);
      }
      publish({ kind: 'settled', id, outcome });
      return Promise.resolve();
    };
    questions = new Questions(server.channel, { answer }, store);
    asked = [];
    ended = [];
    questions.asked.connect((_, { id }) => asked.push(id));
    questions.ended.connect((_, { request: { id }, outcome, here }) => {
      ended.push([id, outcome, here]);
    });
    questions.follow();
    await count(1);
  });

  afterEach(() => questions.dispose());

  it('are read when the subscription starts', async () => {
    publish({ kind: 'asked', permission: request('b') });
    await count(2);
    expect(asked).toEqual(['a', 'b']);
    publish({ kind: 'settled', id: 'a', outcome: 'expired' });
    await count(1);
    expect(ended).toEqual([['a', 'expired', false]]);
  });

  it('are kept, but not emitted, while the chat of their turn is open', async () => {
    store.update(state => ({ ...state, open: { 'chat 1': { ...NEW_CHAT, id: 'c' } } }));
    publish({ kind: 'asked', permission: request('b', { chat: 'c', within_call: true }) });
    publish({ kind: 'asked', permission: request('d', { chat: 'd', within_call: true }) });
    publish({ kind: 'asked', permission: request('e', { chat: 'c' }) });
    await count(4);
    expect(asked).toEqual(['a', 'd', 'e']);
    publish({ kind: 'settled', id: 'b', outcome: 'once' });
    publish({ kind: 'settled', id: 'd', outcome: 'once' });
    await count(2);
    expect(ended).toEqual([['d', 'once', false]]);
  });

  it('are removed when they are answered here, with one signal', async () => {
    expect(await questions.answer(request('a'), 'once')).toBeNull();
    publish({ kind: 'asked', permission: request('b') });
    await count(1);
    expect(ended).toEqual([['a', 'once', true]]);
  });

  it('are removed when they were answered elsewhere', async () => {
    refusal = refused('not_found');
    expect(await questions.answer(request('a'), 'once')).toBeNull();
    expect(store.state.requests).toEqual([]);
    expect(ended).toEqual([['a', null, false]]);
  });

  it('stay pending if the answer did not reach the server', async () => {
    refusal = unreachable();
    expect((await questions.answer(request('a'), 'once'))?.code).toBe('unreachable');
    expect(store.state.requests.map(each => each.id)).toEqual(['a']);
    expect(ended).toEqual([]);
  });

  it('are read again after a reconnect, and emitted once', async () => {
    waits = [request('a'), request('b')];
    server.cut();
    server.connect();
    await count(2);
    expect([asked, ended]).toEqual([['a', 'b'], []]);
  });

  it('are removed if they ended while the connection was lost', async () => {
    server.cut();
    waits = [];
    server.connect();
    await count(0);
    expect(ended).toEqual([['a', null, false]]);
  });
});
