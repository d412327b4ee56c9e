import { ellipsesIcon } from '@jupyterlab/ui-components';
import { useEffect, useState } from 'react';
import type { JSX } from 'react';

import type { CellChangedEvent, NetChange } from '../api/events';
import { cellsByEntry, leftIn, leftNote } from '../changes/pending';
import { type ICellReview, reviewOf } from '../changes/turnReview';
import type { ITurn } from '../state/chat';
import { tally } from '../common/diff';
import { cellName, numberOf } from '../common/position';
import type { IMenuItem } from '../common/menu';
import { Tally } from './CallCard';
import { ChangeLines } from './CodeLines';
import { Button, Fold, MenuButton } from './controls';
import { useChat, useServices } from './services';

interface IChangesProps {
  turn: ITurn;
  /** The chat's key in the store. */
  chat: string;
  /** What else can be done with the turn. */
  items: readonly IMenuItem[];
}

/** The net changes by notebook and cell. */
type Net = ReadonlyMap<string, NetChange>;

function keyOf({ notebook, cell }: { notebook: string; cell: string }): string {
  return `${notebook}\n${cell}`;
}

/** The cells that a turn changed, with buttons to keep or undo all or single ones. */
export function Changes({ turn, chat, items }: IChangesProps): JSX.Element {
  const { controller, trans } = useServices();
  const journal = useChat(chat, ({ journal }) => journal);
  const problem = useChat(chat, ({ problem }) => problem);
  const [note, setNote] = useState('');
  const [failed, setFailed] = useState(false);
  const [read, setRead] = useState<{ net: Net | null; notebooks: string } | null>(null);
  const [opened, setOpened] = useState(false);
  const cells = reviewOf(turn, journal);
  const notebooks = [...new Set(cells.map(each => each.notebook))].join('\n');
  // What was read has the notebooks' paths of that time.
  const net = read?.notebooks === notebooks ? read.net : null;
  // With several changes of a cell, only the server knows what is left of them.
  const needsNet = opened || cells.some(each => each.status === 'open' && each.pending.length > 1);
  useEffect(() => {
    let isNewest = true;
    if (needsNet) {
      void controller.chat.netChanges(turn.id).then(found => {
        if (isNewest) {
          const net = found && new Map(found.map(each => [keyOf(each), each]));
          setRead({ net, notebooks });
        }
      });
    }
    return () => {
      // It is read again after an undo, which changes the journal.
      isNewest = false;
    };
  }, [needsNet, notebooks, journal, controller, turn]);
  const menu = <MenuButton icon={ellipsesIcon} label={trans.__('More')} items={items} />;
  if (cells.length === 0) {
    return <div className="tk-Changes-bar tk-mod-quiet">{menu}</div>;
  }
  const open = cells.filter(
    ({ status, pending, ...each }) =>
      status === 'open' &&
      // A cell that is as it was is not listed, except for one that a person wrote in and that was deleted.
      (pending.length < 2 || pending.at(-1)?.action === 'delete' || net?.has(keyOf(each)) !== false)
  );
  const kept = cells.filter(each => each.status === 'kept');
  const undone = cells.filter(each => each.status === 'undone');

  const undo = async (which: readonly ICellReview[]): Promise<void> => {
    setFailed(false);
    let left = 0;
    for (const path of new Set(which.map(each => each.notebook))) {
      const pending = which.filter(each => each.notebook === path).flatMap(each => each.pending);
      const found = await controller.chat.undo(path, cellsByEntry(pending));
      if (found === null) {
        setFailed(true);
        return;
      }
      left += leftIn(found);
    }
    setNote(leftNote(left, trans));
  };
  const keep = async (): Promise<void> => {
    setFailed(false);
    for (const path of new Set(open.map(each => each.notebook))) {
      const shown = cells.filter(each => each.notebook === path).flatMap(each => each.pending);
      if (!(await controller.chat.keep(path, cellsByEntry(shown)))) {
        setFailed(true);
      }
    }
  };

  const decided = [
    ...(kept.length === 0
      ? []
      : [undone.length === 0 ? trans.__('Kept') : trans._n('%1 kept', '%1 kept', kept.length)]),
    ...(undone.length === 0 ? [] : [trans._n('%1 undone', '%1 undone', undone.length)])
  ];
  const message = failed && problem ? problem.hint : note;
  const shown = cells.length - undone.length;
  return (
    <div className="tk-Changes" role="group" aria-label={trans.__('Changes')} tabIndex={-1}>
      <div className="tk-Changes-bar">
        <span className="tk-Changes-title">
          {shown === 0
            ? trans._n('%1 change undone', '%1 changes undone', undone.length)
            : trans._n('%1 cell changed', '%1 cells changed', open.length || shown)}
        </span>
        {open.length > 0 && (
          <>
            <Button onClick={() => void keep()}>{trans.__('Keep')}</Button>
            <Button onClick={() => void undo(open)}>{trans.__('Undo')}</Button>
          </>
        )}
        {open.length === 0 && shown > 0 && decided.length > 0 && (
          <span className="tk-Changes-kept">{decided.join(', ')}</span>
        )}
        {menu}
      </div>
      {message !== '' && (
        <div className="tk-Notice" role="status">
          {message}
        </div>
      )}
      {open.map(each => (
        <CellChanges
          key={keyOf(each)}
          review={each}
          net={net?.get(keyOf(each)) ?? null}
          onOpen={() => setOpened(true)}
          onUndo={() => void undo([each])}
        />
      ))}
    </div>
  );
}

