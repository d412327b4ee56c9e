/** What is below an answer, and what a turn is restored with: in a chunk that loads later. */

import { useEffect, useRef, useState } from 'react';
import type { JSX, ReactNode } from 'react';

import type { Mode, TakenBack, TodoItem } from '../api/events';
import { reviewOf } from '../changes/turnReview';
import { Decisions } from '../common/Decisions';
import { nameOfPath } from '../common/deleted';
import { cellName } from '../common/position';
import { isBusy, type ITurn } from '../state/chat';
import { NOTHING_KEPT } from '../state/keptChanges';
import { Button } from './Button';
import { Changes } from './Changes';
import { nextSteps } from './nextSteps';
import { useChat, useSelector, useServices } from './services';

export { CallDetails } from './CallDetails';
export { Cost } from './Cost';

interface IProps {
  turn: ITurn;
  /** The chat's key in the store. */
  chat: string;
}

interface IEndProps extends IProps {
  /** The message that asks the agent to continue. */
  continueText: string;
}

/** How a turn ended, its changes, and what can be done next. */
export function TurnEnd(props: IEndProps): JSX.Element {
  const { turn, chat, continueText } = props;
  const isLast = useChat(
    chat,
    state =>
      !isBusy(state) &&
      state.turns.findLast(each => !each.replaced && !each.steered)?.id === turn.id
  );
  return (
    <>
      {turn.end === 'stopped' && !turn.replaced && (
        <Stopped turn={turn} continueText={continueText} />
      )}
      {turn.end === 'done' && turn.plans && !turn.replaced && <Plan turn={turn} />}
      <Changes {...props} />
      {isLast && turn.end === 'done' && <Again {...props} />}
    </>
  );
}

function Stopped({ turn, continueText }: Pick<IEndProps, 'turn' | 'continueText'>): JSX.Element {
  const { controller, trans } = useServices();
  return (
    <div className="tk-Ending">
      <span>{trans.__('Stopped. Changes made so far were kept.')}</span>
      <Button onClick={() => void controller.resend(turn, { text: continueText })}>
        {trans.__('Continue')}
      </Button>
      <Button onClick={() => void controller.resend(turn)}>{trans.__('Retry')}</Button>
    </div>
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
    <Decisions className="tk-Ending">
      <span>{trans.__('This is a plan. Nothing was changed.')}</span>
      <Button primary onClick={() => approve('edit')}>
        {trans.__('Approve')}
      </Button>
      <Button onClick={() => approve('ask')}>{trans.__('Approve, but ask each time')}</Button>
      <Button onClick={() => controller.revise(turn)}>{trans.__('Change the plan…')}</Button>
    </Decisions>
  );
}

/** A button that sends the message again, and suggestions for the next message. */
function Again({ turn, chat }: IProps): JSX.Element {
  const { controller, notebook, trans } = useServices();
  const journal = useChat(chat, ({ journal }) => journal);
  const keptOf = useSelector(({ kept }) => kept);
  const suggests = useSelector(({ preferences }) => preferences.nextSteps);
  // The notebook's cells may have changed.
  useSelector(({ seen }) => seen);
  const [asks, setAsks] = useState(false);
  const reviews = reviewOf(turn, journal, path => keptOf[path] ?? NOTHING_KEPT);
  const standing = reviews.filter(({ status }) => status === 'open' || status === 'kept');
  const steps = suggests ? nextSteps(turn, standing, notebook, trans) : [];
  if (asks) {
    return (
      <Question
        text={trans.__('Undo the changes of this answer first?')}
        onClose={() => setAsks(false)}
      >
        <Button primary onClick={() => void controller.resend(turn, { again: 'undo' })}>
          {trans.__('Undo and try again')}
        </Button>
        <Button onClick={() => void controller.resend(turn, { again: 'keep' })}>
          {trans.__('Keep and try again')}
        </Button>
      </Question>
    );
  }
  return (
    <div className="tk-Ending">
      <Button
        onClick={() =>
          standing.length > 0 ? setAsks(true) : void controller.resend(turn, { again: 'keep' })
        }
      >
        {trans.__('Try again')}
      </Button>
      {steps.length > 0 && (
        <div className="tk-Ending" role="group" aria-label={trans.__('Suggested next steps')}>
          {steps.map(({ text, about }) => (
            <Button key={text} onClick={() => controller.write(text, about)}>
              {text}
            </Button>
          ))}
        </div>
      )}
    </div>
  );
}

