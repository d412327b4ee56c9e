import type { Cell } from '@jupyterlab/cells';
import { nullTranslator } from '@jupyterlab/translation';
import { YNotebook } from '@jupyter/ydoc';

import { MAX_DRAWN } from '../common/Lines';
import type { CombinedChange } from '../api/events';
import { NET } from '../testing/events';
import { showDiff } from './DiffEditor';

const trans = nullTranslator.load('tk-ai-extension');
const LINES = Array.from({ length: 30 }, (_, number) => `x${number} = ${number}`);
const BEFORE = LINES.join('\n');
const NOW = ['y = 0', ...LINES.slice(1, -1), 'z = 29'].join('\n');

// What Yjs says of cells that are made here as JupyterLab makes them.
beforeEach(() => void jest.spyOn(console, 'warn').mockReturnValue());
afterEach(() => document.body.replaceChildren());

type SharedCell = ReturnType<YNotebook['addCell']>;

function cellWith(source: string): SharedCell {
  return new YNotebook().addCell({ cell_type: 'code', source });
}

function markOf(before: string): CombinedChange {
  return { ...NET, action: 'replace', before };
}

/** Opens the review of a cell. */
function review(
  shared: SharedCell,
  mark: CombinedChange
): [HTMLElement, ReturnType<typeof showDiff>] {
  const node = document.createElement('div');
  document.body.append(node);
  const cell = { model: { sharedModel: shared }, editor: null } as unknown as Cell;
  return [node, showDiff(node, cell, mark, trans)];
}

const rejects = (node: HTMLElement): HTMLElement[] => [
  ...node.querySelectorAll<HTMLElement>('button[aria-label="Undo this hunk"]')
];

describe('the diff of a marked cell', () => {
  it('folds unchanged lines', () => {
    const [node] = review(cellWith(NOW), markOf(BEFORE));
    expect(node.querySelectorAll('.cm-collapsedLines')).toHaveLength(1);
  });

  it('is shown again after a hunk was rejected, and in a page that was loaded since', () => {
    const shared = cellWith(NOW);
    const [node, close] = review(shared, markOf(BEFORE));
    expect(rejects(node)).toHaveLength(2);
    rejects(node)[0]?.click();
    const left = NOW.replace('y = 0', 'x0 = 0');
    expect(shared.source).toBe(left);
    (close as () => void)();
    expect(node.childElementCount).toBe(0);
    expect(rejects(review(shared, markOf(BEFORE))[0])).toHaveLength(1);
    expect(rejects(review(cellWith(left), markOf(BEFORE))[0])).toHaveLength(1);
  });

  it('is shown again after an edit of the cell', () => {
    const shared = cellWith(NOW);
    const [, close] = review(shared, markOf(BEFORE));
    (close as () => void)();
    shared.updateSource(0, 0, '# A note.\n');
    expect(rejects(review(shared, markOf(BEFORE))[0]).length).toBeGreaterThan(0);
  });

  it('is replaced by plain lines if nothing is left of the change', () => {
    expect(review(cellWith(BEFORE), markOf(BEFORE))[1]).toBeNull();
  });

  it('is replaced by plain lines if it is too long', () => {
    const rest = '\nx'.repeat(MAX_DRAWN);
    expect(review(cellWith(`b${rest}`), markOf(`a${rest}`))[1]).toBeNull();
  });
});
