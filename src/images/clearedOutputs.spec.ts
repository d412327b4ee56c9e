import { YNotebook } from '@jupyter/ydoc';
import type { CodeCellModel } from '@jupyterlab/cells';
import type * as nbformat from '@jupyterlab/nbformat';
import { NotebookModel, type NotebookPanel } from '@jupyterlab/notebook';
import { Signal } from '@lumino/signaling';
import { applyUpdate, encodeStateAsUpdate } from 'yjs';

import { forgetResults, report } from '../lab/features';
import { setOutputs, type WrittenOutputs } from '../tabs/outputs';
import type { IOutputs } from '../tabs/protocol';
import { followDistrust } from './trust';

const AGENTS: nbformat.IOutput = { output_type: 'display_data', data: {}, metadata: { agent: 1 } };
const OWN: nbformat.IOutput = { output_type: 'display_data', data: {}, metadata: {} };

type Next = () => number;

/** Return numbers from 0 to 1 that are the same in each run. */
function random(seed: number): Next {
  let state = seed + 1;
  return () => (state = (state * 48_271) % 2_147_483_647) / 2_147_483_647;
}

/** An open notebook, and whether outputs of an agent were ever added to it with trust. */
class Page {
  constructor() {
    this.shared.addCell({ cell_type: 'code', id: 'a', metadata: { trusted: true } });
    this.shared.addCell({ cell_type: 'code', id: 'b' });
    const content = { model: this.model, modelChanged: new Signal(this) };
    followDistrust({ content, disposed: new Signal(this) } as unknown as NotebookPanel);
    this.model.cells.changed.connect(() => this._watch());
    this._watch();
  }

  get cell(): CodeCellModel {
    return [...this.model.cells].find(({ id }) => id === 'a') as CodeCellModel;
  }

  clear(): void {
    const { cell } = this;
    cell.sharedModel.transact(() => cell.clearExecution(), false);
  }

  /** Run the cell as JupyterLab does. */
  run(): void {
    const { cell } = this;
    cell.sharedModel.transact(() => cell.clearExecution(), false, 'silent-change');
    cell.executionState = 'running';
    cell.trusted = true;
    cell.outputs.add(OWN);
    cell.executionCount = 1;
    cell.executionState = 'idle';
    expect(cell.outputs.get(0).trusted).toBe(true);
  }

  /** Move the cell as JupyterLab does. */
  move(): void {
    const place = this.shared.cells.findIndex(({ id }) => id === 'a');
    const copy = this.shared.getCell(place).toJSON();
    this.shared.transact(() => {
      this.shared.deleteCell(place);
      this.shared.insertCell(1 - place, copy);
    });
  }

  private _watch(): void {
    this.cell.outputs.changed.disconnect(this._onAdded);
    this.cell.outputs.changed.connect(this._onAdded);
  }

  private readonly _onAdded = (_: unknown, { type, newValues }: ListChange): void => {
    for (const output of type === 'add' ? newValues : []) {
      this.isUnsafe ||= output.trusted && output.metadata['agent'] !== undefined;
    }
  };

  readonly shared = new YNotebook();
  readonly model = new NotebookModel({ sharedModel: this.shared });
  isUnsafe = false;
}

type ListChange = Parameters<Parameters<CodeCellModel['outputs']['changed']['connect']>[0]>[1];

/** An agent whose server sends requests to the page. */
function agentOf(page: Page): Agent {
  const written: WrittenOutputs = new Map();
  const ask = (request: Partial<IOutputs>): void => {
    const whole = { method: 'outputs' as const, cell: 'a', expected: null };
    setOutputs(page.cell.sharedModel as never, { ...whole, ...request }, written);
  };
  return {
    begin: () => ask({ start: true }),
    push: () => ask({ changes: [{ append: AGENTS }] }),
    end: () => ask({ finish: true, execution_count: 5 }),
    deliver: () => undefined
  };
}

/** An agent whose server shares the document, with updates that are on their way. */
function roomOf(page: Page): Agent {
  const server = new YNotebook();
  applyUpdate(server.ydoc, encodeStateAsUpdate(page.shared.ydoc));
  const ways: (() => void)[][] = [[], []];
  [page.shared, server].forEach((from, way) => {
    const to = way === 0 ? server : page.shared;
    from.ydoc.on('update', (update: Uint8Array, origin: unknown) => {
      if (origin !== 'network') {
        ways[way]?.push(() => applyUpdate(to.ydoc, update, 'network'));
      }
    });
  });
  const all = (): void => ways.forEach(way => way.splice(0).forEach(each => each()));
  const write = (change: (cell: ReturnType<typeof cellOf>) => void): void => {
    const cell = cellOf(server);
    cell.transact(() => {
      change(cell);
      if (cell.getMetadata('trusted') === true) {
        cell.setMetadata('trusted', false);
      }
    }, false);
  };
  return {
    begin: () => {
      all();
      write(cell => {
        cell.setOutputs([]);
        cell.execution_count = null;
        cell.executionState = 'running';
      });
      all();
    },
    push: () =>
      write(cell => cell.updateOutputs(cell.outputs.length, cell.outputs.length, [AGENTS])),
    end: () => {
      all();
      const cell = cellOf(server);
      cell.transact(() => {
        cell.execution_count = 5;
        cell.executionState = 'idle';
      }, false);
      all();
    },
    deliver: next => ways[next() < 0.5 ? 0 : 1]?.shift()?.()
  };
}

interface Agent {
  begin: () => void;
  push: () => void;
  end: () => void;
  deliver: (next: Next) => void;
}

const cellOf = (notebook: YNotebook): CodeCellModel['sharedModel'] =>
  notebook.cells.find(({ id }) => id === 'a') as CodeCellModel['sharedModel'];

/** Play what happens to a cell in random order. */
function play(seed: number, connect: (page: Page) => Agent, moves: boolean): Page {
  const next = random(seed);
  const page = new Page();
  const agent = connect(page);
  let isRunning = false;
  for (let step = 0; step < 20; step++) {
    const kind = next();
    if (!isRunning) {
      if (kind < 0.3) {
        page.run();
      } else if (kind < 0.4) {
        page.cell.trusted = true;
      } else if (kind < 0.6) {
        page.clear();
      } else {
        agent.begin();
        isRunning = true;
      }
    } else if (kind < 0.2) {
      page.clear();
    } else if (kind < 0.3 && moves) {
      page.move();
    } else if (kind < 0.6) {
      agent.push();
    } else if (kind < 0.9) {
      agent.deliver(next);
    } else {
      agent.end();
      isRunning = false;
    }
  }
  return page;
}

describe.each([true, undefined])('outputs of an agent (quiet: %s)', quiet => {
  beforeEach(() => {
    // Yjs warns of each cell that JupyterLab makes outside a document.
    jest.spyOn(console, 'warn').mockImplementation();
    forgetResults();
    if (quiet !== undefined) {
      report('quiet-trust', quiet);
    }
  });
  afterEach(() => jest.restoreAllMocks());

  it.each([
    ['a tab', agentOf, true],
    ['a room', roomOf, false]
  ])('are never trusted in %s, whenever a person clears the cell', (_, connect, moves) => {
    const unsafe = Array.from({ length: 40 }, (_, seed) => seed).filter(
      seed => play(seed, connect, moves).isUnsafe
    );
    expect(unsafe).toEqual([]);
  });
});
