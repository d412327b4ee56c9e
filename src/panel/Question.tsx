import { useRef, useState } from 'react';
import type { JSX, KeyboardEvent } from 'react';

import type { Leave } from '../api/events';
import { previewLines } from '../chat/diff';
import type { ChatModel } from '../chat/model';
import type { ICall, IQuestion } from '../chat/state';
import { useDesk } from './desk';
import { Lines } from './Lines';

interface IProps {
  call: ICall;
  question: IQuestion;
  chat: ChatModel;
}

/**
 * A question for leave: exactly what would happen, and the answers.
 *
 * It never takes the focus: what somebody is typing must not become an answer.
 */
export function Question({ call, question, chat }: IProps): JSX.Element {
  const { trans } = useDesk();
  const card = useRef<HTMLDivElement>(null);
  const [answered, setAnswered] = useState(false);
  const where = question.notebook ?? trans.__('the kernel');
  const title =
    question.effect === 'EXECUTE'
      ? trans.__('Run this in %1?', where)
      : trans.__('Change %1?', where);
  const labels: Record<Leave, [string, string]> = {
    once: [trans.__('Allow'), trans.__('Allow this once (Enter)')],
    chat: [trans.__('This chat'), trans.__('Allow this tool in this chat (Shift+Enter)')],
    notebook: [trans.__('Notebook'), trans.__('Allow this tool in this notebook')],
    deny: [trans.__('Deny'), trans.__('Deny (Escape)')]
  };

  const answer = (leave: Leave): void => {
    setAnswered(true);
    // The card goes away under the person's hands: they go on writing.
    card.current?.closest('.tk-Chat')?.querySelector('textarea')?.focus();
    void chat.answer(question.id, leave).then(() => setAnswered(false));
  };
  const pressed = (event: KeyboardEvent): void => {
    const leave = keyed(event);
    if (leave !== null && question.answers.includes(leave)) {
      event.preventDefault();
      event.stopPropagation();
      answer(leave);
    }
  };
  return (
    <div
      ref={card}
      className="tk-Question"
      role="group"
      aria-label={title}
      tabIndex={0}
      onKeyDown={pressed}
    >
      <div className="tk-Question-title">{title}</div>
      <div className="tk-Question-tool">{call.tool}</div>
      <Lines lines={previewLines(question.preview)} />
      <div className="tk-Question-answers">
        {question.answers.map(leave => (
          <button
            key={leave}
            type="button"
            className={leave === 'once' ? 'tk-Button tk-mod-accept' : 'tk-Button'}
            title={labels[leave][1]}
            disabled={answered}
            onClick={() => answer(leave)}
          >
            {labels[leave][0]}
          </button>
        ))}
      </div>
    </div>
  );
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
