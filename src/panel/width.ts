import { SplitPanel, type Widget } from '@lumino/widgets';

/** Pixels up to which a sidebar counts as having its minimum width. */
const NARROW = 280;
/** Pixels in which a diff is readable. */
const WIDE = 400;
/** The panel's maximum share of the width, to leave room for the notebook. */
const SHARE = 0.35;

/** Widen a panel in a sidebar for diffs, if it has its minimum width. The widest part loses that. */
export function widen(panel: Widget): void {
  let sidebar = panel;
  while (sidebar.parent !== null && !(sidebar.parent instanceof SplitPanel)) {
    sidebar = sidebar.parent;
  }
  const split = sidebar.parent;
  const { offsetWidth: width } = panel.node;
  if (split === null || width === 0 || width > NARROW) {
    return;
  }
  const sizes = split.relativeSizes();
  const place = split.widgets.indexOf(sidebar);
  const widest = sizes.indexOf(Math.max(...sizes));
  const share = Math.min(WIDE / split.node.offsetWidth, SHARE);
  const gain = share - (sizes[place] ?? share);
  if (gain > 0 && widest !== place) {
    const lost = sizes.with(widest, (sizes[widest] ?? 0) - gain);
    split.setRelativeSizes(lost.with(place, share));
  }
}
