import type { Cell } from '@jupyterlab/cells';
import type { TranslationBundle } from '@jupyterlab/translation';
import { closeIcon, ReactWidget } from '@jupyterlab/ui-components';
import { useEffect, useMemo, useRef, useState } from 'react';
import type { JSX } from 'react';

import { ApiError, problemText } from '../api/client';
import type { CombinedChange, UndoResult } from '../api/events';
import { leftNote } from '../common/changes';
import { diffLines } from '../common/diff';
import { Lines } from '../common/Lines';
import { languageOf, showDiff } from './DiffEditor';
import { changeLabel, signature } from './labels';

interface IActions {
  cell: Cell;
  trans: TranslationBundle;
  onKeep: (mark: CombinedChange) => void;
  /** Undoes the changes. */
  onUndo: (mark: CombinedChange) => Promise<readonly UndoResult[]>;
  onClose: () => void;
}

/** The changes of a cell by agents, with buttons to keep or undo them. */
export class Review extends ReactWidget {
  constructor(
    private _mark: CombinedChange,
    private readonly _actions: IActions
  ) {
    super();
    this.addClass('tk-Review');
  }

  /** The changes of the cell. */
  set mark(mark: CombinedChange) {
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
}: IActions & { mark: CombinedChange }): JSX.Element {
  const [message, setMessage] = useState('');
  const [busy, setBusy] = useState(false);
  const [merged, setMerged] = useState(false);
  const box = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const remove = box.current && showDiff(box.current, cell, mark, trans);
    setMerged(remove !== null);
    return remove ?? undefined;
  }, [cell, mark, trans]);
  const language = useMemo(() => languageOf(cell), [cell]);
  const lines = useMemo(() => diffLines(mark.diff), [mark.diff]);
  const label = changeLabel(mark, trans);

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
        <span className="tk-Review-title">{signature(mark)}</span>
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
          {label !== '' && <div className="tk-Review-words">{label}</div>}
          {/* An added cell's code is right above. */}
          {lines.length > 0 && mark.action !== 'insert' && (
            <Lines lines={lines} trans={trans} language={language} />
          )}
          {mark.truncated && (
            <div className="tk-Review-words">{trans.__('The cell is too long to compare.')}</div>
          )}
        </div>
      )}
    </div>
  );
}
