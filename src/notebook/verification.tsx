import { Dialog, Notification } from '@jupyterlab/apputils';
import { PathExt } from '@jupyterlab/coreutils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { Fragment } from 'react';

import { ApiError, requestJson, problemText } from '../api/client';
import { notifyOnError } from '../api/notifyOnError';
import { backOff } from '../api/retry';
import { diffLines } from '../common/diff';
import { Lines } from '../common/Lines';
import { numberOf } from '../common/position';
import { goTo } from './cells';
import { cellOf } from './keys';

/** A cell that fails or differs. */
export interface ICellProblem {
  cell: string;
  index: number;
  status: 'differs' | 'failed';
  message: string;
  diff: string;
}

/** The answer of `verify_notebook` and `wait_execution`. */
export interface IVerified {
  execution_id: string;
  status: string;
  verification: {
    status: 'running' | 'same' | 'runs' | 'differs' | 'failed' | 'interrupted';
    number: number;
    total: number;
    problems: ICellProblem[];
    /** The number of further cells that fail or differ. */
    left_out: number;
  };
}

/** Milliseconds after which a result leaves the screen, where it covers the chat. It stays in the list of notifications. */
const SHOWN = { autoClose: 8000 };
/** Maximum number of retries to read the progress: about a minute. */
const MAX_RETRIES = 15;
/** Seconds of one request: the progress is shown that often. */
const WAIT = 1;

/**
 * Run a notebook from the top in a new kernel, and show what fails or differs.
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
  const name = PathExt.basename(path);
  const message = trans.__('Starting a kernel for %1…', name);
  const shown = Notification.emit(message, 'in-progress', { autoClose: false });
  try {
    let found = await call('verify_notebook', { notebook: path, wait: 0 });
    const { execution_id } = found;
    const stop = {
      label: trans.__('Stop'),
      callback: (event: MouseEvent): void => {
        // It stays until the kernel has ended.
        event.preventDefault();
        void notifyOnError(call('interrupt_kernel', { execution_id }));
      }
    };
    while (found.verification.status === 'running') {
      const { number, total } = found.verification;
      Notification.update({
        id: shown,
        message: trans.__('Running cell %1 of %2 of %3 in a new kernel…', number, total, name),
        actions: [stop]
      });
      found = await insist(() => call('wait_execution', { execution_id, wait: WAIT }));
    }
    Notification.dismiss(shown);
    notify(panel, name, found.verification, trans);
  } catch (error) {
    Notification.dismiss(shown);
    Notification.error(error instanceof ApiError ? problemText(error.problem) : String(error), {
      autoClose: false
    });
  }
}

/** Read the progress, again where that fails: the kernel runs on, and only this page can stop it. */
async function insist<T>(read: () => Promise<T>): Promise<T> {
  for (let tries = 0; ; tries++) {
    try {
      return await read();
    } catch (error) {
      if (!(error instanceof ApiError) || error.isPermanent || tries === MAX_RETRIES) {
        throw error;
      }
      await backOff(tries);
    }
  }
}

/**
 * Notify the person of the result by the notebook's name, with an action that shows the cells that fail or differ.
 *
 * The run may end minutes later, while they write code: no dialog opens by itself.
 */
function notify(
  panel: NotebookPanel,
  name: string,
  verification: IVerified['verification'],
  trans: TranslationBundle
): void {
  const { status, problems, left_out } = verification;
  if (status === 'interrupted') {
    Notification.info(trans.__('The run of %1 from the top was stopped.', name), SHOWN);
    return;
  }
  if (status === 'same' || status === 'runs') {
    Notification.success(
      status === 'runs'
        ? trans.__('%1 runs from the top. It has no saved outputs to compare.', name)
        : trans.__('%1 runs from the top, with the saved outputs.', name),
      SHOWN
    );
    return;
  }
  const failed = problems.find(each => each.status === 'failed');
  let title: string;
  if (status === 'failed') {
    title =
      failed === undefined
        ? trans.__('%1 does not run from the top', name)
        : trans.__('%1 fails at cell %2', name, numberOf(failed.index));
  } else {
    title = trans._n(
      '%2 runs, but %1 cell has other outputs than saved',
      '%2 runs, but %1 cells have other outputs than saved',
      problems.length + left_out,
      name
    );
  }
  const callback = (event: MouseEvent): void => {
    // The result can be shown again.
    event.preventDefault();
    show(panel, title, verification, trans);
  };
  Notification.warning(title, {
    ...SHOWN,
    actions: [{ label: trans.__('Show'), callback }]
  });
}

/** Show the cells that fail or differ. */
function show(
  panel: NotebookPanel,
  title: string,
  { problems, left_out }: IVerified['verification'],
  trans: TranslationBundle
): void {
  const textOf = ({ index, status, message }: ICellProblem): string =>
    status === 'failed'
      ? trans.__('Cell %1 failed: %2', numberOf(index), message)
      : trans.__('Cell %1 has other outputs: %2', numberOf(index), message);
  const go = (cell: string): void => {
    dialog.resolve();
    // The dialog gives the focus back before.
    void result.then(() => goTo(panel, cell));
  };
  const body = (
    <div className="tk-Verification">
      {problems.map(problem => (
        <Fragment key={problem.cell}>
          {!panel.isDisposed && cellOf(panel, problem.cell) !== undefined ? (
            <button
              type="button"
              className="tk-Verification-cell"
              title={trans.__('Go to this cell')}
              onClick={() => go(problem.cell)}
            >
              {textOf(problem)}
            </button>
          ) : (
            <div className="tk-Verification-cell">{textOf(problem)}</div>
          )}
          {problem.diff !== '' && <Lines lines={diffLines(problem.diff)} trans={trans} />}
        </Fragment>
      ))}
      {left_out > 0 && (
        <p>
          {trans._n(
            '%1 more cell fails or has other outputs.',
            '%1 more cells fail or have other outputs.',
            left_out
          )}
        </p>
      )}
    </div>
  );
  const dialog = new Dialog({
    title,
    body,
    buttons: [Dialog.okButton({ label: trans.__('Close') })]
  });
  const result = dialog.launch();
}
