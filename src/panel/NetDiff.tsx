import { useEffect, useRef, useState } from 'react';
import type { JSX } from 'react';

import type { CellChangedEvent, NetChange } from '../api/events';
import { visible } from '../common/visible';
import { ChangeLines } from './CodeLines';
import { useServices } from './services';

interface IProps {
  /** The net change; null until it is loaded. */
  net: NetChange | null;
  /** The single changes, which are shown until then. */
  changes: readonly CellChangedEvent[];
  /** Loads the net change. */
  onOpen: () => void;
}

/** What a turn did to a cell, as one diff in the merge view; as plain lines until it is loaded. */
export function NetDiff({ net, changes, onOpen }: IProps): JSX.Element {
  const { languages, notebook, trans } = useServices();
  const box = useRef<HTMLDivElement>(null);
  const [merged, setMerged] = useState(false);
  useEffect(() => {
    onOpen();
    // Once: it is loaded again when the journal changes.
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);
  useEffect(() => {
    // Only plain lines show hidden characters.
    const isPlain = [net?.before, net?.after].some(text => text && visible(text) !== text);
    if (net === null || net.truncated || net.before === net.after || isPlain || !languages) {
      return;
    }
    let remove: (() => void) | null = null;
    let isGone = false;
    const mime = notebook.mimeOf(net.notebook, net.cell_type);
    const spec = mime === null ? null : languages.findByMIME(mime);
    void Promise.all([
      import(/* webpackChunkName: "diff-editor" */ '../common/mergeView').catch(() => null),
      spec ? languages.getLanguage(spec) : null
    ]).then(([view, found]) => {
      if (view !== null && !isGone && box.current !== null) {
        const side = (doc: string, name: string): { doc: string; extensions: never[] } => ({
          doc,
          extensions: [view.readOnly(name), found?.support ?? []] as never[]
        });
        remove = view.fitted(box.current, isWide =>
          view.showMerge(box.current as HTMLElement, isWide, {
            before: side(net.before, trans.__('Before')),
            now: side(net.after, trans.__('Now')),
            collapse: true
          })
        ).destroy;
        setMerged(true);
      }
    });
    return () => {
      isGone = true;
      remove?.();
      setMerged(false);
    };
  }, [languages, net, notebook, trans]);
  const first = changes[0] as CellChangedEvent;
  const plain = net === null || net.truncated ? changes : [{ ...first, diff: net.diff }];
  return (
    <>
      <div ref={box} className="tk-Review-merge" />
      {merged || plain.map(change => <ChangeLines key={change.entry} change={change} />)}
    </>
  );
}
