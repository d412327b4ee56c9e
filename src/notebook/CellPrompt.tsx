/** A prompt in a cell: describe a change, see the diff, accept, refine or reject it. */

import type { Cell } from '@jupyterlab/cells';
import { Notification } from '@jupyterlab/apputils';
import type { NotebookPanel } from '@jupyterlab/notebook';
import type { ServerConnection } from '@jupyterlab/services';
import type { TranslationBundle } from '@jupyterlab/translation';
import { ReactWidget } from '@jupyterlab/ui-components';
import { useEffect, useId, useLayoutEffect, useRef, useState } from 'react';
import type { JSX, KeyboardEvent, MutableRefObject } from 'react';

import { ApiError, requestJson, problemText } from '../api/client';
import type { EditedCell } from '../api/events';
import { fitted, readOnly, showMerge } from '../common/mergeView';
import { putInto } from './cells';
import { writeSource } from './cellSource';
import { codeContext, errorText } from './codeApi';
import { languageOf } from './DiffEditor';

/** Maximum number of earlier prompts in a request. */
const MAX_ROUNDS = 20;

const open = new WeakMap<Cell, ReactWidget>();

/** What opens a prompt. */
interface IOpening {
  panel: NotebookPanel;
  cell: Cell;
  /** The mode of the notebook before, to which it returns. */
  mode: 'command' | 'edit';
  settings: ServerConnection.ISettings;
  trans: TranslationBundle;
}

/** Open the prompt of a cell, or focus it if it is open. */
export function openPrompt(opening: IOpening): void {
  const { cell, trans } = opening;
  const shown = open.get(cell);
  if (shown?.isDisposed === false) {
    shown.node.querySelector('textarea')?.focus();
  } else if (cell.readOnly) {
    returnTo(opening);
    Notification.warning(trans.__('This cell is read-only.'), { autoClose: 5000 });
  } else {
    show(opening, NEW, true);
  }
}

/** Show a prompt in a cell, or in the widget that replaces it when the cell is moved. */
function show(opening: IOpening, initial: IPromptState, takesFocus: boolean): void {
  const { panel, cell, settings, trans } = opening;
  const state = { current: initial };
  // In this page the id leads to the widget that replaces one.
  // oxlint-disable-next-line panel/keys
  const { id } = cell.model;
  const propose: Propose = (about, signal) => {
    const { localPath } = panel.context;
    const code = codeContext(panel, cell, localPath);
    const body = { ...code, ...about, error: errorText(cell) };
    return requestJson<EditedCell>(settings, 'POST', 'code/edit', body, signal);
  };
  const onClose = (): void => {
    made.dispose();
    if (!cell.isDisposed) {
      returnTo(opening);
    }
  };
  const made: ReactWidget = ReactWidget.create(
    <PromptView {...{ cell, propose, trans, onClose, state, takesFocus }} />
  );
  made.addClass('tk-Review');
  open.set(cell, made);
  putInto(cell, made, 'below-input');
  cell.disposed.connect(() => {
    if (made.isDisposed) {
      return;
    }
    made.dispose();
    // The new widget of a moved cell is there once the change of the notebook is applied.
    queueMicrotask(() => {
      if (panel.isDisposed) {
        return;
      }
      // oxlint-disable-next-line panel/keys
      const next = panel.content.widgets.find(each => each.model.id === id && !each.readOnly);
      if (next !== undefined) {
        // Where nothing has the focus, it was lost with the widget.
        show({ ...opening, cell: next }, state.current, document.activeElement === document.body);
      }
    });
  });
}

/** Return to the cell, in the mode from which the prompt was opened. */
function returnTo({ panel, cell, mode }: IOpening): void {
  if (mode === 'edit') {
    panel.content.mode = 'edit';
    cell.editor?.focus();
  } else {
    cell.node.focus({ preventScroll: true });
  }
}

/** An earlier prompt and its proposal. */
interface IRound {
  prompt: string;
  source: string;
}

/** Requests a proposal. */
export type Propose = (
  about: { prompt: string; source: string; earlier: IRound[] },
  signal: AbortSignal
) => Promise<EditedCell>;

/** A proposal for a source. */
interface IProposal {
  /** The source of the cell that it is for. */
  base: string;
  source: string;
  /** The prompts so far with what was proposed. */
  rounds: IRound[];
}

/** What a prompt keeps while the notebook detaches or replaces its cell. */
export interface IPromptState {
  text: string;
  proposal: IProposal | null;
  problem: string;
}

export const NEW: IPromptState = { text: '', proposal: null, problem: '' };

interface IProps {
  cell: Cell;
  propose: Propose;
  trans: TranslationBundle;
  onClose: () => void;
  /** Its state when it is shown, which it updates. */
  state: MutableRefObject<IPromptState>;
  takesFocus: boolean;
}

