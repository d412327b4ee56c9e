/** Questions of an agent, which the person answers in a form. */

import { useId, useLayoutEffect, useMemo, useRef, useState } from 'react';
import type { JSX } from 'react';

import type { Question } from '../api/events';
import { type ICall, pendingQuestions } from '../state/chat';
import { Button } from './controls';
import { toBox, walked } from './Question';
import { useChat, useServices } from './services';

/** Maximum characters of a person's own answer. */
const MAX_WORDS = 2000;

/** The pending questions of a chat, above the message box. */
export function Questions({ chat }: { chat: string }): JSX.Element | null {
  const { trans } = useServices();
  const turns = useChat(chat, ({ turns }) => turns);
  const calls = useMemo(() => turns.flatMap(pendingQuestions), [turns]);
  return calls.length === 0 ? null : (
    <section className="tk-Asked" aria-label={trans.__('Questions')}>
      {calls.map(call => (
        <QuestionForm key={call.id} call={call} />
      ))}
    </section>
  );
}

/** The questions of a call. Like an approval request, they never take the focus. */
function QuestionForm({ call }: { call: ICall }): JSX.Element {
  const { controller, trans } = useServices();
  const card = useRef<HTMLDivElement>(null);
  const [answers, setAnswers] = useState<readonly IAnswer[]>(call.questions.map(() => NOTHING));
  const [sent, setSent] = useState(false);
  useLayoutEffect(() => {
    const node = card.current;
    // It was settled, maybe elsewhere.
    return () => {
      if (node?.contains(document.activeElement) === true) {
        toBox(node);
      }
    };
  }, []);
  const words = answers.map(({ chosen, other }) =>
    [...chosen, other.trim()].filter(word => word !== '')
  );
  const isEmpty = words.every(each => each.length === 0);
  const send = async (given: readonly (readonly string[])[]): Promise<void> => {
    if (!sent) {
      setSent(true);
      if (!(await controller.chat.answer(call.id, given))) {
        setSent(false);
      }
    }
  };
  return (
    <div
      ref={card}
      className="tk-Question"
      role="group"
      aria-label={trans.__('The agent asks')}
      tabIndex={0}
      onKeyDown={event => {
        if (walked(event)) {
          event.preventDefault();
          event.stopPropagation();
        }
      }}
    >
      <form
        onSubmit={event => {
          event.preventDefault();
          if (!isEmpty) {
            void send(words);
          }
        }}
      >
        {call.questions.map((question, place) => (
          <Field
            key={place}
            question={question}
            answer={answers[place] ?? NOTHING}
            onAnswer={answer => setAnswers(answers.with(place, answer))}
          />
        ))}
        <div className="tk-Question-answers">
          <Button primary type="submit" aria-disabled={isEmpty || sent}>
            {trans.__('Answer')}
          </Button>
          <Button aria-disabled={sent} onClick={() => void send([])}>
            {trans.__('Skip')}
          </Button>
        </div>
      </form>
    </div>
  );
}

/** An answer that is being given: labels of options, and other words. */
interface IAnswer {
  chosen: readonly string[];
  other: string;
}

const NOTHING: IAnswer = { chosen: [], other: '' };

interface IFieldProps {
  question: Question;
  answer: IAnswer;
  onAnswer: (answer: IAnswer) => void;
}

function Field({ question, answer, onAnswer }: IFieldProps): JSX.Element {
  const { trans } = useServices();
  const { text, header, options, multiple } = question;
  const { chosen, other } = answer;
  const name = useId();
  const choose = (label: string, on: boolean): void =>
    onAnswer(
      multiple
        ? { other, chosen: on ? [...chosen, label] : chosen.filter(each => each !== label) }
        : { other: '', chosen: [label] }
    );
  return (
    <fieldset className="tk-Choices">
      <legend>
        {header !== '' && <span className="tk-Chip">{header}</span>} {text}
      </legend>
      {options.map(({ label, description }, place) => (
        <label key={place}>
          <input
            type={multiple ? 'checkbox' : 'radio'}
            name={name}
            checked={chosen.includes(label)}
            onChange={event => choose(label, event.target.checked)}
          />
          <span>
            {label} <span className="tk-Choices-note">{description}</span>
          </span>
        </label>
      ))}
      <input
        type="text"
        className="tk-Question-note"
        aria-label={trans.__('Other answer')}
        placeholder={trans.__('Other')}
        maxLength={MAX_WORDS}
        value={other}
        onChange={({ target }) => onAnswer({ chosen: multiple ? chosen : [], other: target.value })}
      />
    </fieldset>
  );
}

/** Settled questions with their answers, in the transcript. */
export function Answers({ call: { questions, answers } }: { call: ICall }): JSX.Element | null {
  const { trans } = useServices();
  return answers === null ? null : (
    <dl className="tk-Answers">
      {questions.map(({ text }, place) => (
        <div key={place}>
          <dt>{text}</dt>
          <dd>{answers[place]?.join(', ') || trans.__('No answer')}</dd>
        </div>
      ))}
    </dl>
  );
}
