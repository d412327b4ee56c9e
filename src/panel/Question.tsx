/** Approval requests: what exactly would happen, and the answers. */

import { ellipsesIcon } from '@jupyterlab/ui-components';
import { useId, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { JSX, KeyboardEvent } from 'react';

import type { Answer, Proposal, ProposalStep } from '../api/events';
import { useAnswerGuard, usePress } from '../common/answerGuard';
import { stepLines } from '../common/diff';
import { visible } from '../common/visible';
import type { IMenuItem } from '../common/menu';
import type { ICall, IQuestion } from '../state/chat';
import { CodeLines } from './CodeLines';
import { Button, MenuButton } from './controls';
import { useServices } from './services';

/** Maximum characters of the note of a denial. */
const MAX_NOTE = 2000;

/** What a standing approval of a chat is for: its label, and its meaning as a tooltip. */
export type ForChat = readonly [label: string, meaning: string];

interface IProps {
  question: IQuestion;
  tool: string;
  /** The name of the agent, if it is not the chat of this transcript. */
  who?: string;
  /** The id of the request's chat, if it is not that of this transcript; null for none. */
  chat?: string | null;
  /** The meaning of an approval for this once. */
  once: string;
  forChat: ForChat;
  /** Sends the answer. It can be sent again if the request is still pending. */
  onAnswer: (choice: Answer, message?: string) => Promise<unknown>;
  children?: JSX.Element | null;
}

/** An approval request of a call in this chat. */
export function Question(props: { call: ICall; question: IQuestion }): JSX.Element {
  const { call, question } = props;
  const { controller, trans } = useServices();
  return (
    <QuestionCard
      key={question.id}
      question={question}
      tool={call.tool}
      once={trans.__('Approve this call (Enter)')}
      forChat={[
        trans.__('Always allow in this chat'),
        question.effect === 'EXECUTE'
          ? trans.__('Let this chat run code without asking')
          : trans.__('Let this chat edit notebooks without asking')
      ]}
      onAnswer={(choice, message) => controller.chat.answer(question.id, choice, message)}
    />
  );
}

/**
 * A request for an approval.
 *
 * It never takes the focus: what somebody is typing must not become an answer. It takes no answer
 * before it was on the screen long enough to be seen (`answerGuard`), and a click counts where the
 * pointer went down on the same button when it was armed already.
 */
export function QuestionCard(props: IProps): JSX.Element {
  const { question, tool, who, chat: id = null, once, forChat, onAnswer, children } = props;
  const { controller, trans } = useServices();
  const card = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const answers = useRef<HTMLDivElement>(null);
  const [armed, isArmed] = useAnswerGuard(content, answers);
  const [answered, setAnswered] = useState(false);
  const [note, setNote] = useState<string | null>(null);
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

  const title = useTitle(question);
  const has = (choice: Answer): boolean => question.answers.includes(choice);
  const answer = (choice: Answer): void => {
    if (!mayAnswer() || !has(choice)) {
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
    const choice = note === null ? keyed(event) : null;
    if (choice !== null) {
      answer(choice);
    } else if (!walked(event)) {
      return;
    }
    event.preventDefault();
    event.stopPropagation();
  };
  const press = usePress(mayAnswer);
  // A disabled button would lose the focus.
  const guarded = {
    'aria-disabled': !isReady,
    'aria-describedby': isReady ? undefined : waiting,
    ...press
  };
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
          <>
            <Button primary title={once} {...guarded} onClick={() => answer('once')}>
              {trans.__('Approve')}
            </Button>
            {has('deny') && (
              <Button title={trans.__('Deny (Escape)')} {...guarded} onClick={() => answer('deny')}>
                {trans.__('Deny')}
              </Button>
            )}
            <MoreAnswers
              question={question}
              tool={tool}
              forChat={forChat}
              guarded={guarded}
              onAnswer={answer}
              onNote={() => setNote('')}
            />
          </>
        ) : (
          <>
            <Button
              title={trans.__('Deny with this note (Enter)')}
              {...guarded}
              onClick={() => answer('deny')}
            >
              {trans.__('Deny')}
            </Button>
            <Button onClick={() => setNote(null)}>{trans.__('Cancel')}</Button>
          </>
        )}
        <span id={waiting} hidden>
          {trans.__('Available once you have had time to read it')}
        </span>
      </div>
    </div>
  );
}

interface IMoreProps extends Pick<IProps, 'question' | 'tool' | 'forChat'> {
  guarded: object;
  onAnswer: (choice: Answer) => void;
  onNote: () => void;
}

