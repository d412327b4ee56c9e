/** What is below an answer. */

import { Dialog, showDialog } from '@jupyterlab/apputils';
import { ellipsesIcon } from '@jupyterlab/ui-components';
import type { JSX } from 'react';

import type { Mode, CombinedChange, UndoResult, TodoItem } from '../api/events';
import { touchedCell } from '../chat/runs';
import { Decisions } from '../common/Decisions';
import { numberOf } from '../common/position';
import type { IMenuItem } from '../common/menu';
import { isBusy, type ITurn } from '../state/chat';
import type { IAbout } from '../state/compose';
import { copyText } from './browser';
import { Changes, useChanges } from './Changes';
import { Button, MenuButton } from './controls';
import { useChat, useSelector, useServices } from './services';

interface IProps {
  turn: ITurn;
  /** The chat's key in the store. */
  chat: string;
  /** The message that asks the agent to continue. */
  continueText: string;
}

/** How a turn ended, its changes, and what can be done next. */
export function TurnEnd({ turn, chat, continueText }: IProps): JSX.Element {
  const { controller, trans } = useServices();
  const changed = useChanges(turn, chat);
  const items = useMenu(turn, chat, changed);
  return (
    <>
      {turn.end === 'stopped' && !turn.replaced && (
        <div className="tk-Ending">
          <span>{trans.__('Stopped. Changes made so far were kept.')}</span>
          <Button onClick={() => void controller.resend(turn, { text: continueText })}>
            {trans.__('Continue')}
          </Button>
        </div>
      )}
      {turn.end === 'done' && turn.plans && !turn.replaced && <Plan turn={turn} />}
      <Changes cells={changed} chat={chat} items={items} />
    </>
  );
}

/** Buttons to approve a plan or to change it. */
function Plan({ turn }: { turn: ITurn }): JSX.Element {
  const { controller, trans } = useServices();
  // Later messages have the mode, too.
  const approve = (mode: Mode): void => {
    controller.choose({ mode });
    controller.closeHistory();
    void controller.chat.answerPlan(turn.id, { answer: 'approve', mode });
  };
  return (
    <>
      <div>{trans.__('This is a plan. Nothing was changed.')}</div>
      <Decisions className="tk-Ending">
        <Button primary onClick={() => approve('edit')}>
          {trans.__('Approve')}
        </Button>
        <Button onClick={() => controller.revise(turn)}>{trans.__('Change the plan…')}</Button>
        <MenuButton
          icon={ellipsesIcon}
          label={trans.__('More answers')}
          items={[{ label: trans.__('Approve, but ask each time'), run: () => approve('ask') }]}
        />
      </Decisions>
    </>
  );
}

/** Return what else can be done with a turn. */
function useMenu(turn: ITurn, chat: string, changed: readonly CombinedChange[]): IMenuItem[] {
  const { controller, notebook, trans } = useServices();
  const isLast = useChat(
    chat,
    state => !isBusy(state) && state.turns.findLast(each => !each.replaced)?.id === turn.id
  );
  // The notebook's cells may have changed.
  useSelector(({ seen }) => seen);
  const items: IMenuItem[] = [];
  const add = (label: string, run: () => unknown): void =>
    void items.push({ label, run: () => void run() });
  const text = turn.items.flatMap(item => (item.kind === 'text' ? [item.text] : [])).join('\n\n');
  if (text !== '') {
    add(trans.__('Copy the answer'), () => copyText(text));
  }
  if (isLast && turn.error === null) {
    if (changed.length > 0) {
      add(trans.__('Undo and try again'), () => controller.resend(turn, { again: 'undo' }));
      add(trans.__('Keep and try again'), () => controller.resend(turn, { again: 'keep' }));
    } else {
      add(trans.__('Try again'), () => controller.resend(turn, { again: 'keep' }));
    }
  }
  if (isLast && turn.end === 'done') {
    const ask = (label: string, about: IAbout | null = null): void =>
      add(label, () => controller.ask(label, about));
    const path = turn.notebook;
    if (path !== null && notebook.seen?.notebook === path) {
      const { failed } = notebook.promptSubjects;
      const touched = turn.items.map(item => item.kind === 'call' && touchedCell(item));
      if (failed && touched.some(each => each && each.cell === failed.id)) {
        const about = { notebook: path, cells: [failed.id] };
        ask(trans.__('Fix cell %1', numberOf(failed.index)), about);
      }
      const here = changed.filter(each => each.notebook === path).map(({ cell }) => cell);
      const cells = notebook.unrun(here).filter(cell => cell !== failed?.id);
      if (cells.length > 0) {
        ask(trans._n('Run the changed cell', 'Run the changed cells', cells.length), {
          notebook: path,
          cells
        });
      }
    }
    if (turn.todo.some(({ status }) => status !== 'completed')) {
      ask(trans.__('Continue with the to-do list'));
    }
    if (changed.length > 0) {
      ask(trans.__('Explain the changes'));
    }
  }
  if (!turn.replaced) {
    const restore = async (): Promise<void> => {
      const { chat: model } = controller;
      const answer = await showDialog({
        title: trans.__('Restore to before this message?'),
        body: trans.__(
          'The changes of this message and of all later ones are undone. Its text returns to the message box.'
        ),
        buttons: [Dialog.cancelButton(), Dialog.warnButton({ label: trans.__('Restore') })]
      });
      const undone = answer.button.accept ? await model.restore(turn.id) : null;
      // Its message comes back into the message box.
      if (undone !== null && controller.chat === model) {
        controller.edit(turn);
        controller.composeNew();
      }
    };
    add(trans.__('Restore to before this message…'), restore);
  }
  return items;
}

/** What was undone when the chat was restored, and what stays. */
export function RestoredNote({ notebooks }: { notebooks: readonly UndoResult[] }): JSX.Element {
  const { trans } = useServices();
  const undone = notebooks.flatMap(({ cells }) => cells).length;
  return (
    <div className="tk-Notice" role="status">
      {[
        trans.__('Restored to before this message.'),
        ...(undone > 0
          ? [trans._n('%1 cell was restored.', '%1 cells were restored.', undone)]
          : []),
        // The server says which cells stay, and why.
        ...notebooks.flatMap(({ left }) => left)
      ].join(' ')}
    </div>
  );
}

/** The agent's to-do list. */
export function TodoList({ items }: { items: readonly TodoItem[] }): JSX.Element {
  const { trans } = useServices();
  const words: Record<TodoItem['status'], [string, string]> = {
    pending: ['○', trans.__('To do')],
    in_progress: ['▸', trans.__('In progress')],
    completed: ['✓', trans.__('Done')]
  };
  return (
    <ul className="tk-Todo" aria-label={trans.__('To-do list')}>
      {items.map(({ text, status }, place) => (
        <li key={place} className={`tk-mod-${status}`}>
          <span role="img" aria-label={words[status][1]}>
            {words[status][0]}
          </span>{' '}
          {text}
        </li>
      ))}
    </ul>
  );
}
