import { type HTMLAttributes, type JSX, useRef } from 'react';

import { useAnswerGuard, usePress } from './answerGuard';

/**
 * A group of buttons that decide something: a click counts where it began on the same button, which had
 * been visible in its place for long enough.
 */
export function Decisions(attributes: HTMLAttributes<HTMLElement>): JSX.Element {
  const group = useRef<HTMLSpanElement>(null);
  const [armed, isArmed] = useAnswerGuard(group);
  return (
    <span ref={group} role="group" aria-disabled={!armed} {...usePress(isArmed)} {...attributes} />
  );
}
