import { Dialog, Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Widget } from '@lumino/widgets';

import { ApiError, requestJson } from '../api/client';
import type { SentenceInfo } from '../api/events';
import { notifyOnError } from '../api/notifyOnError';
import { say, sayProblem } from '../api/sentences';
import { numberOf } from '../common/position';

/** A cell that fails or differs. */
export interface ICellProblem {
  cell: string;
  index: number;
  status: 'differs' | 'failed';
  message: string;
  sentence?: SentenceInfo;
  diff?: string;
}

/** The answer of `verify_notebook` and `wait_execution`. */
export interface IVerified {
  execution_id: string;
  status: string;
  verification: {
    status: 'running' | 'same' | 'differs' | 'failed' | 'interrupted';
    number: number;
    total: number;
    problems: ICellProblem[];
    /** The number of further cells that fail or differ. */
    left_out: number;
    hidden_state: { cell: string; index: number; message: string; sentence?: SentenceInfo }[];
  };
}

/** Milliseconds after which the note of a good end closes: by default it opens no toast at all. */
const SHOWN = { autoClose: 8000 };
/** Seconds of one request: the progress is shown that often. */
const WAIT = 1;

/**
 * Run a notebook from the top in a kernel of its own, and show what fails or differs.
 *
 * @param path - The path on the server. It verifies what is on the screen.
 */
export async function verify(
  panel: NotebookPanel,
  path: string,
  settings: ServerConnection.ISettings,
  trans: TranslationBundle
): Promise<void> {
  const call = (tool: string, body: object): Promise<IVerified> =>
    requestJson<IVerified>(settings, 'POST', `tools/${tool}`, body);
  const message = trans.__('Starting a kernel…');
  const shown = Notification.emit(message, 'in-progress', { autoClose: false });
  try {
    let found = await call('verify_notebook', { notebook: path, wait: 0 });
    const { execution_id } = found;
    const stop = {
      label: trans.__('Stop'),
      callback: (event: MouseEvent): void => {
        // It stays until the kernel has ended.
        event.preventDefault();
        void notifyOnError(call('interrupt_kernel', { execution_id }), trans);
      }
    };
    while (found.verification.status === 'running') {
      const { number, total } = found.verification;
      Notification.update({
        id: shown,
        message: trans.__('Running cell %1 of %2 in a new kernel…', number, total),
        actions: [stop]
      });
      found = await call('wait_execution', { execution_id, wait: WAIT });
    }
    Notification.dismiss(shown);
    show(panel, found.verification, trans);
  } catch (error) {
    Notification.dismiss(shown);
    Notification.error(
      error instanceof ApiError ? sayProblem(error.problem, trans).join(' ').trim() : String(error),
      { autoClose: false }
    );
  }
}

/** Show the result: a note if all is well, else a dialog with the cells. */
function show(
  panel: NotebookPanel,
  { status, total, problems, left_out, hidden_state }: IVerified['verification'],
  trans: TranslationBundle
): void {
  if (status === 'interrupted') {
    Notification.info(trans.__('The run from the top was stopped.'), SHOWN);
    return;
  }
  if (status === 'same' && hidden_state.length === 0) {
    Notification.success(
      trans._n(
        'It runs from the top: %1 cell gives the stored outputs.',
        'It runs from the top: %1 cells give the stored outputs.',
        total
      ),
      SHOWN
    );
    return;
  }
  const body = new Widget();
  body.addClass('tk-Verification');
  const dialog = new Dialog({
    title:
      status === 'same'
        ? trans.__('It runs from the top, with hidden state')
        : trans.__('It does not run from the top as it is stored'),
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
  const add = (cell: string, index: number, text: string, diff = ''): void => {
    const button = document.createElement('button');
    button.type = 'button';
    button.className = 'tk-Verification-cell';
    button.textContent = text;
    button.title = trans.__('Go to this cell');
    button.addEventListener('click', () => {
      dialog.resolve();
      goTo(panel, cell, index);
    });
    body.node.append(button);
    if (diff !== '') {
      const lines = document.createElement('pre');
      lines.textContent = diff;
      body.node.append(lines);
    }
  };
  for (const { cell, index, status: state, message, sentence, diff } of problems) {
    const position = numberOf(index);
    const what = say(message, sentence, trans);
    add(
      cell,
      index,
      state === 'failed'
        ? trans.__('Cell %1 failed: %2', position, what)
        : trans.__('Cell %1 has other outputs: %2', position, what),
      diff
    );
  }
  if (left_out > 0) {
    const more = document.createElement('p');
    more.textContent = trans._n(
      '%1 more cell fails or has other outputs.',
      '%1 more cells fail or have other outputs.',
      left_out
    );
    body.node.append(more);
  }
  for (const { cell, index, message, sentence } of hidden_state) {
    add(cell, index, say(message, sentence, trans));
  }
  void dialog.launch();
}

/** Select a cell and scroll to it, wherever it is now. */
function goTo(panel: NotebookPanel, cell: string, index: number): void {
  const { content } = panel;
  const place = content.widgets.findIndex(({ model }) => model.id === cell);
  content.activeCellIndex = place < 0 ? index : place;
  void content.scrollToItem(content.activeCellIndex, 'smart');
  content.activate();
}