interface IQuestionProps {
  text: string;
  /** The buttons that do something. */
  children: ReactNode;
  onClose: () => void;
}

/** A question in the transcript. Its first button has the focus; Escape closes it. */
function Question({ text, children, onClose }: IQuestionProps): JSX.Element {
  const { trans } = useServices();
  const group = useRef<HTMLDivElement>(null);
  useEffect(() => group.current?.querySelector('button')?.focus(), []);
  return (
    <div
      ref={group}
      className="tk-Ending"
      role="group"
      aria-label={text}
      onKeyDown={event => {
        if (event.key === 'Escape') {
          event.stopPropagation();
          onClose();
        }
      }}
    >
      <span>{text}</span>
      {children}
      <Button onClick={onClose}>{trans.__('Cancel')}</Button>
    </div>
  );
}

interface IRestoreProps {
  turn: ITurn;
  onClose: () => void;
}

/** Asks before the chat and its notebooks are restored to before a turn. */
export function RestoreQuestion({ turn, onClose }: IRestoreProps): JSX.Element {
  const { controller, reviews, trans } = useServices();
  const [busy, setBusy] = useState(false);
  // Its message comes back into the message box.
  const restore = async (): Promise<void> => {
    if (!busy) {
      setBusy(true);
      const { chat } = controller;
      const undone = await chat.restore(turn.id);
      undone?.forEach(({ notebook }) => reviews.notifyUndone(notebook));
      if (undone !== null && controller.chat === chat) {
        controller.edit(turn);
        controller.composeNew();
      }
      onClose();
    }
  };
  return (
    <Question
      text={trans.__(
        'Undo the changes of this message and of all later ones, and continue from before it?'
      )}
      onClose={onClose}
    >
      <Button primary aria-disabled={busy} onClick={() => void restore()}>
        {trans.__('Restore')}
      </Button>
    </Question>
  );
}

/** What was undone when the chat was restored, and what stays. */
export function RestoredNote({ notebooks }: { notebooks: readonly TakenBack[] }): JSX.Element {
  const { notebook: context, trans } = useServices();
  const seen = useSelector(state => state.seen);
  const undone = notebooks.flatMap(({ cells }) => cells).length;
  const stayed = notebooks.flatMap(({ notebook, stayed }) =>
    stayed.map(cell => ({ notebook, cell }))
  );
  const nameOf = (notebook: string, cell: string): string => {
    const here = seen?.notebook === notebook ? context.cells : [];
    const index = here.findIndex(({ id }) => id === cell);
    return index < 0
      ? trans.__('%1 in %2', `@${cell.slice(0, 8)}`, nameOfPath(notebook, trans))
      : cellName(index, trans);
  };
  return (
    <div className="tk-Notice" role="status">
      {trans.__('Restored to before this message.')}{' '}
      {undone > 0 && trans._n('%1 cell was restored.', '%1 cells were restored.', undone)}
      {stayed.length > 0 && (
        <>
          {' '}
          {trans._n(
            '%1 cell stays as it is, since it was edited later:',
            '%1 cells stay as they are, since they were edited later:',
            stayed.length
          )}{' '}
          {stayed.map(({ notebook, cell }) => (
            <button
              key={`${notebook}\n${cell}`}
              type="button"
              className="tk-Link"
              onClick={() => void context.reveal(notebook, cell)}
            >
              {nameOf(notebook, cell)}
            </button>
          ))}
        </>
      )}
      {notebooks.some(each => each.stayed.length < each.left.length) && (
        <div>{notebooks.flatMap(({ left }) => left).join(' ')}</div>
      )}
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
