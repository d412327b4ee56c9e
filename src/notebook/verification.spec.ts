import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import { nullTranslator } from '@jupyterlab/translation';

import { type FakeResponse, responseOf, serverSettings } from '../testing/server';
import { verify } from './verification';

const verification = {
  status: 'differs',
  number: 1,
  total: 1,
  problems: [
    {
      cell: 'a',
      index: 0,
      status: 'differs',
      message: 'stdout differs; stderr is new',
      diff: ''
    },
    { cell: 'b', index: 1, status: 'failed', message: 'NameError: x', diff: '' },
    { cell: 'c', index: 2, status: 'differs', message: 'stdout differs', diff: '' }
  ],
  left_out: 7
};

type Answer = () => Promise<FakeResponse>;

let answers: Answer[] = [];

const settings = serverSettings(() => (answers.shift() as Answer)());

const english = nullTranslator.load('tk-ai-extension');
const answer = (found: object): Promise<FakeResponse> =>
  Promise.resolve(responseOf({ execution_id: '1', status: 'ok', verification: found }));
const running: Answer = () => answer({ status: 'running', number: 1, total: 2 });
const failing =
  (status: number): Answer =>
  () =>
    status === 0
      ? Promise.reject(new TypeError('network error'))
      : Promise.resolve(responseOf({ code: 'failed', message: `E${status}` }, status));

/** A notebook in which cell `a` was moved and cell `b` was deleted since. */
function view(): { panel: NotebookPanel; focused: () => Element | null } {
  const cells = ['x', 'c', 'a'].map(id => {
    const node = document.body.appendChild(document.createElement('div'));
    return { model: { id }, node: Object.assign(node, { tabIndex: 0, id }) };
  });
  const content = {
    ...{ widgets: cells, model: null, activeCellIndex: 1 },
    scrollToItem: () => Promise.resolve()
  };
  return { panel: { content } as never, focused: () => document.activeElement };
}

describe('the result of a run from the top', () => {
  let noted: [type: string, message: string, show: () => void][];

  beforeEach(() => {
    noted = [];
    for (const type of ['warning', 'error', 'success', 'info'] as const) {
      jest.spyOn(Notification, type).mockImplementation((...given: unknown[]) => {
        const [message, options] = given as [string, Notification.IOptions<never>?];
        const click = new MouseEvent('click');
        noted.push([type, message, () => options?.actions?.[0]?.callback(click)]);
        return '';
      });
    }
  });

  afterEach(() => {
    jest.restoreAllMocks();
    jest.useRealTimers();
    document.body.replaceChildren();
  });

  it('is shown on request, translated, with links to the cells', async () => {
    const trans = {
      ...english,
      __: (text: string, ...values: unknown[]) => `<${english.__(text, ...values)}>`,
      _n: english._n.bind(english)
    };
    answers = [() => answer(verification)];
    const { panel, focused } = view();
    const box = document.body.appendChild(document.createElement('textarea'));
    box.focus();
    await verify(panel, 'n.ipynb', settings, trans);
    await new Promise(requestAnimationFrame);
    expect(focused()).toBe(box);
    expect(document.querySelector('.tk-Verification')).toBeNull();
    expect(noted.map(each => each.slice(0, 2))).toEqual([
      ['warning', 'n.ipynb runs, but 10 cells have other outputs than saved']
    ]);
    noted[0]?.[2]();
    await new Promise(resolve => setTimeout(resolve));
    const shown = [...document.querySelectorAll('.tk-Verification-cell')];
    expect(shown.map(({ textContent }) => textContent)).toEqual([
      '<Cell 1 has other outputs: stdout differs; stderr is new>',
      '<Cell 2 failed: NameError: x>',
      '<Cell 3 has other outputs: stdout differs>'
    ]);
    expect(document.querySelector('.tk-Verification p')?.textContent).toBe(
      '7 more cells fail or have other outputs.'
    );
    // The second one is deleted.
    expect(shown.map(({ tagName }) => tagName)).toEqual(['BUTTON', 'DIV', 'BUTTON']);
    (shown[1] as HTMLElement).click();
    expect(panel.content.activeCellIndex).toBe(1);
    (shown[0] as HTMLElement).click();
    await new Promise(resolve => setTimeout(resolve));
    expect([panel.content.activeCellIndex, focused()?.id]).toEqual([2, 'a']);
  });

  it('names the first cell that fails', async () => {
    const [problem] = verification.problems;
    const failed = {
      ...verification,
      status: 'failed',
      problems: [{ ...problem, index: 3, status: 'failed' }]
    };
    answers = [() => answer(failed)];
    await verify(view().panel, 'n.ipynb', settings, english);
    expect(noted.map(([, message]) => message)).toEqual(['n.ipynb fails at cell 4']);
  });

  it('claims no comparison if no outputs are saved', async () => {
    const runs = { ...verification, status: 'runs' as const, problems: [] };
    answers = [() => answer(runs)];
    await verify(view().panel, 'n.ipynb', settings, english);
    expect(noted.map(each => each.slice(0, 2))).toEqual([
      ['success', 'n.ipynb runs from the top. It has no saved outputs to compare.']
    ]);
  });

  it('survives failed requests, unless a retry is pointless', async () => {
    jest.useFakeTimers();
    const dismiss = jest.spyOn(Notification, 'dismiss');
    for (let run = 0; run < 20; run++) {
      noted = [];
      answers = [running];
      for (let left = Math.floor(Math.random() * 8); left > 0; left--) {
        const failed = failing([0, 502, 503, 403][Math.floor(Math.random() * 4)] as number);
        answers.push(Math.random() < 0.5 ? running : failed);
      }
      const isKnown = Math.random() < 0.7;
      answers.push(isKnown ? () => answer({ ...verification, problems: [] }) : failing(404));
      dismiss.mockClear();
      const done = verify(view().panel, 'n.ipynb', settings, english);
      await jest.advanceTimersByTimeAsync(120_000);
      await done;
      expect(noted.map(([type]) => type)).toEqual([isKnown ? 'warning' : 'error']);
      expect([answers.length, dismiss.mock.calls.length]).toEqual([0, 1]);
    }
  });
});
