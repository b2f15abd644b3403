import { useSyncExternalStore } from "react";

export type Theme = "system" | "light" | "dark";
const KEY = "weir.theme";
const CHANGED = "weir:theme";

const stored = (): Theme => {
  const text = localStorage.getItem(KEY);
  return text === "light" || text === "dark" ? text : "system";
};

export function applyTheme(theme: Theme = stored()): void {
  if (theme === "system") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
}

export function setTheme(theme: Theme): void {
  localStorage.setItem(KEY, theme);
  applyTheme(theme);
  window.dispatchEvent(new Event(CHANGED));
}

/** Called when colours differ: canvases must be painted again. */
export function onTheme(changed: () => void): () => void {
  const system = matchMedia("(prefers-color-scheme: dark)");
  window.addEventListener(CHANGED, changed);
  system.addEventListener("change", changed);
  return () => {
    window.removeEventListener(CHANGED, changed);
    system.removeEventListener("change", changed);
  };
}

export const useTheme = (): Theme => useSyncExternalStore(onTheme, stored);

/** A design token's value in the present theme. */
export const token = (name: string): string =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();
