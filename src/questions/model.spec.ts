import { ApiError, unreachable } from '../api/client';
import { Lines } from '../api/lines';
import type { Answer, PermissionEvent, PermissionInfo } from '../api/events';
import type { PermissionsApi } from '../api/permissions';
import { request } from '../testing/events';
import { listening } from './listening';
import { type IEnded, Questions } from './model';

/** A server that tells what it is told to, and takes answers or refuses them. */
class Server implements Pick<PermissionsApi, 'answer' | 'follow'> {
  waits: PermissionInfo[] = [];
  refusal: ApiError | null = null;
  lines = 0;

  async answer(id: string, answer: Answer): Promise<void> {
    await Promise.resolve();
    if (this.refusal !== null) {
      throw this.refusal;
    }
    this.tell({ kind: 'settled', id, outcome: answer });
  }

  async *follow(signal: AbortSignal): AsyncGenerator<PermissionEvent, void, undefined> {
    const told: (PermissionEvent | null)[] = [{ kind: 'waiting', permissions: this.waits }];
    let wake = (): void => undefined;
    this.tell = event => {
      told.push(event);
      wake();
    };
    this.cut = () => {
      told.push(null);
      wake();
    };
    signal.addEventListener('abort', () => wake());
    this.lines++;
    while (!signal.aborted) {
      const event = told.shift();
      if (event === undefined) {
        await new Promise<void>(resolve => (wake = resolve));
      } else if (event === null) {
        throw unreachable();
      } else {
        yield event;
      }
    }
    this.hungUp();
  }

  tell: (event: PermissionEvent) => void = () => undefined;
  cut: () => void = () => undefined;
  hungUp: () => void = () => undefined;
}

function refused(code: string): ApiError {
  return new ApiError({ code, message: code, hint: '', retryable: false });
}

describe('the questions of other agents', () => {
  let server: Server;
  let questions: Questions;
  let asked: string[];
  let ended: [string, IEnded['outcome'], boolean][];

  /** Waits until so many wait. */
  const count = (number: number): Promise<void> =>
    new Promise(resolve => {
      const look = (): void => {
        if (questions.waiting.length === number) {
          questions.changed.disconnect(look);
          resolve();
        }
      };
      questions.changed.connect(look);
      look();
    });

  beforeEach(async () => {
    server = new Server();
    server.waits = [request('a')];
    questions = new Questions(listening(server, new Lines()), server);
    asked = [];
    ended = [];
    questions.asked.connect((_, { id }) => asked.push(id));
    questions.ended.connect((_, { request: { id }, outcome, here }) => {
      ended.push([id, outcome, here]);
    });
    questions.look(true);
    await count(1);
  });

  afterEach(() => questions.dispose());

  it('are known from the beginning of a line on', async () => {
    server.tell({ kind: 'asked', permission: request('b') });
    await count(2);
    expect(asked).toEqual(['a', 'b']);
    server.tell({ kind: 'settled', id: 'a', outcome: 'expired' });
    await count(1);
    expect(ended).toEqual([['a', 'expired', false]]);
  });

  it('go when they are answered here, and that is told once', async () => {
    expect(await questions.answer(request('a'), 'once')).toBeNull();
    server.tell({ kind: 'asked', permission: request('b') });
    await count(1);
    expect(ended).toEqual([['a', 'once', true]]);
  });

  it('go when somebody else was faster', async () => {
    server.refusal = refused('permission_not_found');
    expect(await questions.answer(request('a'), 'once')).toBeNull();
    expect(questions.waiting).toEqual([]);
    expect(ended).toEqual([['a', null, false]]);
  });

  it('wait on where the answer did not reach the server', async () => {
    server.refusal = unreachable();
    expect((await questions.answer(request('a'), 'once'))?.code).toBe('unreachable');
    expect(questions.waiting.map(each => each.id)).toEqual(['a']);
    expect(ended).toEqual([]);
  });

  it('are asked for again when the line was cut, and those that are known are not told anew', async () => {
    server.waits = [request('a'), request('b')];
    server.cut();
    await count(2);
    expect([server.lines, asked, ended]).toEqual([2, ['a', 'b'], []]);
  });

  it('are not listened to while nobody looks', async () => {
    const hungUp = new Promise<void>(resolve => (server.hungUp = resolve));
    questions.look(false);
    await hungUp;
    server.waits = [];
    questions.look(true);
    await count(0);
    expect(server.lines).toBe(2);
    expect(ended).toEqual([['a', null, false]]);
  });
});
