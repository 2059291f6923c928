/** A choice between a few named things, all of them visible. */

import type { JSX } from "preact";
import { useId } from "preact/hooks";

export interface SegmentedProps<Value extends string> {
  readonly label: string;
  readonly choices: readonly { readonly value: Value; readonly label: string }[];
  readonly value: Value;
  readonly onChange: (value: Value) => void;
}

export function Segmented<Value extends string>({
  label,
  choices,
  value,
  onChange,
}: SegmentedProps<Value>): JSX.Element {
  const name = useId();
  return (
    <div class="segmented" role="radiogroup" aria-label={label}>
      {choices.map((choice) => (
        <label key={choice.value} class="segment">
          <input
            type="radio"
            name={name}
            checked={choice.value === value}
            onChange={() => onChange(choice.value)}
          />
          <span>{choice.label}</span>
        </label>
      ))}
    </div>
  );
}
