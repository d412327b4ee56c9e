import type { Cell } from '@jupyterlab/cells';
import { nullTranslator } from '@jupyterlab/translation';
import { YNotebook } from '@jupyter/ydoc';

import { MAX_DRAWN } from '../common/Lines';
import { showDiff } from './DiffEditor';
import type { IMark } from './marks';

const trans = nullTranslator.load('tk-ai-extension');
const LINES = Array.from({ length: 30 }, (_, number) => `x${number} = ${number}`);
const BEFORE = LINES.join('\n');
const NOW = ['y = 0', ...LINES.slice(1, -1), 'z = 29'].join('\n');
const DIFF =
  '@@ -1,2 +1,2 @@\n-x0 = 0\n+y = 0\n x1 = 1\n@@ -29,2 +29,2 @@\n x28 = 28\n-x29 = 29\n+z = 29';

// What Yjs says of cells that are made here as JupyterLab makes them.
beforeEach(() => void jest.spyOn(console, 'warn').mockReturnValue());
afterEach(() => document.body.replaceChildren());

type SharedCell = ReturnType<YNotebook['addCell']>;

function cellWith(source: string): SharedCell {
  return new YNotebook().addCell({ cell_type: 'code', source });
}

function markOf(diff: string): IMark {
  const step = { entry: 3, time: 1, cell: 'a', action: 'replace', author: 'a', diff } as const;
  const steps = [{ ...step, truncated: false }];
  return { cell: 'a', author: 'a', time: 1, yours: true, deleted: false, steps };
}

/** Opens the review of a cell. */
function review(shared: SharedCell, mark: IMark): [HTMLElement, ReturnType<typeof showDiff>] {
  const node = document.createElement('div');
  document.body.append(node);
  const cell = { model: { sharedModel: shared }, editor: null } as unknown as Cell;
  return [node, showDiff(node, cell, mark, trans)];
}

const rejects = (node: HTMLElement): HTMLElement[] => [
  ...node.querySelectorAll<HTMLElement>('button[aria-label="Undo this hunk"]')
];

describe('the diff of a marked cell', () => {
  it('folds what stayed as it was', () => {
    const [node] = review(cellWith(NOW), markOf(DIFF));
    expect(node.querySelectorAll('.cm-collapsedLines')).toHaveLength(1);
  });

  it('is there again after a hunk was rejected, and in a page that was loaded since', () => {
    const shared = cellWith(NOW);
    const [node, close] = review(shared, markOf(DIFF));
    expect(rejects(node)).toHaveLength(2);
    rejects(node)[0]?.click();
    const left = NOW.replace('y = 0', 'x0 = 0');
    expect(shared.source).toBe(left);
    (close as () => void)();
    expect(node.childElementCount).toBe(0);
    expect(rejects(review(shared, markOf(DIFF))[0])).toHaveLength(1);
    expect(rejects(review(cellWith(left), markOf(DIFF))[0])).toHaveLength(1);
  });

  it('is there again after somebody wrote into the cell', () => {
    const shared = cellWith(NOW);
    const [, close] = review(shared, markOf(DIFF));
    (close as () => void)();
    shared.updateSource(0, 0, '# A note.\n');
    expect(rejects(review(shared, markOf(DIFF))[0]).length).toBeGreaterThan(0);
  });

  it('leaves it to plain lines where nothing is left of the change, or it is not known', () => {
    expect(review(cellWith(BEFORE), markOf(DIFF))[1]).toBeNull();
    expect(review(cellWith('mine'), markOf(DIFF))[1]).toBeNull();
  });

  it('says where it is too long', () => {
    const rest = '\nx'.repeat(MAX_DRAWN);
    const diff = '@@ -1,2 +1,2 @@\n-a\n+b\n x';
    expect(review(cellWith(`b${rest}`), markOf(diff))[1]).toBe('too long');
  });
});
