import { useEffect, useState } from 'react';

/** Milliseconds for which a value must be the same. */
export const REST = 1000;

/** Return the last value that was the same for a while. */
export function useRested<T extends string | number>(value: T, first: T): T {
  const [rested, setRested] = useState(first);
  useEffect(() => {
    const timer = setTimeout(() => setRested(value), REST);
    return () => clearTimeout(timer);
  }, [value]);
  return rested;
}
