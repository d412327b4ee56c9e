import { useState } from 'react';
import type { JSX } from 'react';

import type { IChange } from '../api/events';
import { diffLines, tally } from '../chat/diff';
import type { ChatModel } from '../chat/model';
import { changesByCell, type ITurn } from '../chat/state';
import { useDesk } from './desk';
import { Lines } from './Lines';

/** At the end of a turn: which cells it changed, to keep or to take back, all or one by one. */
export function Changes({ turn, chat }: { turn: ITurn; chat: ChatModel }): JSX.Element | null {
  const { memory, trans } = useDesk();
  const [kept, setKept] = useState(memory.isKept(turn.id));
  const [undone, setUndone] = useState<ReadonlySet<string>>(new Set());
  const [note, setNote] = useState('');
  const cells = [...changesByCell(turn).values()].filter(changes => changes.some(isOfSource));
  if (cells.length === 0) {
    return null;
  }
  const open = cells.filter(changes => !undone.has(keyOf(changes)));

  const undo = async (which?: IChange[][]): Promise<void> => {
    const found = await chat.undo(
      turn.id,
      which?.map(changes => keyOf(changes))
    );
    if (found === null) {
      setNote(chat.problem?.hint ?? '');
      return;
    }
    const left = found.flatMap(each => each.left);
    const gone = (which ?? open).map(keyOf).filter(cell => !left.includes(cell));
    setUndone(new Set([...undone, ...gone]));
    setNote(
      left.length === 0
        ? ''
        : trans._n(
            'One cell stays: somebody has worked on it since.',
            '%1 cells stay: somebody has worked on them since.',
            left.length
          )
    );
  };
  const keep = (): void => {
    memory.keep(turn.id);
    setKept(true);
  };

  const title =
    open.length === 0
      ? trans.__('Taken back')
      : trans._n('%1 cell changed', '%1 cells changed', open.length);
  return (
    <div className="tk-Changes" role="group" aria-label={trans.__('Changes')}>
      <div className="tk-Changes-bar">
        <span className="tk-Changes-title">{title}</span>
        {open.length > 0 && !kept && (
          <>
            <button type="button" className="tk-Button" onClick={keep}>
              {trans.__('Keep')}
            </button>
            <button type="button" className="tk-Button" onClick={() => void undo()}>
              {trans.__('Undo')}
            </button>
          </>
        )}
        {kept && open.length > 0 && <span className="tk-Changes-kept">{trans.__('Kept')}</span>}
      </div>
      {note !== '' && (
        <div className="tk-Notice" role="status">
          {note}
        </div>
      )}
      {!kept &&
        open.map(changes => (
          <CellChanges key={keyOf(changes)} changes={changes} onUndo={() => void undo([changes])} />
        ))}
    </div>
  );
}

function CellChanges({ changes, onUndo }: { changes: IChange[]; onUndo: () => void }): JSX.Element {
  const { surroundings, trans } = useDesk();
  const last = changes.at(-1) as IChange;
  const { added, removed } = tally(changes.map(change => change.diff));
  const words: Record<IChange['action'], string> = {
    insert: trans.__('New cell %1', last.index),
    replace: trans.__('Cell %1', last.index),
    delete: trans.__('Deleted cell %1', last.index),
    move: trans.__('Moved cell %1', last.index),
    outputs: trans.__('Cell %1', last.index)
  };
  const first = changes.find(isOfSource) ?? last;
  return (
    <details className="tk-CellChange">
      <summary>
        <span className="tk-CellChange-title">{words[first.action]}</span>
        <span className="tk-Call-tally">
          <span className="tk-mod-added">+{added}</span>{' '}
          <span className="tk-mod-removed">−{removed}</span>
        </span>
      </summary>
      {changes.filter(isOfSource).map(change => (
        <Lines key={change.entry} lines={diffLines(change.diff)} />
      ))}
      <div className="tk-CellChange-actions">
        <button
          type="button"
          className="tk-Button"
          onClick={() => void surroundings.reveal(last.notebook, last.cell)}
        >
          {trans.__('Show')}
        </button>
        <button type="button" className="tk-Button" onClick={onUndo}>
          {trans.__('Undo this cell')}
        </button>
      </div>
    </details>
  );
}

function isOfSource(change: IChange): boolean {
  return change.action !== 'outputs';
}

function keyOf(changes: readonly IChange[]): string {
  return changes[0]?.cell ?? '';
}
