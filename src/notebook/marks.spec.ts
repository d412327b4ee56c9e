import { keeping, NOTHING_KEPT } from '../state/keptChanges';
import { marksOf, undoing } from './marks';
import { placeOf } from './keys';
import type { ChangedCell, ChangeInfo } from '../api/events';

type Done = [cell: string, action?: ChangedCell['action'], diff?: string];

function change(entry: number, cells: Done[], more: Partial<ChangeInfo> = {}): ChangeInfo {
  return {
    entry,
    time: entry * 10,
    author: 'Claude',
    tool: 'edit_cell',
    turn: null,
    yours: true,
    summary: '',
    cells: cells.map(([cell, action = 'replace', diff = '']) => ({
      cell,
      action,
      diff,
      truncated: false
    })),
    ...more
  };
}

describe('marksOf', () => {
  it('groups the changes by cell, from the newest', () => {
    const marks = marksOf([change(2, [['a'], ['b']], { author: 'ada' }), change(1, [['a']])], {
      ...NOTHING_KEPT
    });
    expect([...marks.keys()]).toEqual(['a', 'b']);
    expect(marks.get('a')?.steps.map(step => step.entry)).toEqual([2, 1]);
    expect(marks.get('a')).toMatchObject({ author: 'ada', time: 20, deleted: false });
  });

  it('has the last of several changes by one call before those before it', () => {
    const twice = change(3, [
      ['a', 'insert', 'first'],
      ['a', 'replace', 'second']
    ]);
    const steps = marksOf([twice, change(1, [['a']])], NOTHING_KEPT).get('a')?.steps;
    expect(steps?.map(step => step.diff)).toEqual(['second', 'first', '']);
  });

  it('leaves out kept changes, of one cell and of all', () => {
    const changes = [change(3, [['a'], ['b']]), change(2, [['a']]), change(1, [['c']])];
    const kept = { all: 10, steps: { '30 b': 30 } };
    expect([...marksOf(changes, kept).keys()]).toEqual(['a']);
    expect(marksOf(changes, { all: 20, steps: {} }).get('a')?.steps).toHaveLength(1);
  });

  it('knows whether all changes are by the person’s agents', () => {
    const changes = [change(2, [['a'], ['b']]), change(1, [['a']], { yours: false })];
    const marks = marksOf(changes, NOTHING_KEPT);
    expect([marks.get('a')?.yours, marks.get('b')?.yours]).toEqual([false, true]);
  });

  it('knows deleted cells, and has no mark for a cell that was inserted and deleted', () => {
    const changes = [
      change(3, [
        ['new', 'delete'],
        ['old', 'delete']
      ]),
      change(2, [['new', 'insert']])
    ];
    const marks = marksOf(changes, NOTHING_KEPT);
    expect([...marks.keys()]).toEqual(['old']);
    expect(marks.get('old')?.deleted).toBe(true);
  });

  it('has no mark for a cell whose deletion was kept, until the deletion is undone', () => {
    const [inserted, changed] = [change(1, [['a', 'insert', '+1']]), change(2, [['a']])];
    const deleted = change(3, [['a', 'delete', '-2']]);
    for (const steps of [[inserted], [changed], [changed, inserted]]) {
      const kept = keeping([{ cell: 'a', time: 30 }]);
      expect(marksOf([deleted, ...steps], kept).size).toBe(0);
      expect(marksOf(steps, kept).size).toBe(1);
      // It is there again, as a change after it says.
      expect(marksOf([change(4, [['a', 'insert']]), deleted, ...steps], kept).size).toBe(1);
    }
  });

  it('has a mark for a cell that was inserted and deleted if a person wrote in it', () => {
    const steps = (inserted: string, changed: string, deleted: string): string[] => {
      const changes = [
        change(3, [['new', 'delete', deleted]]),
        change(2, [['new', 'replace', changed]]),
        change(1, [['new', 'insert', inserted]])
      ];
      return [...marksOf(changes, NOTHING_KEPT).keys()];
    };
    const [inserted, changed] = ['@@ -0,0 +1,2 @@\n+a\n+b', '@@ -1,2 +1,2 @@\n a\n-b\n+c'];
    expect(steps(inserted, changed, '@@ -1,2 +0,0 @@\n-a\n-c')).toEqual([]);
    expect(steps(inserted, changed, '@@ -1,3 +0,0 @@\n-a\n-mine\n-c')).toEqual(['new']);
  });
});

describe('keeping', () => {
  const changes = [change(2, [['a'], ['b']]), change(1, [['a'], ['c']])];

  it('removes the marks of single cells', () => {
    const [mark] = marksOf(changes, NOTHING_KEPT).values();
    const kept = keeping(mark?.steps ?? []);
    expect([...marksOf(changes, kept).keys()]).toEqual(['b', 'c']);
    expect([...marksOf([change(3, [['a']]), ...changes], kept).keys()]).toEqual(['a', 'b', 'c']);
  });

  it('keeps all cells of a change by its time', () => {
    const kept = keeping([{ time: 20 }]);
    expect([...marksOf(changes, kept).keys()]).toEqual(['a', 'c']);
    expect(
      marksOf([change(3, [['a']], { time: 2 }), ...changes], kept).get('a')?.steps
    ).toHaveLength(2);
  });

  it('keeps no other change of the cell, earlier or later', () => {
    const kept = keeping([{ cell: 'a', time: 20 }]);
    const left = marksOf([change(3, [['a']], { time: 15 }), ...changes], kept).get('a');
    expect(left?.steps.map(step => step.entry)).toEqual([3, 1]);
  });
});

it('undoes of each change the cells that are not kept', () => {
  const changes = [change(2, [['a'], ['b']]), change(1, [['a'], ['b']])];
  const kept = { all: 0, steps: { '10 b': 10 } };
  expect(undoing(marksOf(changes, kept).values())).toEqual({ 1: ['a'], 2: ['a', 'b'] });
});

it('finds a cell by its id, and by its number only where no cell has that id', () => {
  const ids = ['x', 'cell-0', 'y'];
  expect(['y', 'cell-0', 'cell-2', 'cell-9', 'gone'].map(key => placeOf(key, ids))).toEqual([
    2, 1, 2, -1, -1
  ]);
});
