import type { ICellModel } from '@jupyterlab/cells';

import { forgetResults, report, works } from '../lab/features';
import { distrust } from './trust';

jest.mock('../notebook/cells', () => ({ onCellModels: jest.fn() }));

/** A trusted cell whose trust JupyterLab keeps under these names. */
function cellWith(
  name: string,
  hasSetter = true
): { cell: ICellModel; cleared: () => boolean; set: () => number } {
  let cleared = false;
  let set = 0;
  const keeping = (): object => {
    const kept: Record<string, unknown> = { [name]: true };
    Object.defineProperty(kept, 'trusted', {
      get: () => kept[name],
      set: (value: boolean) => {
        set++;
        if (hasSetter) {
          kept[name] = value;
        }
      }
    });
    return kept;
  };
  const outputs = Object.assign(keeping(), { clear: () => (cleared = true) });
  const cell = keeping();
  Object.assign(cell, { outputs, stateChanged: { emit: () => undefined } });
  return { cell: cell as unknown as ICellModel, cleared: () => cleared, set: () => set };
}

describe('a cell whose outputs become an agent’s', () => {
  beforeEach(forgetResults);

  it.each(['_trusted', '_isTrusted'])('is not trusted where JupyterLab keeps it as %s', name => {
    const { cell, cleared } = cellWith(name);
    distrust(cell);
    expect([cell.trusted, cleared()]).toEqual([false, false]);
  });

  it.each([
    [undefined, 2],
    [false, 2],
    [true, 0]
  ])('has its outputs left alone only where the self-test said so: %s', (passed, agentCells) => {
    if (passed !== undefined) {
      report('quiet-trust', passed);
    }
    const { cell, set } = cellWith('_trusted');
    distrust(cell);
    expect([cell.trusted, set()]).toEqual([false, agentCells]);
  });

  it('is not trusted where the quiet way is onDetached after the self-test', () => {
    report('quiet-trust', true);
    const { cell, cleared } = cellWith('_isTrusted');
    distrust(cell);
    expect([cell.trusted, cleared()]).toEqual([false, false]);
  });

  it('has no outputs where nothing takes its trust, and no HTML is rendered any more', () => {
    const { cell, cleared } = cellWith('_isTrusted', false);
    distrust(cell);
    expect(cleared()).toBe(true);
    expect(works('trust')).toBe(false);
  });
});
