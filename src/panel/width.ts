import { SplitPanel, type Widget } from '@lumino/widgets';

/** Pixels up to which a sidebar counts as having its minimum width. */
const NARROW = 280;
/** Pixels in which a diff is readable. */
const WIDE = 400;
/** The panel's maximum share of the width, to leave room for the notebook. */
const SHARE = 0.35;

/**
 * Return the relative sizes of a split panel once a part is wide enough for a diff.
 *
 * @param sizes - The relative sizes.
 * @param panel - The index of the part. What it gains, the widest part loses.
 * @param total - The width of all parts in pixels.
 */
export function widened(sizes: readonly number[], panel: number, total: number): number[] {
  const share = Math.min(WIDE / total, SHARE);
  const gain = share - (sizes[panel] ?? share);
  const widest = sizes.indexOf(Math.max(...sizes));
  return gain <= 0 || widest === panel
    ? [...sizes]
    : sizes.map((size, place) => (place === panel ? share : place === widest ? size - gain : size));
}

/** Widen a panel in a sidebar for diffs, if it has its minimum width. */
export function widen(panel: Widget): void {
  let sidebar = panel;
  while (sidebar.parent !== null && !(sidebar.parent instanceof SplitPanel)) {
    sidebar = sidebar.parent;
  }
  const split = sidebar.parent;
  const { offsetWidth: width } = panel.node;
  if (split !== null && width > 0 && width <= NARROW) {
    const sizes = split.relativeSizes();
    split.setRelativeSizes(widened(sizes, split.widgets.indexOf(sidebar), split.node.offsetWidth));
  }
}
