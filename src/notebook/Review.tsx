import type { Extension } from '@codemirror/state';
import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, ReactWidget } from '@jupyterlab/ui-components';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { JSX } from 'react';

import { ApiError, problemText } from '../api/client';
import { leftNote } from '../changes/pending';
import { diffLines } from '../common/diff';
import { Lines, plainNote } from '../common/Lines';
import { languageOf, showDiff } from './DiffEditor';
import type { IMark, IStep } from './marks';
import { signature, stepLabel } from './labels';

interface IActions {
  cell: Cell;
  trans: TranslationBundle;
  onKeep: (mark: IMark) => void;
  /** Undoes the changes. Resolves with the number of cells that were not reverted. */
  onUndo: (mark: IMark) => Promise<number>;
  onClose: () => void;
}

/** The changes of a cell by agents, with buttons to keep or undo them. */
export class Review extends ReactWidget {
  constructor(
    private _mark: IMark,
    private readonly _actions: IActions
  ) {
    super();
    this.addClass('tk-Review');
  }

  /** The changes of the cell. */
  set mark(mark: IMark) {
    this._mark = mark;
    this.update();
  }

  protected override render(): JSX.Element {
    return <ReviewView mark={this._mark} {...this._actions} />;
  }
}

function ReviewView({
  cell,
  mark,
  trans,
  onKeep,
  onUndo,
  onClose
}: IActions & { mark: IMark }): JSX.Element {
  const [message, setMessage] = useState('');
  const [busy, setBusy] = useState(false);
  const times = mark.steps.length;
  const [merged, setMerged] = useState(false);
  const [isLong, setLong] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const shown = box.current && showDiff(box.current, cell, mark, trans);
    const remove = typeof shown === 'function' ? shown : undefined;
    setMerged(remove !== undefined);
    setLong(shown === 'too long');
    return remove;
  }, [cell, mark, trans]);
  const language = useMemo(() => languageOf(cell), [cell]);

  const undo = async (): Promise<void> => {
    if (busy) {
      return;
    }
    setBusy(true);
    try {
      setMessage(leftNote(await onUndo(mark), trans));
    } catch (error) {
      if (!(error instanceof ApiError)) {
        throw error;
      }
      setMessage(problemText(error.problem));
    }
    setBusy(false);
  };

  return (
    <div
      className="tk-Review-box"
      role="group"
      aria-label={trans.__('Changes to this cell')}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onClose();
        }
      }}
    >
      <div className="tk-Review-bar">
        <span className="tk-Review-title">
          {times === 1 ? signature(mark) : trans._n('Changed %1 time', 'Changed %1 times', times)}
        </span>
        <button type="button" className="tk-CellButton" onClick={() => onKeep(mark)}>
          {trans.__('Keep')}
        </button>
        {mark.yours && (
          <button
            type="button"
            className="tk-CellButton"
            // A disabled button would lose the focus.
            aria-disabled={busy}
            onClick={() => void undo()}
          >
            {trans.__('Undo')}
          </button>
        )}
        <button
          type="button"
          className="tk-CellButton tk-mod-close"
          aria-label={trans.__('Close')}
          title={trans.__('Close')}
          onClick={onClose}
        >
          <closeIcon.react tag="span" width="14px" height="14px" />
        </button>
      </div>
      {message !== '' && (
        <div className="tk-Review-said" role="alert">
          {message}
        </div>
      )}
      <div ref={box} className="tk-Review-merge" />
      {merged || (
        <div className="tk-Review-steps">
          {isLong && <div className="tk-Review-words">{plainNote(trans)}</div>}
          {mark.steps.map((step, place) => (
            // The newest step is the first.
            <Step
              key={times - place}
              step={step}
              signed={times > 1}
              trans={trans}
              language={language}
            />
          ))}
        </div>
      )}
    </div>
  );
}

interface IStepProps {
  step: IStep;
  /** Whether author and time are shown, since there are several steps. */
  signed: boolean;
  trans: TranslationBundle;
  language: Extension;
}

function Step({ step, signed, trans, language }: IStepProps): JSX.Element {
  const words = stepLabel(step, trans);
  const { action, diff } = step;
  const lines = useMemo(() => (action === 'move' ? [] : diffLines(diff)), [action, diff]);
  return (
    <div className="tk-Review-step">
      {(signed || words !== '') && (
        <div className="tk-Review-words">
          {[signed ? signature(step) : '', words].filter(Boolean).join(': ')}
        </div>
      )}
      {lines.length > 0 && <Lines lines={lines} trans={trans} language={language} />}
      {step.truncated && (
        <div className="tk-Review-words">{trans.__('The diff is too long to show in full.')}</div>
      )}
    </div>
  );
}
