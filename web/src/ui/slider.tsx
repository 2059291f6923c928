/** A number between two ends, with its name and its value in words. */

import type { JSX } from "preact";

export interface SliderProps {
  readonly label: string;
  readonly min: number;
  readonly max: number;
  readonly step: number;
  readonly value: number;
  readonly text: string;
  readonly onChange: (value: number) => void;
}

export function Slider({ label, min, max, step, value, text, onChange }: SliderProps): JSX.Element {
  const share = max > min ? ((value - min) / (max - min)) * 100 : 0;
  return (
    <label class="slider">
      <span class="slider-label">{label}</span>
      <input
        type="range"
        min={min}
        max={max}
        step={step}
        value={value}
        aria-valuetext={text}
        style={{ "--share": `${share}%` }}
        onInput={(event) => onChange(event.currentTarget.valueAsNumber)}
      />
      <output class="slider-value">{text}</output>
    </label>
  );
}
