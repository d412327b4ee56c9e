import { useId, useLayoutEffect, useRef, useState } from 'react';
import type { JSX, KeyboardEvent } from 'react';

import type { Answer } from '../api/events';
import type { ICall, IQuestion } from '../state/chat';
import { visible } from '../common/visible';
import { useAnswerGuard, usePress } from '../common/answerGuard';
import { Button } from './Button';
import { requestCards } from './requestCards';
import { useServices } from './services';
import { ProposalView } from './ProposalView';

/** The label and the tooltip of each answer; an answer for one tool has the label of that for all. */
export type Labels = Record<Exclude<Answer, `${string}_tool`>, readonly [string, string]>;

/** Matches the end of an answer for one tool. */
const NARROW = /_tool$/;

/** Maximum characters of the note of a denial. */
const MAX_NOTE = 2000;

interface IProps {
  question: IQuestion;
  tool: string;
  /** The name of the agent, if it is not the chat of this transcript. */
  who?: string;
  /** The id of the request's chat, if it is not that of this transcript; null for none. */
  chat?: string | null;
  title: string;
  labels: Labels;
  /** Sends the answer. It can be sent again if the request is still pending. */
  onAnswer: (choice: Answer, message?: string) => Promise<unknown>;
  children?: JSX.Element | null;
}

/** An approval request of a call in this chat. */
export function Question(props: { call: ICall; question: IQuestion }): JSX.Element {
  const { call, question } = props;
  const { controller, trans } = useServices();
  const runs = question.effect === 'EXECUTE';
  const labels: Labels = {
    ...useCommonLabels(question),
    once: [trans.__('Approve'), trans.__('Approve this call (Enter)')],
    chat: [
      trans.__('Approve in this chat'),
      runs
        ? trans.__('Let this chat run code without asking')
        : trans.__('Let this chat edit notebooks without asking')
    ]
  };
  return (
    <QuestionCard
      key={question.id}
      question={question}
      tool={call.tool}
      title={useTitle(question)}
      labels={labels}
      onAnswer={(choice, message) => controller.chat.answer(question.id, choice, message)}
    />
  );
}

/**
 * A request for an approval: exactly what would happen, and the answers.
 *
 * It never takes the focus: what somebody is typing must not become an answer. It takes no answer
 * before it was on the screen long enough to be seen (`answerGuard`), and a click counts where the
 * pointer went down on the same button when it was armed already.
 */
