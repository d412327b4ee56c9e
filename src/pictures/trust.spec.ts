import type { ICellModel } from '@jupyterlab/cells';

import { distrust } from './trust';

jest.mock('../notebook/cells', () => ({ onCellModels: jest.fn() }));

/** A trusted cell whose trust JupyterLab keeps under these names. */
function cellWith(name: string, hasSetter = true): { cell: ICellModel; cleared: () => boolean } {
  let cleared = false;
  const keeping = (): object => {
    const kept: Record<string, unknown> = { [name]: true };
    Object.defineProperty(kept, 'trusted', {
      get: () => kept[name],
      set: (value: boolean) => {
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
  return { cell: cell as unknown as ICellModel, cleared: () => cleared };
}

describe('a cell whose outputs become an agent’s', () => {
  beforeEach(() => jest.spyOn(console, 'warn').mockImplementation(() => undefined));
  afterEach(() => jest.restoreAllMocks());

  it.each(['_trusted', '_isTrusted'])('is not trusted where JupyterLab keeps it as %s', name => {
    const { cell, cleared } = cellWith(name);
    distrust(cell);
    expect([cell.trusted, cleared()]).toEqual([false, false]);
  });

  it('has no outputs where nothing takes its trust', () => {
    const { cell, cleared } = cellWith('_isTrusted', false);
    distrust(cell);
    expect(cleared()).toBe(true);
  });
});
