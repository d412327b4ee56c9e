import { useState } from 'react';
import type { JSX } from 'react';

import { isUnsent, type ITurn } from '../state/chat';
import { Button } from './Button';
import { useServices } from './services';

/** The status of a message that is queued, or was withdrawn from the queue. */
export function Queued({
  turn,
  canSteer
}: {
  turn: ITurn;
  /** Whether the agent takes messages into a running turn. */
  canSteer: boolean;
}): JSX.Element {
  const { controller, trans } = useServices();
  // Null until an answer comes; an error is none.
  const [given, setGiven] = useState<boolean | null>(null);
  return (
    <div className="tk-Ending">
      <span className="tk-Doing">
        {isUnsent(turn) ? trans.__('Not sent.') : trans.__('Queued')}
      </span>
      {isUnsent(turn) ? (
        <Button onClick={() => void controller.resend(turn)}>{trans.__('Send')}</Button>
      ) : (
        <>
          {canSteer && given !== false && (
            <Button onClick={() => void controller.chat.steer(turn.id).then(setGiven)}>
              {trans.__('Send now')}
            </Button>
          )}
          <Button onClick={() => void controller.chat.stop(turn.id)}>{trans.__('Remove')}</Button>
        </>
      )}
    </div>
  );
}
