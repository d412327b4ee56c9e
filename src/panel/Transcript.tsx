import { Fragment, useCallback, useEffect, useLayoutEffect, useRef, useState } from 'react';
import type { JSX } from 'react';

import { useRested } from '../common/rested';
import { isActive } from '../state/app';
import { isBusy, type ITurn } from '../state/chat';
import { Fold } from './controls';
import { useChat, useServices } from './services';
import { RestoredNote } from './TurnEnd';
import { Problem } from './Problem';
import { EmptyChat } from './EmptyChat';
import { Turn } from './Turn';

/** The number of latest turns that are rendered until the person shows earlier ones. */
const SHOWN = 20;
/** Pixels from the end within which the view counts as at the end. */
const NEAR = 40;
/** Milliseconds after an input of the person in which the view scrolls because of it. */
const INPUT = 300;
/** Milliseconds after a change of the layout in which the view may scroll because of it. */
const LAYOUT = 200;

interface IProps {
  /** The chat's key in the store. */
  chat: string;
  /** Whether another view hides it: its scroll position and open folds are kept. */
  hidden: boolean;
}

/** The turns of a chat. The view scrolls with new content only while it is at the end. */
export function Transcript({ chat, hidden }: IProps): JSX.Element {
  const { controller, trans } = useServices();
  const turns = useChat(chat, ({ turns }) => turns);
  const loaded = useChat(chat, ({ loaded }) => loaded);
  const problem = useChat(chat, ({ problem }) => problem);
  const lost = useChat(chat, state => state.lost && isActive(state));
  const [shown, setShown] = useState(SHOWN);
  const { view, content, atEnd, follow, onScroll, onInput } = useFollowing();
  const earlier = turns.length - shown;
  // What a chat has when it is opened, and earlier turns, are not announced.
  const read = loaded ? shown : 0;
  const isLive = useRested(read, 0) === read && loaded;
  return (
    <div className="tk-Transcript" hidden={hidden}>
      <div
        ref={view}
        className={isBusy({ turns }) ? 'tk-Log tk-mod-busy' : 'tk-Log'}
        role="log"
        aria-label={trans.__('Chat')}
        aria-live={isLive ? 'polite' : 'off'}
        aria-relevant="additions"
        tabIndex={0}
        onScroll={onScroll}
        onWheel={onInput}
        onTouchMove={onInput}
        onPointerDown={onInput}
        onKeyDown={onInput}
        onFocus={onInput}
      >
        <div ref={content}>
          <div role="group" tabIndex={-1}>
            {earlier > 0 && (
              <button type="button" className="tk-Link" onClick={() => setShown(shown + 5 * SHOWN)}>
                {trans._n('Show %1 earlier message', 'Show %1 earlier messages', earlier)}
              </button>
            )}
          </div>
          {turns.length === 0 && loaded && <EmptyChat />}
          {stretches(turns.slice(-shown)).flatMap(stretch => {
            const [first] = stretch;
            const rendered = stretch.map(turn => <Turn key={turn.id} turn={turn} chat={chat} />);
            return first?.replaced === true ? (
              <Fragment key={first.id}>
                <Fold
                  className="tk-Replaced"
                  summary={trans._n('%1 replaced message', '%1 replaced messages', stretch.length)}
                >
                  {() => rendered}
                </Fold>
                {stretch.map(
                  ({ id, restored }) =>
                    restored !== null && <RestoredNote key={id} notebooks={restored} />
                )}
              </Fragment>
            ) : (
              rendered
            );
          })}
          {lost && (
            <Problem
              problem={{
                code: 'unreachable',
                message: trans.__('Connection lost. Reconnecting…'),
                hint: trans.__('If the server is running, the answer goes on.'),
                retryable: true
              }}
              onRetry={() => controller.chat.reconnect()}
            />
          )}
          {problem !== null && (
            <Problem
              problem={problem}
              onRetry={loaded ? undefined : () => void controller.chat.load()}
              onDismiss={() => controller.chat.dismiss()}
            />
          )}
        </div>
      </div>
      {!atEnd && (
        <button type="button" className="tk-Button tk-ToEnd" onClick={follow}>
          {trans.__('↓ Latest')}
        </button>
      )}
    </div>
  );
}

/** Group turns so that consecutive replaced turns are together. */
function stretches(turns: readonly ITurn[]): ITurn[][] {
  const found: ITurn[][] = [];
  for (const turn of turns) {
    const last = found.at(-1);
    if (turn.replaced && last?.[0]?.replaced === true) {
      last.push(turn);
    } else {
      found.push([turn]);
    }
  }
  return found;
}

/** Keep the end in view while the view is at the end. */
function useFollowing(): {
  view: React.RefObject<HTMLDivElement>;
  content: React.RefObject<HTMLDivElement>;
  atEnd: boolean;
  follow: () => void;
  onScroll: () => void;
  onInput: () => void;
} {
  const view = useRef<HTMLDivElement>(null);
  const content = useRef<HTMLDivElement>(null);
  const follows = useRef(true);
  const top = useRef(0);
  /** Whether it was hidden since the observers looked. */
  const isHidden = useRef(true);
  /** When the person did something in the view, and when the observers looked. */
  const touched = useRef(-Infinity);
  const settled = useRef(-Infinity);
  const [atEnd, setAtEnd] = useState(true);
  const toEnd = useCallback(() => {
    follows.current = true;
    if (view.current !== null) {
      view.current.scrollTop = view.current.scrollHeight;
      // If the content has shrunk, the position is higher although nobody scrolled up.
      top.current = view.current.scrollTop;
    }
  }, []);
  const follow = useCallback(() => {
    touched.current = -Infinity;
    toEnd();
  }, [toEnd]);
  const onInput = useCallback(() => {
    touched.current = performance.now();
  }, []);
  const onScroll = useCallback(() => {
    const node = view.current;
    isHidden.current ||= node?.clientHeight === 0;
    if (node === null || isHidden.current) {
      return;
    }
    const { scrollTop, scrollHeight, clientHeight } = node;
    const below = scrollHeight - scrollTop - clientHeight;
    const now = performance.now();
    // Scrolling up ends following, however little; content that grows below does not.
    if (below < 1 || (below < NEAR && scrollTop > top.current)) {
      follows.current = true;
    } else if (scrollTop < top.current) {
      // Content or a view whose size changes twice within one frame scrolls up as well.
      if (follows.current && now - settled.current < LAYOUT && now - touched.current > INPUT) {
        toEnd();
        return;
      }
      follows.current = false;
    }
    top.current = scrollTop;
    setAtEnd(follows.current);
  }, [toEnd]);
  useLayoutEffect(toEnd, [toEnd]);
  useEffect(() => {
    const settle = (): void => {
      const node = view.current;
      const wasHidden = isHidden.current;
      isHidden.current = !node?.clientHeight;
      settled.current = performance.now();
      if (node === null || isHidden.current) {
        return;
      }
      if (follows.current) {
        toEnd();
        return;
      }
      if (wasHidden) {
        // Some browsers forget it.
        node.scrollTop = top.current;
      }
      onScroll();
    };
    // Markdown and images get their size after React has rendered.
    const resized = new ResizeObserver(settle);
    const changed = new MutationObserver(settle);
    if (view.current !== null && content.current !== null) {
      resized.observe(view.current);
      resized.observe(content.current);
      changed.observe(content.current, { childList: true, characterData: true, subtree: true });
    }
    return () => {
      resized.disconnect();
      changed.disconnect();
    };
  }, [toEnd, onScroll]);
  return { view, content, atEnd, follow, onScroll, onInput };
}
