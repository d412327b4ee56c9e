import type { ChatEvent } from '../api/events';
import { reduce } from '../state/reduce';
import { EMPTY, type IJournal, type ITurn } from '../state/chat';
import { type IKept, isKept, keeping, NOTHING_KEPT } from '../state/keptChanges';
import { marksOf, undoing } from './marks';
import { type IPendingStep, undoOf } from '../changes/pending';
import { reviewOf } from '../changes/turnReview';

/** A turn that changed these cells, each by the entry of its place, from 1. */
function turnOf(...cells: string[]): ITurn {
  const events = [
    { kind: 'message', chat: 'c', text: 'Go.', notebook: 'a.ipynb', mode: 'auto', waits: 0 },
    { kind: 'tool_call', call: 'k', tool: 'edit_cell', arguments: {} },
    ...cells.map((cell, place) => ({
      ...{ kind: 'cell_change', call: 'k', notebook: 'a.ipynb', action: 'replace', cell },
      ...{ index: place, cell_type: 'code', diff: '+1\n', entry: place + 1 }
    }))
  ].map((event, place) => ({ id: place + 1, turn: 't', time: 100, attachments: [], ...event }));
  return reduce(EMPTY, events as unknown as ChatEvent[]).turns[0] as ITurn;
}

function journalOf(...entries: (readonly [entry: number, ...cells: string[]])[]): IJournal {
  const changes = entries.map(([entry, ...cells]) => ({
    ...{ entry, cells, turn: 't', notebook: 'now.ipynb', time: 100 + entry }
  }));
  return { changes, since: 10, ended: new Set(['t']) };
}

const NONE: (path: string) => IKept = () => NOTHING_KEPT;

