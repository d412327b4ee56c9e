import { type ISharedCell, YNotebook } from '@jupyter/ydoc';
import type * as nbformat from '@jupyterlab/nbformat';

import { code } from '../testing/notebooks';
import { OpenNotebook } from './openNotebook';
import type { ILeft, Step, TabRequest } from './protocol';

interface IAnswer {
  version: number;
  changed: Record<string, nbformat.ICell>;
  order?: string[];
  applied?: boolean;
}

/** An open notebook, and what the server knows of it. */
class Page {
  readonly shared = new YNotebook();
  readonly open: OpenNotebook;
  version = 0;
  order: string[] = [];
  private _known: Record<string, nbformat.ICell> = {};
  private _ops = 0;
  private readonly _context: { model: { dirty: boolean } };
  private _file: object[] = [];

  constructor() {
    const nothing = (): Promise<void> => Promise.resolve();
    const methods = ['save', 'revert', '_handleError', '_raiseConflict'];
    const context = {
      ...Object.fromEntries(methods.map(name => [name, nothing])),
      model: {
        sharedModel: this.shared,
        cells: [],
        dirty: false,
        fromJSON: nothing,
        toJSON: () => this.shared.toJSON()
      },
      contentsModel: { hash: 'known' }
    };
    this.open = new OpenNotebook(context as never, {} as never, () => [], true);
    this._context = context;
  }

  /** Save as the server does, and return the sources in the file. */
  async save(): Promise<string[]> {
    this._context.model.dirty = true;
    const { left } = (await this.open.answer({ method: 'save' })) as { left: ILeft };
    const order = left.order.flatMap(([first, end]) =>
      Array.from({ length: end - first }, (_, n) => first + n)
    );
    this._file = order.map(number => ({ ...this._file[number], ...left.cells[number] }));
    await this.open.answer({ method: 'written', hash: 'known' });
    return this._file.map(cell => (cell as nbformat.ICell).source as string);
  }

  async ask(request: TabRequest): Promise<IAnswer> {
    const answer = (await this.open.answer(request)) as IAnswer;
    if ('version' in answer) {
      this.version = answer.version;
      this.order = answer.order ?? this.order;
      Object.assign(this._known, answer.changed);
    }
    return answer;
  }

  read(): Promise<IAnswer> {
    return this.ask({ method: 'read', since: this.version });
  }

  /** Apply a step. The answer has no order: the server knows what it has made of that. */
  async apply(key: string, step: Step): Promise<IAnswer> {
    const needs = { order: true, cells: [key] };
    const op = `${this._ops++}`;
    const { version: since } = this;
    const answer = await this.ask({ method: 'apply', op, since, needs, steps: [step] });
    expect(answer.order).toBeUndefined();
    if (step.do !== 'set') {
      this.order.splice(this.order.indexOf(key), 1);
    }
    if (step.do === 'move') {
      this.order.splice(step.to, 0, key);
    }
    return answer;
  }

  get known(): string[] {
    return this.order.map(key => this._known[key]?.source as string);
  }

  get sources(): string[] {
    return this.shared.cells.map(cell => cell.source);
  }
}

function below(count: number): number {
  return Math.floor(Math.random() * count);
}

it('reads, writes and saves the same cell, also where two have one id', async () => {
  const page = new Page();
  const { shared } = page;
  for (let step = 0; step < 150; step++) {
    // The person cuts, undoes, pastes, moves and types.
    const count = shared.cells.length;
    const place = below(count);
    const act = count < 2 ? 0 : below(5);
    if (act < 2) {
      shared.insertCell(below(count + 1), code('xyz'.charAt(below(3)), `p${step}`));
    } else if (act === 2 && count > 5) {
      shared.deleteCell(place);
    } else if (act === 3) {
      shared.moveCell(place, below(count));
    } else {
      (shared.cells[place] as ISharedCell).setSource(`typed ${step}`);
    }
    await page.read();
    expect(page.known).toEqual(page.sources);
    expect(new Set(page.order).size).toBe(page.order.length);
    // The server writes into the cell at a place.
    const at = below(page.order.length);
    const id = page.order[at] as string;
    const expected = page.sources;
    const source = expected[at] as string;
    const does = below(4);
    if (does === 0) {
      const moved = below(expected.length);
      expected.splice(moved, 0, ...expected.splice(at, 1));
      expect(await page.apply(id, { do: 'move', id, to: moved })).toMatchObject({ applied: true });
      expect(page.order[moved]).toBe(id);
    } else if (does === 1 && expected.length > 3) {
      expected.splice(at, 1);
      await page.apply(id, { do: 'delete', id });
    } else {
      expected[at] = `${source.slice(0, 1)}[${step}]`;
      const edit = { start: 1, end: source.length, text: `[${step}]` };
      await page.apply(id, { do: 'set', id, source: [edit] });
    }
    expect(page.sources).toEqual(expected);
    expect(page.known).toEqual(expected);
    if (below(3) === 0) {
      expect(await page.save()).toEqual(expected);
    }
  }
});

it('writes outputs into the cell that runs, and observes no cell when it is closed', async () => {
  const page = new Page();
  const [first, second] = [0, 1].map(() => page.shared.addCell(code('cut')));
  await page.read();
  const [, running] = page.order;
  const whole = [{ output_type: 'stream', name: 'stdout', text: 'x' }];
  await page.ask({ method: 'outputs', cell: running as string, expected: null, whole });
  const outputsOf = (cell?: ISharedCell): unknown =>
    (cell?.toJSON() as nbformat.ICodeCell | undefined)?.outputs;
  expect([first, second].map(outputsOf)).toEqual([[], whole]);
  page.shared.addCell(code('new'));
  page.open.dispose();
  const { now } = page.open.versions;
  page.shared.cells.forEach(cell => cell.setSource('later'));
  expect(page.open.versions.now).toBe(now);
});
