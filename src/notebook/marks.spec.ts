import { entriesOf, marksOf } from './marks';
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
      truncated: false,
      before: null
    })),
    ...more
  };
}

describe('marksOf', () => {
  it('groups the changes by cell, from the newest', () => {
    const marks = marksOf([change(2, [['a'], ['b']], { author: 'ada' }), change(1, [['a']])]);
    expect([...marks.keys()]).toEqual(['a', 'b']);
    expect(marks.get('a')?.steps.map(step => step.entry)).toEqual([2, 1]);
    expect(marks.get('a')).toMatchObject({ author: 'ada', time: 20, deleted: false });
  });

  it('has the last of several changes by one call before those before it', () => {
    const twice = change(3, [
      ['a', 'insert', 'first'],
      ['a', 'replace', 'second']
    ]);
    const steps = marksOf([twice, change(1, [['a']])]).get('a')?.steps;
    expect(steps?.map(step => step.diff)).toEqual(['second', 'first', '']);
  });

  it('knows whether all changes are by the person’s agents', () => {
    const changes = [change(2, [['a'], ['b']]), change(1, [['a']], { yours: false })];
    const marks = marksOf(changes);
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
    const marks = marksOf(changes);
    expect([...marks.keys()]).toEqual(['old']);
    expect(marks.get('old')?.deleted).toBe(true);
  });

  it('has a mark for a cell that was inserted and deleted if a person wrote in it', () => {
    const steps = (inserted: string, changed: string, deleted: string): string[] => {
      const changes = [
        change(3, [['new', 'delete', deleted]]),
        change(2, [['new', 'replace', changed]]),
        change(1, [['new', 'insert', inserted]])
      ];
      return [...marksOf(changes).keys()];
    };
    const [inserted, changed] = ['@@ -0,0 +1,2 @@\n+a\n+b', '@@ -1,2 +1,2 @@\n a\n-b\n+c'];
    expect(steps(inserted, changed, '@@ -1,2 +0,0 @@\n-a\n-c')).toEqual([]);
    expect(steps(inserted, changed, '@@ -1,3 +0,0 @@\n-a\n-mine\n-c')).toEqual(['new']);
  });
});

it('names of each change the cells of the marks', () => {
  const changes = [change(2, [['a'], ['b']]), change(1, [['a']])];
  expect(entriesOf(marksOf(changes).values())).toEqual({ 1: ['a'], 2: ['a', 'b'] });
});

it('finds a cell by its id, and by its number only where no cell has that id', () => {
  const ids = ['x', 'cell-0', 'y'];
  expect(['y', 'cell-0', 'cell-2', 'cell-9', 'gone'].map(key => placeOf(key, ids))).toEqual([
    2, 1, 2, -1, -1
  ]);
});