describe('reviewOf', () => {
  const turn = turnOf('x', 'y', 'x');
  const standings = (journal: IJournal | null, keptOf = NONE): string[] =>
    reviewOf(turn, journal, keptOf).map(({ cell, status }) => `${cell} ${status}`);

  it('lists pending changes, with the present path of the notebook', () => {
    const found = reviewOf(turn, journalOf([1, 'x'], [2, 'y'], [3, 'x']), NONE);
    expect(found.map(({ cell, notebook, changes }) => [cell, notebook, changes.length])).toEqual([
      ['x', 'now.ipynb', 2],
      ['y', 'now.ipynb', 1]
    ]);
  });

  it('reads undone changes from the journal', () => {
    expect(standings(journalOf([1, 'x'], [2, 'y']))).toEqual(['x open', 'y open']);
    expect(standings(journalOf([2, 'y']))).toEqual(['x undone', 'y open']);
    // Of a change of several cells, some came back.
    expect(standings(journalOf([2, 'z'], [3, 'x']))).toEqual(['x open', 'y undone']);
  });

  it('knows changes that were kept in the panel or at the cell', () => {
    const journal = journalOf([1, 'x'], [2, 'y'], [3, 'x']);
    const keptOf = (path: string): IKept =>
      path === 'now.ipynb' ? { all: 0, steps: { '101 x': 101, '103 x': 103 } } : NOTHING_KEPT;
    expect(standings(journal, keptOf)).toEqual(['x kept', 'y open']);
  });

  it('undoes pending changes, but no kept ones', () => {
    const journal = journalOf([1, 'x'], [2, 'y'], [3, 'x']);
    const keptOf = (): IKept => ({ all: 0, steps: { '101 x': 101, '102 y': 102 } });
    const pending = reviewOf(turn, journal, keptOf).flatMap(each => each.pending);
    expect(undoOf(pending)).toEqual({ 3: ['x'] });
  });

  it('lists the same cells as the notebook, with the same undo', () => {
    const pairOf = ({ entry, cell }: { entry: unknown; cell: string }): string =>
      `${String(entry)} ${cell}`;
    const actions = ['insert', 'replace', 'delete', 'outputs', 'move'] as const;
    let seed = 7;
    const random = (below: number): number => (seed = (seed * 16807) % 2147483647) % below;
    for (let round = 0; round < 300; round++) {
      const done = Array.from({ length: 1 + random(6) }, (_, place) => ({
        ...{ cell: 'abc'[random(3)] as string, action: actions[random(5)] as 'insert' },
        // Each call changes up to two cells.
        ...{ entry: 1 + (place >> 1), diff: '' }
      }));
      const made = turnOf(...done.map(each => each.cell));
      const calls = made.items.map(item =>
        item.kind === 'call'
          ? { ...item, changes: item.changes.map((each, place) => ({ ...each, ...done[place] })) }
          : item
      );
      const undone = new Set(done.filter(() => random(4) === 0).map(pairOf));
      const standing = done.filter(each => !undone.has(pairOf(each)));
      const byEntry = [1, 2, 3]
        .map(entry => ({ entry, some: standing.filter(each => each.entry === entry) }))
        .filter(({ some }) => some.length > 0);
      const single = done.filter(() => random(3) === 0);
      const kept: IKept = {
        ...keeping(single.map(({ cell, entry }) => ({ cell, time: 100 + entry }))),
        all: 99 + random(3)
      };
      const journal = journalOf(
        ...byEntry.map(({ entry, some }) => [entry, ...some.map(({ cell }) => cell)] as const)
      );
      const listed = reviewOf({ ...made, items: calls }, journal, () => kept);
      const open = listed.filter(each => each.status === 'open');
      const marks = marksOf(
        byEntry.toReversed().map(({ entry, some }) => ({
          ...{ entry, time: 100 + entry, cells: some.map(each => ({ ...each, truncated: false })) },
          ...{ author: '', tool: '', turn: 't', yours: true, summary: '' }
        })),
        kept
      );
      expect(new Set(open.map(each => each.cell))).toEqual(new Set(marks.keys()));
      for (const cell of marks.keys()) {
        // A cell that the person knows to be deleted has nothing to decide.
        const { action, entry } = standing.findLast(each => each.cell === cell) as IPendingStep;
        const isKnown = isKept(kept, { cell, time: 100 + entry });
        expect(action === 'delete' && isKnown).toBe(false);
      }
      const pending = standing.filter(
        ({ entry, cell }) => marks.has(cell) && !isKept(kept, { cell, time: 100 + entry })
      );
      for (const undo of [undoOf(open.flatMap(each => each.pending)), undoing(marks.values())]) {
        const pairs = Object.entries(undo).flatMap(([entry, cells]) =>
          cells.map(cell => pairOf({ entry, cell }))
        );
        expect(new Set(pairs)).toEqual(new Set(pending.map(pairOf)));
      }
    }
  });

  it('is settled where the journal has no entry', () => {
    expect(standings(null)).toEqual(['x settled', 'y settled']);
    const nothing = journalOf();
    expect(standings({ ...nothing, since: 101 })).toEqual(['x settled', 'y settled']);
    // It was asked before the turn had ended.
    expect(standings({ ...nothing, ended: new Set() })).toEqual(['x settled', 'y settled']);
  });
});

it('keeps the changes of a turn, and none of another agent to the same cell', () => {
  const journal = journalOf([1, 'x'], [3, 'x']);
  const turn = turnOf('x', 'y', 'x');
  const kept = keeping(reviewOf(turn, journal, NONE).flatMap(each => each.pending));
  const by = { tool: '', turn: null, yours: true, summary: '' };
  const changes = [4, 3, 2, 1].map(entry => ({
    ...{ ...by, entry, time: 100 + entry, author: entry % 2 === 0 ? 'Codex' : 'Claude' },
    cells: [{ cell: 'x', action: 'replace' as const, diff: '', truncated: false }]
  }));
  expect(
    marksOf(changes, kept)
      .get('x')
      ?.steps.map(({ entry }) => entry)
  ).toEqual([4, 2]);
  expect(reviewOf(turn, journal, () => kept).map(({ status }) => status)).toEqual([
    'kept',
    'undone'
  ]);
});
