/** Approval requests: what exactly would happen, and the answers. */

import type { TranslationBundle } from '@jupyterlab/translation';
import { ellipsesIcon } from '@jupyterlab/ui-components';
import { useEffect, useId, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { JSX, KeyboardEvent } from 'react';

import { problemText } from '../api/client';
import type { Answer, ErrorInfo, PermissionInfo, Proposal, ProposalStep } from '../api/events';
import { useAnswerGuard, usePress } from '../common/answerGuard';
import { stepLines } from '../common/diff';
import { shortName } from '../common/shortName';
import { CodeLines } from './CodeLines';
import { Button, MenuButton } from './controls';
import { useSelector, useServices } from './services';

/** Maximum characters of the note of a denial. */
const MAX_NOTE = 2000;

interface IProps {
  request: PermissionInfo;
  /** Whether the chat that is shown has made it. */
  own: boolean;
}

/**
 * An approval request.
 *
 * It never takes the focus: what somebody is typing must not become an answer. It takes no answer
 * before it was on the screen long enough to be seen (`answerGuard`), and a click counts where the
 * pointer went down on the same button when it was armed already.
 */
export function Question({ request, own }: IProps): JSX.Element {
  const { chats, controller, trans } = useServices();
  const card = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const answers = useRef<HTMLDivElement>(null);
  const [armed, isArmed] = useAnswerGuard(content, answers);
  const [answered, setAnswered] = useState(false);
  const [problem, setProblem] = useState<ErrorInfo | null>(null);
  const [note, setNote] = useState<string | null>(null);
  const unsent = useRef('');
  const waiting = useId();
  // With an open note the request was seen, and the note moves its buttons.
  const isReady = (armed || note !== null) && !answered;
  const mayAnswer = (): boolean => !answered && (note !== null || isArmed());
  useLayoutEffect(() => {
    const node = card.current;
    return () => {
      // It ended, and may have been answered elsewhere.
      const isWriting = node?.contains(document.activeElement) === true;
      controller.keepNote(unsent.current);
      if (isWriting) {
        toBox(node);
      }
    };
  }, [controller]);

  const requester = useRequester(request);
  const title = useTitle(request);
  const write = (text: string | null): void => {
    setNote(text);
    unsent.current = text ?? '';
  };
  const answer = async (choice: Answer): Promise<void> => {
    if (!mayAnswer() || !request.answers.includes(choice)) {
      return;
    }
    setAnswered(true);
    // The card is removed: move the focus to the message box.
    toBox(card.current);
    const message = choice === 'deny' ? unsent.current.trim() : '';
    unsent.current = '';
    const failure = await chats.answer(request, choice, message || undefined);
    if (failure !== null) {
      unsent.current = note ?? '';
      setProblem(failure);
      setAnswered(false);
    }
  };
  const onKey = (event: KeyboardEvent<HTMLDivElement>): void => {
    const choice = note === null ? keyed(event) : null;
    if (choice !== null) {
      void answer(choice);
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
      aria-label={own ? title : `${requester}: ${title}`}
      tabIndex={0}
      onKeyDown={onKey}
    >
      <div ref={content}>
        {!own && <div className="tk-Question-who">{requester}</div>}
        <div className="tk-Question-title">{title}</div>
        <ProposalView proposal={request.proposal} />
      </div>
      {problem !== null && (
        <div className="tk-Question-problem" role="alert">
          {problemText(problem)}
        </div>
      )}
      {note !== null && (
        <textarea
          className="tk-Question-note"
          aria-label={trans.__('Reason, or what to do instead')}
          placeholder={trans.__('Reason, or what to do instead')}
          maxLength={MAX_NOTE}
          rows={2}
          autoFocus
          value={note}
          onChange={event => write(event.target.value)}
          onKeyDown={event => {
            event.stopPropagation();
            if (event.key === 'Escape') {
              write(null);
            } else if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) {
              event.preventDefault();
              if (!event.repeat) {
                void answer('deny');
              }
            }
          }}
        />
      )}
      <div ref={answers} className="tk-Question-answers">
        {note === null ? (
          <>
            <Button
              primary
              title={
                request.within_call
                  ? trans.__('Approve this call (Enter)')
                  : trans.__('Approve this call for the agent’s next attempt (Enter)')
              }
              {...guarded}
              onClick={() => void answer('once')}
            >
              {trans.__('Approve')}
            </Button>
            <Button
              title={trans.__('Deny (Escape)')}
              {...guarded}
              onClick={() => void answer('deny')}
            >
              {trans.__('Deny')}
            </Button>
            <MenuButton
              icon={ellipsesIcon}
              label={trans.__('More answers')}
              {...guarded}
              items={[
                ...lastingAnswers(request, own, trans).map(({ choice, ...item }) => ({
                  ...item,
                  run: () => void answer(choice)
                })),
                { label: trans.__('Deny with a note…'), run: () => write('') }
              ]}
            />
          </>
        ) : (
          <>
            <Button
              title={trans.__('Deny with this note (Enter)')}
              {...guarded}
              onClick={() => void answer('deny')}
            >
              {trans.__('Deny')}
            </Button>
            <Button onClick={() => write(null)}>{trans.__('Cancel')}</Button>
          </>
        )}
        <span id={waiting} hidden>
          {trans.__('Available once you have had time to read it')}
        </span>
      </div>
    </div>
  );
}

/** Return the standing approvals that can be given, for all tools or one. */
function lastingAnswers(
  { answers, effect, tool, ...request }: PermissionInfo,
  own: boolean,
  trans: TranslationBundle
): { choice: Answer; label: string; caption: string }[] {
  const runs = effect === 'EXECUTE';
  const here = own
    ? trans.__('Always allow in this chat')
    : isOfTurn(request)
      ? trans.__('Always allow in that chat')
      : trans.__('Always allow this agent');
  const chat = runs
    ? trans.__('Run code in any notebook without asking')
    : trans.__('Edit any notebook without asking');
  const there = trans.__('Always allow in this notebook');
  const notebook = runs
    ? trans.__('Let all my chats and agents run code in this notebook')
    : trans.__('Let all my chats and agents edit this notebook');
  const only = (label: string): string => trans.__('%1: only “%2”', label, tool);
  const all: { choice: Answer; label: string; caption: string }[] = [
    { choice: 'chat', label: here, caption: chat },
    { choice: 'notebook', label: there, caption: notebook },
    { choice: 'chat_tool', label: only(here), caption: chat },
    { choice: 'notebook_tool', label: only(there), caption: notebook }
  ];
  return all.filter(({ choice }) => answers.includes(choice));
}

/** Return whether a turn of a chat has called, and not code in a kernel. */
function isOfTurn({ chat, within_call }: Pick<PermissionInfo, 'chat' | 'within_call'>): boolean {
  return within_call && chat !== null;
}

/** Return the name of the agent, and of its chat or interface. */
function useRequester(request: PermissionInfo): string {
  const { author, caller, chat, interface: kind } = request;
  const { chats, trans } = useServices();
  const title = useSelector(state => state.chats.find(({ id }) => id === chat)?.title);
  const isUnknown = isOfTurn(request) && title === undefined;
  useEffect(() => {
    if (isUnknown) {
      // Another window, a cell or a terminal began it.
      void chats.refresh();
    }
  }, [chats, isUnknown]);
  const ways: Partial<Record<string, string>> = {
    mcp: 'MCP',
    rest: 'REST',
    nb: trans.__('command line'),
    chat: isOfTurn(request)
      ? shortName(title ?? trans.__('another chat'))
      : trans.__('code in a kernel')
  };
  return `${shortName(caller ?? author)} · ${ways[kind] ?? kind}`;
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
function useTitle({ author, caller, effect, notebook, proposal }: PermissionInfo): string {
  const { trans } = useServices();
  const { steps, kernel } = proposal;
  // A change that counts as running loads something from another host.
  const isWrite = steps.length > 0 && steps.every(({ kind, runs }) => !runs && WRITES.has(kind));
  if (effect === 'EXECUTE' && !isWrite) {
    return notebook !== null
      ? trans.__('Run this in %1?', notebook)
      : kernel !== null
        ? trans.__('Run this in the kernel?')
        : trans.__('Let %1 run this on the server?', shortName(caller ?? author));
  }
  return notebook === null ? trans.__('Approve this call?') : trans.__('Change %1?', notebook);
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
export function walked(event: KeyboardEvent<HTMLElement>): boolean {
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

/** Move the focus to the message box. */
export function toBox(card: HTMLElement | null): void {
  card?.closest('.tk-Chat')?.querySelector<HTMLElement>('.tk-Box')?.focus();
}

/** Return the cards of approval requests in a part of the panel, in order. */
export function requestCards(root: ParentNode): HTMLElement[] {
  return [...root.querySelectorAll<HTMLElement>('.tk-Question')];
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
      {proposal.steps.length === 0 && <div className="tk-Step-title">{proposal.title}</div>}
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
          {step.title}
        </div>
      )}
      {lines.length > 0 && (
        <CodeLines lines={lines} mime={context.mimeOf(notebook, typeOf(step))} whole />
      )}
      {lines.some(({ text }) => FROM_THE_RIGHT.test(text)) && (
        <div className="tk-Notice">
          {trans.__(
            'Some letters run from right to left. The text between them may be in another order than it looks.'
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
