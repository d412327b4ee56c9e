import type { IRequest, RequestEvent } from '../api/permissions';
import { reduce } from './waiting';

function request(id: string, some: Partial<IRequest> = {}): IRequest {
  return {
    id,
    author: 'claude-code 2.1',
    caller: null,
    face: 'mcp',
    tool: 'insert_cell',
    effect: 'WRITE',
    notebook: 'plan.ipynb',
    preview: '+x = 1',
    answers: ['once', 'deny'],
    created: 0,
    within_call: false,
    ...some
  };
}

const asked = (permission: IRequest): RequestEvent => ({ kind: 'asked', permission });
const settled = (id: string): RequestEvent => ({ kind: 'settled', id, outcome: 'deny' });
const all = (...events: RequestEvent[]): readonly IRequest[] => events.reduce(reduce, []);
const ids = (waiting: readonly IRequest[]): string[] => waiting.map(each => each.id);

describe('the requests that wait', () => {
  it('come in the order in which they were asked, and go when they are settled', () => {
    const waiting = all(asked(request('a')), asked(request('b')), asked(request('c')));
    expect(ids(waiting)).toEqual(['a', 'b', 'c']);
    expect(ids(reduce(waiting, settled('b')))).toEqual(['a', 'c']);
  });

  it('are those of the beginning of a line, whatever was known before', () => {
    const waiting = all(asked(request('a')), asked(request('b')));
    const line: RequestEvent = { kind: 'waiting', permissions: [request('b'), request('d')] };
    const after = reduce(waiting, line);
    expect(ids(after)).toEqual(['b', 'd']);
    expect(after[0]).toBe(waiting[1]);
  });

  it('stay as they are where nothing is new', () => {
    const waiting = all(asked(request('a')));
    expect(reduce(waiting, asked(request('a')))).toBe(waiting);
    expect(reduce(waiting, settled('gone'))).toBe(waiting);
    expect(reduce(waiting, { kind: 'later' } as unknown as RequestEvent)).toBe(waiting);
  });

  it('leave out what a chat asks where it is shown', () => {
    const inChat = request('a', { face: 'chat', within_call: true });
    const inKernel = request('b', { face: 'chat' });
    const inClient = request('c', { within_call: true });
    expect(ids(all(asked(inChat), asked(inKernel), asked(inClient)))).toEqual(['b', 'c']);
    const line: RequestEvent = { kind: 'waiting', permissions: [inChat, inKernel, inClient] };
    expect(ids(all(line))).toEqual(['b', 'c']);
  });
});
