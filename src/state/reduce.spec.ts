import type { ChatEvent } from '../api/events';
import { MESSAGE, numbered, PROPOSAL, story } from '../testing/events';
import { reduce } from './reduce';
import { EMPTY, hasChanges, isBusy, isUnsent, total, waits } from './chat';

const CHANGE = {
  kind: 'cell_change',
  call: '1',
  notebook: 'a.ipynb',
  action: 'insert',
  cell: 'x',
  index: 0,
  cell_type: 'code',
  diff: '+1',
  entry: 7
} as const;
const STORY = story(
  MESSAGE,
  { kind: 'began' },
  { kind: 'thinking', block: 0, text: 'Hm' },
  { kind: 'text', block: 1, text: 'I ' },
  { kind: 'text', block: 1, text: 'look.' },
  { kind: 'tool_call', call: '1', tool: 'insert_cell', arguments: { source: '1' } },
  {
    kind: 'permission',
    call: '1',
    tool: 'insert_cell',
    id: 'p',
    effect: 'WRITE',
    notebook: 'a.ipynb',
    preview: '+1',
    proposal: PROPOSAL,
    answers: ['once', 'deny']
  },
  { kind: 'permission_settled', call: '1', id: 'p' },
  CHANGE,
  {
    kind: 'tool_result',
    call: '1',
    tool: 'insert_cell',
    ok: true,
    text: 'done',
    structured: {},
    images: [],
    seconds: 1
  },
  { kind: 'text', block: 2, text: 'There.' },
  {
    kind: 'usage',
    input_tokens: 10,
    output_tokens: 5,
    cache_read_tokens: 2,
    cache_write_tokens: 3,
    session_cost_usd: 0.5,
    seconds: 2
  },
  { kind: 'done', end: 'done', text: 'There.' }
);

describe('a chat', () => {
  it('shows what Claude thought, wrote and did, in its order', () => {
    const [turn] = reduce(EMPTY, STORY).turns;
    expect(turn?.items.map(item => item.kind)).toEqual(['thinking', 'text', 'call', 'text']);
    expect(turn?.items[1]).toMatchObject({ text: 'I look.' });
    expect(turn?.items[2]).toMatchObject({ status: 'complete' });
    expect(turn?.end).toBe('done');
  });

  it('is the same however its events come, also twice', () => {
    const whole = reduce(EMPTY, STORY);
    for (let cut = 0; cut <= STORY.length; cut++) {
      const first = reduce(EMPTY, STORY.slice(0, cut));
      expect(reduce(first, STORY.slice(Math.max(0, cut - 3)))).toEqual(whole);
    }
  });

  it('never changes an earlier state', () => {
    const states = STORY.map((_, place) => reduce(EMPTY, STORY.slice(0, place)));
    const copies = states.map(state => JSON.stringify(state));
    states.forEach((state, place) => reduce(state, STORY.slice(place)));
    expect(states.map(state => JSON.stringify(state))).toEqual(copies);
  });

  it('keeps what did not change, so that it is not drawn again', () => {
    const before = reduce(EMPTY, STORY.slice(0, 10));
    const after = reduce(before, STORY.slice(0, 11));
    expect(after.turns[0]?.items[2]).toBe(before.turns[0]?.items[2]);
  });

  it('is busy until the end of the last turn', () => {
    expect(isBusy(reduce(EMPTY, STORY.slice(0, -1)))).toBe(true);
    expect(isBusy(reduce(EMPTY, STORY))).toBe(false);
  });

  it('counts tokens and dollars', () => {
    expect(total(reduce(EMPTY, STORY))).toEqual({ tokens: 20, cost: 0.5 });
  });

  it('discards blocks that the model starts again', () => {
    const [turn] = reduce(
      EMPTY,
      story(
        MESSAGE,
        { kind: 'text', block: 0, text: 'kept' },
        { kind: 'text', block: 1, text: 'cut' },
        { kind: 'discarded', block: 1 },
        { kind: 'text', block: 1, text: 'again' }
      )
    ).turns;
    expect(turn?.items.map(item => item.kind === 'text' && item.text)).toEqual(['kept', 'again']);
  });

  it('shows no call as running after the end', () => {
    const [turn] = reduce(
      EMPTY,
      story(
        MESSAGE,
        { kind: 'tool_call', call: '1', tool: 'execute_cell', arguments: {} },
        { kind: 'done', end: 'stopped', text: '' }
      )
    ).turns;
    expect(turn?.items[0]).toMatchObject({ status: 'stopped' });
  });

  it('replaces an earlier message and all after it', () => {
    const sent = (number: number, turn: string, replaces: string | null = null): ChatEvent =>
      numbered({ ...MESSAGE, replaces }, number, turn);
    const { turns } = reduce(EMPTY, [sent(1, 'a'), sent(2, 'b'), sent(3, 'c'), sent(4, 'd', 'b')]);
    expect(turns.map(turn => turn.replaced)).toEqual([false, true, true, false]);
  });

  it('knows which message waits, and which was withdrawn', () => {
    const events = story({ ...MESSAGE, waits: 1 }, { kind: 'done', end: 'stopped', text: '' });
    const [waiting] = reduce(EMPTY, events.slice(0, 1)).turns;
    const [withdrawn] = reduce(EMPTY, events).turns;
    expect([waiting && waits(waiting), waiting && isUnsent(waiting)]).toEqual([true, false]);
    expect([withdrawn && waits(withdrawn), withdrawn && isUnsent(withdrawn)]).toEqual([
      false,
      true
    ]);
  });

  it('knows whether a turn changed cells', () => {
    const [turn] = reduce(EMPTY, STORY).turns;
    expect([turn && hasChanges(turn), turn && hasChanges({ ...turn, items: [] })]).toEqual([
      true,
      false
    ]);
  });
});
