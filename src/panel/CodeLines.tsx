import type { Extension } from '@codemirror/state';
import { useEffect, useMemo, useState } from 'react';
import type { JSX } from 'react';

import type { CellChangedEvent, CombinedChange } from '../api/events';
import { diffLines, type ILine } from '../common/diff';
import { Lines } from '../common/Lines';
import { useServices } from './services';

interface IProps {
  lines: readonly ILine[];
  /** Their MIME type; null for plain text. */
  mime: string | null;
  /** Whether all lines are shown initially. */
  whole?: boolean;
}

/** Lines with syntax highlighting, once their language is loaded. */
export function CodeLines({ lines, mime, whole = false }: IProps): JSX.Element {
  const { languages, trans } = useServices();
  const [language, setLanguage] = useState<Extension>();
  useEffect(() => {
    let isWanted = true;
    const spec = mime === null ? null : languages?.findByMIME(mime);
    if (spec) {
      void languages
        ?.getLanguage(spec)
        .then(found => isWanted && found?.support && setLanguage(found.support));
    }
    return () => {
      isWanted = false;
    };
  }, [languages, mime]);
  return <Lines lines={lines} trans={trans} whole={whole} language={language} />;
}

/** The diff of a cell that a call changed. */
export function ChangeLines({
  change
}: {
  change: CellChangedEvent | CombinedChange;
}): JSX.Element {
  const { notebook } = useServices();
  const lines = useMemo(() => diffLines(change.diff), [change.diff]);
  return <CodeLines lines={lines} mime={notebook.mimeOf(change.notebook, change.cell_type)} />;
}
