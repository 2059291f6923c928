import { useEffect, useState } from "preact/hooks";

/** A value once it has not changed for so long. */
export function useResting<Value>(value: Value, ms: number): Value {
  const [resting, setResting] = useState(value);
  useEffect(() => {
    const timer = setTimeout(() => setResting(value), ms);
    return () => clearTimeout(timer);
  }, [value, ms]);
  return resting;
}
