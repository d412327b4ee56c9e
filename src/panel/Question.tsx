import { useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { JSX, KeyboardEvent, MouseEvent } from 'react';

import type { Leave } from '../api/events';
import type { ChatModel } from '../chat/model';
import type { ICall, IQuestion } from '../chat/state';
import { previewLines } from '../parts/diff';
import { Lines } from '../parts/Lines';
import { visible } from '../parts/visible';
import { useDesk } from './desk';

/** What an answer is called, and what it means in full. */
export type Labels = Record<Leave, readonly [string, string]>;

interface IProps {
  question: IQuestion;
  tool: string;
  /** Who asks, where that is not the chat that the question stands in. */
  who?: string;
  title: string;
  labels: Labels;
  /** Gives the answer; the buttons are back afterwards, where the question still waits. */
  onAnswer: (leave: Leave) => Promise<unknown>;
  children?: JSX.Element | null;
}

/** A question of a chat's own call, where the call stands. */
export function Question(props: {
  call: ICall;
  question: IQuestion;
  chat: ChatModel;
}): JSX.Element {
  const { call, question, chat } = props;
  const { trans } = useDesk();
  const runs = question.effect === 'EXECUTE';
  const labels: Labels = {
    once: [trans.__('Allow'), trans.__('Allow this once (Enter)')],
    chat: [
      trans.__('This chat'),
      runs
        ? trans.__('Let this chat run code without asking (Shift+Enter)')
        : trans.__('Let this chat change notebooks without asking (Shift+Enter)')
    ],
    ...useCommonLabels(question)
  };
  return (
    <QuestionCard
      question={question}
      tool={call.tool}
      title={useTitle(question)}
      labels={labels}
      onAnswer={leave => chat.answer(question.id, leave)}
    />
  );
}

/**
 * A question for leave: exactly what would happen, and the answers.
 *
 * It never takes the focus: what somebody is typing must not become an answer.
 */
export function QuestionCard(props: IProps): JSX.Element {
  const { question, tool, who, title, labels, onAnswer, children } = props;
  const { trans } = useDesk();
  const card = useRef<HTMLDivElement>(null);
  const [answered, setAnswered] = useState(false);
  const lines = useMemo(() => previewLines(question.preview), [question.preview]);

  useLayoutEffect(() => {
    const node = card.current;
    return () => {
      // It was answered elsewhere, under the person's hands.
      if (node?.contains(document.activeElement) === true) {
        toBox(node);
      }
    };
  }, []);

  const answer = (leave: Leave): void => {
    setAnswered(true);
    // The card goes away under the person's hands: they go on writing.
    toBox(card.current);
    void onAnswer(leave).finally(() => setAnswered(false));
  };
  const pressed = (event: KeyboardEvent<HTMLDivElement>): void => {
    const leave = keyed(event);
    if (leave !== null && question.answers.includes(leave) && !answered) {
      answer(leave);
    } else if (!walked(event)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const clicked = (event: MouseEvent, leave: Leave): void => {
    // The second click of a double one would answer the next question, which nobody has read.
    if (event.detail < 2) {
      answer(leave);
    }
  };
  return (
    <div
      ref={card}
      className="tk-Question"
      role="group"
      aria-label={who === undefined ? title : `${who}: ${title}`}
      tabIndex={0}
      onKeyDown={pressed}
    >
      {who !== undefined && <div className="tk-Question-who">{who}</div>}
      <div className="tk-Question-title">{title}</div>
      <div className="tk-Question-tool">{tool}</div>
      <Lines lines={lines} trans={trans} />
      {children}
      <div className="tk-Question-answers">
        {question.answers.map(leave => (
          <button
            key={leave}
            type="button"
            className={leave === 'once' ? 'tk-Button tk-mod-accept' : 'tk-Button'}
            title={labels[leave][1]}
            disabled={answered}
            onClick={event => clicked(event, leave)}
          >
            {labels[leave][0]}
          </button>
        ))}
      </div>
    </div>
  );
}

/** What is asked, in one sentence. */
export function useTitle({ effect, notebook }: Pick<IQuestion, 'effect' | 'notebook'>): string {
  const { trans } = useDesk();
  const where = notebook === null ? null : visible(notebook);
  if (effect === 'EXECUTE') {
    return trans.__('Run this in %1?', where ?? trans.__('the kernel'));
  }
  return where === null ? trans.__('Do this?') : trans.__('Change %1?', where);
}

/** The answers that mean the same wherever somebody asks. */
export function useCommonLabels({ effect }: IQuestion): Pick<Labels, 'notebook' | 'deny'> {
  const { trans } = useDesk();
  return {
    notebook: [
      trans.__('Notebook'),
      effect === 'EXECUTE'
        ? trans.__('Let every chat and agent of yours run code in this notebook')
        : trans.__('Let every chat and agent of yours change this notebook')
    ],
    deny: [trans.__('Deny'), trans.__('Deny (Escape)')]
  };
}

/** The answer that a key gives on the card itself; on its buttons, Enter presses the button. */
function keyed(event: KeyboardEvent): Leave | null {
  if (event.key === 'Escape') {
    return 'deny';
  }
  if (event.key === 'Enter' && event.target === event.currentTarget && !event.repeat) {
    return event.shiftKey ? 'chat' : 'once';
  }
  return null;
}

/** Goes from card to card by the arrows, and on into the box; whether it did. */
function walked(event: KeyboardEvent<HTMLDivElement>): boolean {
  const card = event.currentTarget;
  const step = event.key === 'ArrowDown' ? 1 : event.key === 'ArrowUp' ? -1 : 0;
  if (step === 0 || event.target !== card) {
    return false;
  }
  const all = [...(card.closest('.tk-Chat')?.querySelectorAll<HTMLElement>('.tk-Question') ?? [])];
  const next = all[all.indexOf(card) + step];
  if (next !== undefined) {
    next.focus();
  } else if (step > 0) {
    toBox(card);
  }
  return true;
}

function toBox(card: HTMLElement | null): void {
  card?.closest('.tk-Chat')?.querySelector('textarea')?.focus();
}
