import { checkIcon, closeIcon, ellipsesIcon, stopIcon } from '@jupyterlab/ui-components';
import { type JSX, memo, Suspense } from 'react';

import type { Picture } from '../api/events';
import { describe, duration } from '../chat/describe';
import type { CallStatus, ICall } from '../state/chat';
import { tally } from '../common/diff';
import { useServices } from './services';
import { Fold } from './Fold';
import { CallDetails, Question } from './later';

const IMAGE_TYPES = new Set(['image/png', 'image/jpeg', 'image/gif', 'image/webp']);

/** A tool call: a title that expands to its arguments, changes and result. */
export const CallCard = memo(function CallCard({ call }: { call: ICall }): JSX.Element {
  const { trans } = useServices();
  const { added, removed } = tally(call.changes.map(change => change.diff));
  return (
    <div className={`tk-Call tk-mod-${call.status}`} data-call={call.id} data-tool={call.tool}>
      <Fold
        open={call.status === 'error'}
        summary={
          <>
            <span className="tk-Call-title">{describe(call, trans)}</span>
            {call.progress && call.status === 'running' ? (
              <span className="tk-Call-progress">{call.progress.text}</span>
            ) : null}
            {call.changes.length > 0 && (
              <span className="tk-Call-tally">
                <span className="tk-mod-added">+{added}</span>{' '}
                <span className="tk-mod-removed">−{removed}</span>
              </span>
            )}
            {call.result !== null && call.result.seconds >= 0.1 && (
              <span className="tk-Call-seconds">{duration(call.result.seconds)}</span>
            )}
            <Status status={call.status} />
          </>
        }
      >
        {() => (
          <Suspense fallback={null}>
            <CallDetails call={call} />
          </Suspense>
        )}
      </Fold>
      {call.result?.images.map((picture, place) => (
        <Picture key={place} picture={picture} />
      ))}
      <Suspense fallback={null}>
        {call.question !== null && <Question call={call} question={call.question} />}
      </Suspense>
    </div>
  );
});

function Picture({ picture }: { picture: Picture }): JSX.Element | null {
  const { trans } = useServices();
  if (!IMAGE_TYPES.has(picture.mime)) {
    return null;
  }
  return (
    <img
      className="tk-Picture"
      src={`data:${picture.mime};base64,${picture.data}`}
      alt={trans.__('Cell output image')}
    />
  );
}

/** The status icon of a call. */
function Status({ status }: { status: CallStatus }): JSX.Element {
  const { trans } = useServices();
  const words: Record<CallStatus, string> = {
    pending: trans.__('Waiting for your approval'),
    running: trans.__('Running'),
    complete: trans.__('Done'),
    error: trans.__('Failed'),
    denied: trans.__('Denied'),
    stopped: trans.__('Stopped')
  };
  const icon = {
    pending: ellipsesIcon,
    running: null,
    complete: checkIcon,
    error: closeIcon,
    denied: closeIcon,
    stopped: stopIcon
  }[status];
  return (
    <span
      className={`tk-Status tk-mod-${status}`}
      role="img"
      aria-label={words[status]}
      title={words[status]}
    >
      {icon === null ? null : <icon.react tag="span" width="14px" height="14px" />}
    </span>
  );
}