/** The view of a prompt. */
export function PromptView(props: IProps): JSX.Element {
  const { cell, propose, trans, onClose, state, takesFocus } = props;
  const shared = cell.model.sharedModel;
  const [{ text, proposal, problem }, setAll] = useState(() => state.current);
  const [asking, setAsking] = useState<AbortController | null>(null);
  const set = (some: Partial<IPromptState>): void => setAll(now => ({ ...now, ...some }));
  const box = useRef<HTMLTextAreaElement>(null);
  const diff = useRef<HTMLDivElement>(null);
  const hint = useId();
  useLayoutEffect(() => {
    if (takesFocus) {
      box.current?.focus();
    }
  }, [takesFocus]);
  useLayoutEffect(() => {
    const stopped = trans.__('The request was stopped. Send it again.');
    state.current = { text, proposal, problem: asking === null ? problem : stopped };
  });
  // Closing it cancels the request.
  useEffect(() => () => asking?.abort(), [asking]);
  useEffect(() => {
    const node = diff.current;
    const remove = node && proposal ? showProposal(node, cell, proposal, trans) : undefined;
    if (proposal !== null) {
      // The buttons are below the diff.
      box.current?.closest('.tk-Review-bar')?.scrollIntoView({ block: 'nearest' });
    }
    return remove;
  }, [cell, proposal, trans]);

  const send = async (): Promise<void> => {
    const prompt = text.trim();
    if (prompt === '' || asking !== null) {
      return;
    }
    const source = shared.source;
    // Proposals for another source are not refined.
    const earlier = proposal?.base === source ? proposal.rounds.slice(-MAX_ROUNDS) : [];
    const controller = new AbortController();
    setAsking(controller);
    set({ problem: '' });
    try {
      const found = await propose({ prompt, source, earlier }, controller.signal);
      if (!controller.signal.aborted) {
        const rounds = [...earlier, { prompt, source: found.source }];
        set({ text: '', proposal: { base: source, source: found.source, rounds } });
      }
    } catch (error) {
      if (!controller.signal.aborted) {
        set({ problem: said(error) });
      }
    }
    setAsking(null);
  };
  const accept = (): void => {
    if (proposal === null || asking !== null) {
      return;
    }
    if (writeSource(shared, proposal.base, proposal.source)) {
      onClose();
      return;
    }
    // Sending the last prompt again asks for the source as it is now.
    set({
      text: text || (proposal.rounds.at(-1)?.prompt ?? ''),
      proposal: null,
      problem: trans.__('The cell changed. Nothing was written. Send the prompt again.')
    });
    box.current?.focus();
  };
  const stop = (): void => {
    asking?.abort();
    setAsking(null);
    box.current?.focus();
  };
  const onKeyDown = (event: KeyboardEvent): void => {
    const { key, ctrlKey, metaKey, shiftKey, nativeEvent } = event;
    if (nativeEvent.isComposing) {
      return;
    }
    if (key === 'Escape') {
      (asking === null ? onClose : stop)();
    } else if (key === 'Enter' && (ctrlKey || metaKey)) {
      accept();
    } else if (key === 'Enter' && !shiftKey && event.target === box.current) {
      void send();
    } else {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };

  const isNew = proposal === null;
  const title = isNew ? trans.__('Describe a change to this cell') : trans.__('Refine the change');
  const status =
    asking !== null
      ? trans.__('Writing…')
      : isNew
        ? ''
        : proposal.source === proposal.base
          ? trans.__('The model proposes no change.')
          : trans.__('Proposed change. Nothing is changed yet.');
  const button = (label: string, onClick: () => void, disabled = false): JSX.Element => (
    // A disabled button would lose the focus.
    <button type="button" className="tk-CellButton" aria-disabled={disabled} onClick={onClick}>
      {label}
    </button>
  );
  const isEmpty = text.trim() === '';
  return (
    <div
      className="tk-Review-box"
      role="group"
      aria-label={trans.__('Edit this cell with a prompt')}
      onKeyDown={onKeyDown}
    >
      <div ref={diff} className="tk-Review-merge" hidden={isNew} />
      <div className="tk-Review-words" role="status">
        {status}
      </div>
      {problem !== '' && (
        <div className="tk-Review-said" role="alert">
          {problem}
        </div>
      )}
      <div className="tk-Review-bar">
        <div className="tk-Grow tk-Review-title" data-text={text || title}>
          <textarea
            ref={box}
            className="tk-Box"
            aria-label={title}
            aria-describedby={hint}
            placeholder={title}
            rows={1}
            readOnly={asking !== null}
            value={text}
            onChange={event => set({ text: event.target.value })}
          />
        </div>
        {asking !== null ? (
          button(trans.__('Stop'), stop)
        ) : isNew ? (
          <>
            {button(trans.__('Send'), () => void send(), isEmpty)}
            {button(trans.__('Close'), onClose)}
          </>
        ) : (
          <>
            {button(trans.__('Accept'), accept)}
            {button(trans.__('Refine'), () => void send(), isEmpty)}
            {button(trans.__('Reject'), onClose)}
          </>
        )}
      </div>
      <div id={hint} className="tk-Review-words">
        {asking !== null
          ? trans.__('Escape stops it.')
          : isNew
            ? trans.__('Enter sends, Escape closes.')
            : trans.__('Ctrl+Enter accepts, Enter refines, Escape rejects.')}
      </div>
    </div>
  );
}

/** Show the diff of a proposal in a node. Returns a function that removes it. */
function showProposal(
  node: HTMLElement,
  cell: Cell,
  { base, source }: IProposal,
  trans: TranslationBundle
): () => void {
  const side = (name: string, doc: string) => ({
    doc,
    extensions: [readOnly(name), languageOf(cell)]
  });
  const view = fitted(node, isWide =>
    showMerge(node, isWide, {
      before: side(trans.__('Before'), base),
      now: side(trans.__('Proposal'), source),
      collapse: true
    })
  );
  return view.destroy;
}

function said(error: unknown): string {
  if (!(error instanceof ApiError)) {
    throw error;
  }
  return problemText(error.problem);
}