interface IProps {
  review: ICellReview;
  /** Its net change; null until it is loaded. */
  net: NetChange | null;
  /** Loads the net changes. */
  onOpen: () => void;
  onUndo: () => void;
}

function CellChanges({ review, net, onOpen, onUndo }: IProps): JSX.Element {
  const { notebook: context, trans } = useServices();
  const { changes, notebook, cell } = review;
  const [first, last] = [changes[0] as CellChangedEvent, changes.at(-1) as CellChangedEvent];
  const { added, removed } = tally(net ? [net.diff] : changes.map(change => change.diff));
  const action = net?.action ?? (last.action === 'delete' ? last : first).action;
  const number = numberOf(last.index);
  const words: Record<CellChangedEvent['action'], string> = {
    insert: trans.__('New cell %1', number),
    replace: cellName(last.index, trans),
    delete: trans.__('Deleted cell %1', number),
    move: trans.__('Moved cell %1', number),
    outputs: cellName(last.index, trans)
  };
  return (
    <Fold
      className="tk-CellChange"
      summary={
        <>
          <span className="tk-CellChange-title">{words[action]}</span>
          <Tally added={added} removed={removed} />
        </>
      }
    >
      {() => (
        <>
          <NetDiff net={net} changes={changes} onOpen={onOpen} />
          <div className="tk-CellChange-actions">
            <Button onClick={() => void context.reveal(notebook, cell)}>{trans.__('Show')}</Button>
            <Button onClick={onUndo}>{trans.__('Undo this cell')}</Button>
          </div>
        </>
      )}
    </Fold>
  );
}

interface INetDiffProps {
  /** The net change; null until it is loaded. */
  net: NetChange | null;
  /** The single changes, which are shown until then. */
  changes: readonly CellChangedEvent[];
  /** Loads the net change. */
  onOpen: () => void;
}

/** What a turn did to a cell, as one diff. */
function NetDiff({ net, changes, onOpen }: INetDiffProps): JSX.Element {
  useEffect(() => {
    onOpen();
    // Once: it is loaded again when the journal changes.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  const first = changes[0] as CellChangedEvent;
  const shown = net === null || net.truncated ? changes : [{ ...first, diff: net.diff }];
  return (
    <>
      {shown.map(change => (
        <ChangeLines key={change.entry} change={change} />
      ))}
    </>
  );
}
