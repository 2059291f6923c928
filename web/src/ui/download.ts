/** Hand a file to the person at the page. */

export function download(
  name: string,
  content: Blob | string,
  type = "text/plain;charset=utf-8",
): void {
  const blob = typeof content === "string" ? new Blob([content], { type }) : content;
  const address = URL.createObjectURL(blob);
  const link = document.createElement("a");
  link.href = address;
  link.download = safeName(name);
  link.click();
  // The click only starts the download; the address must outlive this turn.
  setTimeout(() => URL.revokeObjectURL(address), 10_000);
}

/** A file name that every system takes, whatever the metric is called. */
export function safeName(name: string): string {
  // biome-ignore lint/suspicious/noControlCharactersInRegex: no file name may have them
  const safe = name.replace(/[\u0000-\u001f<>:"/\\|?*]+/g, "-").replace(/^[-. ]+|[-. ]+$/g, "");
  return safe.slice(0, 120) || "chart";
}

/** Quote a field where CSV needs it. */
export function csvField(text: string): string {
  return /[",\r\n]/.test(text) ? `"${text.replace(/"/g, '""')}"` : text;
}