/** A menu of the standing approvals, for all tools or one, and of a denial with a note. */
function MoreAnswers(props: IMoreProps): JSX.Element {
  const { question, tool, forChat, guarded, onAnswer, onNote } = props;
  const { trans } = useServices();
  const forNotebook: ForChat = [
    trans.__('Always allow in this notebook'),
    question.effect === 'EXECUTE'
      ? trans.__('Let all my chats and agents run code in this notebook')
      : trans.__('Let all my chats and agents edit this notebook')
  ];
  const only = ([label, meaning]: ForChat): ForChat => [
    trans.__('%1: only “%2”', label, tool),
    meaning
  ];
  const lasting: [Answer, ForChat][] = [
    ['chat', forChat],
    ['notebook', forNotebook],
    ['chat_tool', only(forChat)],
    ['notebook_tool', only(forNotebook)]
  ];
  const items: IMenuItem[] = lasting
    .filter(([choice]) => question.answers.includes(choice))
    .map(([choice, [label, caption]]) => ({ label, caption, run: () => onAnswer(choice) }));
  if (question.answers.includes('deny')) {
    items.push({ label: trans.__('Deny with a note…'), run: onNote });
  }
  return (
    <MenuButton icon={ellipsesIcon} label={trans.__('More answers')} {...guarded} items={items} />
  );
}

/** What a step does to a notebook without running anything. */
const WRITES: ReadonlySet<string> = new Set([
  'insert',
  'change',
  'delete',
  'move',
  'outputs',
  'create'
]);

/** Return the title of a request. */
function useTitle({ effect, notebook, proposal }: IQuestion): string {
  const { trans } = useServices();
  const { steps, kernel } = proposal;
  // A change that counts as running loads something from another host.
  const isWrite = steps.length > 0 && steps.every(({ kind, runs }) => !runs && WRITES.has(kind));
  if (effect === 'EXECUTE' && !isWrite) {
    return notebook !== null
      ? trans.__('Run this in %1?', visible(notebook))
      : kernel !== null
        ? trans.__('Run this in the kernel?')
        : trans.__('Run this on the server?');
  }
  return notebook === null
    ? trans.__('Approve this call?')
    : trans.__('Change %1?', visible(notebook));
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

/** Return the cards of approval requests that are shown in a part of the panel, in order. */
export function requestCards(root: ParentNode): HTMLElement[] {
  const cards = [...root.querySelectorAll<HTMLElement>('.tk-Question')];
  return cards.filter(card => card.closest('[hidden]') === null);
}

/** Matches letters that are written from right to left, and change the order of what is between them. */
const FROM_THE_RIGHT =
  /[\p{sc=Adlm}\p{sc=Arab}\p{sc=Hebr}\p{sc=Nkoo}\p{sc=Rohg}\p{sc=Syrc}\p{sc=Thaa}]/u;

/** All steps of a proposed call. Nothing is collapsed, and code is verbatim. */
function ProposalView({ proposal }: { proposal: Proposal }): JSX.Element {
  const runs = new Set(proposal.steps.map(step => step.runs));
  const isMixed = runs.size > 1;
  return (
    <>
      {proposal.steps.length === 0 && (
        <div className="tk-Step-title">{visible(proposal.title)}</div>
      )}
      {proposal.steps.map((step, place) => (
        <Step key={place} step={step} notebook={proposal.notebook} marked={isMixed} />
      ))}
    </>
  );
}

interface IStepProps {
  step: ProposalStep;
  /** The notebook that it changes. */
  notebook: string | null;
  /** Whether it says that it runs, since others do not. */
  marked: boolean;
}

function Step({ step, notebook, marked }: IStepProps): JSX.Element {
  const { notebook: context, trans } = useServices();
  const lines = useMemo(() => stepLines(step), [step]);
  return (
    <div className={step.runs ? 'tk-Step tk-mod-runs' : 'tk-Step'}>
      {step.title !== '' && (
        <div className="tk-Step-title">
          {step.runs && marked && <span className="tk-Step-runs">{trans.__('Runs')}</span>}
          {visible(step.title)}
        </div>
      )}
      {lines.length > 0 && (
        <CodeLines lines={lines} mime={context.mimeOf(notebook, typeOf(step))} whole />
      )}
      {lines.some(({ text }) => FROM_THE_RIGHT.test(text)) && (
        <div className="tk-Notice">
          {trans.__(
            'Some letters are written from right to left: what is between them may be in another order than it looks.'
          )}
        </div>
      )}
    </div>
  );
}

/** Return the type of the cell that a step changes; empty for none. */
function typeOf({ runs, cell, cell_type }: ProposalStep): string {
  return runs ? 'code' : (cell?.type ?? cell_type ?? '');
}
