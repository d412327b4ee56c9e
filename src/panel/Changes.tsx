import { ellipsesIcon } from '@jupyterlab/ui-components';
import { useEffect, useState } from 'react';
import type { JSX } from 'react';

import type { CombinedChange } from '../api/events';
import { cellsByEntry, isFile, undoneNote } from '../common/changes';
import { hasChanges, type ITurn } from '../state/chat';
import { tally } from '../common/diff';
import { nameOfPath } from '../common/deleted';
import { cellName, numberOf } from '../common/position';
import type { IMenuItem } from '../common/menu';
import { Tally } from './CallCard';
import { ChangeLines } from './CodeLines';
import { Button, Fold, MenuButton } from './controls';
import { useChat, useServices } from './services';

/** Return what a turn changed and nobody has undone, by cell, as the server has it. */
export function useChanges(turn: ITurn, chat: string): readonly CombinedChange[] {
  const { controller } = useServices();
  const decided = useChat(chat, state => state.decided);
  const [found, setFound] = useState<readonly CombinedChange[]>([]);
  const has = hasChanges(turn);
  useEffect(() => {
    let isNewest = true;
    if (has) {
      // On an error, the former ones stay.
      void controller.chat.combinedChanges(turn.id).then(net => isNewest && net && setFound(net));
    }
    return () => {
      isNewest = false;
    };
  }, [controller, decided, has, turn.id]);
  return found;
}

interface IChangesProps {
  cells: readonly CombinedChange[];
  /** The chat's key in the store. */
  chat: string;
  /** What else can be done with the turn. */
  items: readonly IMenuItem[];
}

/** The cells that a turn changed, with buttons to keep or undo all or single ones. */
export function Changes({ cells, chat, items }: IChangesProps): JSX.Element {
  const { controller, trans } = useServices();
  const problem = useChat(chat, ({ problem }) => problem);
  const [note, setNote] = useState('');
  const [failed, setFailed] = useState(false);
  const open = cells.filter(({ entries }) => entries.length > 0);

  const undo = async (which: readonly CombinedChange[]): Promise<void> => {
    const notes: string[] = [];
    for (const [path, entries] of byNotebook(which)) {
      const undone = await controller.chat.undo(path, entries);
      setFailed(undone === null);
      if (undone === null) {
        return;
      }
      notes.push(undoneNote(undone, trans));
    }
    setNote(notes.join(' '));
  };
  const keep = async (): Promise<void> => {
    for (const [path, entries] of byNotebook(open)) {
      setFailed(!(await controller.chat.keep(path, entries)));
    }
  };

  const message = failed && problem ? problem.hint : note;
  const isQuiet = cells.length === 0 && message === '';
  const group = isQuiet ? {} : { role: 'group', 'aria-label': trans.__('Changes') };
  return (
    // The same element without changes, so that it keeps the focus of a button that went.
    <div className="tk-Changes" {...group} tabIndex={-1}>
      <div className={cells.length === 0 ? 'tk-Changes-bar tk-mod-quiet' : 'tk-Changes-bar'}>
        {cells.length > 0 && (
          <span className="tk-Changes-title">
            {cells.some(({ cell }) => isFile(cell))
              ? trans._n('%1 change', '%1 changes', open.length || cells.length)
              : trans._n('%1 cell changed', '%1 cells changed', open.length || cells.length)}
          </span>
        )}
        {open.length > 0 && (
          <>
            <Button onClick={() => void keep()}>{trans.__('Keep')}</Button>
            <Button onClick={() => void undo(open)}>{trans.__('Undo')}</Button>
          </>
        )}
        {open.length === 0 && cells.length > 0 && (
          <span className="tk-Changes-kept">{trans.__('Kept')}</span>
        )}
        <MenuButton icon={ellipsesIcon} label={trans.__('More')} items={items} />
      </div>
      {message !== '' && (
        <div className="tk-Notice" role="status">
          {message}
        </div>
      )}
      {open.map(each => (
        <CellChange
          key={`${each.notebook}\n${each.cell}`}
          change={each}
          onUndo={() => void undo([each])}
        />
      ))}
    </div>
  );
}

/** Return the entries of changes by the paths of their notebooks. */
function byNotebook(
  changes: readonly CombinedChange[]
): [string, ReturnType<typeof cellsByEntry>][] {
  return [...new Set(changes.map(({ notebook }) => notebook))].map(path => [
    path,
    cellsByEntry(changes.filter(({ notebook }) => notebook === path))
  ]);
}

interface IProps {
  change: CombinedChange;
  onUndo: () => void;
}

function CellChange({ change, onUndo }: IProps): JSX.Element {
  const { notebook: context, trans } = useServices();
  const { action, cell, diff, index, notebook, truncated } = change;
  const number = numberOf(index);
  const words: Record<CombinedChange['action'], string> = {
    insert: trans.__('New cell %1', number),
    replace: cellName(index, trans),
    delete: trans.__('Deleted cell %1', number),
    move: trans.__('Moved cell %1', number),
    outputs: trans.__('Outputs of cell %1', number)
  };
  return (
    <Fold
      className="tk-CellChange"
      summary={
        <>
          <span className="tk-CellChange-title">
            {isFile(cell) ? nameOfPath(notebook, trans) : words[action]}
          </span>
          <Tally {...tally([diff])} />
        </>
      }
    >
      {() => (
        <>
          {diff !== '' && <ChangeLines change={change} />}
          {truncated && <div>{trans.__('It is too long to compare.')}</div>}
          <div className="tk-CellChange-actions">
            <Button onClick={() => void context.reveal(notebook, cell)}>{trans.__('Show')}</Button>
            <Button onClick={onUndo}>
              {isFile(cell) ? trans.__('Undo this file') : trans.__('Undo this cell')}
            </Button>
          </div>
        </>
      )}
    </Fold>
  );
}