export function QuestionCard(props: IProps): JSX.Element {
  const { question, tool, who, chat: id = null, title, labels, onAnswer, children } = props;
  const { controller, trans } = useServices();
  const card = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const answers = useRef<HTMLDivElement>(null);
  const [armed, isArmed] = useAnswerGuard(content, answers);
  const [answered, setAnswered] = useState(false);
  const [note, setNote] = useState<string | null>(null);
  const [only, setOnly] = useState(false);
  const waiting = useId();
  // With an open note the request was seen, and the note moves its buttons.
  const isReady = (armed || note !== null) && !answered;
  const mayAnswer = (): boolean => !answered && (note !== null || isArmed());

  const isOwn = who === undefined;
  const unsent = useRef('');
  const sent = useRef<string | null>(null);
  useLayoutEffect(() => {
    // The card may stay for a moment after the answer.
    unsent.current = note === sent.current ? '' : (note ?? '');
  });
  useLayoutEffect(() => {
    const node = card.current;
    const { chat } = controller;
    return () => {
      // It was answered elsewhere, or is not shown any more.
      const isWriting = node?.contains(document.activeElement) === true;
      if (unsent.current.trim() !== '') {
        // Requests of other agents are shown in all chats, those of other chats, too.
        const of = isOwn ? chat : id === null ? controller.chat : { id };
        controller.keepNote(of, unsent.current, isWriting);
      }
      if (isWriting) {
        toBox(node);
      }
    };
  }, [controller, id, isOwn]);

  // Only what is shown can be answered. A standing answer and its form for one tool share a place.
  const shown = question.answers.filter(choice => {
    const isNarrow = NARROW.test(choice);
    const other = isNarrow ? wide(choice) : `${choice}_tool`;
    return note === null
      ? isNarrow === only || !(question.answers as string[]).includes(other)
      : choice === 'deny';
  });
  const answer = (choice: Answer): void => {
    if (!mayAnswer() || !shown.includes(choice)) {
      return;
    }
    setAnswered(true);
    // The card is removed: move the focus to the message box.
    toBox(card.current);
    const message = choice === 'deny' && note !== null ? note.trim() : '';
    sent.current = note;
    void onAnswer(choice, message === '' ? undefined : message).finally(() => setAnswered(false));
  };
  const onKey = (event: KeyboardEvent<HTMLDivElement>): void => {
    const choice = keyed(event);
    if (choice !== null) {
      answer(choice);
    } else if (!walked(event)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const press = usePress(mayAnswer);
  const button = (choice: Answer, [label, meaning]: readonly [string, string]): JSX.Element => (
    <Button
      key={choice}
      primary={choice === 'once'}
      title={meaning}
      // A disabled button would lose the focus.
      aria-disabled={!isReady}
      aria-describedby={isReady ? undefined : waiting}
      {...press}
      onClick={() => answer(choice)}
    >
      {label}
    </Button>
  );
  return (
    <div
      ref={card}
      className="tk-Question"
      role="group"
      aria-label={who === undefined ? title : `${who}: ${title}`}
      tabIndex={0}
      onKeyDown={onKey}
    >
      <div ref={content}>
        {who !== undefined && <div className="tk-Question-who">{who}</div>}
        <div className="tk-Question-title">{title}</div>
        <div className="tk-Question-tool">{tool}</div>
        <ProposalView proposal={question.proposal} />
      </div>
      {children}
      {note !== null && (
        <textarea
          className="tk-Question-note"
          aria-label={trans.__('Reason, or what to do instead')}
          placeholder={trans.__('Reason, or what to do instead')}
          maxLength={MAX_NOTE}
          rows={2}
          autoFocus
          value={note}
          onChange={event => setNote(event.target.value)}
          onKeyDown={event => {
            event.stopPropagation();
            if (event.key === 'Escape') {
              setNote(null);
            } else if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
              event.preventDefault();
              if (!event.repeat) {
                answer('deny');
              }
            }
          }}
        />
      )}
      <div ref={answers} className="tk-Question-answers">
        {note === null ? (
          shown.map(choice => {
            const [label, meaning] = labels[wide(choice)];
            return button(choice, [label, wide(choice) === choice ? meaning : `${label}: ${tool}`]);
          })
        ) : (
          <>
            {button('deny', [trans.__('Deny'), trans.__('Deny with this note (Enter)')])}
            <Button onClick={() => setNote(null)}>{trans.__('Cancel')}</Button>
          </>
        )}
        {note === null && question.answers.includes('deny') && (
          <Button onClick={() => setNote('')}>{trans.__('Deny with a note…')}</Button>
        )}
        {note === null && question.answers.some(each => NARROW.test(each)) && (
          <label>
            <input type="checkbox" checked={only} onChange={() => setOnly(!only)} />
            {trans.__('Only for this tool')}
          </label>
        )}
        <span id={waiting} hidden>
          {trans.__('Available once you have had time to read it')}
        </span>
      </div>
    </div>
  );
}

/** Return the answer for all tools. */
function wide(choice: Answer): keyof Labels {
  return choice.replace(NARROW, '') as keyof Labels;
}

/** Return the title of a request. */
export function useTitle({ effect, notebook }: Pick<IQuestion, 'effect' | 'notebook'>): string {
  const { trans } = useServices();
  const where = notebook === null ? null : visible(notebook);
  if (effect === 'EXECUTE') {
    return trans.__('Run this in %1?', where ?? trans.__('the kernel'));
  }
  return where === null ? trans.__('Approve this call?') : trans.__('Change %1?', where);
}

/** Return the labels that are the same for all requests. */
export function useCommonLabels({ effect }: IQuestion): Pick<Labels, 'notebook' | 'deny'> {
  const { trans } = useServices();
  return {
    notebook: [
      trans.__('Approve in this notebook'),
      effect === 'EXECUTE'
        ? trans.__('Let all my chats and agents run code in this notebook')
        : trans.__('Let all my chats and agents edit this notebook')
    ],
    deny: [trans.__('Deny'), trans.__('Deny (Escape)')]
  };
}

/**
 * Return the answer of a key on the card itself. On its buttons, Enter presses the button.
 *
 * No key gives a standing approval, since Shift+Enter runs cells in a notebook.
 */
function keyed(event: KeyboardEvent): Answer | null {
  const { key, repeat, target, currentTarget } = event;
  const isPlain = !event.shiftKey && !event.ctrlKey && !event.altKey && !event.metaKey;
  if (repeat || !isPlain || event.nativeEvent.isComposing) {
    return null;
  }
  if (key === 'Escape') {
    return 'deny';
  }
  return key === 'Enter' && target === currentTarget ? 'once' : null;
}

/** Move the focus between cards and to the message box with the arrow keys. Return whether it moved. */
function walked(event: KeyboardEvent<HTMLDivElement>): boolean {
  const card = event.currentTarget;
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
  if (step === 0 || event.target !== card) {
    return false;
  }
  const all = requestCards(card.closest('.tk-Chat') ?? document);
  const next = all[all.indexOf(card) + step];
  if (next !== undefined) {
    next.focus();
  } else if (step > 0) {
    toBox(card);
  }
  return true;
}

function toBox(card: HTMLElement | null): void {
  card?.closest('.tk-Chat')?.querySelector<HTMLElement>('.tk-Box')?.focus();
}
