import type { ChatEvent } from '../api/events';
import { reduce } from '../state/reduce';
import { EMPTY, type IJournal, type ITurn } from '../state/chat';
import { cellsByEntry } from '../changes/pending';
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

/** A journal of entries with their cells, of which those in capitals are kept. */
function journalOf(...entries: (readonly [entry: number, ...cells: string[]])[]): IJournal {
  const changes = entries.map(([entry, ...names]) => ({
    ...{ entry, turn: 't', notebook: 'now.ipynb', time: 100 + entry },
    cells: names.map(name => name.toLowerCase()),
    kept: names.filter(name => name !== name.toLowerCase()).map(name => name.toLowerCase())
  }));
  return { changes, since: 10, ended: new Set(['t']) };
}

describe('reviewOf', () => {
  const turn = turnOf('x', 'y', 'x');
  const standings = (journal: IJournal | null): string[] =>
    reviewOf(turn, journal).map(({ cell, status }) => `${cell} ${status}`);

  it('lists pending changes, with the present path of the notebook', () => {
    const found = reviewOf(turn, journalOf([1, 'x'], [2, 'y'], [3, 'x']));
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

  it('knows changes that were kept', () => {
    expect(standings(journalOf([1, 'X'], [2, 'y'], [3, 'X']))).toEqual(['x kept', 'y open']);
  });

  it('undoes pending changes, but no kept ones', () => {
    const journal = journalOf([1, 'X'], [2, 'Y'], [3, 'x']);
    const pending = reviewOf(turn, journal).flatMap(each => each.pending);
    expect(cellsByEntry(pending)).toEqual({ 3: ['x'] });
  });

  it('is settled where the journal has no entry', () => {
    expect(standings(null)).toEqual(['x settled', 'y settled']);
    const nothing = journalOf();
    expect(standings({ ...nothing, since: 101 })).toEqual(['x settled', 'y settled']);
    // It was asked before the turn had ended.
    expect(standings({ ...nothing, ended: new Set() })).toEqual(['x settled', 'y settled']);
  });
});
